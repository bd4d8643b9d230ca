// Exhaustive model of chan/chan_core.h, chan/chan_lock.h, chan/selection.h and gmp/wait_claim.h.
//
// Every value is received exactly once, in order; nobody sleeps beside a value or room; what was done
// before a send is seen after its receive, what was done before a receive from an unbuffered channel
// after its send, and what was done before a close after a receive that finds it closed. Of a select
// exactly one case runs; of a wait with a limit either the channel or the limit ends it, and a value
// that came too late is not lost.
#include <gtest/gtest.h>
#include <memory>
#include <utility>
#include <vector>

#include "base/note.h"
#include "chan/chan_core.h"
#include "chan/selection.h"
#include "gmp/wait_claim.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

// What a waiter is to a channel. It is on a stack: when it goes on its memory is used for other
// things, which `frame` stands for.
struct waiter {
  rt::wait_claim* claim = nullptr;
  rt::note event;
  rt::cell<int> frame;
  bool take() { return claim == nullptr || claim->take(); }
};

using value = rt::cell<int>;

struct env {
  using waiter = model::waiter;
  static constexpr bool kTracksRing = false;

  struct elements {
    value* ring;
    static bool plain() { return true; }
    void* slot(std::size_t i) const { return &ring[i]; }
    static void receive(void* to, void* from) {
      static_cast<value*>(to)->set(static_cast<value*>(from)->get());
    }
    static void store(void* slot, void* from) { receive(slot, from); }
    static bool try_store(void* slot, void* from) {
      store(slot, from);
      return true;
    }
    static void take(void* to, void* slot) { receive(to, slot); }
  };

  static void wake(waiter* w) {
    w->frame.get();
    w->event.wake();
  }
  static void met(waiter*) {}
  static void passed(void*) {}
};

}  // namespace
}  // namespace weft::model

// The channel of this program: what detail::select_case points to.
namespace weft::detail {
struct channel : rt::chan_core<model::env> {
  using chan_core::chan_core;
};
}  // namespace weft::detail

namespace weft::model {
namespace {

using detail::channel;
using rt::chan_outcome;
using rt::chan_status;
using node = channel::node;

struct select_env {
  using channel = detail::channel;
  using select_case = detail::select_case;
  struct room {
    alignas(node) std::byte memory[sizeof(node)];
  };
  static bool block(waiter& w, bool (*commit)(waiter*, void*), void* arg, std::int64_t) {
    w.frame.set(1);
    commit(&w, arg);
    w.event.sleep();
    w.frame.set(2);
    return true;
  }
  static std::uint32_t random_below(std::uint32_t n) { return n - 1; }
  static void yield(bool) { rt::cpu_pause(); }
  static void before_receive(channel*) {}
  static void blocked(channel*, int) {}
};

constexpr int kLost = -1;
constexpr int kClosed = -2;

struct state {
  value ring[2][2];
  channel c[2];
  rt::cell<int> before[3];  // by number of the thread: what it did before it communicated
  int sent = 0, received = 0, sum = 0;

  // Frames outlive their threads, so that a mutant that meets one too late does nothing worse than
  // what the model reports.
  std::vector<std::shared_ptr<void>> frames;
  template <class T, class... A>
  T& frame(A&&... a) {
    auto made = std::make_shared<T>(std::forward<A>(a)...);
    frames.push_back(made);
    return *made;
  }

  explicit state(std::size_t capacity)
      : c{channel(capacity, env::elements{ring[0]}), channel(capacity, env::elements{ring[1]})} {}

  // As chan_send_until() and chan_recv_until() do.
  chan_status send(channel& ch, int v) {
    value& mine = frame<value>();
    mine.set(v);
    ch.lock();
    const chan_status s = ch.send(&mine);
    if (s != chan_status::blocked) return s;
    waiter& w = frame<waiter>();
    node& n = frame<node>(&w, &mine);
    ch.enqueue_sender(&n);
    w.frame.set(1);
    ch.unlock();  // by the successor
    w.event.sleep();
    w.frame.set(2);
    return n.outcome.get() == chan_outcome::done ? chan_status::done : chan_status::closed;
  }

