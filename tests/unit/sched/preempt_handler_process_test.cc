// The handler of the runtime's signal, looked at while it sleeps: it stands on the thread's stack for handlers, not on
// that of the goroutine that it has frozen, and nobody else's handler can begin on top of it.
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <gtest/gtest.h>
#include <string>
#include <ucontext.h>

#include <weft/weft.h>

#include "os/process.h"
#include "sched/sched_api.h"
#include "support/child_suite.h"
#include "support/preemptions.h"

namespace {

constexpr int kRight = 3;

// f(M) of one that is frozen in the handler, and stays so meanwhile. False: there is none.
template <class F>
bool look_at_a_frozen_one(F f) {
  const weft::rt::inside here;
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  for (const weft::rt::M* mp = weft::rt::sched.all_ms; mp != nullptr; mp = mp->all_next) {
    if (mp->frozen_outside && mp->in_handler && mp->nextp == nullptr) {
      f(mp);
      return true;
    }
  }
  return false;
}

// f(M) while a goroutine that computes is frozen there.
template <class F>
void beside_a_frozen_one(F f) {
  weft::run([&] {
    std::atomic<bool> stop{false};
    weft::wait_group hog;
    hog.go([&] {
      while (!stop.load(std::memory_order_relaxed)) {
      }
    });
    while (!look_at_a_frozen_one(f)) weft::gosched();
    stop = true;
    hog.wait();
  });
}

class PreemptHandler : public testing::Test {
 protected:
  static void expect(const char* child) {
    if (WEFT_TEST_TSAN) GTEST_SKIP() << "TSan runs handlers elsewhere";
    const auto r = weft::test::run_child(child, {"WEFTMAXPROCS=1"});
    EXPECT_EQ(r.status, kRight) << r.output;
  }
};

// glibc keeps 32 and 33 for itself: setuid() and pthread_cancel() reach frozen threads, too.
WEFT_CHILD(masks_all) {
  std::uint64_t blocked = 0;
  beside_a_frozen_one([&](const weft::rt::M* mp) {
    for (int signal = 1; signal <= 64; ++signal) {
      if (weft::rt::task_blocks(mp->tid, signal)) blocked |= std::uint64_t{1} << (signal - 1);
    }
  });
  std::uint64_t expected = ~std::uint64_t{0};
  for (const int open : {32, 33, SIGKILL, SIGSTOP}) expected &= ~(std::uint64_t{1} << (open - 1));
  if (blocked == expected) return kRight;
  std::printf("blocked: %016llx\n", static_cast<unsigned long long>(blocked));
  return 1;
}
TEST_F(PreemptHandler, MasksAllSignalsButGlibcs) {
  if (weft::test::emulated()) GTEST_SKIP() << "an emulator's threads have a mask of its own";
  expect("masks_all");
}

bool within(const void* at, const void* lo, std::size_t size) {
  const auto* from = static_cast<const std::byte*>(lo);
  return at >= from && at < from + size;
}

// By the frame that the kernel has pushed.
WEFT_CHILD(stands_aside) {
  bool known = false, on_goroutines = true, on_handlers = false;
  beside_a_frozen_one([&](const weft::rt::M* mp) {
    const auto* frame = static_cast<const ucontext_t*>(mp->interrupted);
    const weft::rt::stack& s = mp->curg->stk;
    known = frame != nullptr && s;
    if (!known) return;
    on_goroutines = within(frame, s.lo, s.size());
    on_handlers = within(frame, frame->uc_stack.ss_sp, frame->uc_stack.ss_size);
  });
  return known && !on_goroutines && on_handlers ? kRight : 1;
}
TEST_F(PreemptHandler, StandsOnTheStackForHandlers) { expect("stands_aside"); }

// -- the program's own handlers -------------------------------------------------------------------

std::atomic<bool> other_ran{false};

// The only P is that of a goroutine whose thread is in a handler of the program's, which computes until another goroutine has
// run: it is frozen there, and goes on there. On the goroutine's stack, or beneath the runtime's handler on the thread's.
int frozen_in_users_handler(int flags) {
  struct sigaction action {};
  action.sa_handler = [](int) {
    while (!other_ran) {
    }
  };
  action.sa_flags = flags;
  sigaction(SIGUSR2, &action, nullptr);
  weft::run([] {
    weft::wait_group ended;
    ended.go([] { other_ran = true; });
    raise(SIGUSR2);
    ended.wait();
  });
  return kRight;
}
WEFT_CHILD(users_handler) { return frozen_in_users_handler(0); }
WEFT_CHILD(users_handler_aside) { return frozen_in_users_handler(SA_ONSTACK); }
TEST_F(PreemptHandler, FreezesWithinAUsersHandler) {
  expect("users_handler");
  expect("users_handler_aside");
}

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
