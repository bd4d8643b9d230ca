// Exhaustive model of who looks for news of descriptors: sched/netpoll.cc with idle.cc, timer_watch.cc,
// locked.cc and find_runnable.cc, compiled against the explorer.
//
// PO1, seen from outside: when everybody has come to rest, whoever waited for a descriptor of which there
// was news has run.
#include <gtest/gtest.h>

#include "model/protocol.h"
#include "model/scheduler.h"
#include "sched/foreign.h"
#include "sched/netpoll.h"
#include "sched/sysmon.h"

namespace weft::model {
namespace {

constexpr auto kRead = rt::direction::read;

struct state : runtime {
  rt::poll_core<rt::waiter> desc;
  rt::waiter node;

  state(world& w, int procs, int ms) : runtime(w, procs, ms) {
    now = 100;
    count_goroutines(1);
    tasks = [] { return -1; };
  }

  // As io/poll_wait.cc.
  static bool publish(rt::waiter* w, void* self) {
    auto* s = static_cast<state*>(self);
    const bool plain_thread = w->gp == nullptr;
    rt::io_wait_begins();
    if (!s->desc.commit(kRead, w)) {
      rt::io_wait_over();
      return false;
    }
    if (plain_thread) rt::somebody_must_poll();
    return true;
  }
  // A goroutine that waits for the descriptor, once, and then ends.
  job* reader(world& w) {
    job* j = make_job(w, "reader");
    j->steps = {[this, j] {
                  node.gp = j;
                  if (!desc.begin_wait(kRead)) park(&node, publish, this);
                },
                [] {}};
    return j;
  }
  void device(world& w) {
    w.thread("device", [this] { the_poller.ready(&desc); });
  }
  void rest(world& w, job* j) {
    w.finally([=] {
      check(j->ran == 1, "there was news, and whoever waits for it sleeps");
      check(!rt::io_is_awaited(), "somebody counts as waiting");
    });
  }
};

// It parks, and its M falls asleep.
void parks(world& w, int procs) {
  auto* s = w.make<state>(w, procs, 2);
  job* j = s->reader(w);
  s->holds(0, 0);
  s->queued(0, j);
  s->serve(w, "M0", 0);
  s->spares(w, 1);
  s->device(w);
  s->rest(w, j);
}

// The one who polls is needed for something else, and falls asleep again.
void poller_is_needed(world& w) {
  auto* s = w.make<state>(w, 1, 2);
  job* j = s->reader(w);
  job* other = s->make_job(w, "other");
  s->holds(0, 0);
  s->queued(0, j);
  s->serve(w, "M0", 0);
  s->spares(w, 1);
  s->device(w);
  w.thread("T", [=] {
    other->prepare();
    rt::inject(other);
  });
  w.finally([=] {
    check(other->ran == 1, "lost wake-up: the poller was not broken");
    check(j->ran == 1, "there was news, and whoever waits for it sleeps");
  });
}

// … and brings news with it, whose reader computes on: the one for whom it was needed runs elsewhere, or where an idle P is
// nobody would look.
void poller_brings_news(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  job* j = s->reader(w);
  j->endless = true;
  job* other = s->make_job(w, "other");
  s->holds(0, 0);
  s->queued(0, j);
  s->serve(w, "M0", 0);
  s->spares(w, 1);
  s->device(w);
  w.thread("T", [=] {
    other->prepare();
    rt::inject(other);
  });
  w.finally([=] { check(other->ran == 1, "it waits beside an idle P"); });
}

// A plain thread waits, and every M is asleep; or there is none.
void plain_thread(world& w, bool has_m) {
  auto* s = w.make<state>(w, 1, 2);
  if (has_m) {
    s->idles(0);
    s->sleeper(w, "M0", 0);
  }
  s->spares(w, has_m ? 1 : 0);
  s->device(w);
  w.thread("T", [=] {
    if (!s->desc.begin_wait(kRead)) rt::block_thread(s->node, state::publish, s);
  });
}

// An M has been poked on behalf of a plain thread, and its note is about to be set. Meanwhile its sleep has ended by
// itself, and it polls; then it is needed for something else. There is no news.
void poked_and_needed(world& w) {
  auto* s = w.make<state>(w, 1, 2);
  job* other = s->make_job(w, "other");
  s->idles(0);
  s->watcher(w, "M0", 0);
  s->spares(w, 1);
  w.service("T", [=] {
    if (!s->desc.begin_wait(kRead)) rt::block_thread(s->node, state::publish, s);
  });
  w.thread("U", [=] {
    other->prepare();
    rt::inject(other);
  });
  w.finally([=] { check(other->ran == 1, "lost wake-up: the poller counts as awake"); });
}

// The goroutine is bound to its M, which gives its P away.
void locked(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  job* j = s->reader(w);
  s->holds(0, 0);
  s->queued(0, j);
  j->steps[0] = [s, j] {
    s->m(0)->locked_g = j;
    j->locked_m = s->m(0);
    s->node.gp = j;
    if (!s->desc.begin_wait(kRead)) park(&s->node, state::publish, s);
  };
  j->steps[1] = [s, j] {
    check(rt::current_m() == s->m(0), "a locked goroutine runs elsewhere");
    s->m(0)->locked_g = nullptr;
    j->locked_m = nullptr;
  };
  s->serve(w, "M0", 0);
  s->spares(w, 1);
  s->device(w);
  s->rest(w, j);
}

struct alarm : rt::timer_event {
  int fired = 0;
  explicit alarm(std::int64_t t) {
    when = t;
    fire = [](rt::timer_event* e, std::int64_t) { ++static_cast<alarm*>(e)->fired; };
  }
};

// The one who polls watches the timers, too; somebody starts one that is due at once.
void watches_timers(world& w) {
  auto* s = w.make<state>(w, 2, 3);
  auto* a = w.make<alarm>(50);
  auto* computes = s->make_job(w, "computes");
  rt::io_wait_begins();  // somebody waits, and there is no news
  s->holds(0, 0);
  s->idles(1);
  s->thread(w, "M0", 0, [=] {
    s->m(0)->curg = computes;
    rt::arm_timer(s->m(0), *a);
  });
  s->watcher(w, "M1", 1);
  s->spares(w, 2);
  w.finally([=] { check(a->fired == 1, "a timer is overdue beside an idle P"); });
}

// All Ps are in use by goroutines that compute. Whoever becomes runnable then is run by sysmon's doing, which it is told.
job* endless(world& w, state* s, const char* text, std::function<void()> first) {
  job* j = s->make_job(w, text);
  j->steps = {std::move(first)};
  j->endless = true;
  return j;
}

// An idle M waits for the news.
void news_beside_hogs(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  job* j = s->reader(w);
  s->holds(0, 0);
  s->queued(0, j);
  s->queued(0, endless(w, s, "hog", [] {}));
  s->serve(w, "M0", 0);
  s->idles(1);
  s->watcher(w, "M1", 1);
  s->spares(w, 2);
  w.thread("device", [s] {
    rt::sysmon_told = false;
    the_poller.ready(&s->desc);
  });
  w.finally([=] {
    // If M1 fell asleep before anybody waited, the news is where it was: sysmon's backstop looks there.
    check(j->ran == 1 || rt::sysmon_told || the_poller.is_due(&the_poller),
          "there was news, and sysmon was not told");
  });
}

// One that computes wakes another, which is next on its own P.
void wakes_beside_hogs(world& w, int procs) {
  auto* s = w.make<state>(w, procs, procs);
  job* next = s->make_job(w, "next");
  rt::sysmon_told = rt::sysmon_told_of_work = false;
  s->p(0)->wakes_nobody = procs == 1;
  for (int i = 0; i < procs; ++i) {
    s->holds(i, i);
    s->queued(i, endless(w, s, i == 0 ? "waker" : "hog", [=] {
                if (i != 0) return;
                next->prepare();
                rt::M* mp = rt::current_m();
                rt::queue_put(mp, mp->p, next, /*next=*/true);
                rt::wake_p_for_next(mp->p);
              }));
  }
  s->serve(w, "M0", 0);
  if (procs > 1) s->serve(w, "M1", 1);
  w.finally([=] {
    check(next->ran == 1 || rt::sysmon_told || rt::sysmon_told_of_work,
          "it waits for its waker, and sysmon was not told");
  });
}

// … where a P was idle when it looked; but by the time that it comes for it, a plain thread has taken that for another one who
// computes.
void p_is_taken(world& w, bool next_here) {
  auto* s = w.make<state>(w, 2, 3);
  job* next = s->make_job(w, "next");
  rt::sysmon_told = rt::sysmon_told_of_work = false;
  s->holds(0, 0);
  s->queued(0, endless(w, s, "waker", [=] {
              next->prepare();
              rt::M* mp = rt::current_m();
              rt::queue_put(mp, mp->p, next, next_here);
              next_here ? rt::wake_p_for_next(mp->p) : rt::wake_p(mp->p);
            }));
  s->serve(w, "M0", 0);
  s->idles(1);
  s->sleeper(w, "M1", 1);
  s->spares(w, 2);
  job* hog = endless(w, s, "hog", [] {});
  w.thread("T", [=] {
    hog->prepare();
    rt::inject(hog);
  });
  w.finally([=] {
    check(next->ran == 1 || rt::sysmon_told || rt::sysmon_told_of_work,
          "it waits beside goroutines that compute, and sysmon was not told");
  });
}

// sysmon has news for three, who compute, and there is no M: it makes none, but the spawner does. Each gets a P.
void no_m_for_three(world& w) {
  auto* s = w.make<state>(w, 3, 3);
  s->spares(w, 0);
  job* const readers[] = {endless(w, s, "a", [] {}), endless(w, s, "b", [] {}),
                          endless(w, s, "c", [] {})};
  w.thread("sysmon", [=]() WEFT_NO_THREAD_SAFETY_ANALYSIS {
    sysmon_thread = engine::get().current();
    rt::sched.lock.lock();
    for (job* j : readers) {
      j->prepare();
      rt::sched.runq.push_back(j);
    }
    rt::start_m_unlock(rt::idle_p_get_for_work(), /*spinning=*/false);
    if (rt::sched.idle.claim_wake()) rt::wake_p_slow();
  });
  w.finally([=] {
    for (const job* j : readers) check(j->ran == 1, "one of three waits beside an idle P");
  });
}

const protocol kProtocol{
    "netpoll",
    {"sched/netpoll.cc", "sched/sched_api.h", "sched/idle.cc"},
    {"work-without-sysmon", "nobody-polls", "poked-one-polls", "poller-not-broken",
     "hand-off-forgets-poll", "thread-forgets-poll", "next-waits-alone", "news-beside-others",
     "unmanned-rests"},
    {
        {"parks", {.preemptions = 3, .old_loads = 2}, [](world& w) { parks(w, 1); }},
        {"parks, two Ps", {.preemptions = 2, .old_loads = 2}, [](world& w) { parks(w, 2); }},
        {"poller is needed", {.preemptions = 2, .old_loads = 2}, poller_is_needed},
        {"poller brings news", {.preemptions = 2, .old_loads = 0}, poller_brings_news},
        {"no M for three", {.preemptions = 2, .old_loads = 0}, no_m_for_three},
        {"plain thread",
         {.preemptions = 3, .old_loads = 2},
         [](world& w) { plain_thread(w, true); }},
        {"plain thread, no M",
         {.preemptions = 3, .old_loads = 2},
         [](world& w) { plain_thread(w, false); }},
        {"poked and needed", {.preemptions = 2, .old_loads = 1}, poked_and_needed},
        {"locked", {.preemptions = 2, .old_loads = 2}, locked},
        {"watches timers", {.preemptions = 2, .old_loads = 2}, watches_timers},
        {"news beside hogs", {.preemptions = 2, .old_loads = 2}, news_beside_hogs},
        {"wakes beside hogs, one P",
         {.preemptions = 2, .old_loads = 2},
         [](world& w) { wakes_beside_hogs(w, 1); }},
        {"wakes beside hogs, two Ps",
         {.preemptions = 2, .old_loads = 2},
         [](world& w) { wakes_beside_hogs(w, 2); }},
        {"P is taken, next",
         {.preemptions = 2, .old_loads = 1},
         [](world& w) { p_is_taken(w, true); }},
        {"P is taken, tail",
         {.preemptions = 2, .old_loads = 1},
         [](world& w) { p_is_taken(w, false); }},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, Netpoll) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
