// Waiting until a descriptor is ready, deadlines, and closing: what goroutines and plain threads do with a
// poll descriptor.
#pragma once

#include <cstdint>

#include "io/poll_rules.h"
#include "poll/poll_desc.h"
#include "sched/timed.h"

namespace weft::rt {

// Blocks until there is news of that direction, its deadline comes, or it is closed; or until the limit
// of this wait alone: `timed_out`, `cancelled`. Requires: nobody else waits for the direction.
readiness wait_ready(poll_desc& pd, direction d, const wait_limit& limit = {});

// In force until it is set again, for whoever waits now, too; kNever: none. One that is over ends all
// operations at once.
void set_deadline(poll_desc& pd, direction d, std::int64_t when);

// Ends all waits, now and from now on. Afterwards, when nobody uses it any more: close_poll_desc().
void evict(poll_desc& pd);

}  // namespace weft::rt
