// Stopping everybody. See world.cc.
#pragma once

#include <cstdint>

#include "gmp/sched.h"

namespace weft::rt {

// Returns once no other goroutine runs; serialised with other stoppers. Blocks: G or thread.
void stop_world(bool for_gc = false);
// Its two steps: the commit of a park that ends when it is the caller's turn, and what comes then.
bool queue_for_world(waiter* w, void*);
void stop_world_in_turn();
void start_world();
// As start_world(), with another number of Ps.
void start_world_with(std::int32_t procs);

// While the world is stopped, or before there is any M. Requires: sched.lock held by the caller.
void resize_procs(std::int32_t n) WEFT_REQUIRES(sched.lock);

// One of the stack_pool's functions that give some pages back, as the runtime's own work: whoever is frozen or
// stopped between two of them holds no lock.
bool trim_in_section(bool (stack_pool::*some)() noexcept);
// The pages of stacks that nobody uses go back to the system, the Ps' own included. Stops the world.
void return_idle_stacks();

// For good: asks all Ps to stop and waits for at most `ns`. First of all it asks whether that is the caller's affair, which
// has a P then, if it is a goroutine.
enum class world_at_exit : std::uint8_t { frozen, runs_partly, frozen_by_another };
world_at_exit freeze_world(bool (*is_ours)(), std::int64_t ns);
// The caller has called exit() while another thread is in exit(): never returns, and stops its P first
// so that nobody waits for it.
[[noreturn]] void stand_aside();
// As freeze_world(), from a crash: takes no lock, waits for nobody.
void freeze_world_for_crash();

}  // namespace weft::rt
