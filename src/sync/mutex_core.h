// The mutex's protocol: Go's normal and starvation modes over one word and a list.
//
//   state: │ waiters, 28 bits │ queue │ starving │ woken │ locked │      list: guarded by the queue bit
//
// Problem. A mutex that is handed over in order to whoever waits longest costs a switch per section; one
// that is free for all starves somebody. Go's answer, kept here: in normal mode one waiter is woken
// and competes with newcomers, who are running already and mostly win; a waiter that has lost for
// longer than 1 ms switches to starvation mode, in which the mutex goes from hand to hand.
//
//   lock      free: one compare-exchange. Otherwise spin a little, then take the queue bit, enlist
//             (at the tail, or in front if one has waited before), sleep
//   unlock    nobody waits, or somebody is awake already: one compare-exchange. Otherwise, *while the
//             mutex is still held*, take the queue bit, take the first waiter out, and let go of
//             mutex and queue bit in one step
//   hand over starving, or who unlocks parks next: the same, but the locked bit stays set: the waiter owns it when
//             it wakes
//   adopt     waiters of a condition variable move to the tail: instead of waking a thousand who
//             collide here, each is woken by the unlock of the one before
//
// M1: after the step that makes the mutex free, or gives it away, unlock() does not touch the object:
//     the next owner may destroy it. Otherwise unlock() writes into freed memory. Go relies on its
//     collector here, and on an address-keyed table of sleepers that everybody shares.
// M2: while waiters are listed, the mutex is locked or starving, or one is awake (woken) and will unlock
//     later, or somebody holds the queue bit. Otherwise they sleep for ever.
// M3: starving implies waiters. Otherwise newcomers enlist behind nobody.
// M4: the list and the count change under the queue bit only; starvation mode begins and ends under it, or is ended by the
//     owner without it. Otherwise the count and the list differ, or a bit is taken away twice.
//
// MX1 is the mutual exclusion: the release of each unlock is acquired by the next lock. Steps in between
//     are read-modify-writes and continue its sequence.
// MX2 is the queue bit: acquired when taken, released when dropped.
//
// For reports it keeps who holds it: a note by whoever has locked it, and by who hands it over, of the
// other; believed only while the word says locked. No step depends on it, and who unlocks leaves it.
//
// One liberty beside Go: the millisecond of starvation counts from the first time a waiter was woken
// in vain, not from its first sleep, so that those who win at once never read the clock.
// Rejected: a bare exchange in unlock (the slow path would look at the word afterwards: M1), and
// enlisting in the commit of the park (a refused commit costs two switches).
// Go: internal/sync/mutex.go
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "gmp/inside.h"
#include "sync/made_word.h"
#include "sync/wait_list.h"

namespace weft::rt {

template <class Node>
class mutex_core : public made_word {
 public:
  constexpr mutex_core() = default;

  // The two inline halves in <weft/mutex.h> are these two. They do not look at the word first: a load
  // that has to wait for the compare-exchange before it costs as much as another one.
  bool lock_fast() {
    std::uint32_t none = 0;
    // order: MX1 acquire pairs with the release of every unlock
    return state_.compare_exchange_strong(none, kLocked, WEFT_ORDER(MX1, acquire),
                                          WEFT_ORDER(MX0, relaxed));
  }
  bool unlock_fast() {
    std::uint32_t alone = kLocked;
    // order: MX1 release pairs with the acquire of the next lock
    return state_.compare_exchange_strong(alone, 0, WEFT_ORDER(MX1, release),
                                          WEFT_ORDER(MX0, relaxed));
  }

  // Fails if it is locked, or if somebody is entitled to it. May pass by those who wait. [MU-5]
  bool try_lock() {
    // order: MX0 relaxed, validated by the compare-exchange
    std::uint32_t s = state_.load(WEFT_ORDER(MX0, relaxed));
    while (is_free(s)) {
      // order: MX1 acquire pairs with the release of every unlock
      if (state_.compare_exchange_strong(s, s | kLocked, WEFT_ORDER(MX1, acquire),
                                         WEFT_ORDER(MX0, relaxed))) {
        return true;
      }
    }
    return false;
  }

