// Members that std's locks and threads have, and that programs seldom use.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include <weft/barrier.h>
#include <weft/condition_variable.h>
#include <weft/future.h>
#include <weft/latch.h>
#include <weft/mutex.h>
#include <weft/once.h>
#include <weft/runtime.h>
#include <weft/semaphore.h>
#include <weft/shared_mutex.h>
#include <weft/stop_token.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

class StdMembers : public weft::test::over_procs {};

// Programs take the addresses of members, for std::bind and the like: each belongs to the class that it is named by.
using cv = weft::condition_variable;
using cv_any = weft::condition_variable_any;
static_assert(std::is_same_v<decltype(&cv::notify_one), void (cv::*)() noexcept>);
static_assert(std::is_same_v<decltype(&cv::notify_all), void (cv::*)() noexcept>);
static_assert(std::is_same_v<decltype(&cv_any::notify_one), void (cv_any::*)() noexcept>);
static_assert(std::is_same_v<decltype(&cv_any::notify_all), void (cv_any::*)() noexcept>);

// <weft/stop_token.h> has what <stop_token> has.
static_assert(std::is_same_v<weft::stop_token, std::stop_token>);
static_assert(std::is_same_v<weft::stop_source, std::stop_source>);
static_assert(std::is_same_v<weft::stop_callback<void (*)()>, std::stop_callback<void (*)()>>);
static_assert(std::is_same_v<weft::nostopstate_t, std::nostopstate_t>);

// Every name that <future>, <thread>, <mutex>, <semaphore>, <latch>, <barrier>, <shared_mutex>, <condition_variable> and
// <stop_token> declare for programs is there; what std has as a template of its own stays std's: hash, uses_allocator, …
// Compiled, not run.
[[maybe_unused]] void all_names() {
  using weft::async, weft::future, weft::packaged_task, weft::promise, weft::shared_future;
  using weft::future_category, weft::future_errc, weft::future_error, weft::future_status,
      weft::launch;
  static_assert(
      std::is_same_v<decltype(weft::make_error_code(future_errc::no_state)), std::error_code>);
  static_assert(std::is_same_v<decltype(weft::make_error_condition(future_errc::no_state)),
                               std::error_condition>);
  promise<int> p, q;
  weft::swap(p, q);
  packaged_task<int()> f, g;
  weft::swap(f, g);

  using weft::jthread, weft::thread;
  using weft::this_thread::get_id, weft::this_thread::sleep_for, weft::this_thread::sleep_until,
      weft::this_thread::yield;
  thread a, b;
  weft::swap(a, b);
  jthread c, d;
  weft::swap(c, d);

  using weft::adopt_lock, weft::defer_lock, weft::try_to_lock;
  using weft::adopt_lock_t, weft::defer_lock_t, weft::try_to_lock_t;
  using weft::call_once, weft::once_flag;
  using weft::lock, weft::lock_guard, weft::scoped_lock, weft::try_lock;
  using weft::mutex, weft::recursive_mutex, weft::recursive_timed_mutex, weft::timed_mutex;
  weft::unique_lock<mutex> l, m;
  weft::swap(l, m);
  using weft::shared_mutex, weft::shared_timed_mutex;
  weft::shared_lock<shared_mutex> r, s;
  weft::swap(r, s);

  using weft::barrier, weft::binary_semaphore, weft::counting_semaphore, weft::latch;
  using weft::condition_variable, weft::condition_variable_any, weft::cv_status,
      weft::notify_all_at_thread_exit;
  using weft::nostopstate, weft::nostopstate_t;
  using weft::stop_callback, weft::stop_source, weft::stop_token;
}

