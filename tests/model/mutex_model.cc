// Exhaustive model of sync/mutex_core.h and sync/cond_core.h.
//
// At most one is inside, and sees what those before it did. Nobody sleeps for ever. Whoever gets the
// mutex as the last one may destroy it, although the unlock that let him in has not returned.
#include <gtest/gtest.h>
#include <memory>

#include "model/sleepers.h"
#include "sync/cond_core.h"
#include "sync/mutex_core.h"

namespace weft::model {
namespace {

using core = rt::mutex_core<sleeper>;
using condition = rt::cond_core<sleeper>;

struct state {
  core m;
  lock_world who[3];
  rt::cell<int> inside;  // race-checked: two at a time are found
  int entered = 0;

  state() {
    for (std::uint32_t i = 0; i < 3; ++i) {
      for (sleeper& n : who[i].nodes) n.who = i + 1;
    }
  }
  bool lock(int i) {
    if (m.lock_fast()) return true;
    if (!m.lock_slow(who[i])) return false;
    const int slept = who[i].used;
    check(slept == 0 || !who[i].nodes[slept - 1].granted || m.owner() == who[i].nodes[0].who,
          "handed over, but noted as somebody else's");
    return true;
  }
  void unlock(bool parks = false) {
    if (m.unlock_fast()) return;
    sleeper* n = nullptr;
    const core::unlocked how = m.unlock(&n, parks);
    check(how != core::unlocked::misuse, "unlock says that it was not locked");
    check((how == core::unlocked::rouse) == (n != nullptr), "rouse whom?");
    if (n != nullptr) n->event.wake();
  }
  void section() {
    inside.set(inside.get() + 1);
    ++entered;
  }
  void enter(int i) {
    check(lock(i), "lock() without a limit gave up");
    section();
    unlock();
  }
};

void quiet(state* s) {
  check(s->m.try_lock(), "left locked, or somebody is still entitled to it");
  check(s->m.unlock_fast(), "left with waiters or marks");
}

void contended(world& w, int threads, const std::function<void(state*)>& prepare) {
  auto* s = w.make<state>();
  prepare(s);
  static const char* const kNames[] = {"t0", "t1", "t2"};
  for (int i = 0; i < threads; ++i) w.thread(kNames[i], [=] { s->enter(i); });
  w.finally([=] {
    check(s->inside.get() == threads, "somebody never got in");
    quiet(s);
  });
}

void two(world& w) {
  contended(w, 2, [](state*) {});
}
void three(world& w) {
  contended(w, 3, [](state*) {});
}
void spinning(world& w) {
  contended(w, 3, [](state* s) { s->who[2].spins = 1; });
}
void starving(world& w) {
  contended(w, 3, [](state* s) { s->who[1].losing = s->who[2].losing = true; });
}

// One is woken in vain first: a newcomer passes it by. Then it asks for the hand-over.
void passed_by(world& w) {
  auto* s = w.make<state>();
  s->who[1].losing = true;
  check(s->m.lock_fast(), "not free");
  w.thread("owner", [=] {
    s->section();
    s->unlock();
    s->enter(0);
  });
  w.thread("waiter", [=] { s->enter(1); });
  w.finally([=] { quiet(s); });
}

// The last one destroys it.
void destroyed(world& w) {
  auto* s = w.make<state>();
  check(s->m.lock_fast(), "not free");
  w.thread("owner", [=] {
    s->section();
    s->unlock();
  });
  w.thread("barger", [=] { s->enter(2); });
  w.thread("heir", [=] {
    check(s->lock(1), "gave up");
    const bool last = s->entered == 2;
    s->section();
    s->unlock();
    if (last) std::destroy_at(&s->m);
  });
}

// One gives up at any moment; what it was given meanwhile is not lost.
void hurry(world& w) {
  auto* s = w.make<state>();
  s->who[1].hurry = true;
  auto* got = w.make<int>(0);
  check(s->m.lock_fast(), "not free");
  w.thread("owner", [=] {
    s->section();
    s->unlock();
  });
  w.thread("hurried", [=] {
    if (!s->lock(1)) return;
    ++*got;
    s->section();
    s->unlock();
  });
  w.thread("patient", [=] { s->enter(2); });
  w.finally([=] {
    check(s->inside.get() == 2 + *got, "sections");
    quiet(s);
  });
}

void hurry_and_starve(world& w) {
  auto* s = w.make<state>();
  s->who[0].hurry = s->who[0].losing = true;
  check(s->m.lock_fast(), "not free");
  w.thread("owner", [=] {
    s->section();
    s->unlock();
    s->enter(1);
  });
  w.thread("hurried", [=] {
    if (!s->lock(0)) return;
    s->section();
    s->unlock();
  });
  w.finally([=] { quiet(s); });
}

void trying(world& w) {
  auto* s = w.make<state>();
  w.thread("a", [=] { s->enter(0); });
  w.thread("b", [=] { s->enter(1); });
  w.thread("trier", [=] {
    if (!s->m.try_lock()) return;
    s->section();
    s->unlock();
  });
  w.finally([=] { quiet(s); });
}

// --- condition variables ----------------------------------------------------------------------

struct waiting : state {
  condition cv;
  rt::cell<int> condition_holds;
  int notified = 0;

