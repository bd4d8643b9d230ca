// Waiting for the first of several channel operations. [SEL-1] to [SEL-7]
//
//   1  lock all channels, in the order of their addresses, each once
//   2  look which cases can proceed. Any: choose one at random, unlock the others, do it
//   3  none, and there is an `otherwise` or the time is up: unlock all, done
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
// Go: runtime/select.go selectgo
#include <algorithm>
#include <new>
#include <utility>

#include <weft/detail/select.h>
#include <weft/go.h>

#include "base/fatal.h"
#include "base/rng.h"
#include "base/tls.h"
#include "chan/channel.h"
#include "gmp/m.h"
#include "os/clock.h"
#include "sched/timed.h"
#include "sched/timers.h"

namespace weft::rt {

namespace {

using detail::case_kind;
using detail::select_case;
using detail::select_result;

static_assert(sizeof(chan_waiter) <= detail::kSelectNodeSize && alignof(chan_waiter) <= 8);

constexpr std::size_t kNone = SIZE_MAX;

// Uniform in [0, n).
std::uint32_t random_below(std::uint32_t n) {
  if (M* mp = current_m()) {
    return mp->random.below(n);
  }
  static atomic<std::uint64_t> draws{0};  // plain threads share one sequence
  // order: relaxed, only the numbers must differ
  rng r(draws.fetch_add(0x9e3779b97f4a7c15u, WEFT_ORDER(RN0, relaxed)));
  return r.below(n);
}

class selection {
 public:
  selection(const select_case* cases, std::size_t n, detail::select_node* nodes,
            std::uint32_t* order)
      : cases_(cases), n_(n), nodes_(nodes), order_(order) {}

  select_result run(bool sorted);

 private:
  void gather();
  void sort();
  bool lock_all();
  void unlock_all(const channel* but);
  std::size_t choose();
  bool proceed(std::size_t chosen, bool* received);
  std::size_t wait(bool* received, bool* retry);
  void shuffle_from(std::size_t k);
  void enqueue();
  std::size_t leave();
  static bool unlock_in_commit(waiter*, void* self);

  channel* at(std::size_t k) const { return cases_[order_[k]].ch; }
  bool first_of(std::size_t k) const { return k == 0 || at(k) != at(k - 1); }
  chan_waiter* node(std::size_t i) const {
    return std::launder(reinterpret_cast<chan_waiter*>(nodes_[i].memory));
  }

