// X3, the other half: does each hunt of wakeup_test.cc notice? They go hunting in child processes which after some rounds lose
// every wake-up of an M: a filter of system calls says that futex(FUTEX_WAKE) has been done, and does nothing. No product
// needs a hook for that.
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "gmp/inside.h"
#include "gmp/m.h"
#include "gmp/sched.h"
#include "support/child_suite.h"
#include "unit/sched/wakeup_hunts.h"

namespace weft::rt {
namespace {

constexpr int kNoneMissed = 0, kMissed = 7, kNoFilter = 8;

// Where the Ms that there are sleep. Nobody else's wake-ups are lost: who sleeps on a lock hangs, and notices nothing.
std::vector<std::uintptr_t> notes_of_ms() {
  std::array<std::uintptr_t, 100> notes;
  std::size_t n = 0;
  {
    const inside no_allocation_here;
    const scoped_lock held(sched.lock);
    for (const M* mp = sched.all_ms; mp != nullptr && n < notes.size(); mp = mp->all_next) {
      notes[n++] = reinterpret_cast<std::uintptr_t>(&mp->park);
    }
  }
  return {notes.begin(), notes.begin() + static_cast<std::ptrdiff_t>(n)};
}

// From now on, whoever calls.
bool lose_wake_ups() {
  const auto load = [](std::size_t at) {
    return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(at));
  };
  const auto skip_unless = [](std::uint64_t value, std::uint8_t steps) {
    return sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(value), 0,
                                steps);
  };
  const auto skip_if = [](std::uint32_t value) {
    return sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0);
  };
  const sock_filter let_pass BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_filter lose BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0);
  std::vector<sock_filter> program{
      load(offsetof(seccomp_data, nr)),
      skip_if(SYS_futex),
      let_pass,
      load(offsetof(seccomp_data, args[1])),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, std::uint32_t{0x7f}),  // without FUTEX_PRIVATE_FLAG
      skip_if(FUTEX_WAKE),
      let_pass,
  };
  constexpr std::size_t kWord = offsetof(seccomp_data, args[0]);
  for (const std::uintptr_t note : notes_of_ms()) {
    program.insert(program.end(), {load(kWord), skip_unless(note, 3), load(kWord + 4),
                                   skip_unless(note >> 32, 1), lose});
  }
  program.push_back(let_pass);
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0;
}

// Until then the hunt sees to it that all Ms are there, and have slept.
void lose_after_some_rounds(int round) {
  constexpr int kSome = 50;
  static std::atomic<bool> begun{false};
  if (round >= kSome && !begun.exchange(true) && !lose_wake_ups()) _exit(kNoFilter);
}

// Ends the process at the first goroutine for which nobody comes, as there is no way back from there.
int loses(bool (*hunt)(const hunts::terms&), int way = -1) {
  const hunts::terms t{.procs = runtime::gomaxprocs(),
                       .only_way = way,
                       .time = std::chrono::seconds(10),
                       .patience = std::chrono::seconds(1),
                       .before = lose_after_some_rounds,
                       .lost = [] { _exit(kMissed); }};
  hunt(t);
  return kNoneMissed;
}

WEFT_CHILD(ready) { return loses(hunts::by_one_submitter, 0); }
WEFT_CHILD(spawn) { return loses(hunts::by_one_submitter, 1); }
WEFT_CHILD(spawn_two) { return loses(hunts::by_one_submitter, 2); }
WEFT_CHILD(ready_and_spawn) { return loses(hunts::by_one_submitter, 3); }
WEFT_CHILD(ready_a_crowd) { return loses(hunts::by_one_submitter, 4); }
WEFT_CHILD(many_submitters) { return loses(hunts::by_many_submitters); }
WEFT_CHILD(plain_thread) { return loses(hunts::by_a_plain_thread); }
WEFT_CHILD(poller) { return loses(hunts::by_the_poller); }

class LostWakeUp : public test::children_over_procs {};

// All at once, since each waits for what does not come.
TEST_P(LostWakeUp, IsNoticedByEachHunt) {
  if (procs() == 1) return;  // nobody else could come
  std::vector<const char*> names{"ready",           "spawn",         "spawn_two",
                                 "ready_and_spawn", "ready_a_crowd", "plain_thread"};
  // On two Ps whoever polls runs whom he has found, and wakes nobody.
  if (procs() > 2) names.push_back("poller");
  // Where fifteen take turns on a few processors, the one M that is left hardly ever comes to sleep.
  if (procs() < 16) names.push_back("many_submitters");
  std::vector<test::child_result> results(names.size());
  {
    std::vector<std::jthread> hunters;
    for (std::size_t i = 0; i < names.size(); ++i) {
      hunters.emplace_back([&, i] { results[i] = run(names[i]); });
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (results[i].status == kNoFilter) GTEST_SKIP() << "no filter of system calls is to be had";
    EXPECT_EQ(results[i].status, kMissed) << names[i] << ": " << results[i].output;
  }
}

WEFT_OVER_PROCS(LostWakeUp);

}  // namespace
}  // namespace weft::rt

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
