// Giving back what is kept for later. See scavenger.cc.
#pragma once

#include <cstdint>

namespace weft::rt {

enum class scavenging : std::uint8_t {
  nothing,
  background,  // stacks that nobody has used for a period
  forced,      // all idle stacks, and a generation of every pool; stops the world for a moment
  pressure,    // all idle stacks, and all that lies in pools
};

// Before there is a sysmon: it opens no files. Neither allocates nor takes a lock of libc. Runs on: any thread of the program's,
// or an M's, in the runtime. Blocks: M, briefly.
void open_pressure_files();

// For sysmon, in every round; `now` is nanotime(). Decides whether something should be given back, and sends
// a goroutine that does it. When it wants to be called again at the latest; kNever: there is nothing left to
// give back, so that nobody has to wake for it.
// Neither allocates, nor takes locks of libc, nor creates a thread. Runs on: a thread without a P.
std::int64_t scavenger_tick(std::int64_t now);

// A forced cycle, by the caller. Runs on: G, plain thread. Blocks: G or thread.
void scavenge_now();

// One generation of what lies in pools, or all of it; runs users' destructors. Defined in sync/.
void drop_caches(bool all);

// For tests: a tree of files instead of the machine's. Null: the machine's own again.
void watch_pressure_in(const char* tree);
// Cycles so far that were started by scavenger_tick() and are through.
std::uint64_t scavengings_done(scavenging how);

}  // namespace weft::rt
