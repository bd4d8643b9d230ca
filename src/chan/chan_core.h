// The protocol of a channel: a ring, two queues of waiters, one lock. [CH-1] to [CH-6]
//
// A value goes from the sender to a waiting receiver directly; if none waits, into the ring; if that
// is full, the sender waits with the value in its own frame. A receiver takes the oldest of the ring,
// or, if there is no ring, the value out of the oldest sender's frame.
//
// What is shared is guarded by the lock, save for the values of those who have been taken out of a
// queue: those belong to whoever took them (rule W3 in gmp/waiter.h), so values move between two
// frames after the lock is dropped. Only the ring's slots are filled and emptied under it.
//
// Invariants, whenever the lock is free
//  CH-a  one of the queues is empty, except for a select that waits at both ends of one channel.
//  CH-b  a value in the ring: no receiver waits. Otherwise it waits for what is there.
//  CH-c  room in the ring: no sender waits.
//  CH-d  closed: nobody waits.
//  (Waiters that have been claimed by others and have not left yet do not count.)
//
// Exceptions. Moving a value may throw. Into the ring: nothing has changed, the sender sees it. Into a
// waiting receiver: the sender sees it, and the receiver, already taken out, is told to start over.
// Out of the ring: the receiver sees it and the value stays. Out of a waiting sender: the receiver
// sees it; the value counts as sent. Into the ring on behalf of a waiting sender: he is told to start
// over and sees it himself, if it happens again.
//
// Env supplies, for products (channel.h) and for models:
//   waiter                      with take()
//   wake(waiter*)               lets it go on; it may be gone afterwards
//   elements                    receive(to, from)   into a receiver's frame
//                               store(slot, from)   into the ring
//                               take(to, slot)      out of it; the slot is empty afterwards
//                               slot(i), plain() (moving never throws)
//   met(waiter*), passed(slot)  for TSan: a partner was found waiting; a value passed by the ring
//
// Go: runtime/chan.go
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/fatal.h"
#include "chan/chan_lock.h"

namespace weft::rt {

// What became of somebody who waited.
enum class chan_outcome : std::uint8_t {
  waiting,
  done,    // the value has been handed over
  closed,  // the channel was closed meanwhile
  retry,   // moving the value threw, in somebody else's hands: start over
};

enum class chan_status : std::uint8_t { done, closed, blocked };

// One case of somebody's waiting: an operation on one channel.
template <class Waiter>
struct chan_node {
  constexpr chan_node(Waiter* w, void* v) noexcept : who(w), value(v) {}
  chan_node(const chan_node&) = delete;
  chan_node& operator=(const chan_node&) = delete;

  // guarded by the channel's lock
  cell<chan_node*> next{};
  cell<chan_node*> prev{};
  cell<bool> queued{false};
  // constant while queued
  Waiter* const who;
  void* const value;  // a sender's: the value. A receiver's: where it goes
  // written by whoever took it out and claimed it
  cell<chan_outcome> outcome{chan_outcome::waiting};
};

// First in, first out; anybody may leave early.
template <class Node>
class chan_queue {
 public:
  bool empty() const { return first_.get() == nullptr; }
  Node* first() const { return first_.get(); }

  void push_back(Node* n) {
    Node* last = last_.get();
    n->next.set(nullptr);
    n->prev.set(last);
    n->queued.set(true);
    if (last == nullptr) {
      first_.set(n);
    } else {
      last->next.set(n);
    }
    last_.set(n);
  }

  void remove(Node* n) {
    Node* next = n->next.get();
    Node* prev = n->prev.get();
    if (prev == nullptr) {
      first_.set(next);
    } else {
      prev->next.set(next);
    }
    if (next == nullptr) {
      last_.set(prev);
    } else {
      next->prev.set(prev);
    }
    n->queued.set(false);
  }

 private:
  cell<Node*> first_{};
  cell<Node*> last_{};
};

template <class Env>
class chan_core {
 public:
  using waiter = typename Env::waiter;
  using node = chan_node<waiter>;
  using elements = typename Env::elements;

  chan_core(std::size_t capacity, elements e) : capacity_(capacity), elements_(e) {}
  chan_core(const chan_core&) = delete;
  chan_core& operator=(const chan_core&) = delete;

