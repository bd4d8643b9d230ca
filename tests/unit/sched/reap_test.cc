// sched/reap.cc: threads that have been idle for long end. The clock is the test's own.
#include <atomic>
#include <thread>

#include <weft/go.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "os/clock.h"
#include "sched/sched_api.h"
#include "support/fixture.h"
#include "support/tasks.h"

namespace weft::rt {
namespace {

using test::eventually;
using test::task_count;

constexpr std::int64_t kLong = 3'000'000'000;  // more than a period

// So far in the future that nobody else's look comes in between.
std::int64_t& fake_time() {
  static std::int64_t now = nanotime() + 3'600'000'000'000;
  return now;
}
std::int64_t look_later() { return reap_idle_ms(fake_time() += kLong); }

std::int32_t idle_ms() {
  const scoped_lock held(sched.lock);
  return sched.idle_m_count;
}
std::int32_t ms() {
  const scoped_lock held(sched.lock);
  return sched.m_count;
}

bool all_idle(std::int32_t at_least) {
  const scoped_lock held(sched.lock);
  return sched.idle_m_count == sched.m_count && sched.idle_m_count > at_least;
}

// n goroutines on as many threads at once, which are idle afterwards.
void need_threads(int n) {
  weft::wait_group all_here, gate, ended;
  all_here.add(n);
  gate.add(1);
  for (int i = 0; i < n; ++i) {
    ended.go([&] {
      runtime::lock_os_thread();
      all_here.done();
      gate.wait();
      runtime::unlock_os_thread();
    });
  }
  all_here.wait();
  gate.done();
  ended.wait();
}

class Reap : public test::over_procs {
 protected:
  static constexpr int kMany = 60;
  std::int32_t kept() const { return procs() + 4 + 3; }  // three whom others rely on
};

TEST_P(Reap, EndsThoseIdleForLong) {
  look_later();  // from now on sysmon's own looks, by the real time, are too early
  run([] { need_threads(kMany); });
  ASSERT_TRUE(eventually([] { return all_idle(kMany / 2); }));
  const int tasks = task_count();
  const std::int32_t before = ms();
  EXPECT_NE(look_later(), kNever) << "the first look only begins a period";
  EXPECT_GT(idle_ms(), kMany / 2);
  EXPECT_TRUE(eventually([] { return look_later() == kNever; })) << idle_ms();
  EXPECT_LE(idle_ms(), kept());
  EXPECT_TRUE(eventually([&] { return ms() <= before - (kMany / 2 - kept()); })) << ms();
  EXPECT_TRUE(eventually([&] { return task_count() < tasks - kMany / 2 + kept(); }))
      << task_count() << " of " << tasks;
  EXPECT_EQ(look_later(), kNever) << "nothing left to do: whoever calls may sleep";
  run([] { need_threads(kMany); });  // and they come again
}

// Whoever is used in between stays.
TEST_P(Reap, KeepsThoseInUse) {
  run([] { need_threads(kMany); });
  for (int i = 0; i < 4; ++i) {
    run([] { need_threads(kMany); });
    ASSERT_TRUE(eventually([] { return idle_ms() > kMany / 2; }));
    reap_idle_ms(fake_time());  // no time has passed
    EXPECT_GT(idle_ms(), kMany / 2) << i;
    look_later();
    EXPECT_GT(idle_ms(), kMany / 2) << i;
  }
  ASSERT_TRUE(eventually([] { return look_later() == kNever; }));
}

// Threads are dismissed all the time, while they are needed all the time.
TEST_P(Reap, RacesWithStarts) {
  std::atomic<bool> over{false};
  std::thread reaper([&over] {
    while (!over) {
      look_later();
      std::this_thread::yield();
    }
  });
  run([] {
    for (test::budget b(200, std::chrono::milliseconds(300)); b.next();) {
      need_threads(20);
      weft::thread([] { weft::gosched(); }).join();
      runtime::stop_the_world([] {});
    }
  });
  over = true;
  reaper.join();
}

// The books are right at the limit: threads that have ended make room. All together they are more than it; how many
// there are at a time depends on how long those that go idle take, which is long on a busy machine.
TEST_P(Reap, MakesRoomBelowTheLimit) {
  constexpr int kLimit = 4 * kMany;
  const int before = runtime::set_max_threads(kLimit);
  for (int ended = 0; ended <= kLimit;) {
    run([] { need_threads(kMany); });
    const int most = ms();
    ASSERT_TRUE(eventually([&] { return look_later() == kNever && ms() <= kept() + 2; })) << ms();
    ended += most - ms();
  }
  EXPECT_EQ(runtime::set_max_threads(before), kLimit);
}

WEFT_OVER_PROCS(Reap);

}  // namespace
}  // namespace weft::rt
