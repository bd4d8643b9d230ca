// Guards below stacks: memory that faults, so that an overflow ends in a report and not in a
// neighbour's frames.
//
// Problem. A guard made by mprotect splits the mapping and costs two entries of vm.max_map_count
// (65530 by default): a million guarded stacks are out of reach. MADV_GUARD_INSTALL (Linux 6.13)
// marks page-table entries instead and splits nothing; but older kernels lack it, locked mappings
// refuse it, and qemu-user accepts any advice and does nothing.
//
// Protocol. For each batch of stacks, the best method that works, in this order:
//   1. install   the advice, many ranges per call by process_madvise on oneself, or one by one where
//                that is not allowed. Believed only after a probe: the kernel must refuse to read
//                from the first guarded page (base/readable.h).
//   2. protect   mprotect(PROT_NONE), while the budget of mappings lasts;
//   3. none      unguarded. The pool then plants a canary below the stack, and one warning is printed.
//
// Invariant GU1: a stack that is reported as `install` or `protect` really faults below. Otherwise an
// overflow corrupts another goroutine in silence; hence the probe.
// GU2: a stack that is reported as `none` can be written below. Otherwise planting its canary ends the
// process; hence advice that was taken for a part of a guard only is taken back.
//
// Rejected: one guard page (a 16 KiB frame steps over it into the neighbour); a PROT_NONE mapping per
// guard (see above); a SIGSEGV of our own as the probe (takes the process's handler for a moment), or a write(2) from the page
// (needs a pipe, and so descriptors).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"

namespace weft::rt {

///   borrowed  the lower part of somebody else's stack, whose guard it is (sched/in_place.cc)
enum class guard_method : std::uint8_t { none, protect, install, borrowed };

/// Guards at least so much, rounded to pages: the largest frame that is caught for certain.
inline constexpr std::size_t kGuardBytes = 16 * 1024;

/// The methods used for a batch: its first `installed` stacks by advice, the next `protected_` by
/// mprotect, the rest not at all.
struct guard_result {
  std::size_t installed = 0;
  std::size_t protected_ = 0;

  guard_method method_of(std::size_t index) const noexcept {
    if (index < installed) return guard_method::install;
    return index < installed + protected_ ? guard_method::protect : guard_method::none;
  }
};

/// Remembers which methods work in this process. Safe to use from several threads at once: two that
/// find the same thing out write the same answer.
class guard_installer {
 public:
  constexpr guard_installer() noexcept = default;

  /// Guards [first + i * stride, + bytes) for i < count. Never fails; the result may be `none`.
  /// Blocks: M, about 0.5 µs per guard.
  guard_result guard(std::byte* first, std::size_t stride, std::size_t bytes,
                     std::size_t count) noexcept;

  /// A guarded range is about to be unmapped: a protected one returns what it used of the budget.
  void forget(guard_method method) noexcept;

 private:
  enum class advice : std::uint8_t { untried, works, broken };

  std::size_t install(std::byte* first, std::size_t stride, std::size_t bytes,
                      std::size_t count) noexcept;
  std::size_t protect(std::byte* first, std::size_t stride, std::size_t bytes,
                      std::size_t count) noexcept;
  void remove(std::byte* first, std::size_t stride, std::size_t bytes, std::size_t count) noexcept;
  bool believe(std::byte* guarded) noexcept;
  bool charge_budget() noexcept;
  void warn_once() noexcept;

  // atomic: each a fact about the kernel, learnt once
  atomic<advice> advice_{advice::untried};
  atomic<bool> batches_{true};       // process_madvise has not been refused yet
  atomic<std::int64_t> budget_{-1};  // mappings left for protect(); -1: not asked yet
  atomic<bool> warned_{false};
};

}  // namespace weft::rt
