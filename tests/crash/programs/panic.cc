// Exceptions that nobody catches, of every kind.
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <exception>
#include <sched.h>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

#include <weft/panic.h>
#include <weft/runtime.h>
#include <weft/weft.h>

#include "base/fatal.h"
#include "crash/programs/program.h"
#include "sched/freeze.h"

namespace app {

// Runs f in goroutine 2, or later, while main waits for what never comes.
template <class F>
int in_goroutine(F f) {
  return weft::run([&f] {
    weft::wait_group never;
    never.add();
    weft::go(f);
    never.wait();
  });
}

// Frames that no optimiser removes, even as tail calls.
volatile int sink;

[[gnu::noinline]] void leaf() {
  std::vector<int> v;
  sink = v.at(7);
}
[[gnu::noinline]] void middle() {
  leaf();
  sink = 1;
}
[[gnu::noinline]] void outer() {
  middle();
  sink = 2;
}
[[gnu::always_inline]] inline void inlined_leaf() {
  leaf();
  sink = 3;
}
[[gnu::always_inline]] inline void inlined_middle() {
  inlined_leaf();
  sink = 4;
}
[[gnu::noinline]] void has_inlined() {
  inlined_middle();
  sink = 5;
}
[[gnu::noinline]] int recurse(int n) {
  if (n == 0) throw std::runtime_error("deep");
  const int r = recurse(n - 1) + 1;
  sink = r;
  return r;
}

struct odd {
  int x = 0;
};

struct custom_error : std::exception {
  const char* what() const noexcept override { return "first line\nsecond line"; }
};

struct yielding_error : std::exception {
  const char* what() const noexcept override {
    for (int i = 0; i < 10; ++i) weft::gosched();
    return "yielded";
  }
};

struct throwing_error : std::exception {
  const char* what() const noexcept override {
    recurse(0);
    return "";
  }
};

[[gnu::noinline]] void must_not_throw() noexcept {
  recurse(0);
  sink = 3;
}

}  // namespace app

CRASH_PROGRAM(panic_in_inlined) { return app::in_goroutine(app::has_inlined); }
CRASH_PROGRAM(panic_std_exception) { return app::in_goroutine(app::outer); }
CRASH_PROGRAM(panic_in_main) {
  return weft::run([] { app::outer(); });
}
CRASH_PROGRAM(panic_error) {
  return app::in_goroutine([] { throw weft::panic_error("send on closed channel"); });
}
CRASH_PROGRAM(panic_wait_group) {
  return app::in_goroutine([] {
    weft::wait_group wg;
    wg.done();
  });
}
CRASH_PROGRAM(panic_int) {
  return app::in_goroutine([] { throw -42; });
}
CRASH_PROGRAM(panic_c_string) {
  return app::in_goroutine([] { throw "text"; });
}
CRASH_PROGRAM(panic_string) {
  return app::in_goroutine([] { throw std::string("a string that is long enough for the heap"); });
}
CRASH_PROGRAM(panic_bool) {
  return app::in_goroutine([] { throw true; });
}
CRASH_PROGRAM(panic_other_type) {
  return app::in_goroutine([] { throw app::odd(); });
}
CRASH_PROGRAM(panic_two_lines) {
  return app::in_goroutine([] { throw app::custom_error(); });
}
CRASH_PROGRAM(panic_deep) {
  return app::in_goroutine([] { app::recurse(300); });
}
CRASH_PROGRAM(panic_at_depth) {
  return app::in_goroutine([] { app::recurse(std::atoi(std::getenv("WEFT_TEST_DEPTH"))); });
}
CRASH_PROGRAM(panic_small_stack) {
  return weft::run([] {
    weft::wait_group never;
    never.add();
    weft::go(weft::attrs{"tiny", 16 * 1024}, app::outer);
    never.wait();
  });
}
CRASH_PROGRAM(panic_rethrown) {
  return app::in_goroutine([] {
    try {
      app::outer();
    } catch (const std::exception&) {
      throw;
    }
  });
}
CRASH_PROGRAM(panic_in_handler) {
  return app::in_goroutine([] {
    try {
      app::outer();
    } catch (const std::exception&) {
      throw std::logic_error("second");
    }
  });
}
CRASH_PROGRAM(panic_exception_ptr) {
  return app::in_goroutine(
      [] { std::rethrow_exception(std::make_exception_ptr(std::logic_error("kept"))); });
}
CRASH_PROGRAM(panic_what_yields) {
  return app::in_goroutine([] { throw app::yielding_error(); });
}
CRASH_PROGRAM(panic_what_throws) {
  return app::in_goroutine([] { throw app::throwing_error(); });
}
CRASH_PROGRAM(panic_does_not_flush_stdout) {
  std::printf("buffered text");
  return app::in_goroutine([] { throw 1; });
}
CRASH_PROGRAM(panic_runs_no_destructors) {
  struct loud {
    ~loud() { std::fprintf(stderr, "destructor ran\n"); }
  };
  return app::in_goroutine([] {
    loud l;
    app::outer();
  });
}

// Many panics at once: one report after the other, none torn.
CRASH_PROGRAM(panic_many) {
  return weft::run(
      [] {
        weft::wait_group never;
        never.add();
        for (int i = 0; i < 8; ++i) weft::go(app::outer);
        never.wait();
      },
      {.max_procs = 4});
}

// main returns while another goroutine panics: whichever comes first, no report is cut short.
CRASH_PROGRAM(panic_races_with_return) {
  return weft::run(
      [] {
        weft::go(app::outer);
        weft::gosched();
      },
      {.max_procs = 2});
}

