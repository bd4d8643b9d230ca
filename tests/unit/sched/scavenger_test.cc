// sched/scavenger.cc with a clock and a machine of the test's own.
#include "sched/scavenger.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <unistd.h>

#include <weft/go.h>
#include <weft/pool.h>
#include <weft/runtime.h>
#include <weft/wait_group.h>

#include "gmp/inside.h"
#include "os/clock.h"
#include "sched/sched_api.h"
#include "support/fixture.h"

namespace weft::rt {
namespace {

using test::eventually;

constexpr std::int64_t kSecond = 1'000'000'000;

class Scavenger : public test::over_procs {
 protected:
  void SetUp() override {
    test::over_procs::SetUp();
    std::string name = testing::TempDir() + "weft-scavenger-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    tree_ = name;
    std::filesystem::create_directories(tree_ + "/proc/pressure");
    stall(0);
    watch_pressure_in(tree_.c_str());
    run([] { weft::gosched(); });  // there is an M
    settle();
    force();  // the next one is two minutes away
  }
  void TearDown() override {
    watch_pressure_in(nullptr);
    std::filesystem::remove_all(tree_);
    test::over_procs::TearDown();
  }

  void stall(long total) const {
    std::ofstream(tree_ + "/proc/pressure/memory", std::ios::trunc)
        << "some avg10=0.00 avg60=0.00 avg300=0.00 total=" << total << "\n";
  }
  // Far in the future, so that nobody else's look comes in between.
  static std::int64_t& now() {
    static std::int64_t time = nanotime() + 7200 * kSecond;
    return time;
  }
  static std::int64_t after(std::int64_t seconds) {
    const inside here;  // as sysmon: nobody takes its P
    return scavenger_tick(now() += seconds * kSecond);
  }
  static bool nobody_helps() {
    return sched.helpers.load(std::memory_order_relaxed) == 0;  // order: a statistic
  }
  // Until there is nothing left to do, and nobody at work. Takes its time.
  static void settle() {
    EXPECT_TRUE(eventually([] { return after(6) == kNever && nobody_helps(); }));
  }
  static void force() {
    const std::uint64_t before = scavengings_done(scavenging::forced);
    after(121);
    all_through(scavenging::forced, before + 1);
    EXPECT_TRUE(eventually(nobody_helps));
  }
  static void all_through(scavenging how, std::uint64_t n) {
    EXPECT_TRUE(eventually([&] { return scavengings_done(how) >= n; }))
        << scavengings_done(how) << " of " << n;
  }
  // A thousand goroutines at once, on stacks of their own, some pages deep; and as many as the Ps may keep.
  static void use_stacks() {
    const int n = 1000 + runtime::gomaxprocs() * static_cast<int>(P::kStackCache);
    weft::wait_group started, ended, gate;
    started.add(n);
    gate.add(1);
    for (int i = 0; i < n; ++i) {
      ended.go([&] {
        volatile char deep[8000];
        deep[0] = 1;
        started.done();
        gate.wait();
        deep[7999] = deep[0];
      });
    }
    started.wait();
    gate.done();
    ended.wait();
  }
  static std::size_t warm() {
    const stack_stats s = the_stacks.stats();
    return s.idle - s.clean;
  }

