// X3, the other half: would wakeup_test.cc notice? The same hunt, in a child process whose wake-ups are lost: a
// filter of system calls says that futex(FUTEX_WAKE) has been done, and does nothing. No product needs a hook for that.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>

#include "base/atomic.h"
#include "support/child_suite.h"
#include "support/seed.h"

namespace weft::rt {
namespace {

constexpr int kNoneLost = 0, kLost = 7, kNoFilter = 8;

// From now on, of this thread and of those that it creates: every M, the spawner and sysmon, as nobody is there before
// the first go().
bool lose_wake_ups() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K,
               std::uint32_t{0x7f}),  // without FUTEX_PRIVATE_FLAG and the clock
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAKE, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof program / sizeof *program, program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Ends the process at the first goroutine for which nobody comes, as there is no way back from there.
int hunt(bool lossy) {
  constexpr std::chrono::seconds kForLost{2}, kAsEver{20};
  return weft::run([lossy] {
    if (lossy && !lose_wake_ups()) _exit(kNoFilter);
    // With two Ps none is idle while one is on its way to an M that nobody wakes. Then sysmon wants ours; it would be
    // handed over likewise, and nobody would be left to tell.
    const weft::no_preempt whole_hunt;
    test::random_source random(1);
    for (test::budget b(2000); b.next();) {
      const auto until = test::test_clock::now() + std::chrono::microseconds(random.below(400));
      while (test::test_clock::now() < until) cpu_pause();
      std::atomic<bool> ended{false};
      weft::go([&ended] { ended = true; });
      if (!test::eventually_hogging([&] { return ended.load(); }, lossy ? kForLost : kAsEver)) {
        _exit(kLost);
      }
    }
  });
}

WEFT_CHILD(hunt_where_all_is_well) { return hunt(false); }
WEFT_CHILD(hunt_where_they_are_lost) { return hunt(true); }

class LostWakeUp : public test::children_over_procs {};

TEST_P(LostWakeUp, IsNoticed) {
  if (procs() == 1) return;  // nobody else could come
  const test::child_result well = run("hunt_where_all_is_well");
  EXPECT_EQ(well.status, kNoneLost) << well.output;
  const test::child_result lossy = run("hunt_where_they_are_lost");
  if (lossy.status == kNoFilter) GTEST_SKIP() << "no filter of system calls is to be had";
  EXPECT_EQ(lossy.status, kLost) << lossy.output;
}

WEFT_OVER_PROCS(LostWakeUp);

}  // namespace
}  // namespace weft::rt

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
