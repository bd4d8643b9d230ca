// See sleeper.h.
#include "sync/sleeper.h"

namespace weft::rt {

namespace {

bool enlist(waiter* w, void* n) { return static_cast<sleeper*>(n)->hands.fired.enlist(w); }

bool enlist_dropped(waiter* w, void* n) {
  return static_cast<sleeper*>(n)->hands.dropped.enlist(w);
}

}  // namespace

void sleep(sleeper& n, wait_reason reason) {
  while (!n.hands.fired.done()) {
    block(n.w, enlist, &n, n.hands.fired.address(), reason);
  }
}

bool sleep_until(sleeper& n, wait_reason reason, const wait_limit& limit) {
  if (limit
          .none()) {  // without a claim, by which reports would take it for one that ends by itself
    sleep(n, reason);
    return true;
  }
  n.w.claim = &n.claim;
  while (!n.hands.fired.done()) {
    if (block_until(n.w, enlist, &n, n.hands.fired.address(), reason, limit) != wait_end::woken) {
      return false;
    }
  }
  return true;
}

void settle(sleeper& n, wait_reason reason) {
  while (!n.hands.dropped.done()) {
    waiter w;
    block(w, enlist_dropped, &n, n.hands.dropped.address(), reason);
  }
}

void rouse(sleeper* n) {
  if (waiter* w = n->hands.rouse(n->claimed)) {
    wake(w);
  }
}

}  // namespace weft::rt