  std::string tree_;
};

// After a burst: what was not used for a whole period is given back; then nobody needs to wake any more.
TEST_P(Scavenger, GivesColdStacksBack) {
  run([] { use_stacks(); });
  EXPECT_TRUE(eventually([] { return warm() > 500; })) << warm();
  EXPECT_NE(after(6), kNever) << "it wants to come again";
  EXPECT_GT(warm(), 500u) << "they were used in this period";
  EXPECT_TRUE(eventually([] {
    after(6);
    return warm() < 500;
  })) << warm();
  settle();
  EXPECT_LT(warm(), 600u);
  EXPECT_EQ(after(6), kNever);
}

// What is used again and again stays warm.
TEST_P(Scavenger, KeepsWhatIsUsed) {
  run([] { use_stacks(); });
  for (int i = 0; i < 4; ++i) {
    run([] { use_stacks(); });
    after(6);
  }
  EXPECT_TRUE(eventually([] { return warm() > 500; })) << warm();
  settle();
}

struct counted {
  static inline std::atomic<int> alive{0};
  counted() { ++alive; }
  counted(const counted&) { ++alive; }
  ~counted() { --alive; }
  counted& operator=(const counted&) = default;
};

// [SM-1] 8: two minutes after the last one, and not before; pools lose a generation each time.
TEST_P(Scavenger, ForcedEveryTwoMinutes) {
  counted::alive = 0;
  pool<counted> values([] { return counted(); });
  const std::uint64_t before = scavengings_done(scavenging::forced);
  after(121);
  all_through(scavenging::forced, before + 1);
  values.put(counted());
  after(100);
  EXPECT_EQ(scavengings_done(scavenging::forced), before + 1);
  EXPECT_EQ(counted::alive, 1);
  after(21);
  all_through(scavenging::forced, before + 2);
  EXPECT_EQ(counted::alive, 1) << "one generation later it is still there";
  after(121);
  all_through(scavenging::forced, before + 3);
  EXPECT_EQ(counted::alive, 0);
  settle();
}

// After a sleep of hours: once, and not once for each two minutes.
TEST_P(Scavenger, CatchesUpOnce) {
  const std::uint64_t before = scavengings_done(scavenging::forced);
  after(36000);
  all_through(scavenging::forced, before + 1);
  EXPECT_TRUE(eventually(nobody_helps));
  after(1);
  EXPECT_TRUE(eventually(nobody_helps));
  EXPECT_EQ(scavengings_done(scavenging::forced), before + 1);
  settle();
}

TEST_P(Scavenger, PressureEmptiesPools) {
  counted::alive = 0;
  pool<counted> values([] { return counted(); });
  values.put(counted());
  after(1);
  EXPECT_EQ(counted::alive, 1);
  const std::uint64_t before = scavengings_done(scavenging::pressure);
  stall(400'000);
  after(1);
  all_through(scavenging::pressure, before + 1);
  EXPECT_EQ(counted::alive, 0) << "all generations";
  values.put(counted());
  after(1);
  EXPECT_EQ(scavengings_done(scavenging::pressure), before + 1) << "it has passed";
  EXPECT_EQ(counted::alive, 1);
  settle();
}

// Nothing to go by: everything else goes on.
TEST_P(Scavenger, WithoutPressureFiles) {
  std::filesystem::remove_all(tree_ + "/proc");
  watch_pressure_in(tree_.c_str());
  const std::uint64_t before = scavengings_done(scavenging::forced);
  after(121);
  all_through(scavenging::forced, before + 1);
  settle();
}

// Its goroutine is the runtime's own affair.
TEST_P(Scavenger, IsNotCounted) {
  const std::uint64_t before = scavengings_done(scavenging::forced);
  run([&] {
    static std::atomic<int> seen;
    seen = 0;
    struct looks {
      ~looks() { seen = runtime::num_goroutine(); }
    };
    pool<std::shared_ptr<looks>> values([] { return nullptr; });
    values.put(std::make_shared<looks>());
    for (std::uint64_t i = 1; seen == 0; ++i) {
      // Who ends is counted off, but not before it was counted.
      EXPECT_TRUE(eventually([] { return nobody_helps() && runtime::num_goroutine() == 1; }));
      after(121);
      all_through(scavenging::forced, before + i);
    }
    EXPECT_EQ(seen, 1) << "the goroutine of run()";
  });
  settle();
}

int goroutines_in(const std::string& report) {
  const std::string text = '\n' + report;
  int shown = 0;
  for (std::size_t at = 0; (at = text.find("\ngoroutine ", at)) != text.npos; ++at) ++shown;
  return shown;
}

std::atomic<bool> helper_works, helper_goes_on;

// … and reports do not have it while it is at work. [CN-2]
TEST_P(Scavenger, IsNotShown) {
  helper_works = helper_goes_on = false;
  run([] {
    {
      const inside here;  // as sysmon
      ASSERT_TRUE(start_helper([](void*) {
        helper_works = true;
        while (!helper_goes_on) gosched();
      }));
    }
    EXPECT_TRUE(eventually([] { return helper_works.load(); }));
    EXPECT_FALSE(nobody_helps());
    const std::string report = runtime::stack(true);
    EXPECT_EQ(goroutines_in(report), 1) << report;
    helper_goes_on = true;
    EXPECT_TRUE(eventually(nobody_helps));
  });
}

// But while it runs a destructor of the program's somebody may wait for that, and look for it.
TEST_P(Scavenger, IsShownInUsersCode) {
  helper_works = helper_goes_on = false;
  struct slow {
    ~slow() {
      helper_works = true;
      while (!helper_goes_on) gosched();
    }
  };
  run([&] {
    pool<std::unique_ptr<slow>> values([] { return nullptr; });
    values.put(std::make_unique<slow>());
    const std::uint64_t before = scavengings_done(scavenging::pressure);
    after(1);
    stall(400'000);
    after(1);
    EXPECT_TRUE(eventually([] { return helper_works.load(); }));
    const std::string report = runtime::stack(true);
    EXPECT_EQ(goroutines_in(report), 2) << report;
    helper_goes_on = true;
    all_through(scavenging::pressure, before + 1);
  });
  settle();
}

// Threads that nobody has needed for long end: whoever calls scavenger_tick() need not know of them (reap_test.cc).
TEST_P(Scavenger, EndsIdleThreads) {
  constexpr int kMany = 60;
  const auto threads = [] {
    const inside here;
    const scoped_lock held(sched.lock);
    return sched.m_count;
  };
  run([] {
    weft::wait_group all_here, gate, ended;
    all_here.add(kMany);
    gate.add(1);
    for (int i = 0; i < kMany; ++i) {
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
  });
  EXPECT_GE(threads(), kMany);
  EXPECT_TRUE(eventually([&] {
    after(3);
    return threads() < kMany / 2;
  })) << threads();
  settle();
}

WEFT_OVER_PROCS(Scavenger);

}  // namespace
}  // namespace weft::rt
