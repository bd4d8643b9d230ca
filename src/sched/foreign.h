// Plain threads inside weft: they block as threads and hand goroutines to the runtime.
#pragma once

#include "sched/park.h"

namespace weft::rt {

void block_thread(waiter& w, commit_fn commit, void* arg);
void wake_thread(waiter* w);

}  // namespace weft::rt
