// Why a context was cancelled, in every shape of tree, and sleeps that end with one. Go: TestCause, TestCauseRace
#include <chrono>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include <weft/context.h>
#include <weft/go.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/slow_clock.h"

namespace {

using namespace std::chrono_literals;
using weft::context;
using weft::with_cancel;
using weft::with_cancel_cause;
using weft::test::scaled;
using weft::test::slow_clock;

class ContextCause : public weft::test::over_procs {};

std::string text_of(const std::exception_ptr& e) {
  if (e == nullptr) return "none";
  try {
    std::rethrow_exception(e);
  } catch (const std::exception& x) {
    return x.what();
  }
}
std::exception_ptr reason(const char* text) {
  return std::make_exception_ptr(std::runtime_error(text));
}

const char* const kCanceled = "context canceled";
const char* const kLate = "context deadline exceeded";

void expect(const context& c, std::errc error, const char* cause) {
  EXPECT_EQ(c.err(), error);
  EXPECT_EQ(text_of(c.cause()), cause);
}
void expect_alive(const context& c) {
  EXPECT_FALSE(c.err());
  EXPECT_EQ(c.cause(), nullptr);
}

// 216
TEST_P(ContextCause, NobodyAndNothing) {
  run([] {
    expect_alive(context::background());
    auto [plain, cancel_plain] = with_cancel(context::background());
    auto [silent, cancel_silent] = with_cancel_cause(context::background());
    auto [speaks, cancel_speaks] = with_cancel_cause(context::background());
    expect_alive(plain);
    expect_alive(speaks);
    cancel_plain();
    cancel_silent(nullptr);
    cancel_speaks(reason("because"));
    cancel_speaks(reason("too late"));
    expect(plain, std::errc::operation_canceled, kCanceled);
    expect(silent, std::errc::operation_canceled, kCanceled);
    expect(speaks, std::errc::operation_canceled, "because");
  });
}

// 216: the first word in a line of ancestors counts, for all below it.
TEST_P(ContextCause, ParentAndChild) {
  run([] {
    {
      auto [parent, cancel_parent] = with_cancel_cause(context::background());
      auto [child, cancel_child] = with_cancel(parent);
      cancel_parent(reason("parent"));
      cancel_child();
      expect(parent, std::errc::operation_canceled, "parent");
      expect(child, std::errc::operation_canceled, "parent");
    }
    {
      auto [parent, cancel_parent] = with_cancel(context::background());
      auto [child, cancel_child] = with_cancel_cause(parent);
      cancel_parent();
      cancel_child(reason("child"));
      expect(child, std::errc::operation_canceled, kCanceled);
    }
    {
      auto [parent, cancel_parent] = with_cancel_cause(context::background());
      auto [child, cancel_child] = with_cancel_cause(parent);
      cancel_child(reason("child"));
      expect_alive(parent);
      cancel_parent(reason("parent"));
      expect(child, std::errc::operation_canceled, "child");
      expect(parent, std::errc::operation_canceled, "parent");
    }
    {
      auto [parent, cancel_parent] = with_cancel_cause(context::background());
      cancel_parent(reason("before"));
      auto [child, cancel_child] = with_cancel_cause(parent);
      expect(child, std::errc::operation_canceled, "before");
      cancel_child(reason("child"));
      expect(child, std::errc::operation_canceled, "before");
    }
    {
      auto [parent, cancel_parent] = with_cancel_cause(context::background());
      auto [child, cancel_child] = with_cancel(parent);
      cancel_child();
      expect(child, std::errc::operation_canceled, kCanceled);
      expect_alive(parent);
      cancel_parent(reason("parent"));
      expect(child, std::errc::operation_canceled, kCanceled);
    }
  });
}

// 216: values and contexts without cancellation in between.
TEST_P(ContextCause, ThroughOthers) {
  struct key {
    using type = int;
  };
  run([] {
    auto [top, cancel_top] = with_cancel_cause(context::background());
    const context valued = weft::with_value<key>(top, 1);
    auto [below, cancel_below] = with_cancel(valued);
    const context apart = weft::without_cancel(below);
    auto [free, cancel_free] = with_cancel_cause(apart);
    cancel_top(reason("top"));
    expect(valued, std::errc::operation_canceled, "top");
    expect(below, std::errc::operation_canceled, "top");
    expect_alive(apart);
    expect_alive(free);
    cancel_free(reason("free"));
    expect(free, std::errc::operation_canceled, "free");
    expect_alive(apart);
    EXPECT_EQ(*free.value<key>(), 1);
    cancel_below();
  });
}

// 216: a deadline has a cause of its own, which counts if it is the deadline that ends it.
TEST_P(ContextCause, Deadlines) {
  run([] {
    const auto soon = [] { return weft::clock::now() + 1ms; };
    auto [by_time, cancel_1] =
        weft::with_deadline_cause(context::background(), soon(), reason("late"));
    by_time.done().recv();
    cancel_1();
    expect(by_time, std::errc::timed_out, "late");

    auto [by_wall, cancel_2] = weft::with_deadline_cause(
        context::background(), std::chrono::system_clock::now() + 1ms, reason("late"));
    by_wall.done().recv();
    expect(by_wall, std::errc::timed_out, "late");

    auto [passed, cancel_3] = weft::with_deadline_cause(
        context::background(), weft::clock::now() - 1s, reason("long ago"));
    expect(passed, std::errc::timed_out, "long ago");
    EXPECT_TRUE(passed.done().try_recv().closed());

    auto [without, cancel_4] = weft::with_deadline(context::background(), soon());
    without.done().recv();
    expect(without, std::errc::timed_out, kLate);

    auto [in_time, cancel_5] =
        weft::with_deadline_cause(context::background(), weft::clock::now() + 1h, reason("late"));
    EXPECT_NE(in_time.deadline(), std::nullopt);
    cancel_5();
    expect(in_time, std::errc::operation_canceled, kCanceled);

    // A child's deadline, and its parent's cause; a parent's deadline, and its child.
    auto [parent, cancel_parent] = with_cancel_cause(context::background());
    auto [child, cancel_6] =
        weft::with_deadline_cause(parent, weft::clock::now() + 1h, reason("late"));
    cancel_parent(reason("parent"));
    expect(child, std::errc::operation_canceled, "parent");
    auto [timed, cancel_7] = weft::with_timeout_cause(context::background(), 1ms, reason("late"));
    auto [grandchild, cancel_8] = with_cancel_cause(timed);
    grandchild.done().recv();
    cancel_8(reason("child"));
    expect(grandchild, std::errc::timed_out, "late");
    cancel_2();
    cancel_3();
    cancel_4();
    cancel_6();
    cancel_7();
  });
}

// Go: TestCauseRace: as soon as there is an error there is a cause, and it stays the same.
TEST_P(ContextCause, Race) {
  run([] {
    for (weft::test::budget b(scaled(500, 20)); b.next();) {
      auto [ctx, cancel] = with_cancel_cause(context::background());
      auto [child, cancel_child] = with_cancel_cause(ctx);
      weft::wait_group wg;
      for (const char* const who : {"one", "two"}) {
        wg.go([who, cancel = cancel] { cancel(reason(who)); });
      }
      wg.go([cancel_child = cancel_child] { cancel_child(reason("child")); });
      for (const context& c : {ctx, child}) {
        wg.go([c] {
          while (!c.err()) {
            const std::exception_ptr early = c.cause();  // perhaps already
            weft::gosched();
            if (early != nullptr) {
              EXPECT_EQ(c.cause(), early);
            }
          }
          const std::exception_ptr cause = c.cause();
          ASSERT_NE(cause, nullptr);
          weft::gosched();
          EXPECT_EQ(c.cause(), cause);
        });
      }
      wg.wait();
      EXPECT_NE(text_of(ctx.cause()), "child");
      EXPECT_NE(text_of(child.cause()), kCanceled);
    }
  });
}

TEST_P(ContextCause, SleepUntil) {
  const auto body = [] {
    const auto t = weft::clock::now() + 2ms;
    EXPECT_FALSE(weft::sleep_until(context::background(), t));  // sleep-ok: the subject
    EXPECT_GE(weft::clock::now(), t);
    auto [ctx, cancel] = with_cancel(context::background());
    const auto wall = std::chrono::system_clock::now() + 2ms;
    EXPECT_FALSE(weft::sleep_until(ctx, wall));  // sleep-ok: the subject
    EXPECT_GE(std::chrono::system_clock::now(), wall);
    const auto slow = slow_clock::now() + 2ms;
    EXPECT_FALSE(weft::sleep_until(ctx, slow));  // sleep-ok: the subject
    EXPECT_GE(slow_clock::now(), slow) << "what the caller's clock says counts";
    EXPECT_FALSE(weft::sleep_until(ctx, weft::clock::now() - 1h));  // sleep-ok: the subject
    weft::thread sleeper([ctx = ctx] {
      EXPECT_EQ(weft::sleep_until(ctx, weft::clock::now() + 1h),  // sleep-ok: the subject
                std::errc::operation_canceled);
      EXPECT_EQ(weft::sleep_until(ctx, slow_clock::now() + 1h),  // sleep-ok: the subject
                std::errc::operation_canceled);
    });
    cancel();
    sleeper.join();
    auto [brief, cancel_brief] = weft::with_timeout(context::background(), 1ms);
    EXPECT_EQ(weft::sleep_until(brief, weft::clock::now() + 1h),  // sleep-ok: the subject
              std::errc::timed_out);
    cancel_brief();
  };
  run(body);
  body();
}

WEFT_OVER_PROCS(ContextCause);

}  // namespace
