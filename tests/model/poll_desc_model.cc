// Exhaustive model of poll/poll_core.h and io/poll_rules.h: a reader that waits for a socket, the poller, deadlines and
// closing.
//
// The socket is the kernel's: its state changes under a lock of its own, and news follows the change. The
// reader goes on when there is something to read, and never otherwise sleeps for good.
#include <algorithm>
#include <gtest/gtest.h>

#include "base/lock.h"
#include "base/note.h"
#include "io/poll_rules.h"
#include "model/protocol.h"
#include "poll/poll_core.h"

namespace weft::model {
namespace {

constexpr auto kRead = rt::direction::read, kWrite = rt::direction::write;

struct node {
  rt::cell<int> whole;
  rt::note event;
};

struct socket {
  mutex lock;
  int bytes = 0;
  bool ended = false;

  void arrive(int n, bool end) {
    lock.lock();
    bytes += n;
    ended = ended || end;
    lock.unlock();
  }
  // Into a large buffer, or into a small one: what there is; 0 at the end, -1 not now.
  int read(int room = 100) {
    lock.lock();
    const int n = bytes > 0 ? std::min(bytes, room) : ended ? 0 : -1;
    bytes -= std::max(n, 0);
    lock.unlock();
    return n;
  }
};

// What fires the timers of deadlines, as timers/ does: without the record's lock, and late.
struct alarm_clock {
  mutex lock;
  std::int64_t now = 0;
  std::int64_t when[2] = {rt::kNever, rt::kNever};  // kNever: not pending
};

struct record : rt::poll_core<node> {
  rt::ranked_lock lock{rt::lock_rank::poll_desc};
  std::int64_t deadline[2] = {rt::kNever, rt::kNever};
  alarm_clock clock;
};

struct timers {
  static void start(record& r, rt::direction d, std::int64_t when) {
    r.clock.lock.lock();
    r.clock.when[static_cast<int>(d)] = when;
    r.clock.lock.unlock();
  }
  static void stop(record& r, rt::direction d) { start(r, d, rt::kNever); }
  static std::int64_t now(record& r) {
    r.clock.lock.lock();
    const std::int64_t n = r.clock.now;
    r.clock.lock.unlock();
    return n;
  }
};

struct state {
  record core;
  socket s;
  node nodes[6];  // one for each time that somebody parks
  rt::limit_mark own;
  int parks = 0;
  rt::drain_mark drain;
  int got = 0;
  bool faulted = false, at_end = false;
  rt::readiness why[2] = {rt::readiness::ready, rt::readiness::ready};  // … by direction

  static void wake(node* n) {
    if (n == nullptr) return;
    check(n->whole.get() == 1, "a node is found that is half written");
    n->event.wake();
  }
  void news(bool hang_up, std::uint32_t use = 0) {
    if (!core.is_current(use)) return;
    if (hang_up) core.hang_up(use);
    wake(core.ready(kRead, hang_up));
  }

  // As io/poll_wait.cc does.
  void set_deadline(std::int64_t when, rt::direction d = kRead) {
    core.lock.lock();
    node* const n = rt::change_deadline<timers>(core, d, when);
    core.lock.unlock();
    wake(n);
  }
  void evict() {
    node* woken[2];
    core.lock.lock();
    rt::end_waits<timers>(core, woken);
    core.lock.unlock();
    wake(woken[0]);
    wake(woken[1]);
  }
  void limit_over() {
    wake(core.end_wait(kRead, [this] { own.set(rt::readiness::timed_out); }));
  }
  // The timer that is due has been taken out when it fires.
  void time_comes(std::int64_t now) {
    bool due[2];
    core.clock.lock.lock();
    core.clock.now = now;
    for (int i : {0, 1}) {
      due[i] = core.clock.when[i] <= now;
      if (due[i]) core.clock.when[i] = rt::kNever;
    }
    core.clock.lock.unlock();
    for (auto d : {kRead, kWrite}) {
      if (!due[static_cast<int>(d)]) continue;
      core.lock.lock();
      node* const n = rt::deadline_comes(core, d, now);
      core.lock.unlock();
      wake(n);
    }
  }

