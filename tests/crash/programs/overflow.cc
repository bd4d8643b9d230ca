// Goroutines that use more stack than they have, and faults that have nothing to do with it.
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <sys/mman.h>
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

// Leaves every fault by a jump, as collectors and test frameworks do.
jmp_buf back;
int survive() {
  for (volatile int i = 0; i < 3; i = i + 1) {
    if (setjmp(back) == 0) touch_nothing();
  }
  return 0;
}

// The smallest that the kernel takes, with nothing below it.
void small_signal_stack() {
  constexpr std::size_t kSize = 8192;
  auto* memory = static_cast<char*>(
      mmap(nullptr, 2 * kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(memory + kSize, kSize, PROT_READ | PROT_WRITE);
  stack_t small{};
  small.ss_sp = memory + kSize;
  small.ss_size = kSize;
  sigaltstack(&small, nullptr);
}

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
    {"overflow_with_small_signal_stack",
     [] {
       small_signal_stack();
       return weft::run([] { overflow(); }, {.lock_main_thread = true});
     }},
    {"faults_left_by_jumps",
     [] {
       struct sigaction action {};
       action.sa_handler = [](int) { longjmp(back, 1); };
       action.sa_flags = static_cast<int>(SA_NODEFER);
       sigaction(SIGSEGV, &action, nullptr);
       in_goroutine(survive);
       return 9;
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
