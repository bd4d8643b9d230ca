// Who looks for news of descriptors, and when.
//
// The poller returns lists (poll/poller.h); here those on the lists become runnable. News is looked for
//   * by an M that has run out of local and global work, without waiting (find_runnable.cc), and now and then
//     by one that has not (news_are_due()), or that only yields (gosched());
//   * by one of the idle Ms, the *poller*, that waits in the kernel for it instead of sleeping on its note,
//     and also until the next timer if it is the watcher (timer_watch.cc). Whoever wakes an idle M knows
//     whether it is this one, and breaks its wait;
//   * by sysmon, if all Ps have been busy for 10 ms. It sees to it that an idle M waits for the next news, which is then not
//     late.
//
// PO1: if somebody waits for a descriptor, then an M is the poller, or an M is awake that will look before
//      it sleeps, or somebody is on the way to wake one. Otherwise the process sleeps while a request waits.
//   a. Who waits is counted before it can be found (io_wait_begins()).
//   b. A goroutine parks on an M, which is awake; whoever falls asleep becomes the poller, under
//      sched.lock, if there is none and somebody is counted. So does the last one, who sees all counts,
//      since all who fell asleep before it took the lock, too.
//   c. An M that is locked to its goroutine does not poll: it gives its P away, and hand_off_p() starts
//      another M if nobody else holds a P.
//   d. A plain thread takes sched.lock after it is counted, and if nobody polls wakes an M, or starts one if no P is in
//      use (somebody_must_poll()): an M that is awake may be in a call, and look at nothing for long.
// It says nothing about an M that computes beside idle Ps while nobody polls: that is sysmon's case.
//
// The count goes down when those who waited are queued, not before: in between a process would look dead.
// [NP-8]
//
// Go: runtime/proc.go findRunnable, pollWork, injectglist; runtime/netpoll.go
#include "sched/netpoll.h"

#include "base/fatal.h"
#include "poll/poll_desc.h"
#include "sched/foreign.h"
#include "sched/park.h"
#include "sched/sched_api.h"
#include "sched/spawner.h"
#include "sched/sysmon.h"

