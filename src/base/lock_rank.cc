// Bookkeeping of WEFT_LOCK_RANK builds: which ranks does the calling thread hold?
//
// One word per thread with a bit per rank, and a count beside it for the ranks of which several may
// be held. A lock is never held across a switch of goroutines, so the word belongs to the thread
// and not to the goroutine, and no address of it lives longer than one call here.
// The file is always compiled, so that its test runs in every build; only ranked_lock calls it, and
// only under WEFT_LOCK_RANK.
#include "base/lock_rank.h"

#include <cstddef>

#include "base/fatal.h"
#include "base/print.h"

namespace weft::rt {
namespace {

struct held_locks {
  std::uint64_t ranks = 0;
  std::array<std::uint8_t, kLockRanks> count{};
};

// A thread_local of its own, beside tls.h: nothing switches stacks while its address is in use.
// Initial-exec, so that a signal handler that takes a lock never enters the loader.
[[gnu::tls_model("initial-exec")]] constinit thread_local held_locks held;

using frozen_check = bool (*)();
constinit frozen_check may_be_frozen = nullptr;  // constant after boot

[[noreturn]] void wrong_order(std::uint64_t ranks, lock_rank rank) {
  const std::uint64_t allowed = lock_rank_detail::kMayHold[static_cast<std::size_t>(rank)];
  const int culprit = __builtin_ctzll(ranks & ~allowed);
  printer out;
  out.str("runtime: lock \"").str(lock_rank_name(rank)).str("\" acquired while holding \"");
  out.str(lock_rank_name(static_cast<lock_rank>(culprit))).str("\"\n");
  out.flush();
  fatal("lock ordering problem");
}

}  // namespace

void set_frozen_check(bool (*check)()) { may_be_frozen = check; }

void note_word_taken() {
  if (may_be_frozen != nullptr && may_be_frozen() && !crashing()) {
    fatal("a runtime lock was taken where its holder can be frozen");
  }
}

void note_lock_acquired(lock_rank rank, bool waits) {
  note_word_taken();
  if (waits && !may_acquire(held.ranks, rank)) wrong_order(held.ranks, rank);
  held.ranks |= lock_rank_bit(rank);
  ++held.count[static_cast<std::size_t>(rank)];
}

void note_lock_released(lock_rank rank) {
  if ((held.ranks & lock_rank_bit(rank)) == 0) fatal("unlock of a runtime lock that is not held");
  if (--held.count[static_cast<std::size_t>(rank)] == 0) held.ranks &= ~lock_rank_bit(rank);
}

bool lock_rank_held(lock_rank rank) { return (held.ranks & lock_rank_bit(rank)) != 0; }

std::uint64_t held_lock_ranks() { return held.ranks; }

}  // namespace weft::rt