  int recv(channel& ch) {
    value& mine = frame<value>();
    ch.lock();
    const chan_status s = ch.recv(&mine);
    if (s == chan_status::done) return mine.get();
    if (s == chan_status::closed) return kClosed;
    waiter& w = frame<waiter>();
    node& n = frame<node>(&w, &mine);
    ch.enqueue_receiver(&n);
    w.frame.set(1);
    ch.unlock();
    w.event.sleep();
    w.frame.set(2);
    return n.outcome.get() == chan_outcome::done ? mine.get() : kClosed;
  }

  // With a limit that `claim` stands for.
  int recv_until(channel& ch, waiter& w, rt::wait_claim& claim) {
    value& mine = frame<value>();
    w.claim = &claim;
    ch.lock();
    const chan_status s = ch.recv(&mine);
    if (s == chan_status::done) {
      if (!claim.take()) w.event.sleep();  // its timer is gone when it returns
      return mine.get();
    }
    node& n = frame<node>(&w, &mine);
    ch.enqueue_receiver(&n);
    w.frame.set(1);
    ch.unlock();
    w.event.sleep();
    if (n.outcome.get() == chan_outcome::done) return mine.get();
    ch.lock();
    ch.dequeue_receiver(&n);
    ch.unlock();
    w.frame.set(2);
    return kLost;
  }

  bool try_send(channel& ch, int v) {
    value& mine = frame<value>();
    mine.set(v);
    ch.lock();
    const chan_status s = ch.send(&mine);
    if (s == chan_status::blocked) ch.unlock();
    return s == chan_status::done;
  }

