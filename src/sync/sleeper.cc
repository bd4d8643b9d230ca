// See sleeper.h.
#include "sync/sleeper.h"

namespace weft::rt {

namespace {

bool enlist(waiter* w, void* n) { return static_cast<sleeper*>(n)->fired.enlist(w); }

bool enlist_dropped(waiter* w, void* n) { return static_cast<sleeper*>(n)->dropped.enlist(w); }

}  // namespace

void sleep(sleeper& n, wait_reason reason) {
  while (!n.fired.done()) {
    block(n.w, enlist, &n, n.fired.address(), reason);
  }
}

bool sleep_until(sleeper& n, wait_reason reason, const wait_limit& limit) {
  n.w.claim = &n.claim;
  while (!n.fired.done()) {
    if (block_until(n.w, enlist, &n, n.fired.address(), reason, limit) != wait_end::woken) {
      return false;
    }
  }
  return true;
}

void settle(sleeper& n, wait_reason reason) {
  while (!n.dropped.done()) {
    waiter w;
    block(w, enlist_dropped, &n, n.dropped.address(), reason);
  }
}

void rouse(sleeper* n) {
  waiter* w = n->fired.complete();
  if (w == nullptr) {
    return;  // not parked yet: it will see that it need not
  }
  if (!w->take()) {
    w = n->dropped.complete();
  }
  if (w != nullptr) {
    wake(w);
  }
}

}  // namespace weft::rt
