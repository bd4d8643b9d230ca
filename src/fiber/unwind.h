// Leaving a goroutine's stack other than by returning: goexit, and exceptions that nobody catches.
//
// Problem. goexit() must run every destructor between its caller and the entry of the goroutine,
// must not be caught for good by `catch (...)`, and must not be mistaken for a panic. C++ offers
// two tools. An ordinary exception is swallowed by the first `catch (...)`. Forced unwinding (what
// pthread_exit uses) runs handlers too, and a handler that does not rethrow also swallows it.
//
// Protocol of unwind_goroutine
//   1. An exception object of a private type is created by the C++ runtime's own means, and raised
//      by _Unwind_ForcedUnwind: no search phase, every cleanup runs, `catch (...)` and
//      `catch (abi::__forced_unwind&)` match and nothing else does.
//   2. A handler that rethrows continues the unwinding by itself.
//   3. A handler that ends otherwise destroys the exception object, which calls the object's
//      clean-up function, which is ours: it raises a new one from that very point (U1).
//   4. A handler that leaves by throwing something else, E, destroys the object on the way. New
//      unwinding may not begin there, in a clean-up of E's. Somebody was going to catch E, or the
//      process would be gone (entry personality, below). So E itself is made to carry the goexit:
//      forced from now on, it passes the handler that it was meant for, and our clean-up function
//      takes the place of E's for the `catch (...)` handlers that it still meets (U2).
//      One case is out of reach: the handler of E is in the very function that threw it, where the
//      code jumps without asking the unwinder. Then that handler runs. If it is a `catch (...)`,
//      step 3 happens at its end; compilers do not expect others to throw at their end, so there
//      the goexit is lost, and the goroutine goes on to its end.
//   5. At the end of the stack the exception state of the thread is reset and `finish` is called.
//
// Invariants
//   U1 Nothing of the goroutine runs after a handler that swallowed a goexit, but for the one case of
//      step 4. Otherwise code goes on whose author has been told that it ended.
//   U2 A goexit has exactly one carrier: its own exception object or the one that overtook it.
//      Otherwise it is lost, and U1 with it.
//   U3 No frame between goexit and the entry is noexcept: the language ends the process there.
//
// The entry personality: weft_goroutine_entry (switch_*.S) names weft_entry_personality as its
// personality routine. The search phase of an exception that nobody catches arrives there with the
// throwing stack still whole, and that is where the panic is reported. Rejected: a try block around
// the goroutine's function (the stack is unwound before anything can be printed; one landing pad
// more for goexit), std::set_terminate alone (it does not know where the goroutine ends).
//
// Rejected for goexit: a foreign exception class, as pthread_exit has (inside a handler of another
// exception __cxa_begin_catch ends the process, current_exception() is null); an ordinary exception
// thrown again by a guard object in the entry frame (U1).
#pragma once

namespace weft::rt {

// Runs the destructors of everything on this goroutine's stack, innermost first, then calls
// finish(arg) on it, which must not return. std::uncaught_exceptions() is one higher meanwhile.
// Requires: the outermost frame of the stack has an undefined return address (context.h, C3).
// Runs on: G. Blocks: nothing itself; destructors and handlers may park.
[[noreturn]] void unwind_goroutine(void (*finish)(void* arg), void* arg);

// What upper layers supply at start-up.
struct unwind_hooks {
  // An exception that nobody catches; it is the current exception (std::current_exception()).
  // Must not return.
  void (*uncaught)() = nullptr;
  // Ends the running goroutine: called when the signal of a goexit was stored in an exception_ptr,
  // rethrown from there, and caught by nobody. Must not return.
  void (*goexit)() = nullptr;
};
void set_unwind_hooks(const unwind_hooks& hooks) noexcept;

// True if the innermost exception being handled on this stack is a goexit's.
bool handling_goexit() noexcept;

}  // namespace weft::rt
