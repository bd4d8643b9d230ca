// Putting goroutines on a P's queue, and on the global one when that is full.
//
// Go: runtime/proc.go runqput, runqputslow
#include "base/fatal.h"
#include "sched/chaos.h"
#include "sched/sched_api.h"

namespace weft::rt {

namespace {

// Whoever takes them walks from one to the next, and by then they are in no cache of his: he fetches so far ahead.
constexpr std::uint32_t kFetchAhead = 8;

// The ring is full: its older half and gp go to the tail of the global queue, in order. [RQ-2]
// False: a thief came meanwhile, so that there is room again.
bool overflow(P* pp, G* gp) {
  G* batch[kRunQueueSize / 2 + 1];
  std::uint32_t n = pp->runq.take_half(batch);
  if (n == 0) {
    return false;
  }
  batch[n++] = gp;
  for (std::uint32_t i = 0; i + 1 < n; ++i) {
    batch[i]->schedlink = batch[i + 1];
    batch[i]->chain_next = i + kFetchAhead < n ? batch[i + kFetchAhead] : nullptr;
  }
  const scoped_lock held(sched.lock);
  sched.runq.push_back(batch[0], batch[n - 1], n);
  return true;
}

}  // namespace

void queue_put_full(P* pp, G* gp) {
  while (!overflow(pp, gp) && !pp->runq.push(gp)) {
  }
}

G* queue_shuffled(M* mp, P* pp, G* gp) {
  G* oldest = chaos_seldom(mp) ? pp->runq.pop() : nullptr;
  if (oldest == nullptr) {
    return gp;
  }
  WEFT_CHECK(pp->runq.push(gp), "the owner found no room where it had just made some");
  return oldest;
}

}  // namespace weft::rt
