// Exhaustive model of sync/sema_core.h.
//
// As many get in as there are units; nobody sleeps beside a unit; what was done before a release is
// seen after the acquire that got the unit; and who gets the last unit may destroy the semaphore.
#include <gtest/gtest.h>
#include <memory>

#include "model/sleepers.h"
#include "sync/sema_core.h"

namespace weft::model {
namespace {

using core = rt::sema_core<sleeper>;

struct state {
  core sem;
  sleeper nodes[3];
  rt::cell<int> data;
  int inside = 0, most = 0, got = 0;

  explicit state(int count) : sem(count) {}

  bool acquire(int i, bool hurry = false) {
    sleeper& n = nodes[i];
    if (sem.try_acquire() || !sem.enlist(n)) return true;
    if (!hurry) {
      n.event.sleep();
      return true;
    }
    if (n.event.sleep_for(1)) return true;
    if (sem.give_up(n)) return false;
    n.event.sleep();
    return true;
  }
  void release(std::uint32_t n = 1) {
    for (sleeper* next = sem.release(n); sleeper* p = next;) {
      next = p->next;
      p->event.wake();
    }
  }
  void exclusive(int i) {
    acquire(i);
    data.set(data.get() + 1);
    release();
  }
};

// As a mutex.
void binary(world& w) {
  auto* s = w.make<state>(1);
  static const char* const kNames[] = {"t0", "t1", "t2"};
  for (int i = 0; i < 3; ++i) w.thread(kNames[i], [=] { s->exclusive(i); });
  w.finally([=] {
    check(s->data.get() == 3, "somebody never got in");
    check(s->sem.try_acquire() && !s->sem.try_acquire(), "units are lost or made");
  });
}

// As an event; the waiter destroys it.
void destroyed(world& w) {
  auto* s = w.make<state>(0);
  w.thread("signal", [=] {
    s->data.set(1);
    s->release();
  });
  w.thread("waiter", [=] {
    s->acquire(0);
    check(s->data.get() == 1, "acquired before the release");
    std::destroy_at(&s->sem);
  });
}

void several_at_once(world& w) {
  auto* s = w.make<state>(0);
  w.thread("a", [=] { s->acquire(0); });
  w.thread("b", [=] { s->acquire(1); });
  w.thread("release", [=] { s->release(3); });
  w.finally([=] { check(s->sem.try_acquire() && !s->sem.try_acquire(), "units"); });
}

void hurry(world& w) {
  auto* s = w.make<state>(0);
  w.thread("hurried", [=] { s->got += s->acquire(0, true); });
  w.thread("patient", [=] {
    s->acquire(1);
    ++s->got;
  });
  w.thread("release", [=] { s->release(2); });
  w.finally([=] {
    for (; s->got < 2; ++s->got) check(s->sem.try_acquire(), "a unit is lost");
    check(!s->sem.try_acquire(), "a unit too many");
  });
}

const protocol kProtocol{
    "semaphore",
    {"sync/sema_core.h"},
    {},
    {
        {"binary", {.preemptions = 2, .old_loads = 1}, binary},
        {"destroyed", {.preemptions = 4}, destroyed},
        {"several at once", {.preemptions = 3, .old_loads = 1}, several_at_once},
        {"hurry", {.preemptions = 2, .old_loads = 1}, hurry},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, Semaphore) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
