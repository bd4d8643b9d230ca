// See stack.h. Carving reserves slots under the lock and guards them outside it: installing guards
// takes hundreds of microseconds for a large batch, and the kernel can do several at once.
#include <algorithm>
#include <errno.h>
#include <sys/mman.h>

#include "base/fatal.h"
#include "base/print.h"
#include "base/valgrind.h"
#include "fiber/sanitizer.h"
#include "fiber/stack.h"
#include "os/memory.h"

namespace weft::rt {

constinit stack_pool the_stacks;

namespace {

constexpr std::size_t kMinBatch = 2;     // guards installed at a time: at first
constexpr std::size_t kMaxBatch = 512;   // … and once there are many
constexpr std::size_t kMinChunk = 64;    // stacks per mapping: 16 MiB
constexpr std::size_t kMaxChunk = 4096;  // 1 GiB
constexpr std::size_t kTrimBatch = 32;   // stacks trimmed while the lock is held
constexpr std::size_t kCanaryWords = 8;
constexpr std::uintptr_t kMethodMask = 3;

stack standard_stack(std::byte* slot, guard_method guard) noexcept {
  return {slot + stack_guard_bytes(), slot + stack_stride(), guard};
}

std::uintptr_t encode(const stack& s) noexcept {
  return reinterpret_cast<std::uintptr_t>(s.hi) | static_cast<std::uintptr_t>(s.guard);
}

stack decode(std::uintptr_t entry) noexcept {
  auto* hi = reinterpret_cast<std::byte*>(entry & ~kMethodMask);
  return standard_stack(hi - stack_stride(), static_cast<guard_method>(entry & kMethodMask));
}

std::uintptr_t* canary_of(const stack& s) noexcept {
  return reinterpret_cast<std::uintptr_t*>(s.lo) - kCanaryWords;
}

std::uintptr_t canary_value(const std::uintptr_t* word) noexcept {
  return ~reinterpret_cast<std::uintptr_t>(word) ^ 0x5f7a11c0ffee5afe;
}

void plant_canary(const stack& s) noexcept {
  std::uintptr_t* canary = canary_of(s);
  for (std::size_t i = 0; i < kCanaryWords; ++i) canary[i] = canary_value(canary + i);
}

/// No huge pages, which would make each stack cost 2 MiB. Kernels without them refuse: all the better.
void* reserve_for_stacks(std::size_t bytes) noexcept {
  void* start = reserve(bytes);
  if (start != nullptr) madvise(start, bytes, MADV_NOHUGEPAGE);
  return start;
}

/// The memory of an idle stack, the canary's page included.
bool drop_pages(const stack& s) noexcept {
  std::byte* from = s.guard == guard_method::none ? s.hi - stack_stride() : s.lo;
  return decommit(from, static_cast<std::size_t>(s.hi - from));
}

}  // namespace

bool canary_intact(const stack& s) noexcept {
  if (s.guard != guard_method::none) return true;
  const std::uintptr_t* canary = canary_of(s);
  for (std::size_t i = 0; i < kCanaryWords; ++i) {
    if (canary[i] != canary_value(canary + i)) return false;
  }
  return true;
}

void report_overflow(const stack& s) noexcept {
  printer()
      .str("runtime: goroutine stack exceeds ")
      .udec(s.size())
      .str("-byte limit\nruntime: stack=[")
      .hex(reinterpret_cast<std::uintptr_t>(s.lo))
      .str(", ")
      .hex(reinterpret_cast<std::uintptr_t>(s.hi))
      .str("]\n");
  fatal("stack overflow");
}

std::size_t stack_pool::take(stack* out, std::size_t n) noexcept {
  std::size_t got;
  {
    scoped_lock hold(lock_);
    got = take_idle_locked(out, n);
  }
  if (got == 0) got = take_fresh(out, n);
  for (std::size_t i = 0; i < got; ++i) {
    if (out[i].guard == guard_method::none) plant_canary(out[i]);
  }
  return got;
}

std::size_t stack_pool::take_idle_locked(stack* out, std::size_t n) noexcept {
  const std::size_t got = std::min(n, idle_count_);
  for (std::size_t i = 0; i < got; ++i) out[i] = decode(idle_[--idle_count_]);
  clean_ = std::min(clean_, idle_count_);
  cold_ = std::min(cold_, idle_count_);
  lowest_ = std::min(lowest_, idle_count_);
  stats_.live += got;
  return got;
}

std::size_t stack_pool::take_fresh(stack* out, std::size_t n) noexcept {
  const int caller_errno = errno;
  carving fresh;
  {
    scoped_lock hold(lock_);
    fresh = carve_locked();
  }
  if (fresh.count == 0) return 0;
  const guard_result result =
      guards_.guard(fresh.first, stack_stride(), stack_guard_bytes(), fresh.count);
  for (std::size_t i = 0; i < fresh.count && on_valgrind(); ++i) {
    std::byte* const slot = fresh.first + i * stack_stride();
    tell_valgrind_of_stack(slot, slot + stack_stride());
  }

  const std::size_t got = std::min(n, fresh.count);
  for (std::size_t i = 0; i < got; ++i) {
    out[i] = standard_stack(fresh.first + i * stack_stride(), result.method_of(i));
  }
  scoped_lock hold(lock_);
  stats_.live += got;
  stats_.installed += result.installed;
  stats_.protected_ += result.protected_;
  stats_.unguarded += fresh.count - result.installed - result.protected_;
  for (std::size_t i = fresh.count; i > got; --i) {  // the lowest address on top: next to be taken
    const bool all_clean = clean_ == idle_count_;
    put_idle_locked(
        standard_stack(fresh.first + (i - 1) * stack_stride(), result.method_of(i - 1)));
    if (all_clean) clean_ = idle_count_;
  }
  errno = caller_errno;
  return got;
}

/// Reserves the next batch of slots. The batch doubles with what there is: few goroutines pay for
/// few guards, many for few system calls.
stack_pool::carving stack_pool::carve_locked() noexcept {
  const std::size_t want = std::clamp(carved_, kMinBatch, kMaxBatch);
  if (!make_room_locked(carved_ + want)) return {};
  if (next_ == end_ && !map_chunk_locked()) return {};
  const std::size_t count = std::min(want, static_cast<std::size_t>(end_ - next_) / stack_stride());
  const carving result{next_, count};
  next_ += count * stack_stride();
  carved_ += count;
  return result;
}

/// Maps the next chunk, as large as all before it together, a smaller one if address space is scarce. False, with
/// errno: none at all.
bool stack_pool::map_chunk_locked() noexcept {
  for (std::size_t slots = std::clamp(carved_, kMinChunk, kMaxChunk); slots != 0; slots /= 4) {
    void* start = reserve_for_stacks(slots * stack_stride());
    if (start == nullptr) continue;
    next_ = static_cast<std::byte*>(start);
    end_ = next_ + slots * stack_stride();
    ++stats_.chunks;
    return true;
  }
  return false;
}

/// Room for an idle entry for every stack there is: keeps S2.
bool stack_pool::make_room_locked(std::size_t stacks) noexcept {
  if (stacks <= idle_room_) return true;
  std::size_t room = idle_room_ == 0 ? page_size() / sizeof *idle_ : idle_room_ * 2;
  while (room < stacks) room *= 2;
  void* moved = idle_ == nullptr ? reserve(room * sizeof *idle_)
                                 : regrow(idle_, idle_room_ * sizeof *idle_, room * sizeof *idle_);
  if (moved == nullptr) return false;
  idle_ = static_cast<std::uintptr_t*>(moved);
  idle_room_ = room;
  return true;
}

void stack_pool::put_idle_locked(const stack& s) noexcept {
  WEFT_CHECK(idle_count_ < idle_room_, "stack given back twice");
  idle_[idle_count_++] = encode(s);
}

void stack_pool::give(const stack* given, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    check_overflow(given[i]);
    asan_unpoison(given[i].lo, given[i].size());
  }
  scoped_lock hold(lock_);
  WEFT_CHECK(n <= stats_.live, "more stacks given back than taken");
  for (std::size_t i = 0; i < n; ++i) put_idle_locked(given[i]);
  stats_.live -= n;
}

