// Plain threads inside weft: they block as threads and hand goroutines to the runtime.
#pragma once

#include <cstdint>

#include "sched/park.h"

namespace weft::rt {

void block_thread(waiter& w, commit_fn commit, void* arg);
// The same until a time, which may be past. Requires: w has a claim. False: it is past, and the claim is
// the caller's. True: woken, or the commit refused.
[[nodiscard]] bool block_thread_until(waiter& w, commit_fn commit, void* arg,
                                      std::int64_t deadline);
// By sysmon, when no handler of the program's runs on it any more: those block as threads, too.
void handler_is_over();
void wake_thread(waiter* w);

}  // namespace weft::rt
