// Dying with a report: fatal errors, checks, and the protocol by which crashing threads take turns.
//
// Problem: a crash report must come out whole and exactly once, although several threads may
// crash together, although the reporting code may itself crash, and although the caller may hold
// any lock of the runtime. So crashing takes no runtime lock; it is ordered by one counter.
//
// Protocol (Go: runtime/panic.go startpanic_m, dopanic_m)
//   1. begin_crash(): the first thread becomes the reporter, others queue behind it. The *same*
//      thread coming again failed while it was reporting: once, it prints `panic during panic`
//      and goes on with a shorter report; the next time it prints `stack trace unavailable` and
//      exits with 4; after that it exits silently with 5.
//   2. The message is printed; freeze_for_crash() stops the goroutines; stacks are printed.
//   3. end_crash(): lets a queued thread print as well, waits for it a bounded time, exits with 2.
//      WEFTTRACEBACK=crash dies of SIGABRT instead, for a core file.
//
// base knows neither goroutines nor stacks: what to freeze and what to print are hooks that upper
// layers set at start-up. Rejected: a virtual interface (needs an object of known lifetime).
#pragma once

#include <cstdint>

namespace weft::rt {

class printer;

// Whose mistake it is. The user's: the report shows the user's goroutines and frames only.
// The runtime's: it shows everything.
enum class fault : std::uint8_t { runtime, user };
inline constexpr fault user_fault = fault::user;

// Prints `fatal error: MESSAGE`, an empty line and all goroutines; exits with status 2. Lines that
// explain it (`runtime: …`) are printed by the caller beforehand.
// Runs on: any. Locks: acquires none; the caller may hold any.   Go: throw and fatal
[[noreturn]] void fatal(const char* message) noexcept;
[[noreturn]] void fatal(const char* message, fault whose) noexcept;
// As fatal(), with " (FILE:LINE)" after the text: what a failed WEFT_CHECK calls.
[[noreturn]] void fatal_check(const char* text, const char* file, int line) noexcept;

enum class crash_turn : std::uint8_t {
  report,   // print everything
  minimal,  // this thread failed while it was reporting: print only what cannot fail
};

// Becomes the reporter, or blocks until it is this thread's turn. See the protocol above.
[[nodiscard]] crash_turn begin_crash() noexcept;
// Stops the goroutines, by the hook below.
void freeze_for_crash() noexcept;
// Ends the process once the reporters that queued up have finished.
[[noreturn]] void end_crash() noexcept;
// Some thread is in a crash report: whoever would end the process quietly (main returning, the
// deadlock check) must not.
bool crashing() noexcept;
// The calling thread is at its report, and calls nothing that takes a lock or allocates.
bool reports_crash() noexcept;
// Blocks for good if some thread is in a crash report: it will end the process, with its status.
// For whoever is about to end it quietly.   Go: main() in runtime/proc.go, panicwait [EXT-2]
void wait_for_crash() noexcept;

// What upper layers supply. Each may be null. All run with any lock held elsewhere by threads
// that will never run again, so they take none and do not allocate.
struct crash_hooks {
  // No goroutine starts or resumes any more; best effort, returns soon.
  void (*freeze_world)() = nullptr;
  // The stacks of all goroutines, the current one first; each preceded by its header line.
  void (*dump)(printer&, fault whose) = nullptr;
};
// Fields that are null leave the present hook in place, so that layers may set theirs one by one.
void set_crash_hooks(const crash_hooks& hooks) noexcept;

// WEFTTRACEBACK=crash: end_crash() raises SIGABRT with its default action.
void set_crash_with_core(bool enabled) noexcept;

}  // namespace weft::rt

// Holds in every build; names the broken rule, the file and the line.
#define WEFT_CHECK(condition, text)                           \
  do {                                                        \
    if (__builtin_expect(!(condition), 0)) {                  \
      ::weft::rt::fatal_check(text, __FILE_NAME__, __LINE__); \
    }                                                         \
  } while (false)

// Compiled always, evaluated only when NDEBUG is not defined.
#ifndef NDEBUG
#define WEFT_DCHECK(condition, text) WEFT_CHECK(condition, text)
#else
#define WEFT_DCHECK(condition, text) \
  do {                               \
    if (false) {                     \
      static_cast<void>(condition);  \
    }                                \
  } while (false)
#endif
