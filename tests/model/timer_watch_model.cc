// Exhaustive model of who sleeps until the next timer: sched/timer_watch.cc with timers.cc, idle.cc, world.cc and
// find_runnable.cc, compiled against the explorer.
//
// T1, seen from outside: when everybody has come to rest and a P is idle, then what was due has fired,
// and somebody sleeps who wakes no later than the next timer. T3: if no P is idle, then somebody does who stands in, or
// sysmon was told. Those who start timers keep their Ps
// and compute for ever, so that nobody else looks at their timers by accident.
#include <gtest/gtest.h>

#include "model/protocol.h"
#include "model/scheduler.h"
#include "sched/world.h"

namespace weft::model {
namespace {

constexpr std::int64_t kPast = 50, kSoon = 200, kLater = 300;

struct alarm : rt::timer_event {
  rt::cell<int> armed;
  int fired = 0;
  job* wakes = nullptr;

  explicit alarm(std::int64_t t) {
    when = t;
    fire = [](rt::timer_event* e, std::int64_t) {
      auto* a = static_cast<alarm*>(e);
      check(a->armed.get() == 1, "a timer fires that is half written");
      check(++a->fired == 1, "a timer fires twice");
      if (a->wakes != nullptr) {
        rt::M* mp = rt::current_m();
        a->wakes->prepare();
        rt::queue_put(mp, mp->p, a->wakes, /*next=*/true);
        rt::wake_p(mp->p);
      }
    };
  }
};

struct state : runtime {
  std::vector<alarm*> alarms;
  job computes;  // whoever starts a timer and keeps its P

