// See memory.h. MAP_NORESERVE: reserving a quarter of a terabyte for a million stacks must not count
// against the commit limit in the kernel's heuristic mode.
#include "os/memory.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/debug_vars.h"
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

#if !defined(__x86_64__)
std::size_t page_size() noexcept {
  static constinit atomic<std::size_t> known{0};
  std::size_t size = known.load(WEFT_ORDER(PS0, relaxed));  // order: relaxed, a constant
  if (size == 0) [[unlikely]] {
    size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    known.store(size, WEFT_ORDER(PS0, relaxed));  // order: relaxed, everybody stores the same
  }
  return size;
}
#endif

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

void* regrow(void* start, std::size_t old_bytes, std::size_t new_bytes) noexcept {
  if (forced_to_fail()) return nullptr;
  void* moved = mremap(start, old_bytes, new_bytes, MREMAP_MAYMOVE);
  return moved == MAP_FAILED ? nullptr : moved;
}

}  // namespace weft::rt
