// How many processors this process may use.
#pragma once

namespace weft::rt {

/// The number of CPUs in this thread's affinity mask, at least 1. Asked with a buffer for 65,536
/// CPUs, for the kernel refuses one smaller than its own mask (and glibc's cpu_set_t holds 1024).
/// Go: runtime/os_linux.go getCPUCount.
int affinity_cpus() noexcept;

}  // namespace weft::rt
