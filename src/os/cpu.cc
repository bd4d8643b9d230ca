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
constexpr std::size_t kMaskBytes = 8192;
}

int affinity_cpus() noexcept {
  os::load_test_hooks();
  if (const auto pretended = os::test_hooks.pretend_cpus.get()) return static_cast<int>(pretended);
  std::uint64_t mask[kMaskBytes / sizeof(std::uint64_t)];
  const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
  if (bytes <= 0) return 1;
  int cpus = 0;
  for (std::size_t word = 0; word < static_cast<std::size_t>(bytes) / sizeof mask[0]; ++word) {
    cpus += std::popcount(mask[word]);
  }
  return cpus == 0 ? 1 : cpus;
}

}  // namespace weft::rt
