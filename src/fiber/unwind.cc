// Forced unwinding of a goroutine and the personality of its outermost frame; see fiber/unwind.h.
#include "fiber/unwind.h"

#include <cstdint>
#include <cxxabi.h>
#include <exception>
#include <new>
#include <typeinfo>
#include <unwind.h>

#include "base/fatal.h"
#include "fiber/eh_globals.h"
#include "fiber/exception_layout.h"
#include "fiber/sanitizer.h"

namespace weft::rt {

namespace {

unwind_hooks hooks;

// The exception object. Its type is never caught by name: forced unwinding hides it.
struct goexit_signal {
  void (*finish)(void*);
  void* arg;
  // Exceptions in flight before the unwinding began. A higher count in a clean-up function says
  // that the handler was left by throwing.
  unsigned uncaught_before;
  // libstdc++'s clean-up function of this object: drops one reference.
  _Unwind_Exception_Cleanup_Fn release;

  // Once another exception carries the goexit (step 4): what it had in the fields we borrowed, and
  // whether the unwinder has seen it since.
  _Unwind_Exception_Cleanup_Fn carrier_cleanup;
  void (*carrier_slot)();
  bool carrier_resumed;
};

void handler_ended(_Unwind_Reason_Code reason, _Unwind_Exception* raised);
void carrier_handler_ended(_Unwind_Reason_Code reason, _Unwind_Exception* raised);

goexit_signal& signal_in(_Unwind_Exception* raised) {
  return *reinterpret_cast<goexit_signal*>(raised + 1);  // X1 in exception_layout.h
}

bool is_carrier(const _Unwind_Exception* raised) {
  return raised->exception_cleanup == carrier_handler_ended;
}

// The thread's block, as libstdc++ uses it. Not instrumented: every goroutine uses the block of
// whichever thread it is on, and only that thread touches it.
WEFT_NO_TSAN unsigned uncaught_now() { return thread_eh_state()->uncaught; }
WEFT_NO_TSAN void count_uncaught() { ++thread_eh_state()->uncaught; }
WEFT_NO_TSAN void forget_exceptions() { *thread_eh_state() = {}; }

// The goexit's own exception object, of an exception that carries it.
_Unwind_Exception* carried_by(_Unwind_Exception* carrier) {
  return reinterpret_cast<_Unwind_Exception*>(header_of(carrier).unexpected_handler);
}

// Gives the carrier its own fields back.
void unload(_Unwind_Exception* carrier) {
  const goexit_signal& signal = signal_in(carried_by(carrier));
  carrier->exception_cleanup = signal.carrier_cleanup;
  header_of(carrier).unexpected_handler = signal.carrier_slot;
}

[[noreturn]] void finish_unwinding(_Unwind_Exception* raised) {
  if (is_carrier(raised)) {
    _Unwind_Exception* carried = carried_by(raised);
    unload(raised);
    raised->exception_cleanup(_URC_NO_REASON, raised);
    raised = carried;
  }
  const goexit_signal signal = signal_in(raised);
  signal.release(_URC_NO_REASON, raised);
  forget_exceptions();
  signal.finish(signal.arg);
  fatal("goexit: the finishing function returned");
}

// Called by the unwinder ahead of every frame.
_Unwind_Reason_Code stop_at_end(int, _Unwind_Action actions, _Unwind_Exception_Class,
                                _Unwind_Exception* raised, _Unwind_Context*, void*) {
  if ((actions & _UA_END_OF_STACK) != 0) finish_unwinding(raised);
  if (is_carrier(raised)) signal_in(carried_by(raised)).carrier_resumed = true;
  return _URC_NO_REASON;
}

_Unwind_Exception* make_signal(void (*finish)(void*), void* arg) {
  void* object = abi::__cxa_allocate_exception(sizeof(goexit_signal));
  auto* raised = static_cast<_Unwind_Exception*>(object) - 1;
  auto* type = const_cast<std::type_info*>(&typeid(goexit_signal));
  void* header = abi::__cxa_init_primary_exception(object, type, nullptr);
  *static_cast<int*>(header) = 1;  // X2: one reference, ours
  new (object) goexit_signal{finish,  arg,     uncaught_now(), raised->exception_cleanup,
                             nullptr, nullptr, false};
  raised->exception_cleanup = handler_ended;
  header_of(raised).adjusted_object = object;  // what `catch (abi::__forced_unwind& e)` calls e
  return raised;
}

// The handler that `overtaken` was in is being left by another exception: loads the goexit on that
// one (keeps U2), or drops it if that one is a goexit itself.
void load_on_exception_in_flight(_Unwind_Exception* overtaken) {
  _Unwind_Exception* carrier = find_exception_in_flight();
  if (carrier == nullptr) fatal("goexit: cannot find the exception that overtook it");
  goexit_signal& signal = signal_in(overtaken);
  const auto stop = reinterpret_cast<std::uintptr_t>(&stop_at_end);
  if (carrier->private_1 == stop) {
    signal.release(_URC_NO_REASON, overtaken);
    return;
  }
  exception_header& header = header_of(carrier);
  signal.carrier_cleanup = carrier->exception_cleanup;
  signal.carrier_slot = header.unexpected_handler;
  signal.carrier_resumed = false;
  carrier->exception_cleanup = carrier_handler_ended;
  header.unexpected_handler = reinterpret_cast<void (*)()>(overtaken);  // X3: an idle field
  carrier->private_1 = stop;                                            // X4: forced from now on
  carrier->private_2 = 0;
}

// Clean-up function of a goexit_signal: a handler has destroyed it. Not noexcept: it may unwind.
void handler_ended(_Unwind_Reason_Code reason, _Unwind_Exception* raised) {
  const goexit_signal signal = signal_in(raised);
  if (uncaught_now() > signal.uncaught_before) {
    load_on_exception_in_flight(raised);
    return;
  }
  signal.release(reason, raised);
  unwind_goroutine(signal.finish, signal.arg);  // keeps U1
}

// Clean-up function of an exception that carries a goexit: its handler has ended.
void carrier_handler_ended(_Unwind_Reason_Code reason, _Unwind_Exception* raised) {
  _Unwind_Exception* carried = carried_by(raised);
  const bool may_unwind =
      signal_in(carried).carrier_resumed || caught_by_catch_all(header_of(raised));
  unload(raised);
  const goexit_signal signal = signal_in(carried);
  raised->exception_cleanup(reason, raised);
  if (uncaught_now() > signal.uncaught_before) {
    load_on_exception_in_flight(carried);
    return;
  }
  signal.release(_URC_NO_REASON, carried);
  if (may_unwind) unwind_goroutine(signal.finish, signal.arg);  // keeps U1
}

}  // namespace

void unwind_goroutine(void (*finish)(void*), void* arg) {
  _Unwind_Exception* raised = make_signal(finish, arg);
  count_uncaught();  // __cxa_begin_catch takes it off again
#if WEFT_ASAN
  __asan_handle_no_return();  // the frames below the first landing pad keep no poison
#endif
  _Unwind_ForcedUnwind(raised, stop_at_end, nullptr);
  fatal("goexit: this stack cannot be unwound");
}

void set_unwind_hooks(const unwind_hooks& wanted) noexcept {
  if (wanted.uncaught != nullptr) hooks.uncaught = wanted.uncaught;
  if (wanted.goexit != nullptr) hooks.goexit = wanted.goexit;
}

bool handling_goexit() noexcept {
  const std::type_info* type = abi::__cxa_current_exception_type();
  return type != nullptr && *type == typeid(goexit_signal);
}

}  // namespace weft::rt

// Personality of weft_goroutine_entry. Forced unwinding passes; so would phase two of an exception,
// which never comes, since nothing above the entry catches.
extern "C" [[gnu::visibility("hidden")]] _Unwind_Reason_Code weft_entry_personality(
    int, _Unwind_Action actions, _Unwind_Exception_Class, _Unwind_Exception* raised,
    _Unwind_Context*) {
  using namespace weft::rt;
  if ((actions & _UA_SEARCH_PHASE) == 0) return _URC_CONTINUE_UNWIND;
  abi::__cxa_begin_catch(raised);
  if (handling_goexit() && hooks.goexit != nullptr) {
    abi::__cxa_end_catch();
    hooks.goexit();
  }
  if (hooks.uncaught != nullptr) hooks.uncaught();
  std::terminate();
}
