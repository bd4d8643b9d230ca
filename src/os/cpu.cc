// See cpu.h. The raw system call is used since it tells how many bytes it wrote.
#include "os/cpu.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/test_hooks.h"

namespace weft::rt {
namespace {
// In words. The first is enough for 1024 processors.
constexpr std::size_t kUsual = 16, kLargest = 1024;

// How many are in the mask; 0: the kernel's mask has more words. Not inlined: the frame of the large one would be touched
// always, and pages of the stack cost.
template <std::size_t Words>
[[gnu::noinline]] int count_in_mask() noexcept {
  std::uint64_t mask[Words];
  const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
  const std::size_t words = bytes > 0 ? static_cast<std::size_t>(bytes) / sizeof mask[0] : 0;
  int cpus = 0;
  for (std::size_t i = 0; i < words; ++i) {
    cpus += std::popcount(mask[i]);
  }
  return cpus;
}
}  // namespace

int affinity_cpus() noexcept {
  os::load_test_hooks();
  if (const auto pretended = os::test_hooks.pretend_cpus.get()) return static_cast<int>(pretended);
  int cpus = count_in_mask<kUsual>();
  if (cpus == 0) cpus = count_in_mask<kLargest>();
  return cpus == 0 ? 1 : cpus;
}

}  // namespace weft::rt
