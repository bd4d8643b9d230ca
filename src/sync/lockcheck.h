// WEFTDEBUG=lockcheck=1: who holds which mutex, and in which order they are locked.
//
// Problem. Two goroutines that lock two mutexes in opposite order may run for years and hang one night. So in
// this mode every pair "locked B while holding A" is remembered, for good, with the place; a lock that would
// close a cycle of such pairs is reported at once, although nobody hangs yet, once for each pair. Owners are
// known, so that a deadlock report names them.
//
// Readers of a shared mutex count as owners: as a writer that waits keeps readers out, two of them who lock in
// opposite order hang as soon as there is a writer for each lock.
//
// Locks have a mark by which one is known that was not met before (sync/made_word.h), so that nothing is taken for
// another that was at its address.
//
// One lock guards everything: debug mode. Tables have fixed sizes; what does not fit is not watched.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::rt {

struct G;

enum class lock_mode : std::uint8_t {
  exclusive,  // a mutex, or a shared one for writing
  shared,
  queued,  // waits without a limit to write: keeps readers out
};

// An owner is a goroutine's id, or a plain thread: detail::this_thread_id().
struct lock_owner {
  std::uint64_t owner = 0;
  const void* site = nullptr;  // where it was locked
  const G* gp = nullptr;       // the goroutine, if it is one and still exists
  lock_mode mode = lock_mode::exclusive;
};

// What is reported; by debug/, which can print names.
struct lock_reports {
  // `locks` is about to be locked at `site` by `who`, who holds `held`; earlier `locks` was held when
  // `held` was locked, by `other_who` at `other_site`. Equal: it holds it already; if both are shared that is
  // reported once, as it takes a writer in between to hang.
  struct inversion {
    std::uint64_t who, other_who;
    const void *held, *locks;
    const void *held_site, *site, *other_site;
    lock_mode held_as, locks_as;
  };
  void (*inverted)(const inversion&) = nullptr;
  // The nearest call that the user wrote: without optimisation lock() and std::lock_guard have frames.
  const void* (*user_call)(const void* near) noexcept = nullptr;
};
void set_lock_reports(const lock_reports& reports) noexcept;

// Where the user locks. `near`: where lock_slow() returns to.
const void* lock_site(const void* near) noexcept;

// Before a lock that waits without a limit, after any lock, before an unlock. A lock begins with a made_word.
void lockcheck_wants(const void* lock, const void* site,
                     lock_mode mode = lock_mode::exclusive) noexcept;
void lockcheck_got(const void* lock, const void* site,
                   lock_mode mode = lock_mode::exclusive) noexcept;
void lockcheck_releases(const void* lock, lock_mode mode = lock_mode::exclusive) noexcept;

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

// Who holds it or waits to write, one after the other; `at` is 0 at first, and moves on. Owner 0: nobody else, or
// nobody who is known. Runs on: any; in a crash report without the lock.
lock_owner lockcheck_next_owner(const void* lock, std::size_t& at) noexcept;

}  // namespace weft::rt
