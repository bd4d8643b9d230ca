// Who holds the lock that somebody waits for: for deadlock reports, and for cycles.
//
// A mutex knows the goroutine that locked it by the lower half of its id (sync/mutex_core.h), a shared mutex
// the writer inside, and how many read. That is always there; WEFTDEBUG=lockcheck=1 (sync/lockcheck.h) knows
// also the readers, those who wait to write, and where each of them locked, and then counts instead.
//
// There may be a million goroutines, and as many who wait. So a report looks for all owners at once, in two
// passes over the goroutines: which ids are wanted, and who has them. Who is not found has ended.
//
// The notes are of the moment. While a program runs, somebody may be between locking and noting it: then the last owner
// is named instead, and a cycle through it may be one that never was. In a deadlock, where everybody waits, nobody is there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/print.h"

namespace weft::rt {

struct G;

// Before the others, once in a report. Requires: one report at a time. Neither allocates nor locks.
void find_lock_owners() noexcept;

bool waits_for_lock(const G& gp) noexcept;

// The goroutines that have to act before gp can go on, as far as they are known: one after the other, from at = 0
// on; at last null.
const G* next_awaited(const G& gp, std::size_t& at) noexcept;

// Of one that waits for a lock: ", held by goroutine 7".
void print_owners(printer& out, const G& gp) noexcept;

// As lockcheck knows them: a goroutine, or a plain thread by its number.
void print_owner(printer& out, std::uint64_t owner) noexcept;

}  // namespace weft::rt
