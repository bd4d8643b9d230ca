// A thread without a P that creates threads for others.
//
// Problem. Creating a thread takes locks of libc, which a frozen goroutine may hold (preempt.cc, PE2). And the new
// thread inherits what its creator has done to itself: namespaces, credentials, working directory if unshared,
// signal mask, affinity, priority, name. What a goroutine does to the thread that it has locked must not
// spread to others; and a thread that is not the runtime's may be in any state, too. Yet it is just these
// who need new Ms: a locked goroutine that blocks hands its P on, a plain thread that starts a goroutine wakes
// somebody.
//
// So there are two kinds of requests. A *spare* M, without a P, where nobody may be frozen or wait for libc:
// nothing waits for it, whoever needs an M meanwhile lets a frozen one go on instead. And the thread of an M
// that is reserved, and has its P, on behalf of a thread whose state nobody should inherit. The spawner is started
// with the first M that is not lent, or when a goroutine first locks its thread: before any can have changed anything.
//
// SW1: an M that is queued here begins after a bounded time: until it has, it counts as one that is being created
//      (sched.creators), so that nobody is frozen who might hold what the spawner needs. Otherwise a stop of the
//      world waits for ever for the P that is on its way.
//
// Go: runtime/proc.go templateThread, newmHandoff
#pragma once

#include "base/annotations.h"
#include "gmp/sched.h"

namespace weft::rt {

// Once, before anybody can be frozen. The number of threads it takes.
void start_spawner();

// At exit, where sysmon may not be able to be the guardian (freeze.cc).
void rouse_spawner();

// There will be `n` idle Ms soon, those counted that there are and those on their way.
void request_spare_ms_locked(std::int32_t n) WEFT_REQUIRES(sched.lock);

// True: it will create mp's thread. False: the calling thread may as well do so itself.
bool created_by_spawner(M* mp);

// How many should be there while goroutines block one after the other, and so many wait.
constexpr std::int32_t spares_for(std::uint32_t fresh) {
  constexpr std::uint32_t kReserve = 8;
  return static_cast<std::int32_t>(fresh < kReserve ? fresh : kReserve);
}

}  // namespace weft::rt
