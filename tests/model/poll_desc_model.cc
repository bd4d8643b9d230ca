// Exhaustive model of poll/poll_core.h: a reader that waits for a socket, the poller, deadlines and closing.
//
// The socket is the kernel's: its state changes under a lock of its own, and news follows the change. The
// reader goes on when there is something to read, and never otherwise sleeps for good.
#include <gtest/gtest.h>

#include "base/note.h"
#include "model/protocol.h"
#include "poll/poll_core.h"

namespace weft::model {
namespace {

constexpr auto kRead = rt::direction::read;

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
  // Into a large buffer: what there is; 0 at the end, -1 not now.
  int read() {
    lock.lock();
    const int n = bytes > 0 ? bytes : ended ? 0 : -1;
    bytes = 0;
    lock.unlock();
    return n;
  }
};

struct state {
  rt::poll_core<node> core;
  socket s;
  node nodes[6];  // one for each time that somebody parks
  rt::atomic<std::uint32_t> own_over{0};
  int parks = 0;
  bool drained = false;
  int got = 0;
  bool faulted = false, at_end = false;

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
  void raise(std::uint64_t bits) {
    core.raise(bits);
    wake(core.interrupt(kRead));
  }

  // The limit of this wait alone, as own_limit in io/poll_wait.cc.
  void limit_over() {
    wake(core.end_wait(kRead, [this] {
      own_over.store(1, std::memory_order_relaxed);  // order: as PW0
    }));
  }
  bool at_fault() const {
    return core.fault(kRead) != rt::poll_fault::none ||
           own_over.load(std::memory_order_relaxed) != 0;  // order: as PW0
  }

  // As io/poll_wait.cc. False: a fault.
  bool wait() {
    for (;;) {
      if (at_fault()) return false;
      if (core.begin_wait(kRead)) return true;
      if (!at_fault()) {
        check(parks < 6, "it wakes too often");
        node& n = nodes[parks++];
        n.whole.set(1);
        if (core.commit(kRead, &n)) n.event.sleep();
      }
      if (core.finish(kRead)) return true;
    }
  }
  // As io/fd.cc.
  void read_some() {
    for (;;) {
      if (drained) {
        if (!wait()) break;
      } else {
        if (core.fault(kRead) != rt::poll_fault::none) break;
        core.reset(kRead);
      }
      const int n = s.read();
      drained = n < 0 || (n > 0 && !core.hung_up());
      if (n >= 0) {
        got += n;
        at_end = n == 0;
        return;
      }
    }
    faulted = true;
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

// A deadline or a close ends the wait.
void interrupted(world& w, std::uint64_t bits) {
  auto* s = w.make<state>();
  w.thread("reader", [=] { s->read_some(); });
  w.thread("limit", [=] { s->raise(bits); });
  w.finally([=] { check(s->faulted && s->got == 0, "it has read what was not there"); });
}
void deadline(world& w) { interrupted(w, rt::poll_core<node>::expired(kRead)); }
void close(world& w) { interrupted(w, rt::poll_core<node>::kClosing); }

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
  w.thread("limit", [=] { s->raise(rt::poll_core<node>::expired(kRead)); });
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
    s->raise(rt::poll_core<node>::expired(kRead));
    s->core.lower(rt::poll_core<node>::expired(kRead));
    s->s.arrive(1, false);
    s->news(false);
  });
  w.finally([=] { check(s->faulted != (s->got == 1), "read, or timed out: one of them"); });
}

// The record is used anew while news of its last use is under way.
void used_anew(world& w) {
  auto* s = w.make<state>();
  w.thread("poller", [=] { s->news(true, 0); });
  w.thread("owner", [=] {
    s->raise(rt::poll_core<node>::kClosing);
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

const protocol kProtocol{
    "poll_desc",
    {"poll/poll_core.h"},
    {},
    {
        {"arrives", {.preemptions = 4}, arrives},
        {"arrives twice", {.preemptions = 3}, arrives_twice},
        {"ends, together", {.preemptions = 3}, [](world& w) { ends(w, true); }},
        {"ends", {.preemptions = 3}, [](world& w) { ends(w, false); }},
        {"ends again", {.preemptions = 3}, ends_again},
        {"deadline", {.preemptions = 4}, deadline},
        {"close", {.preemptions = 4}, close},
        {"deadline and news", {.preemptions = 3}, deadline_and_news},
        {"own limit", {.preemptions = 4}, own_limit},
        {"own limit and news", {.preemptions = 2}, own_limit_and_news},
        {"deadline moved", {.preemptions = 3}, deadline_moved},
        {"used anew", {.preemptions = 3}, used_anew},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, PollDesc) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