  state(world& w, int procs, int ms) : runtime(w, procs, ms) {
    now = 100;
    count_goroutines(1);
    tasks = [] { return -1; };
    rt::sysmon_told = false;
  }
  alarm* make_alarm(world& w, std::int64_t when) {
    alarms.push_back(w.make<alarm>(when));
    return alarms.back();
  }
  // As a goroutine on m, or (-1) as a plain thread.
  void start(int i, alarm* a) {
    a->armed.set(1);
    if (i >= 0) m(i)->curg = &computes;
    rt::arm_timer(i < 0 ? nullptr : m(i), *a);
  }
  // Set-up: it has been pending for long.
  void pending(int i, alarm* a) {
    a->armed.set(1);
    p(i)->timers.start(*a, 0);
  }
  void rest_busy(world& w, std::int64_t when) {
    w.finally([this, when]() WEFT_NO_THREAD_SAFETY_ANALYSIS {
      check_quiet(0);
      const rt::M* watcher = rt::sched.timer_watcher;
      const bool watched = watcher != nullptr && watcher->is_idle &&
                           watcher->park.deadline() <= when &&
                           rt::sched.watched_until.load(std::memory_order_relaxed) <= when;
      check(rt::sysmon_told || watched, "neither a stand-in nor sysmon knows of a timer");
    });
  }
  void rest(world& w, int idle_ps) {
    w.finally([this, idle_ps]() WEFT_NO_THREAD_SAFETY_ANALYSIS {  // all threads are at rest
      check_quiet(idle_ps);
      std::int64_t next = rt::kNever;
      for (alarm* a : alarms) {
        if (a->when <= now) check(a->fired == 1, "a timer is overdue beside an idle P");
        if (a->fired == 0 && a->when < next) next = a->when;
      }
      check(rt::earliest_timer() <= next, "a timer is lost");
      if (next == rt::kNever) return;
      rt::M* watcher = rt::sched.timer_watcher;
      check(watcher != nullptr, "a timer is pending, a P idle, and nobody watches");
      check(watcher->is_idle && watcher->park.deadline() <= next, "the watcher oversleeps");
    });
  }
};

// Set-up, before there are threads: nobody holds a lock.
WEFT_NO_THREAD_SAFETY_ANALYSIS void watches(state* s, int m, std::int64_t until) {
  rt::sched.timer_watcher = s->m(m);
  rt::sched.watched_until.store(until, std::memory_order_relaxed);
}

// No P is idle. An M that stands in falls asleep while a goroutine starts a timer; there is no P that it can borrow.
WEFT_NO_THREAD_SAFETY_ANALYSIS void stands_in(world& w, std::int64_t when, bool later_too) {
  auto* s = w.make<state>(w, 1, 3);
  if (later_too) s->pending(0, s->make_alarm(w, kLater));
  alarm* a = s->make_alarm(w, when);
  s->holds(0, 0);
  s->idles(1);
  s->m(1)->stands_in = true;
  s->p(0)->lone = false;
  s->thread(w, "M0", 0, [=] { s->start(0, a); });
  s->watcher(w, "M1", 1);
  s->spares(w, 2);
  s->rest_busy(w, when);
}

// Who sleeps is locked to its thread. The M is on g0 when the timer is started, but neither looks for work nor watches; its P
// goes to one who computes.
void locked_one_sleeps(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  alarm* a = s->make_alarm(w, kSoon);
  auto* node = w.make<rt::waiter>();
  job* j = s->make_job(w, "locked");
  j->steps = {[=] {
                s->m(0)->locked_g = j;
                j->locked_m = s->m(0);
                node->gp = j;
                a->armed.set(1);
                park(
                    node,
                    [](rt::waiter*, void* timer) {
                      rt::arm_timer(rt::current_m(), *static_cast<alarm*>(timer));
                      return true;
                    },
                    a);
              },
              [] {}};
  job* hog = s->make_job(w, "hog");
  hog->steps = {[] {}};
  hog->endless = true;
  s->holds(0, 0);
  s->queued(0, j);
  s->queued(0, hog);
  s->serve(w, "M0", 0);
  s->idles(1);
  s->sleeper(w, "M1", 1);
  s->spares(w, 1);
  s->rest_busy(w, kSoon);
}

// What it sleeps for has been stopped when it wakes, as in stopped_meanwhile().
WEFT_NO_THREAD_SAFETY_ANALYSIS void stand_in_is_stopped(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  alarm* a = s->make_alarm(w, kSoon);
  alarm* b = s->make_alarm(w, kLater);
  s->pending(0, a);
  s->holds(0, 0);
  s->idles(1);
  s->m(1)->stands_in = true;
  s->p(0)->lone = false;
  s->thread(w, "M0", 0, [=] {
    check(rt::timer_set::cancel(*a, s->m(0)), "it was not pending");
    s->start(0, b);
  });
  s->watcher(w, "M1", 1);
  s->spares(w, 2);
  s->rest_busy(w, kLater);
}

// … and is needed for something else.
WEFT_NO_THREAD_SAFETY_ANALYSIS void stand_in_is_needed(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  alarm* a = s->make_alarm(w, kSoon);
  job* j = s->make_job(w, "j");
  j->endless = true;
  s->holds(0, 0);
  s->holds(1, 1);
  s->queued(1, j);
  s->idles(2);
  s->m(2)->stands_in = true;
  s->thread(w, "M0", 0, [=] { s->start(0, a); });
  s->thread(w, "M1", 1, [=] { rt::hand_off_p(rt::release_p(s->m(1), rt::p_status::idle)); });
  s->watcher(w, "M2", 2);
  s->spares(w, 3);
  s->rest_busy(w, kSoon);
}

// Since it fell asleep the last idle P was taken, and it does not stand in: somebody starts an earlier timer, or its time
// comes, and it can run nothing.
WEFT_NO_THREAD_SAFETY_ANALYSIS void watcher_has_no_p(world& w, bool earlier) {
  auto* s = w.make<state>(w, 1, 3);
  s->pending(0, s->make_alarm(w, earlier ? kLater : kPast));
  alarm* a = s->make_alarm(w, kSoon);
  s->holds(0, 0);
  s->idles(1);
  s->p(0)->lone = false;
  const std::int64_t until = earlier ? kLater : kPast;
  watches(s, 1, until);
  s->thread(w, "M0", 0, [=] {
    if (earlier) s->start(0, a);
  });
  s->dozer(w, "M1", 1, until);
  s->spares(w, 2);
  s->rest_busy(w, earlier ? kSoon : kPast);
}

// One has borrowed a P, started a timer on g0, and falls asleep again. Meanwhile another one has begun to stand in, for a
// later timer.
WEFT_NO_THREAD_SAFETY_ANALYSIS void two_stand_ins(world& w) {
  auto* s = w.make<state>(w, 1, 4);
  s->pending(0, s->make_alarm(w, kLater));
  s->pending(0, s->make_alarm(w, kSoon));
  s->holds(0, 0);
  s->idles(1);
  s->idles(2);
  s->m(1)->stands_in = s->m(2)->stands_in = true;
  s->p(0)->lone = false;
  watches(s, 1, kLater);
  s->thread(w, "M0", 0, [] {});
  s->sleeper(w, "M1", 1);
  s->watcher(w, "M2", 2);
  s->spares(w, 3);
  s->rest_busy(w, kSoon);
}

// A goroutine starts a timer while the M that would watch falls asleep.
void falls_asleep(world& w, std::int64_t when, bool spinning) {
  auto* s = w.make<state>(w, 2, 3);
  alarm* a = s->make_alarm(w, when);
  s->holds(0, 0);
  s->holds(1, 1, spinning);
  s->thread(w, "M0", 0, [=] { s->start(0, a); });
  if (spinning) {
    s->serve(w, "M1", 1);
  } else {
    s->dry(w, "M1", 1);
  }
  s->spares(w, 2);
  s->rest(w, 1);
}

// An M sleeps already, for a later timer or for none.
void already_asleep(world& w, std::int64_t when) {
  auto* s = w.make<state>(w, 2, 3);
  alarm* a = s->make_alarm(w, kLater);
  alarm* b = s->make_alarm(w, when);
  s->pending(1, a);
  s->holds(0, 0);
  s->idles(1);
  s->thread(w, "M0", 0, [=] { s->start(0, b); });
  s->watcher(w, "M1", 1);
  s->spares(w, 2);
  s->rest(w, 1);
}

// What it sleeps for has been stopped when it wakes. Meanwhile a later timer is started: by somebody
// who sees that the watcher wakes in time for it.
void stopped_meanwhile(world& w) {
  auto* s = w.make<state>(w, 2, 3);
  alarm* a = s->make_alarm(w, kSoon);
  alarm* b = s->make_alarm(w, kLater);
  s->pending(1, a);
  s->holds(0, 0);
  s->idles(1);
  s->thread(w, "M0", 0, [=] {
    check(rt::timer_set::cancel(*a, s->m(0)), "it was not pending");
    a->fired = 1;
    s->start(0, b);
  });
  s->watcher(w, "M1", 1);
  s->spares(w, 2);
  s->rest(w, 1);
}

// Two start timers of different times.
void two_starters(world& w) {
  auto* s = w.make<state>(w, 3, 4);
  alarm* a = s->make_alarm(w, kLater);
  alarm* b = s->make_alarm(w, kSoon);
  s->holds(0, 0);
  s->holds(1, 1);
  s->idles(2);
  s->thread(w, "M0", 0, [=] { s->start(0, a); });
  s->thread(w, "M1", 1, [=] { s->start(1, b); });
  s->watcher(w, "M2", 2);
  s->spares(w, 3);
  s->rest(w, 1);
}

// A plain thread, and no M at all.
void plain_thread(world& w, std::int64_t when) {
  auto* s = w.make<state>(w, 1, 2);
  alarm* a = s->make_alarm(w, when);
  w.thread("T", [=] { s->start(-1, a); });
  s->spares(w, 0);
  s->rest(w, 1);
}

// The watcher is needed for something else, which computes; a second P stays idle.
void watcher_is_needed(world& w) {
  auto* s = w.make<state>(w, 3, 4);
  alarm* a = s->make_alarm(w, kSoon);
  job* j = s->make_job(w, "j");
  j->endless = true;
  s->holds(0, 0);
  s->idles(1);
  s->thread(w, "M0", 0, [=] { s->start(0, a); });
  s->watcher(w, "M1", 1);
  s->spares(w, 2);
  w.thread("T", [=] {
    j->prepare();
    rt::inject(j);
  });
  s->rest(w, 1);
}

// All Ps are busy when the time comes; then one is let go.
void no_p_when_due(world& w, bool hand_off) {
  auto* s = w.make<state>(w, 2, 4);
  alarm* a = s->make_alarm(w, kPast);
  s->holds(0, 0);
  s->holds(1, 1);
  s->idles(2);
  s->thread(w, "M0", 0, [=] { s->start(0, a); });
  s->watcher(w, "M2", 2);
  if (hand_off) {
    s->thread(w, "M1", 1, [=] { rt::hand_off_p(rt::release_p(s->m(1), rt::p_status::idle)); });
  } else {
    s->dry(w, "M1", 1);
  }
  s->spares(w, 3);
  s->rest(w, 1);
}

// Four timers are due at once on P p, and it is known that they are many. The first ones wake jobs.
void make_crowd(world& w, state* s, int p, std::initializer_list<job*> woken) {
  for (int i = 0; i < 4; ++i) s->pending(p, s->make_alarm(w, 1000));
  std::size_t i = 0;
  for (job* j : woken) s->alarms[i++]->wakes = j;
  rt::timer_run look(nullptr, 1);
  check(s->p(p)->timers.take_due(look, 10) == nullptr && s->p(p)->timers.slack() > 0, "no crowd");
  now = 1'000'000;
}

WEFT_NO_THREAD_SAFETY_ANALYSIS void deputizes(state* s, int m, std::int64_t until) {
  rt::sched.timer_deputy = s->m(m);
  rt::sched.deputy_until = until;
}

// I1 for those whom a crowd wakes: each has run, or an M sleeps that is due soon, and will look.
void share(world& w, state* s, std::vector<job*> jobs) {
  w.finally([=]() WEFT_NO_THREAD_SAFETY_ANALYSIS {  // all threads are at rest
    for (alarm* a : s->alarms) check(a->fired == 1, "a timer is overdue beside an idle P");
    const rt::M* watcher = rt::sched.timer_watcher;
    const bool due = rt::sched.crowd_waits && watcher != nullptr && watcher->is_idle &&
                     watcher->park.deadline() <= now + 1;
    for (job* j : jobs) {
      check(j->ran == 1 || due, "lost wake-up: a goroutine waits beside an idle P");
    }
  });
}

// A crowd is due. The watcher has a deputy, so it wakes nobody for those whom it wakes itself, but for
// what somebody has submitted, relying on it.
void crowd(world& w) {
  auto* s = w.make<state>(w, 3, 4);
  job* mine = s->make_job(w, "mine");
  job* other = s->make_job(w, "other");
  mine->endless = true;
  make_crowd(w, s, 2, {mine});
  s->holds(0, 0);
  s->idles(1);
  s->idles(2);
  watches(s, 1, now - 1);
  deputizes(s, 2, now + 1);
  s->thread(w, "M0", 0, [=] { s->submit(0, other); });
  s->watcher(w, "M1", 1);
  s->sleeper(w, "M2", 2);
  s->spares(w, 3);
  w.finally([=] {
    check(mine->ran == 1 && other->ran == 1, "lost wake-up: a goroutine waits beside an idle P");
    for (alarm* a : s->alarms) check(a->fired == 1, "a timer is overdue beside an idle P");
  });
}

// … and it wakes two, who compute for ever: the deputy takes the one that waits.
void deputy_takes_a_share(world& w) {
  auto* s = w.make<state>(w, 2, 3);
  job* first = s->make_job(w, "first");
  job* second = s->make_job(w, "second");
  first->endless = second->endless = true;
  make_crowd(w, s, 0, {first, second});
  s->idles(0);
  s->idles(1);
  watches(s, 0, now - 1);
  deputizes(s, 1, now + 1);
  s->watcher(w, "M0", 0);
  s->dozer(w, "M1", 1, now + 1);
  s->spares(w, 2);
  share(w, s, {first, second});
}

// A busy M runs the crowd on its own P while the watcher sleeps, and wakes nobody.
void watcher_takes_a_share(world& w) {
  auto* s = w.make<state>(w, 2, 3);
  job* first = s->make_job(w, "first");
  job* second = s->make_job(w, "second");
  first->endless = second->endless = true;
  make_crowd(w, s, 0, {first, second});
  s->holds(0, 0);
  s->idles(1);
  watches(s, 1, now + 1);
  s->serve(w, "M0", 0);
  s->dozer(w, "M1", 1, now + 1);
  s->spares(w, 2);
  share(w, s, {first, second});
}

// … and somebody hands that watcher a P and other work.
void watcher_has_other_work(world& w) {
  auto* s = w.make<state>(w, 3, 5);
  job* first = s->make_job(w, "first");
  job* second = s->make_job(w, "second");
  job* other = s->make_job(w, "other");
  first->endless = second->endless = other->endless = true;
  make_crowd(w, s, 0, {first, second});
  s->holds(0, 0);
  s->idles(1);
  watches(s, 1, now + 1);
  s->serve(w, "M0", 0);
  s->dozer(w, "M1", 1, now + 1);
  s->spares(w, 2);
  w.thread("T", [=] {
    other->prepare();
    rt::inject(other);
  });
  share(w, s, {first, second, other});
}

// A goroutine starts a timer and parks, as one that sleeps; its M finds another one, which computes.
void sleeper_has_a_successor(world& w) {
  auto* s = w.make<state>(w, 2, 3);
  alarm* a = s->make_alarm(w, kSoon);
  job* sleeper = s->make_job(w, "sleeper");
  job* next = s->make_job(w, "next");
  auto* node = w.make<rt::waiter>();
  next->endless = true;
  sleeper->steps = {[=] {
    const auto arm = [](rt::waiter*, void* event) {
      auto* e = static_cast<alarm*>(event);
      e->armed.set(1);
      rt::arm_timer(rt::current_m(), *e);
      return true;
    };
    park(node, arm, a);
  }};
  s->holds(0, 0);
  s->queued(0, sleeper);
  s->queued(0, next);
  s->idles(1);
  s->serve(w, "M0", 0);
  s->sleeper(w, "M1", 1);
  s->spares(w, 2);
  s->rest(w, 1);
}

// The watcher's time has come. What it runs computes, and another timer is pending.
void watcher_computes(world& w) {
  auto* s = w.make<state>(w, 2, 3);
  alarm* a = s->make_alarm(w, kPast);
  alarm* b = s->make_alarm(w, kSoon);
  job* j = s->make_job(w, "j");
  j->endless = true;
  a->wakes = j;
  s->pending(0, a);
  s->pending(1, b);
  s->idles(0);
  s->idles(1);
  watches(s, 0, kPast);
  s->watcher(w, "M0", 0);
  s->sleeper(w, "M1", 1);
  s->spares(w, 2);
  s->rest(w, 1);
}

// A P with timers goes out of use, and a plain thread starts another one meanwhile.
void world_shrinks(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  alarm* a = s->make_alarm(w, kSoon);
  alarm* b = s->make_alarm(w, kPast);
  s->pending(1, a);
  s->idles(0);
  s->watcher(w, "M0", 0);
  s->spares(w, 1);
  w.thread("T", [=] {
    rt::stop_world();
    rt::start_world_with(1);
  });
  w.thread("U", [=] { s->start(-1, b); });
  s->rest(w, 1);
}

const protocol kProtocol{
    "timer_watch",
    {"sched/timer_watch.cc", "sched/idle.cc", "sched/world.cc", "sched/schedule.cc",
     "sched/locked.cc"},
    {"TW1", "watch-owed", "locked-watch-owed", "watch-unannounced", "poke-forgotten",
     "poke-cleared-early", "watcher-leaves", "hand-off-forgets-timers", "restart-forgets-timers",
     "no-watcher-no-wake", "stand-in-tells-nobody", "watcher-tells-nobody", "later-stand-in-stays",
     "relies-on-nobody", "watcher-sees-no-work", "watcher-leaves-crowd"},
    {
        {"stands in", {.preemptions = 3}, [](world& w) { stands_in(w, kSoon, false); }},
        {"stands in for a later one",
         {.preemptions = 3},
         [](world& w) { stands_in(w, kSoon, true); }},
        {"stands in, due", {.preemptions = 3}, [](world& w) { stands_in(w, kPast, false); }},
        {"locked one sleeps", {.preemptions = 2}, locked_one_sleeps},
        {"stand-in, stopped meanwhile", {.preemptions = 3, .timeouts = 2}, stand_in_is_stopped},
        {"stand-in is needed", {.preemptions = 2, .old_loads = 1}, stand_in_is_needed},
        {"watcher without a P",
         {.preemptions = 3, .timeouts = 1},
         [](world& w) { watcher_has_no_p(w, false); }},
        {"watcher without a P is poked",
         {.preemptions = 3},
         [](world& w) { watcher_has_no_p(w, true); }},
        {"two stand-ins", {.preemptions = 2}, two_stand_ins},
        {"falls asleep", {.preemptions = 3}, [](world& w) { falls_asleep(w, kSoon, false); }},
        {"falls asleep, spinning",
         {.preemptions = 3, .old_loads = 2},
         [](world& w) { falls_asleep(w, kSoon, true); }},
        {"falls asleep, due", {.preemptions = 3}, [](world& w) { falls_asleep(w, kPast, false); }},
        {"asleep", {.preemptions = 3}, [](world& w) { already_asleep(w, kSoon); }},
        {"asleep, due", {.preemptions = 2}, [](world& w) { already_asleep(w, kPast); }},
        {"stopped meanwhile", {.preemptions = 3, .timeouts = 2}, stopped_meanwhile},
        {"two starters", {.preemptions = 2, .old_loads = 2}, two_starters},
        {"plain thread", {.preemptions = 3}, [](world& w) { plain_thread(w, kSoon); }},
        {"plain thread, due", {.preemptions = 3}, [](world& w) { plain_thread(w, kPast); }},
        {"watcher is needed", {.preemptions = 2, .old_loads = 1}, watcher_is_needed},
        {"no P when due",
         {.preemptions = 2, .old_loads = 2},
         [](world& w) { no_p_when_due(w, false); }},
        {"no P when due, handed off",
         {.preemptions = 2, .old_loads = 2},
         [](world& w) { no_p_when_due(w, true); }},
        {"crowd", {.preemptions = 2, .old_loads = 2}, crowd},
        {"deputy takes a share",
         {.preemptions = 2, .old_loads = 2, .timeouts = 2},
         deputy_takes_a_share},
        {"watcher takes a share",
         {.preemptions = 2, .old_loads = 2, .timeouts = 2},
         watcher_takes_a_share},
        {"watcher has other work",
         {.preemptions = 1, .old_loads = 1, .timeouts = 2},
         watcher_has_other_work},
        {"sleeper has a successor", {.preemptions = 2, .old_loads = 2}, sleeper_has_a_successor},
        {"watcher computes", {.preemptions = 2, .old_loads = 2}, watcher_computes},
        {"world shrinks", {.preemptions = 1, .old_loads = 1}, world_shrinks},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, TimerWatch) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