  // Env: Node& node();               a node that is on no list
  //      bool can_spin(int round);   and void spin();
  //      bool sleep(Node&);          until the node is roused; false: not roused before the limit
  //      void settle(Node&);         after false: it has been taken out, so it will be roused
  //      bool lost();                woken in vain: for longer than 1 ms by now?
  //      bool starved();             the same, without having lost again
  // False: the limit of env came first. [MU-2]
  template <class Env>
  bool lock_slow(Env& env) {
    return contend(env, attempt{});
  }

  // For a waiter that adopt() brought here and that has been roused: it owns the mutex, or it is free. False: it
  // competes.
  bool take_adopted(const Node& n) {
    // order: MX0 relaxed, validated by the compare-exchange; or the owner's, who acquired it with n
    std::uint32_t s = state_.load(WEFT_ORDER(MX0, relaxed));
    if (n.granted && !WEFT_MUTANT("handed-over-unseen")) {
      end_starvation(s);
      return true;
    }
    // order: MX1 acquire pairs with the release of every unlock
    return is_free(s) &&
           state_.compare_exchange_strong(s, (s & ~kWoken) | kLocked, WEFT_ORDER(MX1, acquire),
                                          WEFT_ORDER(MX0, relaxed));
  }
  template <class Env>
  void lock_adopted(Env& env, Node& n) {
    attempt me;
    if (!owns(env, n, me)) {
      contend(env, me);
    }
  }

  enum class unlocked : std::uint8_t { done, rouse, misuse };

  // Rouse *n, if it says so; touch the mutex no more. [MU-4] `parks`: the caller is about to, so whoever is woken runs
  // soon, and the mutex is his.
  [[nodiscard]] unlocked unlock(Node** n, bool parks = false) {
    for (;;) {
      // order: MX0 relaxed, validated by the compare-exchange
      std::uint32_t s = state_.load(WEFT_ORDER(MX0, relaxed));
      if ((s & kLocked) == 0) {
        return unlocked::misuse;
      }
      if (leaves_alone(s)) {
        // order: MX1 release pairs with the acquire of the next lock
        if (state_.compare_exchange_strong(s, s & ~kLocked, WEFT_ORDER(MX1, release),
                                           WEFT_ORDER(MX0, relaxed))) {
          return unlocked::done;
        }
      } else {
        const inside here;
        if (lock_queue()) {
          *n = leave_queue(kLocked, parks);
          return *n != nullptr ? unlocked::rouse : unlocked::done;
        }
      }
    }
  }

  // Appends all of `from`, which are `count`. Returns one to rouse, if nobody else would do so.
  [[nodiscard]] Node* adopt(wait_list<Node>& from, std::uint32_t count) {
    const inside here;
    while (!lock_queue()) {
    }
    list_.append(from);
    // order: MX0 relaxed: the list is published by the release in leave_queue()
    state_.fetch_add(count * kWaiter, WEFT_ORDER(MX0, relaxed));
    return leave_queue(0);
  }

  // Somebody else has left a mark: unlock_fast() would be in vain.
  bool contended() const {
    return state_.load(WEFT_ORDER(MX0, relaxed)) != kLocked;  // order: MX0 relaxed, a hint
  }
  bool locked() const {
    return (state_.load(WEFT_ORDER(MX0, relaxed)) & kLocked) != 0;  // order: MX0 relaxed, a hint
  }

  // By whoever has just locked it: detail::this_owner(). As the inline half in <weft/mutex.h>.
  void note_owner(std::uint32_t who) {
    owner_.store(who, WEFT_ORDER(MX0, relaxed));  // order: MX0 relaxed, for reports
  }
  // Means something while it is locked.
  std::uint32_t owner() const {
    return owner_.load(WEFT_ORDER(MX0, relaxed));  // order: MX0 relaxed, a hint
  }

 private:
  static constexpr std::uint32_t kLocked = 1;
  static constexpr std::uint32_t kWoken = 2;     // somebody is awake and will compete
  static constexpr std::uint32_t kStarving = 4;  // goes from hand to hand
  static constexpr std::uint32_t kQueue = 8;     // guards the list
  static constexpr std::uint32_t kWaiter = 16;

  struct attempt {
    bool awoke = false;     // the woken bit is set on my behalf
    bool waited = false;    // queues in front
    bool starving = false;  // asks for starvation mode
  };

