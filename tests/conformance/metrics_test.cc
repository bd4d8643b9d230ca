// runtime::metrics(): Go's names, and numbers that tell the truth.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <weft/weft.h>

#include "support/patience.h"

namespace {

using weft::runtime::metric;

metric find(std::string_view name) {
  for (const metric& m : weft::runtime::metrics()) {
    if (m.name == name) return m;
  }
  ADD_FAILURE() << "no metric " << name;
  return {};
}
std::uint64_t count(std::string_view name) { return find(name).count; }
std::uint64_t samples(std::string_view name) {
  const metric m = find(name);
  return std::accumulate(m.counts.begin(), m.counts.end(), std::uint64_t{0});
}

TEST(Metrics, NamesAreGosAndSorted) {
  std::vector<std::string> names;
  for (const metric& m : weft::runtime::metrics()) {
    names.emplace_back(m.name);
    EXPECT_FALSE(m.description.empty()) << m.name;
  }
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const char* expected :
       {"/sched/gomaxprocs:threads", "/sched/goroutines:goroutines",
        "/sched/goroutines/running:goroutines", "/sched/goroutines/runnable:goroutines",
        "/sched/goroutines/not-in-go:goroutines", "/sched/goroutines/waiting:goroutines",
        "/sched/goroutines-created:goroutines", "/sched/threads/total:threads",
        "/sched/latencies:seconds", "/sched/pauses/stopping/gc:seconds",
        "/sched/pauses/stopping/other:seconds", "/sched/pauses/total/gc:seconds",
        "/sched/pauses/total/other:seconds", "/sync/mutex/wait/total:seconds",
        "/cpu/classes/idle:cpu-seconds", "/weft/sched/preemptions:events",
        "/weft/sched/handoffs:events"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), expected), names.end()) << expected;
  }
}

TEST(Metrics, HistogramsHaveGosBounds) {
  const metric m = find("/sched/latencies:seconds");
  ASSERT_EQ(m.buckets.size(), 163u);
  ASSERT_EQ(m.counts.size(), 162u);
  EXPECT_TRUE(std::isinf(m.buckets.front()) && m.buckets.front() < 0);
  EXPECT_EQ(m.buckets[1], 0);
  EXPECT_DOUBLE_EQ(m.buckets[2], 64e-9);
  EXPECT_DOUBLE_EQ(m.buckets[161], static_cast<double>(std::int64_t{1} << 47) * 1e-9);
  EXPECT_TRUE(std::isinf(m.buckets.back()));
}

// Go: TestReadMetricsSched, on one P: one runs, the others are runnable, a thousand wait.
TEST(Metrics, CountsByState) {
  weft::run(
      [] {
        EXPECT_EQ(count("/sched/gomaxprocs:threads"), 1u);
        const std::uint64_t before = count("/sched/goroutines-created:goroutines");
        const auto exist = [] { return count("/sched/goroutines:goroutines"); };
        // Only this one: those of an earlier run() have said that they are done, and end a little later.
        EXPECT_TRUE(weft::test::eventually([&] { return exist() == 1; })) << exist();
        weft::wait_group gate, done;
        gate.add();
        std::atomic<int> arrived{0};
        for (int i = 0; i < 1000; ++i) {
          done.go([&] {
            ++arrived;
            gate.wait();
          });
        }
        while (arrived < 1000) weft::gosched();
        // On a slow machine its slice may be over before it waits.
        const auto all_wait = [] { return count("/sched/goroutines/waiting:goroutines") >= 1000; };
        EXPECT_TRUE(weft::test::eventually(all_wait));
        EXPECT_EQ(count("/sched/goroutines/running:goroutines"), 1u);
        std::uint64_t created = before + 1000;
        // They may run before they are counted, if this one's P is taken while its thread waits for a page.
        for (bool kept_its_p = false; !kept_its_p;) {
          weft::wait_group ten;
          const std::uint64_t lost_before = count("/weft/sched/handoffs:events");
          {
            const weft::no_preempt here;  // else they may be preferred
            for (int i = 0; i < 10; ++i) ten.go([] {});
            created += 10;
            const std::uint64_t runnable = count("/sched/goroutines/runnable:goroutines");
            const std::uint64_t all = exist();
            kept_its_p = count("/weft/sched/handoffs:events") == lost_before;
            EXPECT_TRUE(!kept_its_p || runnable >= 10) << runnable;
            EXPECT_TRUE(!kept_its_p || all == 1011) << all;
          }
          EXPECT_EQ(count("/sched/goroutines-created:goroutines"), created);
          ten.wait();
          EXPECT_TRUE(weft::test::eventually([&] { return exist() == 1001; })) << exist();
        }
        gate.done();
        done.wait();
        EXPECT_EQ(count("/sched/goroutines-created:goroutines"), created) << "also if they end";
        EXPECT_GE(count("/sched/threads/total:threads"), 1u);
      },
      {.max_procs = 1});
}

