// Goroutines that use more stack than they have, and faults that have nothing to do with it.
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <weft/weft.h>

#include "crash/programs/program.h"
#include "sched/park.h"
#include "sched/sched_api.h"
#include "support/waiting.h"

namespace app {

volatile int depth_limit = 1 << 30;

[[gnu::noinline]] int descend(int depth) {
  volatile char room[512];
  room[0] = static_cast<char>(depth);
  return depth == depth_limit ? 0 : descend(depth + 1) + room[0];
}

// Waits for the others when little is left, so that all overflow at the same moment.
constexpr int kParties = 3;
std::atomic<int> at_the_brink{0};
[[gnu::noinline]] int descend_together(int depth) {
  constexpr int kBrink = 64;  // of 64 KiB, a quarter at least is left
  volatile char room[512];
  room[0] = static_cast<char>(depth);
  if (depth == kBrink) {
    ++at_the_brink;
    while (at_the_brink < kParties) {
    }
  }
  return depth == depth_limit ? 0 : descend_together(depth + 1) + room[0];
}

// A page of a file that has none.
[[gnu::noinline]] int touch_behind_the_end() {
  const int file = memfd_create("empty", 0);
  auto* p = static_cast<volatile char*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0));
  return *p;
}

// A page that nobody may touch, and not at address 0: UBSan would have a word to say about that.
[[gnu::noinline]] int touch_nothing() {
  static auto* const nothing = static_cast<volatile int*>(
      mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  return *nothing;
}

void say_and_exit(int, siginfo_t*, void*) {
  constexpr char kText[] = "the program's own handler\n";
  [[maybe_unused]] const ssize_t n = write(2, kText, sizeof kText - 1);
  _exit(7);
}

// What the kernel has promised it: its mask, and that it is not called again.
void say_how_it_was_called(int signal, siginfo_t*, void*) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  struct sigaction now {};
  sigaction(signal, nullptr, &now);
  const bool right = sigismember(&mask, SIGUSR1) == 1 && sigismember(&mask, SIGSEGV) == 1 &&
                     sigismember(&mask, SIGUSR2) == 0 && now.sa_handler == SIG_DFL;
  _exit(right ? 7 : 8);
}

void handle_faults(int flags) {
  struct sigaction action {};
  action.sa_sigaction = say_and_exit;
  action.sa_flags = SA_SIGINFO | flags;
  sigaction(SIGSEGV, &action, nullptr);
}

// With one P.
int in_goroutine(int (*f)(), weft::attrs how = {}) {
  return weft::run(
      [=] {
        weft::wait_group done;
        done.add();
        weft::go(how, [f, &done] {
          f();
          done.done();
        });
        done.wait();
      },
      {.max_procs = 1});
}

int overflow() { return descend(0); }

// By one frame from just above the end of the stack to what faults below the guard.
// Not instrumented: that would call something from there.
[[gnu::noinline]] __attribute__((no_sanitize("address"), no_sanitize("thread"),
                                 no_sanitize("undefined"))) int
overflow_by_a_large_frame() {
  constexpr std::ptrdiff_t kLeft = 1024;
  auto* const here = static_cast<std::byte*>(__builtin_frame_address(0));
  const auto fits = static_cast<std::size_t>(here - weft::rt::current_goroutine()->stk.lo - kLeft);
  std::size_t beyond = weft::rt::kGuardBytes + 2048;
  asm volatile("" : "+r"(beyond));  // or only the byte that is written would be taken
  auto* const small = static_cast<volatile char*>(__builtin_alloca(fits));
  auto* const large = static_cast<volatile char*>(__builtin_alloca(beyond));
  large[0] = 1;
  return large[0] + small[0];
}

// … when the first goroutine waits.
int overflow_beside_a_waiter() {
  while (weft::test::waiting_goroutines() < 1) weft::gosched();
  return overflow();
}

// Leaves every fault by a jump, as collectors and test frameworks do.
jmp_buf back;
[[gnu::noinline]] void survive_once() {
  if (setjmp(back) == 0) touch_nothing();
}
int survive() {
  for (int i = 0; i < 3; ++i) survive_once();
  return 0;
}

// The smallest that the kernel takes, with nothing below it.
void small_signal_stack() {
  constexpr std::size_t kSize = 8192;
  auto* memory =
      static_cast<char*>(mmap(nullptr, 2 * kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(memory + kSize, kSize, PROT_READ | PROT_WRITE);
  stack_t small{};
  small.ss_sp = memory + kSize;
  small.ss_size = kSize;
  sigaltstack(&small, nullptr);
}

// Several at the same moment: they report one after the other.
int overflow_together() {
  return weft::run(
      [] {
        weft::wait_group done;
        for (int i = 0; i < kParties; ++i) {
          done.add();
          weft::go({.stack_size = 64 * 1024}, [] { descend_together(0); });
        }
        done.wait();
      },
      {.max_procs = kParties});
}

// Another thread sends signals to the one that overflows; their handler uses the stack for handlers.
void scribble(int) {
  volatile char room[16384];
  for (volatile char& byte : room) byte = static_cast<char>(0xaa);
}
int overflow_under_signals() {
  static std::atomic<pid_t> target{0};
  struct sigaction action {};
  action.sa_handler = scribble;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  std::thread([] {
    while (target == 0) {
    }
    for (;;) syscall(SYS_tgkill, getpid(), target.load(), SIGUSR1);
  }).detach();
  return weft::run([] {
    target = gettid();
    overflow();
  });
}

const crash::program programs[] = {
    {"overflow_together", overflow_together},
    {"overflow_under_signals", overflow_under_signals},
    {"overflow", [] { return weft::run([] { overflow(); }); }},
    {"overflow_by_a_large_frame", [] { return in_goroutine(overflow_by_a_large_frame); }},
    {"overflow_named",
     [] {
       return in_goroutine(overflow_beside_a_waiter, {.name = "deep", .stack_size = 64 * 1024});
     }},
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
    {"overflow_of_a_thread",
     [] {
       // What completes a park runs on the thread's own stack if there is no other goroutine.
       return weft::run(
           [] {
             static weft::rt::waiter w;
             const auto commit = [](weft::rt::waiter*, void*) { return descend(0) == 0; };
             weft::rt::block(w, commit, nullptr, &w, weft::rt::wait_reason::none);
           },
           {.max_procs = 1});
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
    {"fault_of_a_bus", [] { return in_goroutine(touch_behind_the_end); }},
    {"fault_in_a_vfork_child",
     [] {
       return weft::run([] {
         const pid_t child = vfork();
         if (child == 0) {
           touch_nothing();
           _exit(1);
         }
         int status = 0;
         waitpid(child, &status, 0);
         int answer = 0;  // the world goes on
         weft::thread([&] { answer = WIFSIGNALED(status) ? WTERMSIG(status) : 0; }).join();
         return answer;
       });
     }},
    {"fault_after_handler",
     [] {
       handle_faults(SA_ONSTACK);
       return in_goroutine(touch_nothing);
     }},
    {"fault_after_special_handler",
     [] {
       struct sigaction action {};
       action.sa_sigaction = say_how_it_was_called;
       action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND);
       sigaddset(&action.sa_mask, SIGUSR1);
       sigaction(SIGSEGV, &action, nullptr);
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
