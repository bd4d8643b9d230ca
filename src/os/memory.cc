// See memory.h. MAP_NORESERVE: reserving a quarter of a terabyte for a million stacks must not count
// against the commit limit in the kernel's heuristic mode.
#include "os/memory.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/debug_vars.h"
#include "base/valgrind.h"
#include "os/test_hooks.h"

namespace weft::rt {
namespace {

/// The injected fault of reserve() and regrow(): -1 never fails, n > 0 succeeds n times more.
bool forced_to_fail() noexcept {
  os::load_test_hooks();
  auto& hook = os::test_hooks.force_mmap_fail_after;
  if (hook.get() < 0 || hook.count_down()) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

std::size_t page_size() noexcept {
  static constinit atomic<std::size_t> known{0};
  std::size_t size = known.load(WEFT_ORDER(PS0, relaxed));  // order: relaxed, a constant
  if (size == 0) [[unlikely]] {
    size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    known.store(size, WEFT_ORDER(PS0, relaxed));  // order: relaxed, everybody stores the same
  }
  return size;
}

std::size_t round_to_pages(std::size_t bytes) noexcept {
  return (bytes + page_size() - 1) & ~(page_size() - 1);
}

void* reserve(std::size_t bytes) noexcept {
  if (forced_to_fail()) return nullptr;
  void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return start == MAP_FAILED ? nullptr : start;
}

void release(void* start, std::size_t bytes) noexcept { munmap(start, bytes); }

bool decommit(void* start, std::size_t bytes) noexcept {
  const int advice = debug_vars.madvdontneed != 0 ? MADV_DONTNEED : MADV_FREE;
  return madvise(start, bytes, advice) == 0;
}

bool populate(std::byte* const* pages, std::size_t n) noexcept {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14; on oneself in bulk: 6.13
  constexpr int kPidfdSelf = -10000;  // Linux 6.14
  static constinit atomic<bool> refused{false};
  os::load_test_hooks();
  // order: MP1 relaxed: a fact about the kernel; who misses it finds it out again
  if (os::test_hooks.deny_process_madvise.get() != 0 || on_valgrind() ||
      refused.load(WEFT_ORDER(MP1, relaxed))) {
    return false;
  }
  const int caller_errno = errno;
  iovec ranges[kMostPopulated];
  for (std::size_t i = 0; i < n; ++i) ranges[i] = {pages[i], page_size()};
  const long done = syscall(SYS_process_madvise, kPidfdSelf, ranges, n, kPopulateWrite, 0U);
  if (done < 0 && errno != ENOMEM) {
    refused.store(true, WEFT_ORDER(MP1, relaxed));  // order: MP1 as above
  }
  errno = caller_errno;
  return done == static_cast<long>(n * page_size());
}

void* regrow(void* start, std::size_t old_bytes, std::size_t new_bytes) noexcept {
  if (forced_to_fail()) return nullptr;
  void* moved = mremap(start, old_bytes, new_bytes, MREMAP_MAYMOVE);
  return moved == MAP_FAILED ? nullptr : moved;
}

}  // namespace weft::rt
