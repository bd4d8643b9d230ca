// Exhaustive model of time/chan_timer_core.h: timers that are stopped, reset and received from while they fire.
//
// Nothing is left behind: what comes after a stop or a reset has returned was neither sent before nor comes from an event that
// was started before; where nobody waits no event is pending; and every event that is holds its channel.
#include <cstdint>
#include <gtest/gtest.h>

#include "base/note.h"
#include "chan/chan_lock.h"
#include "gmp/wait_claim.h"
#include "model/protocol.h"
#include "time/chan_timer_core.h"

namespace weft::model {
namespace {

constexpr std::int64_t kSoon = 1, kLate = 5;

struct receiver {
  rt::wait_claim claim;
  rt::note event;
  rt::cell<std::int64_t> got{0};
  rt::cell<bool> listed{false};

  void give_up() {
    if (claim.take()) event.wake();
  }
};

// With a channel of one slot, and with the state of its event: when it is due, or 0 if it is not pending.
struct timer : rt::chan_timer_core<timer> {
  rt::chan_lock word;
  rt::cell<std::int64_t> ring{0};
  receiver who[2];
  rt::atomic<std::int64_t> pending{0};
  int handles = 1;
  std::int64_t time = 0;
  std::int64_t earliest = 0;  // what may still be sent
  int received = 0;

  void lock() { word.lock_staying(); }
  void unlock() { word.unlock(); }
  void send_unlock(std::int64_t due) {
    check(due >= earliest && due <= time, "sent after a stop or a reset, or before its time");
    for (receiver& r : who) {
      if (!r.listed.get()) continue;
      r.listed.set(false);
      if (!r.claim.take()) continue;
      unlock();
      r.got.set(due);
      r.event.wake();
      return;
    }
    if (ring.get() == 0) ring.set(due);
    unlock();
  }
  bool drain() {
    const bool any = ring.get() != 0;
    ring.set(0);
    return any;
  }
  void retain() { ++handles; }
  void release() { check(--handles > 0, "the event has let the channel go"); }
  bool stop_event() { return pending.exchange(0, std::memory_order_acq_rel) != 0; }
  struct restart {
    explicit restart(timer& timer) : t(timer), was(t.stop_event()) {}
    ~restart() { t.pending.store(t.when, std::memory_order_release); }
    bool was_pending() const { return was; }
    timer& t;
    const bool was;
  };
  std::int64_t when = 0;  // in a restart
  void set_when(std::int64_t at) { when = at; }
  std::int64_t now() const { return time; }

  // As chan_recv_until(): a value, or 0.
  std::int64_t recv(receiver& r) {
    before_look();
    lock();
    std::int64_t v = ring.get();
    if (v != 0) {
      ring.set(0);
      unlock();
    } else {
      r.listed.set(true);
      receiver_blocks(+1);
      unlock();  // by the successor
      r.event.sleep();
      lock();
      r.listed.set(false);
      unlock();
      receiver_came_back();
      v = r.got.get();
    }
    received += v != 0 ? 1 : 0;
    return v;
  }
  // As who looks at the timers: if it is due by now.
  void look(std::int64_t now) {
    std::int64_t due = pending.load(std::memory_order_acquire);
    if (due == 0 || due > now ||
        !pending.compare_exchange_strong(due, 0, std::memory_order_acq_rel,
                                         std::memory_order_relaxed)) {
      return;
    }
    lock();
    fire_unlock(now);
    release();
  }
  void nothing_is_left() {
    check(pending.load(std::memory_order_acquire) == 0, "pending, and nobody waits");
    check(handles == 1, "a handle is lost, or nobody's");
  }
};

timer* make(world& w, std::int64_t due) {
  auto* t = w.make<timer>();
  t->begin(due, 0);
  return t;
}

void fires_while_reset_and_stopped(world& w) {
  timer* t = make(w, kSoon);
  w.thread("receiver", [=] { t->recv(t->who[0]); });
  w.thread("timers", [=] {
    t->time = kSoon;
    t->look(kSoon);
  });
  w.thread("owner", [=] {
    t->reset(kLate, 0);
    t->earliest = kLate;
    t->reset(0, 0);
    t->earliest = kLate + 1;
    t->who[0].give_up();
  });
  w.finally([=] { t->nothing_is_left(); });
}

void fires_while_the_receiver_gives_up(world& w) {
  timer* t = make(w, kSoon);
  w.thread("receiver", [=] { t->recv(t->who[0]); });
  w.thread("timers", [=] {
    t->time = kSoon;
    t->look(kSoon);
  });
  w.thread("limit", [=] { t->who[0].give_up(); });
  w.finally([=] {
    t->nothing_is_left();
    // It is still to come, or there.
    check(t->reset(0, 0) == (t->received == 0), "lost, or twice");
  });
}

// Made to come sooner while two wait for it: one of them gets it.
void reset_for_two_receivers(world& w) {
  timer* t = make(w, kLate);
  w.thread("receiver 0", [=] { t->recv(t->who[0]); });
  w.thread("receiver 1", [=] { t->recv(t->who[1]); });
  w.thread("owner", [=] {
    t->reset(kSoon, 0);
    t->time = kSoon;
    while (t->received == 0) {
      t->look(kSoon);
      rt::cpu_pause();
    }
    for (receiver& r : t->who) r.give_up();
  });
  w.finally([=] {
    t->nothing_is_left();
    check(t->received == 1, "received twice");
  });
}

// What was sent and not received is taken back.
void reset_while_somebody_looks(world& w) {
  timer* t = make(w, kSoon);
  t->time = kSoon;
  w.thread("select", [=] { t->before_look(); });
  w.thread("owner", [=] {
    check(t->reset(kLate, 0), "nothing to come");
    t->earliest = kLate;
  });
  w.finally([=] {
    check(!t->drain(), "a stale value");
    t->nothing_is_left();
  });
}

const protocol kProtocol{
    "chan timer",
    {"time/chan_timer_core.h"},
    {},
    {
        {"reset and stopped", {.preemptions = 2, .old_loads = 2}, fires_while_reset_and_stopped},
        {"receiver gives up", {.preemptions = 2}, fires_while_the_receiver_gives_up},
        {"two receivers", {.preemptions = 2, .old_loads = 2}, reset_for_two_receivers},
        {"stale value", {.preemptions = 3}, reset_while_somebody_looks},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, ChanTimer) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