  // As condition_variable::wait(). False: the limit came first.
  enum class limit { none, far, near };
  bool wait(int i, sleeper& n, limit until = limit::none) {
    cv.push(&n, until != limit::none);
    unlock(/*parks=*/true);
    return sleep(i, n, until);
  }
  // The rest of it: n is listed, and the mutex is free, or somebody else's.
  bool sleep(int i, sleeper& n, limit until = limit::none) {
    if (until == limit::near && !n.event.sleep_for(1) && n.claim.take()) {
      cv.leave(&n);
      check(lock(i), "gave up");
      return false;
    }
    n.event.sleep();
    lock_again(i, n);
    return true;
  }
  void lock_again(int i, sleeper& n) {
    const bool taken = m.take_adopted(n);
    check(taken || !n.granted, "the mutex is its own, and it competes for it");
    if (!taken) m.lock_adopted(who[i], n);
    check(!n.granted || m.owner() == n.who, "handed over, but noted as somebody else's");
  }
  void pass_on(rt::wait_list<sleeper>& list, std::uint32_t count) {
    if (list.empty()) return;
    if (sleeper* n = m.adopt(list, count)) n->event.wake();
  }
  void notify_one() {
    if (sleeper* n = cv.take_one()) {
      rt::wait_list<sleeper> one;
      one.push_back(n);
      pass_on(one, 1);
    }
  }
  void notify_all() {
    condition::taken all = cv.take_all();
    pass_on(all.list, all.count);
  }
  void wait_until_it_holds(int i) {
    check(lock(i), "gave up");
    while (condition_holds.get() == 0) {
      sleeper& n = who[i].node();
      wait(i, n);
    }
    section();
    unlock();
  }
  void make_it_hold(int i, bool inside_lock) {
    check(lock(i), "gave up");
    condition_holds.set(1);
    if (inside_lock) notify_all();
    unlock();
    if (!inside_lock) notify_all();
  }
};

void notify_inside(world& w) {
  auto* s = w.make<waiting>();
  w.thread("waiter 0", [=] { s->wait_until_it_holds(0); });
  w.thread("waiter 1", [=] { s->wait_until_it_holds(1); });
  w.thread("notifier", [=] { s->make_it_hold(2, true); });
  w.finally([=] {
    check(s->inside.get() == 2, "a waiter was forgotten");
    check(s->cv.quiet(), "the condition variable is not quiet");
    quiet(s);
  });
}

void notify_outside(world& w) {
  auto* s = w.make<waiting>();
  w.thread("waiter", [=] { s->wait_until_it_holds(0); });
  w.thread("notifier", [=] { s->make_it_hold(2, false); });
  w.finally([=] {
    check(s->inside.get() == 1, "a waiter was forgotten");
    quiet(s);
  });
}

// Everybody has been notified: the notifier destroys it, whether they have returned or not, while it
// still holds the mutex, which they want next.
void destroyed_after_notify(world& w, waiting::limit until, bool all) {
  auto* s = w.make<waiting>();
  check(s->m.lock_fast(), "not free");
  w.thread("waiter", [=] {
    s->wait(0, s->who[0].node(), until);
    s->section();
    s->unlock();
  });
  w.thread("notifier", [=] {
    check(s->lock(1), "gave up");
    all ? s->notify_all() : s->notify_one();
    while (!s->cv.quiet()) rt::cpu_pause();
    std::destroy_at(&s->cv);
    s->unlock();
  });
  w.finally([=] { quiet(s); });
}
void destroyed_no_limit(world& w) { destroyed_after_notify(w, waiting::limit::none, true); }
void destroyed_far_limit(world& w) { destroyed_after_notify(w, waiting::limit::far, true); }
void destroyed_near_limit(world& w) { destroyed_after_notify(w, waiting::limit::near, true); }
void destroyed_after_one(world& w) { destroyed_after_notify(w, waiting::limit::near, false); }

// One may leave just when it would be chosen: then the notification is for the other.
void passed_on(world& w) {
  auto* s = w.make<waiting>();
  sleeper& hurried = s->who[0].node();
  sleeper& patient = s->who[1].node();
  s->cv.push(&hurried, true);
  s->cv.push(&patient, false);
  w.thread("hurried", [=, &hurried] {
    if (!hurried.event.sleep_for(1) && hurried.claim.take()) {
      s->cv.leave(&hurried);
    } else {
      hurried.event.sleep();
    }
  });
  w.thread("patient", [=, &patient] { patient.event.sleep(); });
  w.thread("notifier", [=] {
    sleeper* one = s->cv.take_one();
    check(one != nullptr, "a notification for nobody, although somebody waits");
    one->event.wake();
    condition::taken rest = s->cv.take_all();
    while (sleeper* n = rest.list.pop_front()) n->event.wake();
  });
  w.finally([=] { check(s->cv.quiet(), "not quiet"); });
}

void one_by_one(world& w) {
  auto* s = w.make<waiting>();
  w.thread("waiter", [=] { s->wait_until_it_holds(0); });
  w.thread("notifier", [=] {
    check(s->lock(1), "gave up");
    s->condition_holds.set(1);
    s->notify_one();
    s->unlock();
  });
  w.finally([=] {
    check(s->inside.get() == 1, "a waiter was forgotten");
    quiet(s);
  });
}

// Without a mutex around it, as condition_variable_any sees it: two come while one notifies.
void bare(world& w, bool all) {
  auto* s = w.make<waiting>();
  for (int i = 0; i < 2; ++i) {
    w.thread(i == 0 ? "waiter 0" : "waiter 1", [=] {
      sleeper& n = s->who[i].node();
      s->cv.push(&n, false);
      n.event.sleep();
    });
  }
  w.thread("notifier", [=] {
    for (int left = 2; left != 0; rt::cpu_pause()) {
      condition::taken some{};
      if (all) {
        some = s->cv.take_all();
      } else if (sleeper* n = s->cv.take_one()) {
        some.list.push_back(n);
      }
      while (sleeper* n = some.list.pop_front()) {
        n->event.wake();
        --left;
      }
    }
  });
  w.finally([=] { check(s->cv.quiet(), "not quiet"); });
}
void bare_one(world& w) { bare(w, false); }
void bare_all(world& w) { bare(w, true); }

// --- handed over ------------------------------------------------------------------------------

// Before the threads begin: a locker who was woken in vain, and then has the mutex in starvation mode. `next` came to
// the list meanwhile, as whoever is notified does.
struct starver : lock_world {
  waiting* s;
  rt::wait_list<sleeper> next;
  std::uint32_t count;