TEST_P(StdMembers, LatchMax) {
  static_assert(weft::latch::max() >= 0x7fff'ffff);
  run([] {
    weft::latch most(weft::latch::max());
    EXPECT_FALSE(most.try_wait());
    most.count_down(weft::latch::max() - 1);
    EXPECT_FALSE(most.try_wait());
    most.count_down();
    EXPECT_TRUE(most.try_wait());
    most.wait();
  });
}

// There is nothing underneath that others know: a handle says which one it is, and stays the same.
TEST_P(StdMembers, NativeHandles) {
  run([] {
    weft::condition_variable a, b;
    const weft::condition_variable::native_handle_type handle = a.native_handle();
    EXPECT_NE(handle, b.native_handle());
    EXPECT_EQ(handle, a.native_handle());

    weft::mutex m;
    weft::timed_mutex timed;
    weft::recursive_mutex again;
    weft::recursive_timed_mutex timed_again;
    weft::shared_mutex shared;
    weft::shared_timed_mutex timed_shared;
    const std::set<void*> all{m.native_handle(),
                              timed.native_handle(),
                              again.native_handle(),
                              timed_again.native_handle(),
                              shared.native_handle(),
                              timed_shared.native_handle(),
                              handle,
                              b.native_handle()};
    EXPECT_EQ(all.size(), 8u);

    weft::jthread none, t([](std::stop_token stop) {
      while (!stop.stop_requested()) weft::this_thread::yield();
    });
    const weft::jthread::native_handle_type of_t = t.native_handle();
    EXPECT_NE(of_t, nullptr);
    EXPECT_EQ(none.native_handle(), nullptr);
    none = std::move(t);
    EXPECT_EQ(none.native_handle(), of_t);
    EXPECT_EQ(t.native_handle(), nullptr);  // NOLINT: moved from
  });
}

// More frames than a stack of the usual size holds.
[[gnu::noinline]] std::size_t use_stack(std::size_t bytes) {
  auto* place = static_cast<volatile char*>(__builtin_alloca(bytes));
  for (std::size_t i = 0; i < bytes; i += 1024) place[bytes - 1 - i] = 1;
  return place[bytes - 1] == 1 ? bytes : 0;
}

TEST_P(StdMembers, JthreadWithAttributes) {
  run([] {
    std::string report;
    std::size_t used = 0;
    {
      const weft::jthread named(
          {.name = "weaver", .stack_size = std::size_t{2} << 20},
          [&](std::stop_token stop, int n) {
            report = weft::runtime::stack(false);
            used = use_stack(std::size_t{1} << 20) + static_cast<std::size_t>(n);
            while (!stop.stop_requested()) weft::this_thread::yield();
          },
          7);
    }
    EXPECT_EQ(used, (std::size_t{1} << 20) + 7);
    EXPECT_NE(report.find("weaver"), std::string::npos) << report;
    int ran = 0;
    weft::jthread plain({.stack_size = 64 << 10}, [&ran] { ++ran; });
    plain.join();
    EXPECT_EQ(ran, 1);
  });
}

// How often it is locked is counted in the last four of its bytes that are used (include/weft/mutex.h); nobody has the
// time to count that far.
template <class Mutex>
void expect_full_at_the_end() {
  struct layout {
    weft::mutex inner;
    std::uint64_t owner;
    std::uint32_t depth;
  };
  static_assert(sizeof(layout) == sizeof(Mutex));
  Mutex m;
  m.lock();
  auto* const depth = reinterpret_cast<unsigned char*>(&m) + offsetof(layout, depth);
  std::uint32_t one = 0;
  std::memcpy(&one, depth, sizeof one);
  ASSERT_EQ(one, 1u);
  const std::uint32_t most = UINT32_MAX;
  const std::uint32_t all_but_one = most - 1;
  std::memcpy(depth, &all_but_one, sizeof all_but_one);
  EXPECT_TRUE(m.try_lock()) << "the last one";
  EXPECT_FALSE(m.try_lock());
  static_assert(noexcept(m.try_lock()));
  try {
    m.lock();
    ADD_FAILURE() << "more than can be counted";
  } catch (const std::system_error& e) {
    EXPECT_EQ(e.code(), std::errc::resource_unavailable_try_again);
  }
  std::uint32_t still = 0;
  std::memcpy(&still, depth, sizeof still);
  EXPECT_EQ(still, most) << "as it was";
  std::memcpy(depth, &one, sizeof one);
  m.unlock();
  std::thread other([&m] {
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
  other.join();
}

TEST_P(StdMembers, RecursiveMutexIsFull) {
  run([] {
    expect_full_at_the_end<weft::recursive_mutex>();
    expect_full_at_the_end<weft::recursive_timed_mutex>();
  });
}

// What is constant is there before any constructor runs, so that those may use it, whatever their order.
extern weft::mutex early_mutex;
extern weft::shared_mutex early_shared;
extern weft::wait_group early_group;
extern weft::binary_semaphore early_semaphore;
extern weft::latch early_latch;

struct early_user {
  early_user() {
    early_mutex.lock();
    early_shared.lock_shared();
    early_group.add();
    early_semaphore.release();
    early_latch.count_down();
  }
} const before_all_others;

weft::mutex early_mutex;
weft::shared_mutex early_shared;
weft::wait_group early_group;
weft::binary_semaphore early_semaphore{0};
weft::latch early_latch{1};

TEST(StdMembersBeforeMain, StaticObjectsAreConstant) {
  EXPECT_FALSE(early_mutex.try_lock());
  early_mutex.unlock();
  EXPECT_FALSE(early_shared.try_lock());
  early_shared.unlock_shared();
  EXPECT_FALSE(early_group.wait_for(std::chrono::nanoseconds(1)));
  early_group.done();
  EXPECT_TRUE(early_semaphore.try_acquire());
  EXPECT_TRUE(early_latch.try_wait());
}

WEFT_OVER_PROCS(StdMembers);

}  // namespace