  void lock() { lock_.lock(); }
  void lock_staying() { lock_.lock_staying(); }
  bool try_lock_spinning() { return lock_.try_lock_spinning(); }
  void unlock() { lock_.unlock(); }

  // --- with the lock; without it afterwards, also if a move throws, unless `blocked` -------------

  // [CH-3]
  [[gnu::always_inline]] chan_status send(void* value) {
    WEFT_DCHECK(lock_.held(), "send without the lock");
    if (closed_.get()) [[unlikely]] {
      unlock();
      return chan_status::closed;
    }
    if (node* receiver = take_out(receivers_)) {
      hand_over(receiver, value);
      return chan_status::done;
    }
    if (count_.get() < capacity_) {
      put(value);
      unlock();
      return chan_status::done;
    }
    return chan_status::blocked;
  }

  // [CH-4]
  [[gnu::always_inline]] chan_status recv(void* to) {
    WEFT_DCHECK(lock_.held(), "recv without the lock");
    if (count_.get() != 0) {
      recv_from_ring(to);
      return chan_status::done;
    }
    if (node* sender = take_out(senders_)) {
      take_over(sender, to);
      return chan_status::done;
    }
    if (closed_.get()) {
      unlock();
      return chan_status::closed;
    }
    return chan_status::blocked;
  }

  // --- with the lock; with it afterwards ----------------------------------------------------------

  // Whether send() or recv() would not block: for select, which holds several locks.
  bool can_send() { return closed_.get() || count_.get() < capacity_ || waits(receivers_); }
  bool can_recv() { return count_.get() != 0 || closed_.get() || waits(senders_); }

  void enqueue_sender(node* n) { senders_.push_back(n); }
  void enqueue_receiver(node* n) { receivers_.push_back(n); }
  // A wait that somebody else has ended. W4
  void dequeue_sender(node* n) { dequeue(senders_, n); }
  void dequeue_receiver(node* n) { dequeue(receivers_, n); }

  // Empties the ring by drop(slot); returns whether there was anything.
  template <class Drop>
  bool drain(Drop drop) {
    const bool any = count_.get() != 0;
    while (count_.get() != 0) {
      drop(elements_.slot(head_.get()));
      advance();
    }
    return any;
  }

  // --- without the lock ---------------------------------------------------------------------------

  // False: it is closed already. [CH-5]
  bool close() {
    lock_staying();
    if (closed_.get()) {
      unlock();
      return false;
    }
    closed_.set(true);
    node* woken = nullptr;  // newest first
    for (chan_queue<node>* q : {&receivers_, &senders_}) {
      if (WEFT_MUTANT("close-forgets-senders") && q == &senders_) break;
      while (node* n = take_out(*q)) {
        n->outcome.set(chan_outcome::closed);
        n->next.set(woken);
        woken = n;
      }
    }
    unlock();
    while (node* n = woken) {
      woken = n->next.get();
      Env::wake(n->who);
    }
    return true;
  }

  std::size_t size() const { return count_.get(); }
  std::size_t capacity() const { return capacity_; }
  void* closed_address() { return &closed_; }
  const elements& values() const { return elements_; }

 private:
  // Lets a partner go on, also if the move throws.
  struct finisher {
    node* partner;
    chan_outcome outcome;
    ~finisher() {
      partner->outcome.set(outcome);
      Env::wake(partner->who);
    }
  };
  // Unlocks if a move throws.
  struct unlocker {
    chan_core* locked;
    ~unlocker() {
      if (locked != nullptr) {
        locked->unlock();
      }
    }
  };

  // The oldest who can still be claimed. W2
  node* take_out(chan_queue<node>& q) {
    while (node* n = q.first()) {
      q.remove(n);
      if (n->who->take()) [[likely]] {
        return n;
      }
      if (WEFT_MUTANT("touches-the-lost")) n->outcome.set(chan_outcome::done);
    }
    return nullptr;
  }

  // Whether somebody waits who has not been claimed. Drops the others.
  bool waits(chan_queue<node>& q) {
    while (node* n = q.first()) {
      if (n->who->claim == nullptr || !n->who->claim->taken()) {
        return true;
      }
      q.remove(n);
    }
    return false;
  }

