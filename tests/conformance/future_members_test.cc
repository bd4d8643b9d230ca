// Futures, promises and tasks: the members of std that programs seldom use.
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include <weft/future.h>
#include <weft/go.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/slow_clock.h"

namespace {

using namespace std::chrono_literals;
using weft::future_errc;
using weft::future_error;
using weft::future_status;

class FutureMembers : public weft::test::over_procs {};

// What make() arranges in a goroutine is not ready before that has ended; then look() judges it. For a shared future it
// is a plain thread.
template <class Future, class Make, class Look>
void expect_at_exit(Future f, Make make, Look look) {
  weft::wait_group made, go_on;
  made.add(1);
  go_on.add(1);
  const auto body = [&] {
    make();
    made.done();
    go_on.wait();
  };
  const auto judge = [&](auto& t) {
    made.wait();
    EXPECT_EQ(f.wait_for(0s), future_status::timeout);
    go_on.done();
    look(f);
    t.join();
  };
  if constexpr (std::is_copy_constructible_v<Future>) {
    std::thread t(body);
    judge(t);
  } else {
    weft::thread t(body);
    judge(t);
  }
}

TEST_P(FutureMembers, ExceptionAtThreadExit) {
  run([] {
    const auto refuse = [](auto& p) {
      p.set_exception_at_thread_exit(std::make_exception_ptr(std::runtime_error("late")));
    };
    const auto thrown = [](auto& f) { EXPECT_THROW(f.get(), std::runtime_error); };
    weft::promise<int> p;
    expect_at_exit(
        p.get_future(), [&] { refuse(p); }, thrown);
    EXPECT_THROW(p.set_value(1), future_error) << "it is satisfied";
    weft::promise<void> q;
    expect_at_exit(
        q.get_future().share(), [&] { refuse(q); }, thrown);
  });
}

TEST_P(FutureMembers, ValuesAtThreadExit) {
  run([] {
    weft::promise<std::string> copied;
    const std::string text = "kept";
    expect_at_exit(
        copied.get_future(), [&] { copied.set_value_at_thread_exit(text); },
        [](auto& f) { EXPECT_EQ(f.get(), "kept"); });
    EXPECT_EQ(text, "kept");
    weft::promise<std::unique_ptr<int>> moved;
    expect_at_exit(
        moved.get_future(), [&] { moved.set_value_at_thread_exit(std::make_unique<int>(3)); },
        [](auto& f) { EXPECT_EQ(*f.get(), 3); });
    int object = 0;
    weft::promise<int&> reference;
    expect_at_exit(
        reference.get_future(), [&] { reference.set_value_at_thread_exit(object); },
        [&](auto& f) { EXPECT_EQ(&f.get(), &object); });
    weft::promise<int&> by_a_thread;
    expect_at_exit(
        by_a_thread.get_future().share(), [&] { by_a_thread.set_value_at_thread_exit(object); },
        [&](auto& f) { EXPECT_EQ(&f.get(), &object); });
  });
}

TEST_P(FutureMembers, SharedReferenceAndVoid) {
  run([] {
    int object = 0;
    weft::promise<int&> p;
    const weft::shared_future<int&> s = p.get_future().share();
    static_assert(std::is_same_v<decltype(s.get()), int&>);
    static_assert(std::is_same_v<decltype(weft::shared_future<int>().get()), const int&>);
    static_assert(std::is_void_v<decltype(weft::shared_future<void>().get())>);
    weft::wait_group wg;
    for (int i = 0; i < 4; ++i) wg.go([s, &object] { EXPECT_EQ(&s.get(), &object); });
    p.set_value(object);
    wg.wait();
    s.get() = 5;
    EXPECT_EQ(object, 5);

    weft::promise<void> v;
    const weft::shared_future<void> all(v.get_future());
    const weft::shared_future<void> copy = all;
    weft::go([&v] { v.set_value(); });
    all.get();
    copy.get();
    EXPECT_TRUE(all.valid());
  });
}

TEST_P(FutureMembers, SharedWaitsWithALimit) {
  run([] {
    weft::promise<int> p;
    const weft::shared_future<int> s = p.get_future().share();
    auto t = std::chrono::steady_clock::now() + 1ms;
    EXPECT_EQ(s.wait_until(t), future_status::timeout);
    EXPECT_GE(std::chrono::steady_clock::now(), t);
    EXPECT_EQ(s.wait_until(std::chrono::system_clock::now() + 1ms), future_status::timeout);
    const auto slow = weft::test::slow_clock::now() + 2ms;
    EXPECT_EQ(s.wait_until(slow), future_status::timeout);
    EXPECT_GE(weft::test::slow_clock::now(), slow) << "what the caller's clock says counts";
    weft::go([&p] { p.set_value(4); });
    EXPECT_EQ(s.wait_until(std::chrono::steady_clock::now() + 1h), future_status::ready);
    EXPECT_EQ(s.wait_until(std::chrono::system_clock::now() - 1h), future_status::ready);
    EXPECT_EQ(s.get(), 4);

    const weft::shared_future<int> later =
        weft::async(weft::launch::deferred, [] { return 6; }).share();
    EXPECT_EQ(later.wait_until(std::chrono::steady_clock::now() + 1h), future_status::deferred);
    EXPECT_EQ(later.get(), 6);
  });
}

TEST_P(FutureMembers, PromisesAreSwapped) {
  run([] {
    weft::promise<int> a, b, none(std::move(b));
    none = weft::promise<int>();
    auto fa = a.get_future();
    auto fn = none.get_future();
    a.swap(none);
    none.set_value(1);
    EXPECT_EQ(fa.get(), 1);
    using std::swap;
    swap(a, b);  // b has no state
    EXPECT_THROW(a.set_value(2), future_error);
    b.set_value(3);
    EXPECT_EQ(fn.get(), 3);
    static_assert(noexcept(a.swap(b))&& noexcept(swap(a, b)));
  });
}

TEST_P(FutureMembers, TasksAreSwapped) {
  run([] {
    weft::packaged_task<int()> one([] { return 1; }), two([] { return 2; }), none;
    auto first = one.get_future();
    auto second = two.get_future();
    one.swap(two);
    one();
    EXPECT_EQ(second.get(), 2) << "the function went with its result";
    using std::swap;
    swap(two, none);
    EXPECT_FALSE(two.valid());
    none();
    EXPECT_EQ(first.get(), 1);
    static_assert(noexcept(one.swap(two))&& noexcept(swap(one, two)));
  });
}

TEST_P(FutureMembers, WithAnAllocator) {
  using allocator = std::allocator<int>;
  static_assert(std::uses_allocator_v<weft::promise<int>, allocator>);
  static_assert(std::uses_allocator_v<weft::promise<int&>, allocator>);
  static_assert(std::uses_allocator_v<weft::promise<void>, allocator>);
  static_assert(std::uses_allocator_v<weft::packaged_task<int(int)>, allocator>);
  run([] {
    weft::promise<int> p(std::allocator_arg, allocator());
    weft::promise<int&> r(std::allocator_arg, allocator());
    weft::promise<void> v(std::allocator_arg, allocator());
    weft::packaged_task<int(int)> task(std::allocator_arg, allocator(), [](int n) { return -n; });
    auto fp = p.get_future();
    auto fr = r.get_future();
    auto fv = v.get_future();
    auto ft = task.get_future();
    int object = 0;
    p.set_value(1);
    r.set_value(object);
    v.set_value();
    task(2);
    EXPECT_EQ(fp.get(), 1);
    EXPECT_EQ(&fr.get(), &object);
    fv.get();
    EXPECT_EQ(ft.get(), -2);
    EXPECT_THROW(p.set_value(2), future_error);
  });
}

TEST_P(FutureMembers, Errors) {
  EXPECT_EQ(&weft::future_category(), &std::future_category());
  const std::error_code code = make_error_code(future_errc::broken_promise);
  EXPECT_EQ(code.category(), weft::future_category());
  EXPECT_STREQ(code.category().name(), "future");
  run([] {
    weft::shared_future<int> broken;
    {
      weft::promise<int> p;
      broken = p.get_future();
    }
    for (int i = 0; i < 2; ++i) {
      try {
        broken.get();
        ADD_FAILURE() << "should throw";
      } catch (const future_error& e) {
        EXPECT_EQ(e.code(), future_errc::broken_promise);
        EXPECT_EQ(e.code().category(), weft::future_category());
      }
    }
    EXPECT_TRUE(broken.valid());
    EXPECT_THROW(weft::shared_future<int&>().wait(), future_error);
  });
}

WEFT_OVER_PROCS(FutureMembers);

}  // namespace