namespace weft::rt {

namespace {

void count_waiters(std::int32_t change) {
  // order: IO0 relaxed; PO1 is argued with sched.lock
  sched.io_waiters.fetch_add(change, WEFT_ORDER(IO0, relaxed));
}

// As the M, or as sysmon: no user's code runs here, and none sees what it did but by the wake-up.
G* made_runnable(waiter* w) {
  G* gp = w->gp;
  tsan_release(gp, "WAKE");
  gp->transition<g_status::waiting, g_status::runnable>();
  return gp;
}

void count_look() {
  // order: IO0 relaxed, a statistic for sysmon
  sched.poll_looks.fetch_add(1, WEFT_ORDER(IO0, relaxed));
}

}  // namespace

void io_wait_begins() { count_waiters(1); }
void io_wait_over() { count_waiters(-1); }

void wake_io_waiter(waiter* w) {
  wake(w);
  io_wait_over();
}

void queue_ready(M* mp, ready_list& list) {
  const std::int32_t n = list.count;
  while (waiter* w = list.pop()) {
    if (w->gp == nullptr) {
      wake_thread(w);
    } else {
      queue_put(mp, mp->p, made_runnable(w), /*next=*/false);
    }
  }
  count_waiters(-n);
  if (n > 1) {
    wake_p(mp->p);
  }
}

void queue_ready_globally(ready_list& list) {
  const std::int32_t n = list.count;
  while (waiter* w = list.pop()) {
    if (w->gp == nullptr) {
      sched.foreign.is_woken();  // as wake_thread(), but sysmon may not touch thread-local objects
      w->event.wake();
    } else {
      sched.runq.push_back(made_runnable(w));
    }
  }
  count_waiters(-n);
  if (n > 0) {
    sched.idle.request_spinner();
    sched.dozer.poke_fenced();
  }
}

// [FR-1] 10
G* poll_for_work(M* mp) {
  // order: IO0 relaxed, hints: whoever falls asleep looks again
  if (!io_is_awaited() || sched.poll_asleep.load(WEFT_ORDER(IO0, relaxed)) != 0 ||
      sched.poll_looking.exchange(1, WEFT_ORDER(IO0, relaxed)) != 0) {
    return nullptr;
  }
  ready_list list = collect_ready(0);
  sched.poll_looking.store(0, WEFT_ORDER(IO0, relaxed));  // order: relaxed, as above
  count_look();
  if (list.count == 0) {
    return nullptr;
  }
  queue_ready(mp, list);
  bool inherit = false;
  G* gp =
      take_local(mp->p, &inherit);  // null: a thief was faster, or only plain threads were woken
  // A timer may have woken somebody who was to be next (ready.cc); or mp came for one in the global queue.
  if (gp != nullptr && (!mp->p->runq.empty() || !sched.runq.empty())) {
    wake_p(mp->p);
  }
  return gp;
}

bool begin_polling(M* mp) {
  if (sched.poller != nullptr || !io_is_awaited() || WEFT_MUTANT("nobody-polls")) {
    return false;
  }
  // The note of one that was poked is set, or about to be, and whoever hands it a P relies on that (hand_p_unlock()): it
  // sleeps on its note once more, briefly, and then polls.
  if (mp->poked && !WEFT_MUTANT("poked-one-polls")) {
    return false;
  }
  sched.poller = mp;
  sched.poll_asleep.store(1, WEFT_ORDER(IO0, relaxed));  // order: relaxed, a hint
  return true;
}

void end_polling(M* mp) {
  WEFT_CHECK(sched.poller == mp, "two Ms poll");
  sched.poller = nullptr;
  sched.poll_asleep.store(0, WEFT_ORDER(IO0, relaxed));  // order: relaxed, a hint
  count_look();
}

void wake_sleeping_m(M* mp, bool polls) {
  mp->park.wake();
  if (polls && !WEFT_MUTANT("poller-not-broken")) {
    poller_break();
  }
}

bool nobody_would_poll() {
  return io_is_awaited() && sched.poller == nullptr &&
         sched.idle.idle() >= sched.proc_count() - 1 && !WEFT_MUTANT("hand-off-forgets-poll");
}

namespace {

// One that fell asleep while nobody waited for a descriptor: it shall look again, and poll.
void poke_unlock(M* mp) WEFT_RELEASE(sched.lock) {
  const bool poke = !mp->poked && mp->nextp == nullptr;
  mp->poked = true;
  sched.lock.unlock();
  if (poke) {
    mp->park.wake();
  }
}

// Nobody has looked for long, because all Ps are in use by those who compute: an idle M shall wait for what comes next.
void somebody_shall_poll() {
  sched.lock.lock();
  if (sched.poller == nullptr && sched.idle_ms != nullptr) {
    poke_unlock(sched.idle_ms);
    return;
  }
  if (sched.poller == nullptr) {
    request_spare_ms_locked(1);
  }
  sched.lock.unlock();
}

// By sysmon. If no M is idle, because all compute or are in calls, the spawner makes one.
void run_news(ready_list& list) {
  const std::int32_t n = list.count;
  if (n == 0) {
    return;
  }
  sched.lock.lock();
  queue_ready_globally(list);
  P* pp = !sched.runq.empty() ? idle_p_get_for_work() : nullptr;
  if (pp == nullptr) {
    sched.lock.unlock();
    return;
  }
  start_m_unlock(pp, /*spinning=*/false);
  if (n > 1 && sched.idle.claim_wake()) {
    wake_p_slow();  // that one wakes the next
  }
}

}  // namespace

void somebody_must_poll() {
  sched.lock.lock();
  if (sched.poller != nullptr || WEFT_MUTANT("thread-forgets-poll")) {
    sched.lock.unlock();
    return;
  }
  if (M* mp = sched.idle_ms) {
    poke_unlock(mp);
    return;
  }
  // One that has a P looks before it lets it go, or sysmon does, who may have to come first. One without may be in a call
  // for long.
  const bool has_p = sched.idle.idle() < sched.proc_count();
  if (P* pp = has_p ? nullptr : idle_p_get()) {
    start_m_unlock(pp, /*spinning=*/false);  // it finds nothing, and polls
    return;
  }
  sched.lock.unlock();  // or the world is stopped; who starts it asks again
  start_system_threads();
}

void netpoll_backstop(std::int64_t now) {
  constexpr std::int64_t kLongest = 10'000'000;  // ns
  static std::uint32_t seen = 0;                 // sysmon's own
  static std::int64_t since = 0;
  // order: IO0 relaxed, two readings of a statistic
  const std::uint32_t looks = sched.poll_looks.load(WEFT_ORDER(IO0, relaxed));
  if (looks != seen || !io_is_awaited() ||
      sched.poll_asleep.load(WEFT_ORDER(IO0, relaxed)) != 0) {  // order: relaxed, a hint
    seen = looks;
    since = now;
    return;
  }
  // order: relaxed, whoever looks now does it
  if (now - since < kLongest || sched.poll_looking.exchange(1, WEFT_ORDER(IO0, relaxed)) != 0) {
    return;
  }
  since = now;
  ready_list list = collect_ready(0);
  sched.poll_looking.store(0, WEFT_ORDER(IO0, relaxed));  // order: relaxed, as above
  run_news(list);
  somebody_shall_poll();  // after the Ms that the news needs have gone
}

}  // namespace weft::rt
