// weft::thread, jthread and this_thread: std's expectations, so that s/std::/weft::/ compiles and
// behaves. design.md 1 rule 1.
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <sstream>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/child.h"
#include "support/fixture.h"

namespace {

class Thread : public weft::test::over_procs {};

static_assert(!std::is_copy_constructible_v<weft::thread>);
static_assert(!std::is_copy_assignable_v<weft::thread>);
static_assert(std::is_nothrow_move_constructible_v<weft::thread>);
static_assert(std::is_nothrow_move_assignable_v<weft::thread>);
static_assert(std::is_nothrow_default_constructible_v<weft::thread>);
static_assert(!std::is_convertible_v<void (*)(), weft::thread>, "explicit");
static_assert(std::is_nothrow_move_constructible_v<weft::jthread>);
static_assert(!std::is_copy_constructible_v<weft::jthread>);
static_assert(std::is_trivially_copyable_v<weft::thread::id>);
static_assert(std::is_same_v<weft::jthread::id, weft::thread::id>);

// The body of a test on a goroutine and on a plain thread: both may do everything.
template <class F>
void everywhere(int procs, F&& f) {
  weft::run([&f] { f(); }, {.max_procs = procs});
  f();
}

TEST_P(Thread, RunsAndIsJoined) {
  everywhere(procs(), [] {
    int n = 0;
    weft::thread t([&n](int a, std::unique_ptr<int> b) { n = a + *b; }, 1,
                   std::make_unique<int>(2));
    EXPECT_TRUE(t.joinable());
    t.join();
    EXPECT_FALSE(t.joinable());
    EXPECT_EQ(n, 3);
  });
}

// What a program for std::thread typically does: split, join, add up.
TEST_P(Thread, ParallelSum) {
  everywhere(procs(), [] {
    std::vector<long> numbers(100000);
    std::iota(numbers.begin(), numbers.end(), 1);
    constexpr std::size_t kParts = 8;
    std::vector<long> sums(kParts);
    std::vector<weft::thread> threads;
    for (std::size_t i = 0; i < kParts; ++i) {
      threads.emplace_back([&, i] {
        const auto part = static_cast<std::ptrdiff_t>(numbers.size() / kParts);
        const auto from = numbers.begin() + static_cast<std::ptrdiff_t>(i) * part;
        sums[i] = std::accumulate(from, from + part, 0L);
      });
    }
    for (auto& t : threads) t.join();
    EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), 0L), 100000L * 100001 / 2);
  });
}

TEST_P(Thread, MovesAndSwaps) {
  everywhere(procs(), [] {
    std::atomic<int> n{0};
    weft::thread a([&n] { ++n; });
    const auto id = a.get_id();
    weft::thread b(std::move(a));
    EXPECT_FALSE(a.joinable());  // NOLINT: what is left of it is the point
    EXPECT_EQ(a.get_id(), weft::thread::id());
    EXPECT_EQ(b.get_id(), id);
    a = std::move(b);
    EXPECT_EQ(a.get_id(), id);
    weft::thread c;
    swap(a, c);
    c.swap(a);
    std::swap(a, c);
    EXPECT_FALSE(a.joinable());
    EXPECT_EQ(c.get_id(), id);
    EXPECT_NE(c.native_handle(), nullptr);
    c.join();
    EXPECT_EQ(n, 1);
    std::vector<weft::thread> many;
    for (int i = 0; i < 50; ++i) many.push_back(weft::thread([&n] { ++n; }));
    for (auto& t : many) t.join();
    EXPECT_EQ(n, 51);
  });
}

template <class F>
std::error_code error_of(F&& f) {
  try {
    f();
  } catch (const std::system_error& e) {
    return e.code();
  }
  return {};
}