  rt::readiness wait(rt::direction d) {
    return rt::await_news(core, d, &own, [this, d] {
      check(parks < 6, "it wakes too often");
      node& n = nodes[parks++];
      n.whole.set(1);
      if (core.commit(d, &n)) n.event.sleep();
    });
  }
  // As io/fd.cc.
  void read_some() {
    rt::readiness& r = why[0];
    for (;;) {
      r = drain.before_read(core, [this] { return wait(kRead); });
      if (r != rt::readiness::ready) break;
      const int n = s.read();
      if (n < 0) {
        drain.nothing_there();
        continue;
      }
      if (n > 0) {
        drain.less_than_room(core);
      } else {
        drain.unknown();
      }
      got += n;
      at_end = n == 0;
      return;
    }
    faulted = true;
  }
  // As io_fd::attempt(): not more than one byte.
  void read_one() {
    drain.read_in_another_way();
    rt::readiness& r = why[0];
    for (r = rt::prepare(core, kRead); r == rt::readiness::ready; r = wait(kRead)) {
      const int n = s.read(1);
      if (n >= 0) {
        got += n;
        return;
      }
    }
    faulted = true;
  }
  // Nothing can be written.
  void write_some() {
    rt::readiness& r = why[1];
    for (r = rt::prepare(core, kWrite); r == rt::readiness::ready;) r = wait(kWrite);
  }

