// Waiting for the first of several channel operations: the protocol. [SEL-1] to [SEL-7]
//
//   1  lock all channels, in the order of their addresses, each once
//   2  look which cases can proceed. Any: choose one at random, unlock the others, do it
//   3  none, and there is an `otherwise`: unlock all, done
//   4  queue one node per case, all with one waiter and one claim; park. The successor unlocks
//   5  woken: whoever had the claim has done the operation of one node. Unlink the others, one
//      channel at a time
//
// All locks at once, because an `otherwise` that is chosen must have been right at one moment, and
// because a value that arrives between looking at a channel and queueing there would be missed.
//
// SE-a: a select never holds a lock while it waits for one. It spins for a while, then backs out and
// starts over. Otherwise a goroutine that was descheduled with one channel's lock would stop others.
//
// SE-b: in step 4 the successor reads the list of channels, which lies in the frame of the select,
// until it has unlocked the last one. The frame lives that long, since the select locks every
// channel but the one by which it was woken, in step 5, before it returns.
//
// Uniform choice: a count of those that are ready, and one random number if there are several. Go
// shuffles the cases before it looks, which costs n random numbers also if nothing is ready. Only
// cases of the same channel are shuffled here, before they are queued there.
//
// Env supplies, for products (select.cc) and for models:
//   channel                     a chan_core
//   room, select_case           memory for a node; detail::select_case
//   block(waiter, commit, arg, deadline)   false: the deadline came first
//   random_below(n), yield(staying)       lets others run; staying: comes back on this thread
//   before_receive(channel*), blocked(channel*, change)   the channel's hook
//
// Go: runtime/select.go selectgo
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include <weft/detail/select.h>

#include "base/fatal.h"
#include "chan/chan_core.h"
#include "gmp/wait_claim.h"

namespace weft::rt {

// What a select has come to.
struct selected {
  std::size_t index;
  chan_status status;  // blocked: no operation; `otherwise` or the time is up
};

template <class Env>
class selection {
 public:
  using channel = typename Env::channel;
  using waiter = typename channel::waiter;
  using node = typename channel::node;
  using case_kind = detail::case_kind;
  using select_case = typename Env::select_case;  // detail::select_case, once channel is known
  using room = typename Env::room;

  static constexpr std::size_t kNone = SIZE_MAX;
  static constexpr std::int64_t kNever = INT64_MAX;
  static_assert(sizeof(node) <= sizeof(room) && alignof(node) <= alignof(room));

  // nodes and order: room for n each.
  selection(const select_case* cases, std::size_t n, room* nodes, std::uint32_t* order)
      : cases_(cases), n_(n), nodes_(nodes), order_(order) {}

  // First: how many cases have a channel, and which are the others.
  void gather() {
    for (std::size_t i = 0; i < n_; ++i) {
      const select_case& c = cases_[i];
      if (c.ch != nullptr) {
        ++live_;
        if (c.kind == case_kind::recv) {
          Env::before_receive(c.ch);
        }
      } else if (c.kind == case_kind::otherwise) {
        otherwise_ = i;
      } else if (c.kind == case_kind::timeout &&
                 (timeout_ == kNone || c.timeout < cases_[timeout_].timeout)) {
        timeout_ = i;
      }
    }
  }
  const select_case* cases() const { return cases_; }
  std::size_t size() const { return n_; }
  std::size_t live() const { return live_; }
  std::size_t otherwise() const { return otherwise_; }
  std::size_t timeout() const { return timeout_; }

  // Then, unless the order is that of an earlier select with the same channels: by address.
  void sort() {
    constexpr std::size_t kFew = 16;
    std::size_t k = 0;
    for (std::size_t i = 0; i < n_; ++i) {
      if (cases_[i].ch == nullptr) {
        continue;
      }
      std::size_t to = k++;
      if (n_ <= kFew) {  // by insertion: channels that were made together are in order already
        while (to > 0 && at(to - 1) > cases_[i].ch) {
          order_[to] = order_[to - 1];
          --to;
        }
      }
      order_[to] = static_cast<std::uint32_t>(i);
    }
    if (n_ > kFew) {
      std::sort(order_, order_ + k,
                [this](std::uint32_t a, std::uint32_t b) { return cases_[a].ch < cases_[b].ch; });
    }
  }

