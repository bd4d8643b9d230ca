// The list of idle Ms: the last to come is the first to go, and any may leave from where it is. Go: TestListManual
#include <gtest/gtest.h>
#include <memory>
#include <vector>

#include <weft/thread.h>

#include "gmp/inside.h"
#include "gmp/m.h"
#include "gmp/sched.h"
#include "sched/sched_api.h"
#include "support/fixture.h"

namespace weft::rt {
namespace {

// Ms of our own on an empty list, in place of the real one; nobody else looks while we hold the lock.
class IdleList : public weft::test::runtime_test {
 protected:
  static constexpr int kMs = 4;

  template <class F>
  void with_list(F f) {
    weft::thread([] {}).join();  // there is a scheduler
    const inside here;
    const scoped_lock held(sched.lock);
    M* const real = sched.idle_ms;
    M* const watcher = sched.timer_watcher;
    M* const poller = sched.poller;
    const std::int32_t real_count = sched.idle_m_count;
    sched.idle_ms = nullptr;
    sched.timer_watcher = nullptr;
    sched.poller = nullptr;
    sched.idle_m_count = 0;
    f();
    sched.idle_ms = real;
    sched.timer_watcher = watcher;
    sched.poller = poller;
    sched.idle_m_count = real_count;
  }

  void put_all() WEFT_REQUIRES(sched.lock) {
    for (auto& m : ms_) {
      m = std::make_unique<M>();
      idle_m_put(m.get());
    }
  }
  M* m(int i) { return ms_[static_cast<std::size_t>(i)].get(); }

  // The list has these, in this order, both ways.
  void expect_list(const std::vector<int>& expected) WEFT_REQUIRES(sched.lock) {
    EXPECT_EQ(sched.idle_m_count, static_cast<int>(expected.size()));
    M* at = sched.idle_ms;
    M* before = nullptr;
    for (const int i : expected) {
      ASSERT_EQ(at, m(i));
      EXPECT_EQ(at->idle_prev, before);
      EXPECT_TRUE(at->is_idle);
      before = at;
      at = at->idle_next;
    }
    EXPECT_EQ(at, nullptr);
  }
  void remove(int i) WEFT_REQUIRES(sched.lock) {
    idle_m_remove(m(i));
    EXPECT_FALSE(m(i)->is_idle);
    EXPECT_EQ(m(i)->idle_next, nullptr);
    EXPECT_EQ(m(i)->idle_prev, nullptr);
  }

 private:
  std::unique_ptr<M> ms_[kMs];
};

TEST_F(IdleList, LastInFirstOut) {
  with_list([this]() WEFT_REQUIRES(sched.lock) {
    EXPECT_EQ(idle_m_get(), nullptr);
    put_all();
    expect_list({3, 2, 1, 0});
    for (int i = kMs - 1; i >= 0; --i) EXPECT_EQ(idle_m_get(), m(i));
    EXPECT_EQ(idle_m_get(), nullptr);
    expect_list({});
  });
}

TEST_F(IdleList, RemovedFromAnywhere) {
  with_list([this]() WEFT_REQUIRES(sched.lock) {
    put_all();
    remove(3);  // the head
    expect_list({2, 1, 0});
    remove(1);  // in the middle
    expect_list({2, 0});
    remove(0);  // the tail
    expect_list({2});
    remove(2);  // the only one
    expect_list({});
    idle_m_put(m(1));
    idle_m_put(m(3));
    expect_list({3, 1});
    remove(1);
    remove(3);
    expect_list({});
  });
}

// Whoever watches timers, or descriptors, goes last.
TEST_F(IdleList, WatchersGoLast) {
  with_list([this]() WEFT_REQUIRES(sched.lock) {
    put_all();
    sched.timer_watcher = m(3);
    sched.poller = m(2);
    EXPECT_EQ(idle_m_get(), m(1));
    EXPECT_EQ(idle_m_get(), m(0));
    expect_list({3, 2});
    EXPECT_EQ(idle_m_get(), m(2)) << "the last of all is taken nevertheless";
    EXPECT_EQ(idle_m_get(), m(3));
  });
}

}  // namespace
}  // namespace weft::rt
