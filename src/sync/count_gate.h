// Waiting until a counter is zero: what a wait group, a latch and a future have in common.
#pragma once

#include <cstdint>

#include "sched/timed.h"
#include "sync/sleeper.h"
#include "sync/wait_group_core.h"

namespace weft::rt {

using count_gate = wait_group_core<waiter, sleeper>;

// Lets them go on, in the order in which they came: waiters are linked newest first, sleepers oldest first.
void wake_all(waiter* newest_first, sleeper* limited);

// False: the counter would fall below zero; nothing has changed. After true the gate may be gone.
[[nodiscard]] bool add(count_gate& gate, std::int32_t n);

void wait(count_gate& gate, wait_reason reason);
// False: the limit came first.
bool wait_until(count_gate& gate, wait_reason reason, const wait_limit& limit);

}  // namespace weft::rt