  static constexpr bool is_free(std::uint32_t s) { return (s & (kLocked | kStarving)) == 0; }
  // Locked, and who unlocks it need wake nobody.
  static constexpr bool leaves_alone(std::uint32_t s) {
    return (s & (kLocked | kStarving)) == kLocked && (s < kWaiter || (s & kWoken) != 0);
  }

  template <class Env>
  bool contend(Env& env, attempt me) {
    int round = 0;
    for (;;) {
      // order: MX0 relaxed, validated by the compare-exchange
      std::uint32_t s = state_.load(WEFT_ORDER(MX0, relaxed));
      if (is_free(s)) {
        // order: MX1 acquire pairs with the release of every unlock
        if (state_.compare_exchange_strong(s, owned(s, me), WEFT_ORDER(MX1, acquire),
                                           WEFT_ORDER(MX0, relaxed))) {
          return true;
        }
        continue;
      }
      if ((s & kStarving) == 0 && env.can_spin(round)) {
        announce(s, me);
        env.spin();
        ++round;
        continue;
      }
      if (me.waited && !me.starving) {
        me.starving = env.lost();
      }
      Node& n = env.node();
      switch (queue_up(n, me)) {
        case queued::busy: continue;
        case queued::owns: return true;
        case queued::waits: break;
      }
      if (!env.sleep(n)) {
        if (give_up(n)) {
          return false;
        }
        env.settle(n);
      }
      if (owns(env, n, me)) {
        return true;
      }
      round = 0;
    }
  }

  static std::uint32_t owned(std::uint32_t s, const attempt& me) {
    return (me.awoke ? s & ~kWoken : s) | kLocked;
  }

  // Somebody spins who will compete: unlock() need not wake another one.
  void announce(std::uint32_t s, attempt& me) {
    if (!me.awoke && (s & kWoken) == 0 && s >= kWaiter &&
        // order: MX0 relaxed: a promise, no data
        state_.compare_exchange_strong(s, s | kWoken, WEFT_ORDER(MX0, relaxed),
                                       WEFT_ORDER(MX0, relaxed))) {
      me.awoke = true;
    }
  }

  // Roused: handed over, or free to compete.
  template <class Env>
  bool owns(Env& env, Node& n, attempt& me) {
    if (n.granted) {
      if (!env.starved()) {
        end_starvation(state_.load(WEFT_ORDER(MX0, relaxed)));  // order: MX0 relaxed, the owner's
      }
      return true;
    }
    me.awoke = true;
    me.waited = true;
    return false;
  }

  // By the owner, who has seen `s` since it is.
  void end_starvation(std::uint32_t s) {
    if ((s & kStarving) != 0 && !WEFT_MUTANT("starves-on")) {
      // order: MX0 relaxed: no data
      state_.fetch_and(~kStarving, WEFT_ORDER(MX0, relaxed));
    }
  }

  bool lock_queue() {
    check_inside();
    // order: MX0 relaxed, validated by the compare-exchange
    std::uint32_t s = state_.load(WEFT_ORDER(MX0, relaxed));
    if ((s & kQueue) != 0) {
      cpu_pause();
      return false;
    }
    // order: MX2 acquire; pairs with the release of whoever dropped the bit
    return state_.compare_exchange_strong(s, s | kQueue, WEFT_ORDER(MX2, acquire),
                                          WEFT_ORDER(MX0, relaxed));
  }

  enum class queued : std::uint8_t { busy, owns, waits };

  // busy: somebody else is at the queue. owns: the mutex became free meanwhile.
  queued queue_up(Node& n, const attempt& me) {
    const inside here;
    if (!lock_queue()) {
      return queued::busy;
    }
    return enlist(n, me) ? queued::waits : queued::owns;
  }

