// See debug/panic.h.
#include "debug/panic.h"

#include <cstdint>
#include <cstdio>
#include <cxxabi.h>
#include <exception>
#include <string>
#include <string_view>
#include <typeinfo>

#include <weft/panic.h>

#include "base/at_start.h"
#include "base/atomic.h"
#include "base/fatal.h"
#include "base/print.h"
#include "debug/ancestors.h"
#include "debug/crash_stack.h"
#include "debug/demangle.h"
#include "debug/dump.h"
#include "debug/gdb_layout.h"
#include "debug/quit.h"
#include "debug/schedtrace.h"
#include "debug/stack_overflow.h"
#include "debug/stack_usage.h"
#include "debug/traceback.h"
#include "debug/waits.h"
#include "fiber/unwind.h"
#include "sched/diagnostics.h"
#include "sched/sched_api.h"

namespace weft {

panic_error::~panic_error() = default;

}  // namespace weft

namespace weft::rt {

namespace {

WEFT_SET_AT_START std::terminate_handler previous_handler = nullptr;  // constant after start-up

// atomic: the goroutine whose exception is asked for its text; one of them if there are several.
atomic<const G*> describing{nullptr};

// The text of a panic. Points into the exception, which stays alive: nobody will ever catch it.
struct panic_text {
  const char* type = nullptr;  // mangled; printed if not null
  std::string_view text;
  bool type_only = false;
  char digits[32];

  template <class... Args>
  void format(const char* how, Args... args) {
    const int n = std::snprintf(digits, sizeof digits, how, args...);
    text = {digits, n > 0 ? static_cast<std::size_t>(n) : 0};
  }
};

// Numbers are printed plainly.
bool describe_number(panic_text& out) {
  try {
    throw;
  } catch (bool b) {
    out.text = b ? "true" : "false";
  } catch (int n) {
    out.format("%d", n);
  } catch (long n) {
    out.format("%ld", n);
  } catch (long long n) {
    out.format("%lld", n);
  } catch (unsigned n) {
    out.format("%u", n);
  } catch (unsigned long n) {
    out.format("%lu", n);
  } catch (unsigned long long n) {
    out.format("%llu", n);
  } catch (double x) {
    out.format("%g", x);
  } catch (...) {
    return false;
  }
  return true;
}

// Runs what(): user code.
void describe_exception(panic_text& out) {
  try {
    throw;
  } catch (const panic_error& e) {
    out.text = e.what();
  } catch (const std::exception& e) {
    out.type = typeid(e).name();
    out.text = e.what();
  } catch (const std::string& s) {
    out.text = s;
  } catch (std::string_view s) {
    out.text = s;
  } catch (const char* s) {
    out.text = s == nullptr ? "nil" : s;
  } catch (...) {
    if (describe_number(out)) return;
    const std::type_info* type = abi::__cxa_current_exception_type();
    out.type = type == nullptr ? nullptr : type->name();
    out.type_only = true;
  }
}

void describe(panic_text& out, const G* gp) {
  if (!std::current_exception()) {
    out.text = std::uncaught_exceptions() > 0
                   ? "terminate called while unwinding: an exception or weft::goexit met a noexcept"
                     " function"
                   : "terminate called";
    return;
  }
  if (handling_goexit()) {
    out.text = "weft::goexit met a noexcept function";
    return;
  }
  describing.store(gp, WEFT_ORDER(PN1, relaxed));  // order: PN1 relaxed, read by the same goroutine
  describe_exception(out);
  describing.store(nullptr, WEFT_ORDER(PN1, relaxed));  // order: PN1 relaxed, as above
}

void print(printer& out, const panic_text& panic) {
  out.str("panic: ");
  if (panic.type != nullptr) {
    if (panic.type_only) out.chr('(');
    print_type_name(out, panic.type);
    out.str(panic.type_only ? ")" : ": ");
  }
  out.indented(panic.text).chr('\n');
  out.flush();
}

struct panic_job {
  const panic_text& panic;
  const G* gp;
  frame innermost;
  crash_turn turn;
};

void print_on_crash_stack(void* arg) {
  const auto& job = *static_cast<panic_job*>(arg);
  printer out;
  print(out, job.panic);
  if (job.turn == crash_turn::minimal) return;
  print_schedtrace_for_crash(out);
  freeze_for_crash();
  const traceback_level level = current_traceback_level();
  if (level.show == traceback_level::detail::none || job.gp == nullptr) return;
  out.chr('\n');
  crash_dump.begin(out, level.show);
  crash_dump.print_running(*job.gp, job.innermost);
  if (level.all_goroutines) crash_dump.print_others();
  print_stripped_files(out);
}

// Handler of std::terminate: a noexcept function let an exception through, a joinable thread was
// destroyed, and the like.
void on_terminate() {
  const G* gp = current_goroutine();
  if (gp == nullptr) {
    if (previous_handler != nullptr) previous_handler();
    std::abort();
  }
  if (describing.load(WEFT_ORDER(PN1, relaxed)) == gp) {  // order: PN1 stored by this goroutine
    fatal("panic while printing panic value", user_fault);
  }
  report_panic();
}

}  // namespace

void report_panic() noexcept {
  const G* gp = current_goroutine();
  panic_text panic;
  describe(panic, gp);
  const crash_turn turn = begin_crash();
  panic_job job{panic, gp, this_frame(), turn};
  if (turn == crash_turn::report) {
    on_crash_stack(gp, print_on_crash_stack, &job);
  } else {
    print_on_crash_stack(&job);
  }
  end_crash();
}

// Everything of debug/ that waits for a crash, and the handler of std::terminate for goroutines.
WEFT_RUNS_AT_START void install_diagnostics() {
  init_traceback_level();
  set_crash_with_core(current_traceback_level().core);
  set_crash_hooks({.freeze_world = nullptr, .dump = dump_goroutines});
  set_unwind_hooks({.uncaught = [] { report_panic(); }, .goexit = [] { end_goroutine(); }});
  previous_handler = std::set_terminate(on_terminate);
  report_stack_overflows();
  report_on_quit();
  fill_debug_layout();
  install_lock_reports();
  init_ancestors();
  init_stack_sites();
}

}  // namespace weft::rt
