// See count_gate.h.
#include "sync/count_gate.h"

namespace weft::rt {

[[gnu::noinline]] void wake_all(waiter* newest_first, sleeper* limited) {
  waiter* list = nullptr;
  while (waiter* w = newest_first) {
    newest_first = w->next;
    w->next = list;
    list = w;
  }
  while (waiter* w = list) {
    list = w->next;
    wake(w);
  }
  while (sleeper* n = limited) {
    limited = n->next;
    rouse(n);
  }
}

namespace {

bool commit(waiter* w, void* gate) { return static_cast<count_gate*>(gate)->push(w); }

}  // namespace

namespace {

bool add_and_wake(count_gate& gate, std::int32_t n) {
  const count_gate::outcome done = gate.add(n);
  if (done.wake != nullptr || done.rouse != nullptr) [[unlikely]] {
    wake_all(done.wake, done.rouse);
  }
  return !done.negative;
}

// Nobody is frozen who has taken them out, and has not told them. (If somebody comes to wait just now that may
// happen all the same: then he waits for a slice more.)
[[gnu::noinline]] bool add_inside(count_gate& gate, std::int32_t n) {
  const inside here;
  return add_and_wake(gate, n);
}

}  // namespace

bool add(count_gate& gate, std::int32_t n) {
  return gate.ends_waiting(n) ? add_inside(gate, n) : add_and_wake(gate, n);
}

void wait(count_gate& gate, wait_reason reason) {
  if (!gate.zero()) {
    waiter w;
    w.on = &gate;
    block(w, commit, &gate, gate.address(), reason);
  }
}

bool wait_until(count_gate& gate, wait_reason reason, const wait_limit& limit) {
  if (limit.none()) {
    wait(gate, reason);
    return true;
  }
  sleeper n;
  n.w.on = &gate;
  if (gate.zero() || !gate.push_timed(&n) || sleep_until(n, reason, limit)) {
    return true;
  }
  if (gate.give_up(&n)) {
    return false;
  }
  settle(n, reason);
  return true;
}

}  // namespace weft::rt