  // Holding the queue bit, which is dropped. False: the mutex was free, and is the caller's now.
  bool enlist(Node& n, const attempt& me) {
    n.granted = false;
    for (;;) {
      // order: MX0 relaxed, validated by the compare-exchange
      std::uint32_t s = state_.load(WEFT_ORDER(MX0, relaxed));
      if (is_free(s) && !WEFT_MUTANT("enlist-without-look")) {
        if (n.linked) {
          list_.remove(&n);
        }
        // order: MX3 acquire pairs with MX1 of unlock; release with MX2 of the next queue holder
        if (state_.compare_exchange_strong(s, owned(s, me) & ~kQueue, WEFT_ORDER(MX3, acq_rel),
                                           WEFT_ORDER(MX0, relaxed))) {
          return false;
        }
        continue;
      }
      if (!n.linked) {
        me.waited ? list_.push_front(&n) : list_.push_back(&n);
      }
      std::uint32_t to = (s & ~kQueue) + kWaiter;
      to = me.awoke ? to & ~kWoken : to;
      to = me.starving ? to | kStarving : to;
      // order: MX2 release publishes the list to the next holder of the bit
      if (state_.compare_exchange_strong(s, to, WEFT_ORDER(MX2, release),
                                         WEFT_ORDER(MX0, relaxed))) {
        return true;
      }
    }
  }

  // Waited long enough. False: somebody has taken it off the list, and will rouse it.
  bool give_up(Node& n) {
    const inside here;
    while (!lock_queue()) {
    }
    const bool mine = n.linked;
    if (mine) {
      list_.remove(&n);
    }
    for (;;) {
      // order: MX0 relaxed, validated by the compare-exchange: an owner who has not starved ends
      // starvation mode without the queue bit
      std::uint32_t s = state_.load(WEFT_ORDER(MX0, relaxed));
      std::uint32_t to = s - kQueue - (mine ? kWaiter : 0);
      if (to < kWaiter && !WEFT_MUTANT("starving-for-nobody")) {
        to &= ~kStarving;  // keeps M3
      }
      // order: MX2 release publishes the list to the next holder of the bit
      if (state_.compare_exchange_strong(s, to, WEFT_ORDER(MX2, release),
                                         WEFT_ORDER(MX0, relaxed))) {
        return mine;
      }
    }
  }

  // Holding the queue bit: the next one is a goroutine. A plain thread would need long to come.
  bool follows(const Node* taken_out) const {
    const Node* next = taken_out != nullptr ? taken_out : list_.front();
    return next == nullptr || next->who != 0;
  }

  // Holding the queue bit, drops it, and `also` (the locked bit, or nothing); in starvation mode
  // the locked bit goes to the first waiter instead. Returns whom to rouse, or null: then somebody
  // who is awake will unlock later.
  Node* leave_queue(std::uint32_t also, bool parks = false) {
    Node* n = nullptr;
    for (;;) {
      // order: MX0 relaxed, validated by the compare-exchange
      std::uint32_t s = state_.load(WEFT_ORDER(MX0, relaxed));
      // Those who were listed when it was decided to come here may have given up. (Starving, somebody is: M3.)
      const bool anybody = s >= kWaiter || WEFT_MUTANT("handed-over-to-nobody");
      const bool hand_over = also != 0 && ((s & kStarving) != 0 ||
                                           (parks && anybody && (s & kWoken) == 0 && follows(n)));
      const bool wake =
          hand_over || ((s & (kWoken | kStarving)) == 0 && (s & kLocked & ~also) == 0 &&
                        !(also == 0 && WEFT_MUTANT("adopted-and-forgotten")));
      if (wake && n == nullptr) {
        n = list_.pop_front();
        list_.foresee();
      } else if (!wake && n != nullptr) {
        list_.push_front(n);
        n = nullptr;
      }
      std::uint32_t to = s & ~(kQueue | (hand_over ? 0 : also));
      if (n != nullptr) {
        n->granted = hand_over;
        if (hand_over && !WEFT_MUTANT("handed-over-in-secret")) note_owner(n->who);
        to -= kWaiter;
        to |= hand_over ? 0 : kWoken;
        to &= hand_over && to < kWaiter ? ~kStarving : ~std::uint32_t{0};
      }
      // order: MX2 release pairs with MX1 of the next lock and with the next holder of the bit
      if (state_.compare_exchange_strong(s, to, WEFT_ORDER(MX2, release),
                                         WEFT_ORDER(MX0, relaxed))) {
        if (WEFT_MUTANT("touched-after-unlock")) list_.empty();
        return n;
      }
    }
  }

  atomic<std::uint32_t> state_{0};
  atomic<std::uint32_t> owner_{0};
  wait_list<Node> list_;
};

}  // namespace weft::rt