  struct result {
    std::size_t index;
    int value;
  };
  template <std::size_t N>
  result select(const detail::case_kind (&kinds)[N], const int (&channels)[N], int v) {
    struct locals {
      value mine[N];
      detail::select_case cases[N];
      select_env::room nodes[N];
      std::uint32_t order[N];
    };
    auto& [mine, cases, nodes, order] = frame<locals>();
    for (std::size_t i = 0; i < N; ++i) {
      if (kinds[i] == detail::case_kind::send) mine[i].set(v);
      const bool any = channels[i] >= 0;
      cases[i] = {any ? &c[channels[i]] : nullptr, &mine[i], 0, kinds[i]};
    }
    auto& s = frame<rt::selection<select_env>>(cases, N, nodes, order);
    s.gather();
    s.sort();
    const rt::selected chosen = s.run(rt::selection<select_env>::kNever);
    for (auto& room : nodes) {  // the frame is used for something else
      reinterpret_cast<node*>(room.memory)->next.set(nullptr);
    }
    if (chosen.status == chan_status::closed) return {chosen.index, kClosed};
    if (chosen.status == chan_status::blocked) return {chosen.index, kLost};
    return {chosen.index, mine[chosen.index].get()};
  }
};

constexpr auto kRecv = detail::case_kind::recv;
constexpr auto kSend = detail::case_kind::send;
constexpr auto kOtherwise = detail::case_kind::otherwise;

state* make(world& w, std::size_t capacity) {
  auto* s = w.make<state>(capacity);
  for (auto& b : s->before) b.set(0);
  return s;
}

// [MM] 3 and 5
void rendezvous(world& w) {
  state* s = make(w, 0);
  w.thread("sender", [=] {
    s->before[0].set(1);
    check(s->send(s->c[0], 7) == chan_status::done, "not sent");
    check(s->before[1].get() == 1, "sent before the receiver came");
  });
  w.thread("receiver", [=] {
    s->before[1].set(1);
    check(s->recv(s->c[0]) == 7, "another value");
    check(s->before[0].get() == 1, "received before it was sent");
  });
}

// [MM] 3 and 6: capacity 1, three values
void buffered(world& w) {
  state* s = make(w, 1);
  w.thread("sender", [=] {
    s->before[0].set(1);
    for (int v = 1; v <= 3; ++v) check(s->send(s->c[0], v) == chan_status::done, "not sent");
    check(s->before[1].get() == 1, "the third is sent before the first is received");
  });
  w.thread("receiver", [=] {
    s->before[1].set(1);
    for (int v = 1; v <= 3; ++v) check(s->recv(s->c[0]) == v, "out of order");
    check(s->before[0].get() == 1, "received before it was sent");
  });
}

// One receive makes room: a sender that waited for it goes on.
void room(world& w) {
  state* s = make(w, 1);
  w.thread("sender", [=] {
    for (int v = 1; v <= 2; ++v) check(s->send(s->c[0], v) == chan_status::done, "not sent");
  });
  w.thread("receiver", [=] { check(s->recv(s->c[0]) == 1, "out of order"); });
}

void two_senders(world& w, std::size_t capacity) {
  state* s = make(w, capacity);
  for (int i = 0; i < 2; ++i) {
    w.thread(i == 0 ? "sender 0" : "sender 1", [=] {
      s->before[i].set(1);
      check(s->send(s->c[0], i) == chan_status::done, "not sent");
    });
  }
  w.thread("receiver", [=] {
    for (int k = 0; k < 2; ++k) {
      const int v = s->recv(s->c[0]);
      check(s->before[v].get() == 1, "received before it was sent");
      s->sum += v + 1;
    }
    check(s->sum == 3, "a value twice");
  });
}

void two_receivers(world& w) {
  state* s = make(w, 1);
  for (int i = 0; i < 2; ++i) {
    w.thread(i == 0 ? "receiver 0" : "receiver 1", [=] { s->sum += s->recv(s->c[0]); });
  }
  w.thread("sender", [=] {
    for (int v = 1; v <= 2; ++v) check(s->send(s->c[0], v) == chan_status::done, "not sent");
  });
  w.finally([=] { check(s->sum == 3, "a value twice"); });
}

// [MM] 4
void close_receivers(world& w) {
  state* s = make(w, 1);
  w.thread("closer", [=] {
    s->before[0].set(1);
    check(s->c[0].close(), "closed already");
    check(!s->c[0].close(), "closed twice");
  });
  for (int i = 0; i < 2; ++i) {
    w.thread(i == 0 ? "receiver 0" : "receiver 1", [=] {
      check(s->recv(s->c[0]) == kClosed, "received out of nothing");
      check(s->before[0].get() == 1, "closed before it was");
    });
  }
}

// What was sent in time is received, what was not is refused.
void close_sender(world& w, std::size_t capacity) {
  state* s = make(w, capacity);
  w.thread("sender", [=] {
    for (int v = 1; v <= 2; ++v) s->sent += s->send(s->c[0], v) == chan_status::done ? 1 : 0;
  });
  w.thread("closer", [=] { check(s->c[0].close(), "closed already"); });
  w.thread("receiver", [=] {
    while (s->recv(s->c[0]) != kClosed) ++s->received;
  });
  w.finally([=] { check(s->sent == s->received, "lost, or invented"); });
}

// A sender that waits when the channel is closed is refused.
void close_waiting_sender(world& w) {
  state* s = make(w, 0);
  w.thread("sender", [=] { check(s->send(s->c[0], 1) == chan_status::closed, "sent to nobody"); });
  w.thread("closer", [=] { check(s->c[0].close(), "closed already"); });
}

// Two channels, a value for each; one select takes one, the other one stays for the next.
void select_one(world& w) {
  state* s = make(w, 0);
  for (int i = 0; i < 2; ++i) {
    w.thread(i == 0 ? "sender 0" : "sender 1", [=] {
      s->before[i].set(1);
      check(s->send(s->c[i], i) == chan_status::done, "not sent");
    });
  }
  w.thread("select", [=] {
    const auto first = s->select({kRecv, kRecv}, {0, 1}, 0);
    check(first.value == static_cast<int>(first.index), "the value of another case");
    check(s->before[first.value].get() == 1, "received before it was sent");
    check(s->recv(s->c[1 - first.value]) == 1 - first.value, "the other one is lost");
  });
}

// Two selects, each at the other end of both channels, and two cases of one channel.
void select_both(world& w) {
  state* s = make(w, 0);
  w.thread("receives", [=] {
    const auto r = s->select({kRecv, kRecv, kRecv}, {0, 1, 0}, 0);
    check(r.value == 5, "another value");
    ++s->received;
  });
  w.thread("sends", [=] {
    s->select({kSend, kSend}, {1, 0}, 5);
    ++s->sent;
  });
  w.finally([=] { check(s->sent == 1 && s->received == 1, "lost"); });
}

// Both ends of one channel in both selects: never with itself.
void select_self(world& w) {
  state* s = make(w, 0);
  for (int i = 0; i < 2; ++i) {
    w.thread(i == 0 ? "0" : "1", [=] {
      const auto r = s->select({kSend, kRecv}, {0, 0}, i);
      if (r.index == 1) {
        check(r.value == 1 - i, "a select met itself");
        ++s->received;
      } else {
        ++s->sent;
      }
    });
  }
  w.finally([=] { check(s->sent == 1 && s->received == 1, "both did the same"); });
}

// An otherwise is right at one moment: one of the two is always ready. [SEL-2]
void snapshot(world& w) {
  state* s = make(w, 1);
  check(s->try_send(s->c[0], 1), "no room");
  w.thread("select", [=] {
    check(s->select({kRecv, kRecv, kOtherwise}, {0, 1, -1}, 0).index != 2, "nothing was ready");
  });
  w.thread("mover", [=] {
    check(s->try_send(s->c[1], 2), "no room");
    s->select({kRecv, kOtherwise}, {0, -1}, 0);
  });
}

void select_closed(world& w) {
  state* s = make(w, 0);
  w.thread("select", [=] {
    const auto r = s->select({kRecv, kSend}, {0, 1}, 3);
    if (r.index == 0) {
      check(r.value == kClosed, "received out of nothing");
      check(s->before[0].get() == 1, "closed before it was");
    } else {
      ++s->sent;
    }
  });
  w.thread("closer", [=] {
    s->before[0].set(1);
    s->c[0].close();
  });
  w.thread("receiver", [=] {
    if (s->select({kRecv, kOtherwise}, {1, -1}, 0).index == 0) ++s->received;
  });
  w.finally([=] { check(s->sent == s->received, "lost, or invented"); });
}

// The limit and a sender at the same moment: one of them ends the wait. If the limit does, the sender
// finds nobody, or the next receiver in the queue.
void limit(world& w) {
  state* s = make(w, 0);
  auto* claim = w.make<rt::wait_claim>();
  auto* waits = w.make<waiter>();
  w.thread("receiver", [=] {
    const int v = s->recv_until(s->c[0], *waits, *claim);
    s->received += v == 4 ? 1 : 0;
  });
  w.thread("limit", [=] {
    if (claim->take()) waits->event.wake();
  });
  w.thread("sender", [=] { s->sent += s->try_send(s->c[0], 4) ? 1 : 0; });
  w.finally([=] { check(s->sent == s->received, "lost, or invented"); });
}

const protocol kProtocol{
    "chan",
    {"chan/chan_core.h", "chan/chan_lock.h", "chan/selection.h", "gmp/wait_claim.h"},
    {},
    {
        {"rendezvous", {.preemptions = 3}, rendezvous},
        {"buffered", {.preemptions = 2}, buffered},
        {"room", {.preemptions = 2}, room},
        {"two senders", {.preemptions = 2}, [](world& w) { two_senders(w, 0); }},
        {"two senders, buffered", {.preemptions = 2}, [](world& w) { two_senders(w, 1); }},
        {"two receivers", {.preemptions = 2, .old_loads = 2}, two_receivers},
        {"close, receivers", {.preemptions = 2, .old_loads = 2}, close_receivers},
        {"close, sender", {.preemptions = 1, .old_loads = 2}, [](world& w) { close_sender(w, 0); }},
        {"close, buffered sender",
         {.preemptions = 1, .old_loads = 2},
         [](world& w) { close_sender(w, 1); }},
        {"close, waiting sender", {.preemptions = 2}, close_waiting_sender},
        {"select one", {.preemptions = 2}, select_one},
        {"select both", {.preemptions = 2}, select_both},
        {"select itself", {.preemptions = 2}, select_self},
        {"snapshot", {.preemptions = 2}, snapshot},
        {"select closed", {.preemptions = 2}, select_closed},
        {"limit", {.preemptions = 3}, limit},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, Chan) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
