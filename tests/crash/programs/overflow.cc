// Goroutines that use more stack than they have, and faults that have nothing to do with it.
#include <csignal>
#include <cstdlib>
#include <unistd.h>

#include <weft/weft.h>

#include "crash/programs/program.h"

namespace app {

volatile int depth_limit = 1 << 30;

[[gnu::noinline]] int descend(int depth) {
  volatile char room[512];
  room[0] = static_cast<char>(depth);
  return depth == depth_limit ? 0 : descend(depth + 1) + room[0];
}

[[gnu::noinline]] int touch_nothing() {
  int* volatile nothing = nullptr;
  return *nothing;
}

void say_and_exit(int, siginfo_t*, void*) {
  constexpr char kText[] = "the program's own handler\n";
  [[maybe_unused]] const ssize_t n = write(2, kText, sizeof kText - 1);
  _exit(7);
}

void handle_faults(int flags) {
  struct sigaction action {};
  action.sa_sigaction = say_and_exit;
  action.sa_flags = SA_SIGINFO | flags;
  sigaction(SIGSEGV, &action, nullptr);
}

int in_goroutine(int (*f)(), weft::attrs how = {}) {
  return weft::run([=] {
    weft::wait_group done;
    done.add();
    weft::go(how, [f, &done] {
      f();
      done.done();
    });
    done.wait();
  });
}

int overflow() { return descend(0); }

const crash::program programs[] = {
    {"overflow", [] { return weft::run([] { overflow(); }); }},
    {"overflow_named",
     [] { return in_goroutine(overflow, {.name = "deep", .stack_size = 64 * 1024}); }},
    {"overflow_on_main_thread",
     [] { return weft::run([] { overflow(); }, {.lock_main_thread = true}); }},
    {"overflow_after_handler",
     [] {
       handle_faults(0);  // before weft starts: it is asked about other faults only
       return weft::run([] { overflow(); });
     }},
    {"fault", [] { return in_goroutine(touch_nothing); }},
    {"fault_after_handler",
     [] {
       handle_faults(SA_ONSTACK);
       return in_goroutine(touch_nothing);
     }},
    {"fault_sent",
     [] {
       return weft::run([] {
         raise(SIGSEGV);
         return 3;
       });
     }},
};

}  // namespace app
