// Those who wait, for the models of locks: rt::sleeper with race-checked fields.
#pragma once

#include <cstdint>

#include "base/note.h"
#include "gmp/wait_claim.h"
#include "model/protocol.h"
#include "sync/withdrawal.h"

namespace weft::model {

// A plain variable, race-checked, with the syntax of one.
template <class T>
class plain {
 public:
  plain& operator=(T value) {
    value_.set(value);
    return *this;
  }
  operator T() const { return value_.get(); }

 private:
  rt::cell<T> value_;
};

template <class T>
class plain<T*> {
 public:
  plain& operator=(T* value) {
    value_.set(value);
    return *this;
  }
  operator T*() const { return value_.get(); }
  T* operator->() const { return value_.get(); }

 private:
  rt::cell<T*> value_;
};

// Until he has been recalled, he may be at the object.
struct watched_withdrawal : rt::withdrawal {
  rt::cell<int>* object = nullptr;

  bool recalled() {
    if (object != nullptr) object->get();
    return withdrawal::recalled();
  }
};

struct sleeper {
  plain<sleeper*> next, prev;
  plain<bool> linked, granted, limited;
  std::uint32_t who = 0;
  rt::wait_claim claim;
  watched_withdrawal leaves;
  rt::note event;  // roused; sleeper.h's handshake is modelled by itself

  bool take() { return claim.take(); }
  void foresee() const {}
};

// The environment of a lock's slow path, with threads for goroutines.
struct lock_world {
  static constexpr int kNodes = 3;

  sleeper nodes[kNodes];
  int used = 0;
  int spins = 0;        // rounds of spinning allowed, altogether
  bool hurry = false;   // may time out
  bool losing = false;  // has lost for longer than it should

  sleeper& node() {
    check(used < kNodes, "the model is too small for this many sleeps");
    return nodes[used++];
  }
  bool can_spin(int) { return spins > 0; }
  void spin() {
    --spins;
    rt::cpu_pause();
  }
  bool sleep(sleeper& n) {
    if (hurry) return n.event.sleep_for(1);
    n.event.sleep();
    return true;
  }
  void settle(sleeper& n) { n.event.sleep(); }
  bool lost() { return losing; }
  bool starved() { return losing; }
};

}  // namespace weft::model