stack stack_pool::take_sized(std::size_t usable) noexcept {
  const std::size_t guard = stack_guard_bytes();
  if (usable > PTRDIFF_MAX - 2 * guard) {
    errno = ENOMEM;
    return {};
  }
  const std::size_t bytes = guard + round_to_pages(std::max<std::size_t>(usable, 1));
  auto* start = static_cast<std::byte*>(reserve_for_stacks(bytes));
  if (start == nullptr) return {};
  const guard_method method = guards_.guard(start, bytes, guard, 1).method_of(0);
  const stack made{start + guard, start + bytes, method};
  tell_valgrind_of_stack(made.lo, made.hi);
  if (method == guard_method::none) plant_canary(made);
  scoped_lock hold(lock_);
  ++stats_.sized;
  return made;
}

void stack_pool::give_sized(const stack& s) noexcept {
  check_overflow(s);
  asan_unpoison(s.lo, s.size());
  std::byte* start = s.lo - stack_guard_bytes();
  release(start, static_cast<std::size_t>(s.hi - start));
  guards_.forget(s.guard);
  scoped_lock hold(lock_);
  --stats_.sized;
}

void stack_pool::trim(std::size_t keep) noexcept {
  for (;;) {
    scoped_lock hold(lock_);  // dropped between batches: others need stacks meanwhile
    if (trim_some_locked(idle_count_ - std::min(keep, idle_count_)) == 0) return;
  }
}

bool stack_pool::age() noexcept {
  scoped_lock hold(lock_);
  cold_ = lowest_;
  lowest_ = idle_count_;
  return cold_ >= clean_ + kWorthTrimming && !refused_;
}

bool stack_pool::trim_some() noexcept {
  scoped_lock hold(lock_);
  return trim_some_locked(idle_count_) != 0;
}

bool stack_pool::trim_some_cold() noexcept {
  scoped_lock hold(lock_);
  return trim_some_locked(cold_) != 0;
}

std::size_t stack_pool::warm() noexcept {
  scoped_lock hold(lock_);
  return refused_ ? 0 : idle_count_ - clean_;
}

/// Of those below the border, some.
std::size_t stack_pool::trim_some_locked(std::size_t border) noexcept {
  std::size_t trimmed = 0;
  while (trimmed < kTrimBatch && clean_ < border) {
    refused_ = !drop_pages(decode(idle_[clean_]));
    if (refused_) return 0;  // locked memory: it cannot be given back
    ++clean_;
    ++trimmed;
  }
  return trimmed;
}

stack_stats stack_pool::stats() noexcept {
  scoped_lock hold(lock_);
  stack_stats result = stats_;
  result.idle = idle_count_;
  result.clean = clean_;
  return result;
}

}  // namespace weft::rt