  const select_case* const cases_;
  const std::size_t n_;
  detail::select_node* const nodes_;
  std::uint32_t* const order_;  // the cases with a channel, by its address
  std::size_t live_ = 0;        // how many
  std::size_t otherwise_ = kNone;
  std::size_t timeout_ = kNone;
  std::int64_t deadline_ = kNever;
  waiter waiter_;
  wait_claim claim_;
};

void selection::gather() {
  std::int64_t shortest = kNever;
  for (std::size_t i = 0; i < n_; ++i) {
    const select_case& c = cases_[i];
    if (c.ch != nullptr) {
      ++live_;
      if (c.kind == case_kind::recv && c.ch->hook != nullptr) [[unlikely]] {
        c.ch->hook->before_receive(c.ch->hook);
      }
    } else if (c.kind == case_kind::otherwise) {
      otherwise_ = i;
    } else if (c.kind == case_kind::timeout && (timeout_ == kNone || c.timeout < shortest)) {
      timeout_ = i;
      shortest = c.timeout;
    }
  }
  if (timeout_ != kNone && otherwise_ == kNone) {
    deadline_ = time_after(nanotime(), shortest);
  }
}

void selection::sort() {
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

// False: one is busy; none is held. SE-a
bool selection::lock_all() {
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

void selection::unlock_all(const channel* but) {
  for (std::size_t k = 0; k < live_; ++k) {
    if (first_of(k) && at(k) != but) {
      at(k)->unlock();
    }
  }
}

// One of those that can proceed, each with the same probability.
std::size_t selection::choose() {
  std::size_t chosen = kNone;
  std::uint32_t ready = 0;
  for (std::size_t k = 0; k < live_; ++k) {
    const select_case& c = cases_[order_[k]];
    const bool can = c.kind == case_kind::recv ? c.ch->can_recv() : c.ch->can_send();
    if (can && (++ready == 1 || random_below(ready) == 0)) {
      chosen = order_[k];
    }
  }
  return chosen;
}

// With the lock of that channel. False: it was claimed by somebody else meanwhile.
bool selection::proceed(std::size_t chosen, bool* received) {
  const select_case& c = cases_[chosen];
  const chan_status s = c.kind == case_kind::recv ? c.ch->recv(c.value) : c.ch->send(c.value);
  if (s == chan_status::blocked) {
    c.ch->unlock();
    return false;
  }
  if (s == chan_status::closed) {
    if (c.kind == case_kind::send) {
      detail::throw_send_on_closed();
    }
    tsan_acquire(c.ch->closed_address());
  }
  *received = s == chan_status::done;
  return true;
}

// Cases of one channel become ready together, and the first in its queue is met.
void selection::shuffle_from(std::size_t k) {
  std::size_t end = k + 1;
  while (end < live_ && at(end) == at(k)) {
    ++end;
  }
  for (; end - k > 1; ++k) {
    std::swap(order_[k], order_[k + random_below(static_cast<std::uint32_t>(end - k))]);
  }
}

void selection::enqueue() {
  claim_.reset();
  waiter_.claim = &claim_;
  for (std::size_t k = 0; k < live_; ++k) {
    if (k + 1 < live_ && at(k) == at(k + 1) && first_of(k)) [[unlikely]] {
      shuffle_from(k);
    }
    const std::size_t i = order_[k];
    const select_case& c = cases_[i];
    auto* n = ::new (nodes_[i].memory) chan_waiter(&waiter_, c.value);
    if (c.kind == case_kind::send) {
      c.ch->enqueue_sender(n);
      continue;
    }
    c.ch->enqueue_receiver(n);
    if (c.ch->hook != nullptr) [[unlikely]] {
      c.ch->hook->blocked(c.ch->hook, 1);
    }
  }
}

// SE-b
bool selection::unlock_in_commit(waiter*, void* self) {
  const auto* s = static_cast<const selection*>(self);
  std::size_t k = 0;
  const std::size_t live = s->live_;
  while (k < live) {
    channel* c = s->at(k);
    do {
      ++k;
    } while (k < live && s->at(k) == c);
    c->unlock();
  }
  return true;
}

// Takes the nodes out again that nobody has met; returns the case that was.
std::size_t selection::leave() {
  std::size_t met = kNone;
  for (std::size_t k = 0; k < live_; ++k) {
    const std::size_t i = order_[k];
    const select_case& c = cases_[i];
    chan_waiter* n = node(i);
    if (n->outcome.get() != chan_outcome::waiting) {
      WEFT_CHECK(met == kNone, "two cases of a select have run");
      met = i;
    } else {
      c.ch->lock();
      if (c.kind == case_kind::send) {
        c.ch->dequeue_sender(n);
      } else {
        c.ch->dequeue_receiver(n);
      }
      c.ch->unlock();
    }
    if (c.kind == case_kind::recv && c.ch->hook != nullptr) [[unlikely]] {
      c.ch->hook->blocked(c.ch->hook, -1);
    }
  }
  return met;
}

// With all locks; parks. *retry: start over.
std::size_t selection::wait(bool* received, bool* retry) {
  enqueue();
  wait_end end = wait_end::woken;
  if (deadline_ == kNever) {
    block(waiter_, unlock_in_commit, this, &waiter_, wait_reason::select);
  } else {
    end = block_until(waiter_, unlock_in_commit, this, &waiter_, wait_reason::select,
                      {deadline_, nullptr});
  }
  const std::size_t met = leave();
  WEFT_CHECK((met == kNone) == (end != wait_end::woken), "a select was woken by nobody");
  if (met == kNone) {
    return timeout_;
  }
  const chan_outcome outcome = node(met)->outcome.get();
  *retry = outcome == chan_outcome::retry;
  *received = outcome == chan_outcome::done;
  if (outcome == chan_outcome::closed && cases_[met].kind == case_kind::send) {
    detail::throw_send_on_closed();
  }
  return met;
}

select_result selection::run(bool sorted) {
  gather();
  if (live_ == 0) {
    if (otherwise_ == kNone && timeout_ == kNone) {
      block_for_ever(n_ == 0 ? wait_reason::select_no_cases : wait_reason::select);
    }
    if (otherwise_ == kNone) {
      sleep_until(deadline_);
    }
    return {otherwise_ != kNone ? otherwise_ : timeout_, false};
  }
  if (!sorted) {
    sort();
  }
  for (;;) {
    if (!lock_all()) {
      const seen user;
      gosched();
      continue;
    }
    bool received = false;
    const std::size_t chosen = choose();
    if (chosen != kNone) {
      unlock_all(cases_[chosen].ch);
      if (proceed(chosen, &received)) {
        return {chosen, received};
      }
      continue;
    }
    if (otherwise_ != kNone) {
      unlock_all(nullptr);
      return {otherwise_, false};
    }
    bool retry = false;
    const std::size_t met = wait(&received, &retry);
    if (!retry) {
      return {met, received};
    }
  }
}

}  // namespace

}  // namespace weft::rt

namespace weft::detail {

select_result select_run(const select_case* cases, std::size_t n, select_node* nodes,
                         std::uint32_t* order, bool sorted) {
  const rt::unseen here;
  rt::selection s(cases, n, nodes, order);
  return s.run(sorted);
}

}  // namespace weft::detail
