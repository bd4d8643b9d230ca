// Exhaustive model of base/lock.h (futex_lock) on the modelled futex.
//
// Mutual exclusion, no sleeper left behind, and the next holder sees what the last one wrote.
#include <gtest/gtest.h>

#include "base/lock.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

struct state {
  rt::futex_lock lock;
  rt::cell<int> count;  // race-checked: two holders at once would be seen

  void add() {
    lock.lock();
    count.set(count.get() + 1);
    lock.unlock();
  }
};

void contenders(world& w, int n, int rounds) {
  auto* s = w.make<state>();
  static const char* const kNames[] = {"A", "B", "C"};
  for (int t = 0; t < n; ++t) {
    w.thread(kNames[t], [s, rounds] {
      for (int i = 0; i < rounds; ++i) s->add();
    });
  }
  w.finally([s, n, rounds] {
    check(s->count.get() == n * rounds, "an update was lost");
    check(s->lock.try_lock(), "the lock was left held");
  });
}

void try_lock(world& w) {
  auto* s = w.make<state>();
  w.thread("A", [s] { s->add(); });
  w.thread("B", [s] {
    if (!s->lock.try_lock()) return;
    s->count.set(s->count.get() + 1);
    s->lock.unlock();
  });
  w.thread("C", [s] { s->add(); });
  w.finally([s] { check(s->count.get() >= 2, "an update was lost"); });
}

const protocol kProtocol{
    "lock",
    {"base/lock.h"},
    {},
    {
        {"two, twice", {.preemptions = 4, .spurious = 1}, [](world& w) { contenders(w, 2, 2); }},
        {"three", {.preemptions = 3, .spurious = 1}, [](world& w) { contenders(w, 3, 1); }},
        {"try_lock", {.preemptions = 3}, try_lock},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, Lock) { expect_all_mutants_caught(kProtocol); }

TEST(Model, UnlockOfUnlockedIsFatal) {
  const report r = expect_fails({"unlock twice", {}, [](world& w) {
                                   auto* s = w.make<state>();
                                   w.thread("A", [s] {
                                     s->add();
                                     s->lock.unlock();
                                   });
                                 }});
  EXPECT_EQ(r.failure, "fatal error: unlock of unlocked runtime lock");
}

}  // namespace
}  // namespace weft::model