  void expect_closed() {
    check(core.fault(kRead) == rt::poll_fault::closing, "it is not closed");
    check(core.clock.when[0] == rt::kNever && core.clock.when[1] == rt::kNever,
          "a timer is left for a record that is closed");
  }
  // What time and timers say when everybody has come to rest.
  void expect_deadline(std::int64_t when) {
    const bool over = when <= core.clock.now;
    check(core.deadline[0] == when, "another deadline");
    check((core.fault(kRead) == rt::poll_fault::timed_out) == over, "in time, or too late?");
    check(core.clock.when[0] == (over ? rt::kNever : when), "another timer than its deadline's");
  }
};

// Something arrives.
void arrives(world& w) {
  auto* s = w.make<state>();
  w.thread("reader", [=] { s->read_some(); });
  w.thread("poller", [=] {
    s->s.arrive(1, false);
    s->news(false);
  });
  w.finally([=] { check(s->got == 1 && !s->faulted, "it has not read what there was"); });
}

// Twice, and the reader believes that a short read has drained the socket.
void arrives_twice(world& w) {
  auto* s = w.make<state>();
  w.thread("reader", [=] {
    while (s->got < 2) s->read_some();
  });
  w.thread("poller", [=] {
    s->s.arrive(1, false);
    s->news(false);
    s->s.arrive(1, false);
    s->news(false);
  });
  w.finally([=] { check(s->got == 2, "it has not read what there was"); });
}

// The end follows what arrives: with its own news, or in the same.
void ends(world& w, bool together) {
  auto* s = w.make<state>();
  w.thread("reader", [=] {
    s->read_some();
    s->read_some();
  });
  w.thread("poller", [=] {
    s->s.arrive(1, together);
    s->news(together);
    if (!together) {
      s->s.arrive(0, true);
      s->news(true);
    }
  });
  w.finally([=] { check(s->got == 1 && s->at_end, "it has not seen the end"); });
}

// It ended long ago, and the poller has said so once; now it says it again while the reader resets.
void ends_again(world& w) {
  auto* s = w.make<state>();
  s->s.arrive(1, false);
  s->news(false);
  w.thread("reader", [=] {
    s->read_some();
    s->read_some();
  });
  w.thread("poller", [=] {
    s->s.arrive(0, true);
    s->news(true);
  });
  w.finally([=] { check(s->got == 1 && s->at_end, "it has not seen the end"); });
}

// A deadline that is over when it is set ends the wait …
void deadline(world& w) {
  auto* s = w.make<state>();
  w.thread("reader", [=] { s->read_some(); });
  w.thread("limit", [=] { s->set_deadline(0); });
  w.finally([=] {
    check(s->why[0] == rt::readiness::timed_out && s->got == 0, "it has read what was not there");
    s->expect_deadline(0);
  });
}

// … and one that comes …
void deadline_comes(world& w) {
  auto* s = w.make<state>();
  s->set_deadline(10);
  w.thread("reader", [=] { s->read_some(); });
  w.thread("clock", [=] { s->time_comes(10); });
  w.finally([=] {
    check(s->why[0] == rt::readiness::timed_out, "it has not noticed");
    s->expect_deadline(10);
  });
}

// … and a close.
void close(world& w) {
  auto* s = w.make<state>();
  w.thread("reader", [=] { s->read_some(); });
  w.thread("closer", [=] { s->evict(); });
  w.finally([=] {
    check(s->why[0] == rt::readiness::closing && s->got == 0, "it has read what was not there");
    s->expect_closed();
  });
}

// Of both directions.
void close_both(world& w) {
  auto* s = w.make<state>();
  s->set_deadline(10, kRead);
  s->set_deadline(10, kWrite);
  w.thread("reader", [=] { s->read_some(); });
  w.thread("writer", [=] { s->write_some(); });
  w.thread("closer", [=] { s->evict(); });
  w.finally([=] {
    check(s->why[0] == rt::readiness::closing, "the reader has not noticed");
    check(s->why[1] == rt::readiness::closing, "the writer has not noticed");
    s->expect_closed();
  });
}

// Both a close and news.
void close_and_news(world& w) {
  auto* s = w.make<state>();
  w.thread("reader", [=] { s->read_some(); });
  w.thread("closer", [=] { s->evict(); });
  w.thread("poller", [=] {
    s->s.arrive(1, false);
    s->news(false);
  });
  w.finally([=] {
    check(s->faulted != (s->got == 1), "read, or closed: one of them");
    check(!s->faulted || s->why[0] == rt::readiness::closing, "another reason");
  });
}

// Both a close and a deadline that comes: one that is late finds none.
void close_and_deadline(world& w) {
  auto* s = w.make<state>();
  s->set_deadline(10);
  w.thread("reader", [=] { s->read_some(); });
  w.thread("clock", [=] { s->time_comes(10); });
  w.thread("closer", [=] { s->evict(); });
  w.finally([=] {
    check(s->faulted, "it has not noticed");
    s->expect_closed();
  });
}

// A deadline is set while somebody closes it.
void close_and_set(world& w) {
  auto* s = w.make<state>();
  w.thread("closer", [=] { s->evict(); });
  w.thread("setter", [=] { s->set_deadline(10); });
  w.finally([=] { s->expect_closed(); });
}

// The limit of one wait alone.
void own_limit(world& w) {
  auto* s = w.make<state>();
  w.thread("reader", [=] { s->read_some(); });
  w.thread("limit", [=] { s->limit_over(); });
  w.finally([=] { check(s->faulted, "it has not noticed"); });
}

// … and news.
void own_limit_and_news(world& w) {
  auto* s = w.make<state>();
  w.thread("reader", [=] { s->read_some(); });
  w.thread("limit", [=] { s->limit_over(); });
  w.thread("poller", [=] {
    s->s.arrive(1, false);
    s->news(false);
  });
  w.finally([=] { check(s->faulted != (s->got == 1), "read, or timed out: one of them"); });
}

// Both a deadline and news.
void deadline_and_news(world& w) {
  auto* s = w.make<state>();
  w.thread("reader", [=] { s->read_some(); });
  w.thread("limit", [=] { s->set_deadline(0); });
  w.thread("poller", [=] {
    s->s.arrive(1, false);
    s->news(false);
  });
  w.finally([=] { check(s->faulted != (s->got == 1), "read, or timed out: one of them"); });
}

// A deadline that is moved away again; then something arrives.
void deadline_moved(world& w) {
  auto* s = w.make<state>();
  w.thread("reader", [=] { s->read_some(); });
  w.thread("limit", [=] {
    s->set_deadline(0);
    s->set_deadline(rt::kNever);
    s->s.arrive(1, false);
    s->news(false);
  });
  w.finally([=] {
    check(s->faulted != (s->got == 1), "read, or timed out: one of them");
    s->expect_deadline(rt::kNever);
  });
}

// A read that has found nothing times out; then somebody reads in another way, and leaves something.
void read_in_two_ways(world& w) {
  auto* s = w.make<state>();
  w.thread("reader", [=] {
    s->read_some();
    s->set_deadline(rt::kNever);
    if (s->got < 2) s->read_one();
    if (s->got < 2) s->read_some();
  });
  w.thread("limit, poller", [=] {
    s->set_deadline(0);
    s->s.arrive(2, false);
    s->news(false);
  });
  w.finally([=] { check(s->got == 2, "it has not read what there was"); });
}

// The reader moves it away itself, while its timer fires: what fires late changes nothing.
void moved_when_it_comes(world& w, std::int64_t to) {
  auto* s = w.make<state>();
  s->set_deadline(10);
  w.thread("reader", [=] {
    s->set_deadline(to);
    s->read_some();
  });
  w.thread("clock", [=] { s->time_comes(10); });
  w.thread("poller", [=] {
    s->s.arrive(1, false);
    s->news(false);
  });
  w.finally([=] {
    check(s->got == 1 && !s->faulted, "its deadline had been moved, and ended the wait");
    s->expect_deadline(to);
  });
}

// Two set it, and time goes on.
void two_set(world& w) {
  auto* s = w.make<state>();
  w.thread("one", [=] { s->set_deadline(10); });
  w.thread("two", [=] { s->set_deadline(20); });
  w.thread("clock", [=] { s->time_comes(10); });
  w.finally([=] {
    s->time_comes(10);  // a timer may have been started when it was due already
    s->expect_deadline(s->core.deadline[0] == 10 ? 10 : 20);
  });
}

// The record is used anew while news of its last use is under way …
void used_anew(world& w) {
  auto* s = w.make<state>();
  w.thread("poller", [=] { s->news(true, 0); });
  w.thread("owner", [=] {
    s->evict();
    s->core.renew();
    s->s.arrive(1, false);
    s->news(false, 1);
    s->read_some();
  });
  w.finally([=] {
    check(s->got == 1 && !s->faulted, "the new user could not read");
    check(!s->core.hung_up(), "the new user has the old one's end");
  });
}

// … or the timer of its deadline is.
void used_anew_when_it_comes(world& w) {
  auto* s = w.make<state>();
  s->set_deadline(10);
  w.thread("clock", [=] { s->time_comes(10); });
  w.thread("owner", [=] {
    s->evict();
    s->core.lock.lock();
    s->core.renew();
    s->core.lock.unlock();
    s->s.arrive(1, false);
    s->news(false, 1);
    s->read_some();
  });
  w.finally([=] {
    check(s->got == 1 && !s->faulted, "the new user has the old one's deadline");
    s->expect_deadline(rt::kNever);
  });
}

const protocol kProtocol{
    "poll_desc",
    {"poll/poll_core.h", "io/poll_rules.h"},
    {},
    {
        {"arrives", {.preemptions = 4}, arrives},
        {"arrives twice", {.preemptions = 3}, arrives_twice},
        {"ends, together", {.preemptions = 3}, [](world& w) { ends(w, true); }},
        {"ends", {.preemptions = 3}, [](world& w) { ends(w, false); }},
        {"ends again", {.preemptions = 3}, ends_again},
        {"deadline", {.preemptions = 4}, deadline},
        {"deadline comes", {.preemptions = 4}, deadline_comes},
        {"close", {.preemptions = 4}, close},
        {"close, both directions", {.preemptions = 3}, close_both},
        {"close and news", {.preemptions = 3}, close_and_news},
        {"close and deadline", {.preemptions = 3}, close_and_deadline},
        {"close and set", {.preemptions = 4}, close_and_set},
        {"deadline and news", {.preemptions = 3}, deadline_and_news},
        {"own limit", {.preemptions = 4}, own_limit},
        {"own limit and news", {.preemptions = 2}, own_limit_and_news},
        {"deadline moved", {.preemptions = 3}, deadline_moved},
        {"read in two ways", {.preemptions = 3}, read_in_two_ways},
        {"moved away when it comes",
         {.preemptions = 3},
         [](world& w) { moved_when_it_comes(w, rt::kNever); }},
        {"moved when it comes", {.preemptions = 3}, [](world& w) { moved_when_it_comes(w, 20); }},
        {"two set", {.preemptions = 3}, two_set},
        {"used anew", {.preemptions = 3}, used_anew},
        {"used anew when it comes", {.preemptions = 3}, used_anew_when_it_comes},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, PollDesc) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