// join: invalid_argument if not joinable, resource_deadlock_would_occur for oneself
TEST_P(Thread, Errors) {
  everywhere(procs(), [] {
    weft::thread none;
    EXPECT_EQ(error_of([&] { none.join(); }), std::errc::invalid_argument);
    EXPECT_EQ(error_of([&] { none.detach(); }), std::errc::invalid_argument);
    weft::thread t([] {});
    t.join();
    EXPECT_EQ(error_of([&] { t.join(); }), std::errc::invalid_argument);
    std::atomic<bool> ready{false};
    std::error_code self;
    weft::thread me;
    me = weft::thread([&] {
      EXPECT_TRUE(weft::test::eventually([&] { return ready.load(); }));
      self = error_of([&] { me.join(); });
    });
    ready = true;
    // me is read by the goroutine and by us, as in std; the join below is the first change.
    me.join();
    EXPECT_EQ(self, std::errc::resource_deadlock_would_occur);
  });
}

TEST_P(Thread, Detach) {
  everywhere(procs(), [] {
    auto shared = std::make_shared<std::atomic<int>>(0);
    for (int i = 0; i < 100; ++i) {
      weft::thread t([shared, i] {
        if (i % 2 == 0) weft::gosched();
        ++*shared;
      });
      if (i % 3 == 0) weft::gosched();  // detached before and after its end
      t.detach();
      EXPECT_FALSE(t.joinable());
    }
    EXPECT_TRUE(weft::test::eventually([&] { return *shared == 100; }));
    EXPECT_TRUE(weft::test::eventually([&] { return shared.use_count() == 1; }));
  });
}

TEST_P(Thread, Ids) {
  everywhere(procs(), [] {
    const auto mine = weft::this_thread::get_id();
    EXPECT_EQ(mine, weft::this_thread::get_id());
    EXPECT_NE(mine, weft::thread::id());
    std::set<weft::thread::id> ordered{mine};
    std::unordered_set<weft::thread::id> hashed{mine};
    std::vector<weft::thread> threads;
    std::vector<weft::thread::id> seen(20);
    for (std::size_t i = 0; i < 20; ++i) {
      threads.emplace_back([&seen, i] {
        seen[i] = weft::this_thread::get_id();
        weft::this_thread::yield();
        EXPECT_EQ(seen[i], weft::this_thread::get_id());
      });
    }
    for (std::size_t i = 0; i < 20; ++i) {
      const auto id = threads[i].get_id();
      ordered.insert(id);
      hashed.insert(id);
      threads[i].join();
      EXPECT_EQ(seen[i], id);
      EXPECT_EQ(threads[i].get_id(), weft::thread::id());
    }
    EXPECT_EQ(ordered.size(), 21u);
    EXPECT_EQ(hashed.size(), 21u);
    EXPECT_EQ(std::hash<weft::thread::id>()(mine), std::hash<weft::thread::id>()(mine));
    std::ostringstream out, again, none;
    out << mine;
    again << weft::this_thread::get_id();
    none << weft::thread::id();
    EXPECT_EQ(out.str(), again.str());
    EXPECT_FALSE(out.str().empty());
    EXPECT_EQ(none.str(), "thread::id of a non-executing thread");
    EXPECT_TRUE((weft::thread::id() <=> weft::thread::id()) == 0);
  });
}

// "Differs between any two goroutines and plain threads alive."
TEST_P(Thread, IdsOfPlainThreads) {
  const auto mine = weft::this_thread::get_id();
  weft::thread::id other;
  std::thread([&other] { other = weft::this_thread::get_id(); }).join();
  EXPECT_NE(mine, other);
  run([mine] { EXPECT_NE(weft::this_thread::get_id(), mine); });
}

TEST_P(Thread, HardwareConcurrency) {
  EXPECT_EQ(weft::thread::hardware_concurrency(), static_cast<unsigned>(weft::runtime::num_cpu()));
  EXPECT_GE(weft::jthread::hardware_concurrency(), 1u);
}

// join() synchronises: what the goroutine wrote, plainly, is there.
TEST_P(Thread, JoinPublishes) {
  everywhere(procs(), [] {
    for (int i = 0; i < weft::test::scaled(2000, 50); ++i) {
      int n = 0;
      weft::thread t([&n, i] { n = i; });
      if (i % 2 == 0) weft::gosched();
      t.join();
      ASSERT_EQ(n, i);
    }
  });
}