  void dequeue(chan_queue<node>& q, node* n) {
    if (n->queued.get()) {
      q.remove(n);
    }
  }

  void* tail() {
    const std::size_t i = head_.get() + count_.get();
    return elements_.slot(i < capacity_ ? i : i - capacity_);
  }

  void put(void* value) {
    if (elements_.plain()) [[likely]] {
      elements_.store(tail(), value);
    } else {
      put_guarded(value);
    }
    count_.set(count_.get() + 1);
  }
  [[gnu::noinline]] void put_guarded(void* value) {
    unlocker u{this};
    elements_.store(tail(), value);
    u.locked = nullptr;
  }

  void advance() {
    const std::size_t next = head_.get() + 1;
    head_.set(next == capacity_ ? 0 : next);
    count_.set(count_.get() - 1);
  }

  // To a receiver that waits, so that the ring is empty.
  [[gnu::noinline]] void hand_over(node* receiver, void* value) {
    // With a buffer this orders more than it should: the receive precedes only the send that finds the slot free again
    // ([MM] 6), maybe another goroutine's. But the slot learns of the receiver through us, and of him alone it cannot be told.
    Env::met(receiver->who);
    if constexpr (Env::kTracksRing) {  // as if it had passed by the ring
      if (capacity_ != 0) {
        Env::passed(elements_.slot(head_.get()));
        count_.set(1);
        advance();
      }
    }
    unlock();
    finisher f{receiver, chan_outcome::retry};
    elements_.receive(receiver->value, value);
    f.outcome = chan_outcome::done;
  }

  // From a sender that waits, while the ring is empty.
  [[gnu::noinline]] void take_over(node* sender, void* to) {
    unlock();
    Env::met(sender->who);
    finisher f{sender, chan_outcome::done};
    elements_.receive(to, sender->value);
  }

  void recv_from_ring(void* to) {
    if (elements_.plain()) [[likely]] {
      elements_.take(to, elements_.slot(head_.get()));
    } else {
      take_guarded(to);
    }
    advance();
    if (senders_.empty() || WEFT_MUTANT("senders-not-let-in")) [[likely]] {
      unlock();
      return;
    }
    refill();
  }

  [[gnu::noinline]] void take_guarded(void* to) {
    unlocker u{this};
    elements_.take(to, elements_.slot(head_.get()));
    u.locked = nullptr;
  }

  // A sender waited for the room there is now: his value goes to the tail, in his turn. keeps CH-c
  // To TSan the receiver has met him, since it moves what he has made: more than [MM] promises.
  [[gnu::noinline]] void refill() {
    refilling r{this};
    while ((r.at = take_out(senders_)) != nullptr) {
      Env::met(r.at->who);
      if (elements_.try_store(tail(), r.at->value)) [[likely]] {
        count_.set(count_.get() + 1);
        r.served = r.at;
        r.at = nullptr;
        break;
      }
      r.send_back();
    }
  }

  // Unlocks and lets everybody go on whom refill() has taken out, also if a move ends the goroutine.
  struct refilling {
    chan_core* locked;
    node* at = nullptr;  // his value is being moved
    node* served = nullptr;
    node* failed = nullptr;  // their moves threw

    void send_back() {
      at->outcome.set(chan_outcome::retry);
      at->next.set(failed);
      failed = at;
      at = nullptr;
    }
    ~refilling() {
      if (at != nullptr) {
        send_back();
      }
      locked->unlock();
      if (served != nullptr) {
        served->outcome.set(chan_outcome::done);
        Env::wake(served->who);
      }
      while (node* n = failed) {
        failed = n->next.get();
        Env::wake(n->who);
      }
    }
  };

  chan_lock lock_;
  // guarded by lock_; the count is also read without it, as a hint
  cell<bool> closed_{false};
  slot<std::size_t> count_;
  chan_queue<node> receivers_;
  chan_queue<node> senders_;
  const std::size_t capacity_;
  cell<std::size_t> head_{0};
  elements elements_;
};

}  // namespace weft::rt