// exit() while a long report is being printed: it comes out whole, and its status stands.
namespace {
constexpr int kBystanders = 2000;

void panic_among_many() {
  static weft::wait_group never;
  never.add();
  for (int i = 0; i < kBystanders; ++i) weft::go([] { never.wait(); });
  weft::go(app::outer);
}
void exit_during_report() {
  while (!weft::rt::crashing()) sched_yield();
  std::exit(0);
}
}  // namespace

namespace {
std::atomic<bool> slow_to_leave{false};
std::atomic<bool> panics_in_exit{false};

// Not a static's initialiser: the runtime asks the kernel before those have run. Not instrumented: in a handler, frames of
// several goroutines lie on the same stack, one after the other.
__attribute__((no_sanitize("thread"))) long libc_syscall(long number, const long (&w)[6]) {
  using function = long (*)(long, ...);
  static std::atomic<function> found{nullptr};
  if (found == nullptr) found = reinterpret_cast<function>(dlsym(RTLD_NEXT, "syscall"));
  return found.load()(number, w[0], w[1], w[2], w[3], w[4], w[5]);
}
}  // namespace

// libc's, but the reporter's last step may take a while, and exit() stops nobody before a panic has begun. Reads more words than most callers pass, as
// libc's does; one of them is on the caller's stack.
extern "C" __attribute__((no_sanitize("address"), no_sanitize("thread"))) long syscall(
    long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long words[6];
  for (long& word : words) word = va_arg(list, long);
  va_end(list);
  if (number == SYS_rt_tgsigqueueinfo && panics_in_exit && weft::rt::freezing_for_exit() &&
      gettid() == getpid()) {
    while (!weft::rt::crashing()) sched_yield();
  }
  if (number == SYS_exit_group && slow_to_leave) {
    const timespec pause{0, 500'000'000};
    nanosleep(&pause, nullptr);  // sleep-ok: the subject, a step that takes long
  }
  return libc_syscall(number, words);
}

CRASH_PROGRAM(panic_and_exit) {
  panic_among_many();
  exit_during_report();
  return 1;
}
CRASH_PROGRAM(panic_and_exit_on_a_goroutine) {
  return weft::run(
      [] {
        panic_among_many();
        exit_during_report();
      },
      {.max_procs = 4});
}
CRASH_PROGRAM(panic_and_exit_on_a_thread) {
  std::thread([] {
    panic_among_many();
    exit_during_report();
  }).join();
  return 1;
}

// The panic begins at the worst moment: exit() has seen that nobody reports one, and is about to stop by
// a signal whoever still runs, which is sent when the report has begun. For a goroutine that preemption
// does not stop earlier (asyncpreemptoff=1).
static int panic_as_exit_freezes() {
  static std::atomic<bool> computes{false};
  weft::run([] {
    static weft::wait_group never;
    never.add();
    for (int i = 0; i < kBystanders; ++i) weft::go([] { never.wait(); });
  });
  // run() returns a moment before its goroutine is gone.
  while (weft::runtime::num_goroutine() > kBystanders) sched_yield();
  weft::go([] {
    computes = true;
    while (!weft::rt::freezing_for_exit()) {
    }
    app::outer();
  });
  while (!computes) sched_yield();
  panics_in_exit = true;
  return 0;
}
CRASH_PROGRAM(panic_as_exit_freezes) { return panic_as_exit_freezes(); }
// exit() waits for the report to end, and must not get ahead of the reporter then.
CRASH_PROGRAM(panic_as_exit_freezes_ends_slowly) {
  slow_to_leave = true;
  return panic_as_exit_freezes();
}

// A C library's function that calls back, without unwind information as those of other languages.
extern "C" void app_calls_back(void (*callback)());
#if defined(__x86_64__)
asm(".text\n"
    ".type app_calls_back, @function\n"
    "app_calls_back: subq $8, %rsp\n"
    "  callq *%rdi\n"
    "  addq $8, %rsp\n"
    "  retq\n"
    ".size app_calls_back, . - app_calls_back\n");
#elif defined(__aarch64__)
asm(".text\n"
    ".type app_calls_back, %function\n"
    "app_calls_back: stp x29, x30, [sp, #-16]!\n"
    "  blr x0\n"
    "  ldp x29, x30, [sp], #16\n"
    "  ret\n"
    ".size app_calls_back, . - app_calls_back\n");
#endif

CRASH_PROGRAM(terminate_in_a_callback) {
  return app::in_goroutine([] {
    try {
      app_calls_back([] { app::outer(); });
    } catch (const std::out_of_range&) {  // never seen: nobody can unwind to here
    }
  });
}
// … but glibc's have it.
CRASH_PROGRAM(caught_after_qsort) {
  return weft::run([] {
    int numbers[] = {3, 1, 2};
    try {
      std::qsort(numbers, 3, sizeof numbers[0],
                 [](const void*, const void*) -> int { throw std::runtime_error("no order"); });
    } catch (const std::runtime_error&) {
      return 0;
    }
    return 1;
  });
}

CRASH_PROGRAM(terminate_noexcept) {
  return app::in_goroutine([] { app::must_not_throw(); });
}
CRASH_PROGRAM(terminate_joinable_thread) {
  return app::in_goroutine([] { std::thread t([] {}); });
}
CRASH_PROGRAM(terminate_directly) {
  return app::in_goroutine([] { std::terminate(); });
}
CRASH_PROGRAM(terminate_on_a_plain_thread) {
  weft::run([] {});
  throw std::runtime_error("not weft's business");
}
CRASH_PROGRAM(caught_after_all) {
  return weft::run([] {
    weft::wait_group wg;
    for (int i = 0; i < 100; ++i) {
      wg.go([] {
        try {
          app::outer();
        } catch (const std::out_of_range&) {
        }
      });
    }
    wg.wait();
    return 5;
  });
}