// A chain in which everybody joins the previous one.
TEST_P(Thread, JoinFromThreads) {
  everywhere(procs(), [] {
    int last = 0;
    weft::thread previous([&last] { last = 1; });
    for (int i = 0; i < 200; ++i) {
      previous = weft::thread([&last, p = std::move(previous)]() mutable {
        p.join();
        ++last;
      });
    }
    previous.join();
    EXPECT_EQ(last, 201);
  });
}

// A plain thread joins what goroutines started, and the other way round.
TEST_P(Thread, JoinAcross) {
  weft::thread made_here([] { weft::gosched(); });
  run([&] {
    made_here.join();
    made_here = weft::thread([] { weft::gosched(); });
  });
  made_here.join();
}

// --- jthread ------------------------------------------------------------------------------------

TEST_P(Thread, JthreadJoinsInItsDestructor) {
  everywhere(procs(), [] {
    std::atomic<int> n{0};
    {
      const weft::jthread t([&n] {
        weft::gosched();
        ++n;
      });
      EXPECT_TRUE(t.joinable());
    }
    EXPECT_EQ(n, 1);
  });
}

TEST_P(Thread, JthreadStops) {
  everywhere(procs(), [] {
    std::atomic<long> ticks{0};
    {
      weft::jthread t(
          [&ticks](std::stop_token token, int step) {
            while (!token.stop_requested()) {
              ticks += step;
              weft::this_thread::yield();
            }
          },
          2);
      EXPECT_TRUE(weft::test::eventually([&] { return ticks > 10; }));
      EXPECT_FALSE(t.get_stop_token().stop_requested());
    }
    const long at_end = ticks;
    weft::gosched();
    EXPECT_EQ(ticks, at_end);
    weft::jthread t([](std::stop_token token) {
      while (!token.stop_requested()) weft::this_thread::yield();
    });
    EXPECT_TRUE(t.get_stop_source().stop_possible());
    EXPECT_TRUE(t.request_stop());
    EXPECT_FALSE(t.request_stop()) << "only the first one";
    t.join();
    EXPECT_FALSE(t.joinable());
  });
}

TEST_P(Thread, JthreadMoves) {
  everywhere(procs(), [] {
    std::atomic<int> stopped{0};
    const auto body = [&stopped](const std::stop_token& token) {
      while (!token.stop_requested()) weft::this_thread::yield();
      ++stopped;
    };
    weft::jthread a(body), b(body);
    EXPECT_NE(a.get_id(), b.get_id());
    const auto id = b.get_id();
    a = std::move(b);
    EXPECT_EQ(stopped, 1) << "assignment stops and joins the old one";
    EXPECT_EQ(a.get_id(), id);
    swap(a, b);
    EXPECT_EQ(b.get_id(), id);
    weft::jthread none;
    EXPECT_FALSE(none.get_stop_source().stop_possible());
    EXPECT_FALSE(none.request_stop());
    b.request_stop();
    b.detach();
    EXPECT_TRUE(weft::test::eventually([&] { return stopped == 2; }));
  });
}

WEFT_OVER_PROCS(Thread);

// --- std::terminate -------------------------------------------------------------------------------

void destroy_joinable() {
  const weft::thread t([] {});
}
void assign_to_joinable() {
  weft::thread t([] {});
  t = weft::thread([] {});
}
WEFT_CHILD(destroys_joinable) { return weft::run(destroy_joinable); }
WEFT_CHILD(assigns_to_joinable) { return weft::run(assign_to_joinable); }
WEFT_CHILD(destroys_joinable_on_plain_thread) {
  std::set_terminate([] { _exit(77); });
  destroy_joinable();
  return 1;
}
WEFT_CHILD(assigns_to_joinable_on_plain_thread) {
  std::set_terminate([] { _exit(77); });
  assign_to_joinable();
  return 1;
}

// std::terminate: a panic report on a goroutine, the program's own handler on a plain thread.
TEST(ThreadProcess, DestroyingAJoinableOneTerminates) {
  for (const char* name : {"destroys_joinable", "assigns_to_joinable"}) {
    const weft::test::child_result r = weft::test::run_child(name);
    EXPECT_EQ(r.status, 2);
    EXPECT_EQ(r.output.substr(0, 7), "panic: ");
    EXPECT_EQ(weft::test::run_child(name + std::string("_on_plain_thread")).status, 77);
  }
}

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