  starver(waiting* to, rt::wait_list<sleeper> n, std::uint32_t c) : s(to), next(n), count(c) {
    losing = true;
    check(s->m.lock_fast(), "not free");
    check(s->m.lock_slow(*this), "gave up");
  }
  bool sleep(sleeper&) {
    if (used == 1) {
      s->unlock();
      check(s->m.try_lock(), "nobody passes it by");
    } else {
      check(s->m.adopt(next, count) == nullptr, "free although it is locked");
      s->unlock();
    }
    return true;
  }
};

// The starved one hands the mutex over to one who is not, and so ends starvation mode, for which it does not take the
// queue bit; just when the last one who is listed gives up, and ends it, too.
void both_end_starvation(world& w, bool adopted) {
  auto* s = w.make<waiting>();
  sleeper& patient = s->who[1].node();
  rt::wait_list<sleeper> next;
  next.push_back(&patient);
  w.make<starver>(s, next, 1);
  s->who[2].hurry = true;
  auto* got = w.make<int>(0);
  w.thread("starved", [=] {
    s->section();
    s->unlock();
  });
  w.thread("patient", [=, &patient] {
    patient.event.sleep();
    adopted ? s->lock_again(1, patient) : s->m.lock_adopted(s->who[1], patient);
    s->section();
    s->unlock();
  });
  w.thread("hurried", [=] {
    if (!s->lock(2)) return;
    ++*got;
    s->section();
    s->unlock();
  });
  w.finally([=] {
    check(s->inside.get() == 2 + *got, "sections");
    quiet(s);
  });
}
void locker_ends_starvation(world& w) { both_end_starvation(w, false); }
void adopted_ends_starvation(world& w) { both_end_starvation(w, true); }

// Whoever has not starved ends starvation mode as soon as it has the mutex: the next one has to compete. One thread: what
// follows what is the subject.
void one_ends_starvation(world& w) {
  auto* s = w.make<waiting>();
  sleeper& first = s->who[1].node();
  sleeper& second = s->who[2].node();
  rt::wait_list<sleeper> next;
  next.push_back(&first);
  next.push_back(&second);
  w.make<starver>(s, next, 2);
  w.thread("all of them", [=, &first, &second] {
    s->unlock();
    s->sleep(1, first);
    check(first.granted, "starving, and not handed over");
    s->unlock();
    s->sleep(2, second);
    check(!second.granted, "it starves on");
    s->unlock();
  });
  w.finally([=] { quiet(s); });
}

// One notifies the other and waits itself, so that the mutex is the other's at once; and the other way round.
void ping_pong(world& w, waiting::limit until) {
  auto* s = w.make<waiting>();
  sleeper& ping = s->who[0].node();
  check(s->m.lock_fast(), "not free");
  s->cv.push(&ping, until != waiting::limit::none);
  w.thread("ping", [=, &ping] {
    s->sleep(0, ping, until);
    s->section();
    s->notify_one();
    s->unlock();
  });
  w.thread("pong", [=] {
    s->section();
    s->notify_one();
    s->wait(1, s->who[1].node(), until == waiting::limit::none ? until : waiting::limit::far);
    s->section();
    s->unlock();
  });
  w.finally([=] {
    check(s->inside.get() == 3, "a waiter was forgotten");
    check(s->cv.quiet(), "the condition variable is not quiet");
    quiet(s);
  });
}
void ping_pong_no_limit(world& w) { ping_pong(w, waiting::limit::none); }
void ping_pong_far_limit(world& w) { ping_pong(w, waiting::limit::far); }
void ping_pong_near_limit(world& w) { ping_pong(w, waiting::limit::near); }

// Notified between its being listed and its unlocking: it may hand the mutex over to itself.
void to_itself(world& w, waiting::limit until) {
  auto* s = w.make<waiting>();
  check(s->m.lock_fast(), "not free");
  w.thread("waiter", [=] {
    s->wait(0, s->who[0].node(), until);
    s->section();
    s->unlock();
  });
  w.thread("notifier", [=] {
    sleeper* n = nullptr;
    while ((n = s->cv.take_one()) == nullptr) rt::cpu_pause();
    rt::wait_list<sleeper> one;
    one.push_back(n);
    s->pass_on(one, 1);
  });
  w.finally([=] {
    check(s->inside.get() == 1, "a waiter was forgotten");
    quiet(s);
  });
}
void to_itself_no_limit(world& w) { to_itself(w, waiting::limit::none); }
void to_itself_far_limit(world& w) { to_itself(w, waiting::limit::far); }

// Whoever it would be handed over to gives up.
void over_to_hurry(world& w) {
  auto* s = w.make<waiting>();
  s->who[1].hurry = true;
  auto* got = w.make<int>(0);
  check(s->m.lock_fast(), "not free");
  w.thread("waiter", [=] {
    s->wait(0, s->who[0].node());
    s->section();
    s->unlock();
  });
  w.thread("hurried", [=] {
    if (!s->lock(1)) return;
    ++*got;
    s->section();
    s->unlock();
  });
  w.thread("notifier", [=] {
    check(s->lock(2), "gave up");
    s->notify_one();
    s->unlock();
  });
  w.finally([=] {
    check(s->inside.get() == 1 + *got, "sections");
    quiet(s);
  });
}

const protocol kMutex{
    "mutex",
    {"sync/mutex_core.h", "sync/wait_list.h"},
    {},
    {
        {"two", {.preemptions = 3}, two},
        {"three", {.preemptions = 3, .old_loads = 1}, three},
        {"spinning", {.preemptions = 3, .old_loads = 1}, spinning},
        {"starving", {.preemptions = 3, .old_loads = 1}, starving},
        {"passed by", {.preemptions = 3}, passed_by},
        {"destroyed", {.preemptions = 3, .old_loads = 0}, destroyed},
        {"hurry", {.preemptions = 2, .old_loads = 0}, hurry},
        {"hurry and starve", {.preemptions = 3, .old_loads = 1}, hurry_and_starve},
        {"trying", {.preemptions = 2, .old_loads = 0}, trying},
        {"notify inside", {.preemptions = 2, .old_loads = 1}, notify_inside},
        {"notify outside", {.preemptions = 3, .old_loads = 1}, notify_outside},
        {"locker ends starvation", {.preemptions = 2, .old_loads = 0}, locker_ends_starvation},
        {"adopted ends starvation", {.preemptions = 2, .old_loads = 0}, adopted_ends_starvation},
        {"ping-pong", {.preemptions = 3, .old_loads = 1}, ping_pong_no_limit},
        {"ping-pong, far limit", {.preemptions = 3, .old_loads = 1}, ping_pong_far_limit},
        {"ping-pong, near limit", {.preemptions = 2, .old_loads = 1}, ping_pong_near_limit},
        {"to itself", {.preemptions = 3, .old_loads = 1}, to_itself_no_limit},
        {"to itself, far limit", {.preemptions = 3, .old_loads = 1}, to_itself_far_limit},
        {"over to hurry", {.preemptions = 2, .old_loads = 0}, over_to_hurry},
        {"one ends starvation", {.preemptions = 0}, one_ends_starvation},
    },
};
const enrol_protocol kMutexEnrolled(kMutex);

const protocol kCondition{
    "condition",
    {"sync/cond_core.h"},
    {},
    {
        {"notify inside", {.preemptions = 2, .old_loads = 1}, notify_inside},
        {"notify outside", {.preemptions = 3, .old_loads = 1}, notify_outside},
        {"destroyed, no limit", {.preemptions = 3, .old_loads = 1}, destroyed_no_limit},
        {"destroyed, far limit", {.preemptions = 3, .old_loads = 1}, destroyed_far_limit},
        {"destroyed, near limit", {.preemptions = 3, .old_loads = 1}, destroyed_near_limit},
        {"destroyed after one", {.preemptions = 3, .old_loads = 1}, destroyed_after_one},
        {"passed on", {.preemptions = 2, .old_loads = 1}, passed_on},
        {"one by one", {.preemptions = 2, .old_loads = 1}, one_by_one},
        {"bare, one", {.preemptions = 2, .old_loads = 1}, bare_one},
        {"bare, all", {.preemptions = 2, .old_loads = 1}, bare_all},
    },
};
const enrol_protocol kConditionEnrolled(kCondition);

TEST(Model, Mutex) { expect_all_mutants_caught(kMutex); }
TEST(Model, Condition) { expect_all_mutants_caught(kCondition); }

}  // namespace
}  // namespace weft::model
