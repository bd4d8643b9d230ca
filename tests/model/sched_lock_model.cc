// Exhaustive model of gmp/sched_lock.h: whoever is to be woken when the lock is free is woken, once. And sysmon, whose sleep is
// otherwise modelled in long_sleep_model.cc, need not be fenced off from whoever makes work visible under the lock, under which
// it looks before it sleeps.
#include <gtest/gtest.h>
#include <new>

#include "gmp/sched_lock.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

// As the spawner and those who rouse it (sched/spawner.cc).
struct state {
  rt::waking_lock lock{rt::lock_rank::leaf};
  rt::note wanted;
  rt::cell<int> requests;  // race-checked
  rt::cell<int> roused;
  int served = 0;

  void rouse() {
    lock.lock();
    rouse_locked();
    lock.unlock();
  }
  void rouse_locked() {
    requests.set(requests.get() + 1);
    if (roused.get() == 0) {
      roused.set(1);
      lock.wake_afterwards(wanted);
    }
  }
  // True: there was one.
  bool serve_one() {
    lock.lock();
    const int left = requests.get();
    if (left > 0) {
      requests.set(left - 1);
    } else {
      wanted.clear();
      roused.set(0);
    }
    lock.unlock();
    return left > 0;
  }
  void serve() {
    for (;;) {
      wanted.sleep();
      while (serve_one()) ++served;
    }
  }
  void all_are_served(world& w, int n) {
    w.service("sleeper", [this] { serve(); });
    w.finally([=, this] { check(served == n, "somebody waits, and nobody is awake for him"); });
  }
};

void two_rouse(world& w) {
  auto* s = w.make<state>();
  w.thread("A", [s] { s->rouse(); });
  w.thread("B", [s] { s->rouse(); });
  s->all_are_served(w, 2);
}

void two_rouse_twice(world& w) {
  auto* s = w.make<state>();
  const auto twice = [s] {
    s->rouse();
    s->rouse();
  };
  w.thread("A", twice);
  w.thread("B", twice);
  s->all_are_served(w, 4);
}

// Others have the lock, and rouse nobody.
void beside_others(world& w) {
  auto* s = w.make<state>();
  w.thread("A", [s] { s->rouse(); });
  w.thread("B", [s] {
    s->lock.lock();
    s->lock.unlock();
    s->rouse();
  });
  s->all_are_served(w, 2);
}

// One holder has two reasons.
void twice_at_once(world& w) {
  auto* s = w.make<state>();
  w.thread("A", [s] {
    s->lock.lock();
    if (s->roused.get() == 0) s->lock.wake_afterwards(s->wanted);
    s->rouse_locked();
    s->lock.unlock();
  });
  w.thread("B", [s] { s->rouse(); });
  s->all_are_served(w, 2);
}

// As sysmon (sched/sysmon.cc), and those who call wake_sysmon_locked().
struct watched {
  rt::waking_lock lock{rt::lock_rank::leaf};
  rt::cell<int> work;  // race-checked

  watched() {
    rt::sysmon_rest.~long_sleep();
    new (&rt::sysmon_rest) rt::long_sleep;
  }
  int look() {
    lock.lock();
    const int found = work.get();
    lock.unlock();
    return found;
  }
  // It sleeps until it is woken, so that a lost wake-up is a deadlock.
  void look_and_sleep() {
    rt::sysmon_rest.begin();
    if (look() == 0) rt::sysmon_rest.sleep();
    rt::sysmon_rest.end();
  }
  void submit() {
    lock.lock();
    work.set(work.get() + 1);
    if (rt::sysmon_rest.asleep()) lock.wake_sysmon_afterwards();
    lock.unlock();
  }
};

void sysmon_sleeps(world& w, int submitters) {
  auto* s = w.make<watched>();
  w.thread("sysmon", [s] {
    s->look_and_sleep();
    check(s->look() != 0, "sysmon was woken for nothing");
    s->look_and_sleep();
  });
  for (int i = 0; i < submitters; ++i) {
    w.thread(i == 0 ? "A" : "B", [s] { s->submit(); });
  }
}

const protocol kProtocol{
    "sched_lock",
    {"gmp/sched_lock.h"},
    {},
    {
        {"two rouse", {.preemptions = 4}, two_rouse},
        {"two rouse twice", {.preemptions = 3}, two_rouse_twice},
        {"beside others", {.preemptions = 3}, beside_others},
        {"twice at once", {.preemptions = 3}, twice_at_once},
        {"sysmon sleeps", {.preemptions = 4}, [](world& w) { sysmon_sleeps(w, 1); }},
        {"sysmon sleeps beside two", {.preemptions = 3}, [](world& w) { sysmon_sleeps(w, 2); }},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, SchedLock) { expect_all_mutants_caught(kProtocol); }

TEST(Model, SchedLockWakesOneNote) {
  const report r = expect_fails({"two notes", {}, [](world& w) {
                                   auto* s = w.make<state>();
                                   auto* other = w.make<rt::note>();
                                   w.thread("A", [=] {
                                     s->lock.lock();
                                     s->lock.wake_afterwards(s->wanted);
                                     s->lock.wake_afterwards(*other);
                                   });
                                 }});
  EXPECT_NE(r.failure.find("sched.lock is to wake two"), std::string::npos) << r.failure;
}

}  // namespace
}  // namespace weft::model
