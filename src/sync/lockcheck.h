// WEFTDEBUG=lockcheck=1: who holds which mutex, and in which order they are locked.
//
// Problem. Two goroutines that lock two mutexes in opposite order may run for years and hang one night. So in
// this mode every pair "locked B while holding A" is remembered, for good, with the place; a lock that would
// close a cycle of such pairs is reported at once, although nobody hangs yet, once for each pair. Owners are
// known, so that a deadlock report names them.
//
// One lock guards everything: debug mode. Tables have fixed sizes; what does not fit is not watched. A mutex
// that is destroyed and another at its address are taken for one.
#pragma once

#include <cstdint>

namespace weft::rt {

struct G;

// An owner is a goroutine's id, or a plain thread: detail::this_thread_id().
struct lock_owner {
  std::uint64_t owner = 0;
  const void* site = nullptr;  // where it was locked
  const G* gp = nullptr;       // the goroutine, if it is one and still exists
};

// What is reported; by debug/, which can print names.
struct lock_reports {
  // `locks` is about to be locked at `site` by `who`, who holds `held`; earlier `locks` was held when
  // `held` was locked, by `other_who` at `other_site`. Equal: it holds it already.
  struct inversion {
    std::uint64_t who, other_who;
    const void *held, *locks;
    const void *held_site, *site, *other_site;
  };
  void (*inverted)(const inversion&) = nullptr;
  // The nearest call that the user wrote: without optimisation lock() and std::lock_guard have frames.
  const void* (*user_call)(const void* near) noexcept = nullptr;
};
void set_lock_reports(const lock_reports& reports) noexcept;

// Where the user locks. `near`: where lock_slow() returns to.
const void* lock_site(const void* near) noexcept;

// Before and after a lock, before an unlock.
void lockcheck_wants(const void* lock, const void* site) noexcept;
void lockcheck_got(const void* lock, const void* site) noexcept;
void lockcheck_releases(const void* lock) noexcept;

// A wait for a condition gives the mutex up and takes it again: both are told, if checks are on.
class lockcheck_pause {
 public:
  // `near`: where the wait returns to.
  lockcheck_pause(const void* lock, const void* near) noexcept;
  lockcheck_pause(const lockcheck_pause&) = delete;
  lockcheck_pause& operator=(const lockcheck_pause&) = delete;
  ~lockcheck_pause();

 private:
  const void* lock_;  // null: checks are off
  const void* site_ = nullptr;
};

// Who holds it; owner 0: nobody, or unknown. Runs on: any; in a crash report without the lock.
lock_owner lockcheck_owner(const void* lock) noexcept;

// Where it was locked for the first time, which is near where it was made; null: never, or unknown. Likewise.
const void* lockcheck_first_lock(const void* lock) noexcept;

}  // namespace weft::rt