// Go: TestReadMetricsSched, with ten who compute: on many Ps all run, each on a thread, but for moments in which one gives
// way, or is taken for one that blocks; on one P all but one of them are runnable.
TEST(Metrics, RunningGoroutines) {
  constexpr int kSpinners = 10;
  const auto beside_spinners = [](int procs, const auto& look) {
    weft::run(
        [&] {
          std::atomic<int> spinning{0};
          std::atomic<bool> stop{false};
          weft::wait_group done;
          for (int i = 0; i < kSpinners; ++i) {
            done.go([&] {
              spinning.fetch_add(1);
              while (!stop.load()) {
              }
            });
          }
          while (spinning.load() < kSpinners) weft::gosched();
          EXPECT_TRUE(weft::test::eventually_hogging(look)) << procs;
          stop.store(true);
          done.wait();
        },
        {.max_procs = procs});
  };
  beside_spinners(kSpinners + 1, [] {
    return count("/sched/goroutines/running:goroutines") >= kSpinners + 1 &&
           count("/sched/threads/total:threads") >= kSpinners + 1;
  });
  beside_spinners(1,
                  [] { return count("/sched/goroutines/runnable:goroutines") >= kSpinners - 1; });
}

// Go: TestSchedPauseMetrics. Whoever stops the world counts; who reads the metrics does not.
TEST(Metrics, Pauses) {
  weft::run([] {
    const std::uint64_t before = samples("/sched/pauses/total/other:seconds");
    const std::uint64_t stopping = samples("/sched/pauses/stopping/other:seconds");
    const std::uint64_t gc = samples("/sched/pauses/total/gc:seconds");
    weft::runtime::stop_the_world([] {});
    static_cast<void>(weft::runtime::stack(true));
    static_cast<void>(weft::runtime::metrics());
    EXPECT_EQ(samples("/sched/pauses/total/other:seconds"), before + 2);
    EXPECT_EQ(samples("/sched/pauses/stopping/other:seconds"), stopping + 2);
    EXPECT_EQ(samples("/sched/pauses/total/gc:seconds"), gc);
    weft::runtime::gc();
    EXPECT_EQ(samples("/sched/pauses/total/gc:seconds"), gc + 1);
    EXPECT_EQ(samples("/sched/pauses/total/other:seconds"), before + 2);
    const int procs = weft::runtime::gomaxprocs();
    EXPECT_EQ(samples("/sched/pauses/total/other:seconds"), before + 2) << "a question";
    weft::runtime::gomaxprocs(procs + 1);
    weft::runtime::gomaxprocs(procs);
    EXPECT_EQ(samples("/sched/pauses/total/other:seconds"), before + 4);
    EXPECT_EQ(samples("/sched/pauses/stopping/other:seconds"), stopping + 4);
  });
}

TEST(Metrics, Latencies) {
  const std::uint64_t before = samples("/sched/latencies:seconds");
  weft::run(
      [] {
        weft::wait_group done;
        constexpr int kTurns = 2000;  // samples are few
        // Four take turns, and only in those of one does anybody become runnable: no sample may be in step with them.
        for (int i = 0; i < 3; ++i) {
          done.go([] {
            for (int n = 0; n < kTurns; ++n) weft::gosched();
          });
        }
        done.go([&] {
          for (int n = 0; n < kTurns; ++n) {
            done.go([] {});
            weft::gosched();
          }
        });
        done.wait();
      },
      {.max_procs = 1});
  EXPECT_GT(samples("/sched/latencies:seconds"), before);
}

// Go: TestMutexWaitTimeMetric. For a mutex; for a writer by a reader, and by a writer; for a reader by a writer.
template <class Mutex, class Lock, class Wait>
void expect_waits(const char* what, Lock, Wait) {
  const double before = find("/sync/mutex/wait/total:seconds").value;
  weft::run([] {
    for (int round = 0; round < 64; ++round) {
      Mutex m;
      weft::wait_group done;
      weft::latch inside(2);
      done.go([&] {
        const Lock held(m);
        inside.count_down();
        weft::this_thread::sleep_for(std::chrono::milliseconds(1));  // sleep-ok: the subject
      });
      done.go([&] {
        inside.arrive_and_wait();
        const Wait held(m);
      });
      done.wait();
    }
  });
  EXPECT_GT(find("/sync/mutex/wait/total:seconds").value, before) << what;
}
TEST(Metrics, WaitsForMutexes) {
  using shared = weft::shared_mutex;
  using writer = weft::unique_lock<shared>;
  using reader = weft::shared_lock<shared>;
  using one = weft::unique_lock<weft::mutex>;
  expect_waits<weft::mutex>("mutex", one(), one());
  expect_waits<shared>("writer by reader", reader(), writer());
  expect_waits<shared>("writer by writer", writer(), writer());
  expect_waits<shared>("reader by writer", writer(), reader());
}

// Go: TestCPUMetricsSleep
TEST(Metrics, SleepIsIdleTime) {
  weft::run(
      [] {
        const double idle = find("/cpu/classes/idle:cpu-seconds").value;
        const double user = find("/cpu/classes/user:cpu-seconds").value;
        weft::this_thread::sleep_for(std::chrono::milliseconds(100));  // sleep-ok: the subject
        const double slept = find("/cpu/classes/idle:cpu-seconds").value - idle;
        EXPECT_GT(slept, 0.05);
        EXPECT_LT(find("/cpu/classes/user:cpu-seconds").value - user, slept);
      },
      {.max_procs = 2});
}

}  // namespace
