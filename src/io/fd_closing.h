// How a descriptor is closed while others use it, so that its object may be destroyed when close() has returned.
//
// Problem. fd_lock.h says who is the last one, and that one closes the number; it may be anybody. But whoever calls
// close() wants to destroy the object afterwards, and so may whoever calls it a second time, or is the destructor: none of
// them may return while another one still touches it.
//
//   who closes it                            whoever is the last one (it may be the closer)
//   1. begin_close(): the bit, a reference
//   2. sends away those who wait
//   3. finish_close(): gives it up           a. shut(): closes the number
//   4. waits at `gone` ◄──────────────────── b. opens it: its last touch
//      and says what it has to say of it
//   5. opens `through`: its last touch
//      └────────────────────────────────────► everybody else who closes it, before or after that
//
// CL-a: when the first close() has returned, nobody who had a reference touches the object: they have given theirs up
//       before a, and the last one has done b.
// CL-b: when any other close() has returned, the first does not either, nor whoever has been let through before. Only then
//       may it be destroyed: that others are not about to close it a third time is for its owner to know.
// CL-c: shut() sees what the first closer wrote before 3 (FL2), and that one what shut() left (SE1).
// CL-d: nobody waits for good, however many close it: `through` stays open.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "io/fd_lock.h"
#include "sync/sema_core.h"

namespace weft::rt {

// What gates are made of: units, one for each who may go through. sleep(n) until rouse(&n), which must come after n is off
// the list. Who is let through does not touch the gate any more, nor does who has opened it.
template <class Node, class Sleep>
void pass_gate(sema_core<Node>& gate, Node& n, Sleep&& sleep) {
  if (!gate.try_acquire() && gate.enlist(n)) {
    sleep(n);
  }
}

template <class Node, class Rouse>
void open_gate(sema_core<Node>& gate, std::uint32_t units, Rouse&& rouse) {
  for (Node* n = gate.release(units); n != nullptr;) {
    if (WEFT_MUTANT("looks-at-whom-it-has-roused")) {
      rouse(n);
      n = n->next;
      continue;
    }
    Node* const next = n->next;  // n may be gone afterwards
    rouse(n);
    n = next;
  }
}

// As pass_gate(), with a limit; false: it came, and env.leave() said that nobody is on his way with a unit for n. Who has
// been given one all the same hands it on. He for whom somebody is on his way awaits that in his place, before all who come
// later.
// Env: bool sleep(Node&);   until it is roused; false: not before the limit
//      bool leave();         after false
//      void settle(Node&);   after false: until it is roused
//      void rouse(Node*);
template <class Node, class Env>
[[nodiscard]] bool pass_gate_until(sema_core<Node>& gate, Node& n, Env& env) {
  if (gate.try_acquire() || !gate.enlist(n) || env.sleep(n)) {
    return true;
  }
  if (!env.leave()) {
    if (!WEFT_MUTANT("sent-for-and-gone")) {
      env.settle(n);
    }
    return true;
  }
  if (!gate.give_up(n)) {
    env.settle(n);
    if (!WEFT_MUTANT("keeps-what-is-for-others")) {
      open_gate(gate, 1, [&](Node* next) { env.rouse(next); });
    }
  }
  return false;
}

// Gate: acquire() as pass_gate(), with a limit as pass_gate_until(), release(units) as open_gate().
template <class Gate>
class fd_closing {
 public:
  fd_lock<Gate>& lock() { return lock_; }
  const fd_lock<Gate>& lock() const { return lock_; }

  // By whoever has given up the last reference: a, b.
  template <class Shut>
  void end(Shut&& shut) {
    if (WEFT_MUTANT("opens-before-it-is-shut")) {
      gone_.release(1);
      shut();
      return;
    }
    shut();
    if (!WEFT_MUTANT("last-opens-nothing")) {
      gone_.release(1);
    }
    if (WEFT_MUTANT("last-looks-back")) {
      static_cast<void>(lock_.closed());
    }
  }

  // True: the caller closes it, has a reference, and calls finish_close(). False: somebody else has closed it, and is
  // through. Blocks: G.
  [[nodiscard]] bool begin_close() {
    if (lock_.close()) {
      return true;
    }
    if (!WEFT_MUTANT("second-does-not-wait")) {
      through_.acquire();
    }
    return false;
  }

  // Returns when all others are out and it is shut. last() is called then, before anybody else who closes it is through,
  // and may destroy it. Blocks: G.
  template <class Shut, class Last>
  void finish_close(Shut&& shut, Last&& last) {
    if (lock_.leave()) {
      end(shut);
    }
    const std::uint32_t units = WEFT_MUTANT("lets-one-through") ? 1 : kEverybody;
    if (WEFT_MUTANT("lets-others-through-first")) {
      through_.release(units);
      gone_.acquire();
      last();
      return;
    }
    if (!WEFT_MUTANT("does-not-wait-for-the-last")) {
      gone_.acquire();
    }
    last();
    if (!WEFT_MUTANT("lets-nobody-through")) {
      through_.release(units);
    }
    if (WEFT_MUTANT("first-looks-back")) {
      static_cast<void>(lock_.closed());
    }
  }

 private:
  static constexpr std::uint32_t kEverybody = std::uint32_t{1} << 30;

  fd_lock<Gate> lock_;
  Gate gone_;     // open for whoever closes it, once nobody is inside
  Gate through_;  // open for everybody else who closes it, once he is through
};

}  // namespace weft::rt