  // Then, until one has run. Requires: live() is not 0. May throw what a move throws.
  selected run(std::int64_t deadline) {
    for (;;) {
      if (!lock_all()) [[unlikely]] {
        Env::yield(otherwise_ != kNone);
        continue;
      }
      const std::size_t chosen = choose();
      if (chosen != kNone) {
        unlock_all(cases_[chosen].ch);
        const chan_status s = proceed(cases_[chosen]);
        if (s != chan_status::blocked) {
          return {chosen, s};
        }
        cases_[chosen].ch->unlock();  // whom it would have met was claimed by somebody else
        continue;
      }
      if (otherwise_ != kNone) {
        unlock_all(nullptr);
        return {otherwise_, chan_status::blocked};
      }
      enqueue();
      const bool woken = Env::block(waiter_, unlock_in_commit, this, deadline);
      const std::size_t met = leave();
      WEFT_CHECK((met != kNone) == woken, "a select was woken by nobody");
      if (!woken) {
        return {timeout_, chan_status::blocked};
      }
      switch (node_of(met)->outcome.get()) {
        case chan_outcome::done: return {met, chan_status::done};
        case chan_outcome::closed: return {met, chan_status::closed};
        default: break;  // start over
      }
    }
  }

 private:
  channel* at(std::size_t k) const { return cases_[order_[k]].ch; }
  bool first_of(std::size_t k) const { return k == 0 || at(k) != at(k - 1); }
  node* node_of(std::size_t i) const {
    return std::launder(reinterpret_cast<node*>(nodes_[i].memory));
  }

  // False: one is busy; none is held. SE-a
  bool lock_all() {
    for (std::size_t k = 0; k < live_; ++k) {
      if (!first_of(k) || at(k)->try_lock_spinning()) [[likely]] {
        continue;
      }
      while (k-- > 0) {
        if (first_of(k)) {
          at(k)->unlock();
        }
      }
      return false;
    }
    return true;
  }

  void unlock_all(const channel* but) {
    for (std::size_t k = 0; k < live_; ++k) {
      if (first_of(k) && at(k) != but) {
        at(k)->unlock();
      }
    }
  }

  // One of those that can proceed, each with the same probability.
  std::size_t choose() {
    std::size_t chosen = kNone;
    std::uint32_t ready = 0;
    for (std::size_t k = 0; k < live_; ++k) {
      const select_case& c = cases_[order_[k]];
      const bool can = c.kind == case_kind::recv ? c.ch->can_recv() : c.ch->can_send();
      if (can && (++ready == 1 || Env::random_below(ready) == 0)) {
        chosen = order_[k];
      }
    }
    return chosen;
  }

  static chan_status proceed(const select_case& c) {
    return c.kind == case_kind::recv ? c.ch->recv(c.value) : c.ch->send(c.value);
  }

  // Cases of one channel become ready together, and the first in its queue is met.
  void shuffle_from(std::size_t k) {
    std::size_t end = k + 1;
    while (end < live_ && at(end) == at(k)) {
      ++end;
    }
    for (; end - k > 1; ++k) {
      std::swap(order_[k], order_[k + Env::random_below(static_cast<std::uint32_t>(end - k))]);
    }
  }

  void enqueue() {
    claim_.reset();
    waiter_.claim = &claim_;
    for (std::size_t k = 0; k < live_; ++k) {
      if (k + 1 < live_ && at(k) == at(k + 1) && first_of(k)) [[unlikely]] {
        shuffle_from(k);
      }
      const std::size_t i = order_[k];
      const select_case& c = cases_[i];
      auto* n = ::new (nodes_[i].memory) node(&waiter_, c.value);
      if (c.kind == case_kind::send) {
        c.ch->enqueue_sender(n);
      } else {
        c.ch->enqueue_receiver(n);
        Env::blocked(c.ch, 1);
      }
    }
  }

  // SE-b
  static bool unlock_in_commit(waiter*, void* self) {
    const auto* s = static_cast<const selection*>(self);
    const std::size_t live = s->live_;
    for (std::size_t k = 0; k < live;) {
      channel* c = s->at(k);
      do {
        ++k;
      } while (k < live && s->at(k) == c);
      c->unlock();
    }
    return true;
  }

  // Takes the nodes out again that nobody has met; returns the case that was. W4
  std::size_t leave() {
    std::size_t met = kNone;
    for (std::size_t k = 0; k < live_; ++k) {
      const std::size_t i = order_[k];
      const select_case& c = cases_[i];
      node* n = node_of(i);
      if (n->outcome.get() != chan_outcome::waiting) {
        WEFT_CHECK(met == kNone, "two cases of a select have run");
        met = i;
      } else if (!WEFT_MUTANT("losers-stay")) {
        c.ch->lock();
        if (c.kind == case_kind::send) {
          c.ch->dequeue_sender(n);
        } else {
          c.ch->dequeue_receiver(n);
        }
        c.ch->unlock();
      }
      if (c.kind == case_kind::recv) {
        Env::blocked(c.ch, -1);
      }
    }
    return met;
  }

  const select_case* const cases_;
  const std::size_t n_;
  room* const nodes_;
  std::uint32_t* const order_;  // the cases with a channel, by its address
  std::size_t live_ = 0;        // how many
  std::size_t otherwise_ = kNone;
  std::size_t timeout_ = kNone;  // the shortest
  waiter waiter_;
  wait_claim claim_;
};

}  // namespace weft::rt
