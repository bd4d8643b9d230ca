// See sleeper.h.
#include "sync/sleeper.h"

namespace weft::rt {

namespace {

bool enlist(waiter* w, void* n) { return static_cast<sleeper*>(n)->fired.enlist(w); }

}  // namespace

void sleep(sleeper& n, wait_reason reason) {
  while (!n.fired.done()) {
    block(n.w, enlist, &n, n.fired.address(), reason);
  }
}

void rouse(sleeper* n) {
  if (waiter* w = n->fired.complete()) {
    wake(w);
  }
}

}  // namespace weft::rt
