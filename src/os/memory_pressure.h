// Whether memory is short: for this process's cgroup, or for the whole machine.
//
//   memory.pressure        v2, the group's own stalls     some avg10=0.00 avg60=0.00 avg300=0.00 total=4711
//   /proc/pressure/memory  … or everybody's, if it has none
//   memory.events          v2: how often the limit was met    high 3 / max 1 / oom 0
//   memory.failcnt         v1: likewise                       17
//
// The first two count the microseconds in which somebody waited for memory. What was lost since the last
// look, by the time since, is the share; from kShare on memory is short. The others count events; one more
// is enough.
//
// MP1: rose() makes no system call but pread, as cgroup.h's C1, and no file needs to be there. Files that are
//      missing, denied or make no sense say nothing.
//
// Rejected: PSI's triggers (write a threshold, poll for POLLPRI). Before Linux 6.1 they need CAP_SYS_RESOURCE;
// the kernel polls for each one by a thread of its own; and somebody has to wait for it. The sums tell the same,
// to whoever comes by.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "os/cgroup.h"

namespace weft::rt {

class memory_pressure {
 public:
  /// Of the time since the last look that must have been lost: 1/kShare.
  static constexpr std::int64_t kShare = 10;

  /// False: nothing is to be found out here, now or later. `tree` stands before all paths. Neither allocates
  /// nor takes a lock, as all here; keeps errno. Blocks: M, briefly.
  bool open(cgroup::scratch& s, const char* tree = "") noexcept;

  /// Whether memory was short since the last call; `now` is in ns. The first call only begins. Keeps MP1.
  bool rose(std::int64_t now) noexcept;

  void close() noexcept;

  bool knows_stalls() const noexcept { return stalls_ >= 0; }
  bool knows_events() const noexcept { return events_ >= 0; }

 private:
  bool stalled(std::int64_t now) noexcept;
  bool met_limit() noexcept;

  cgroup::version kind_ = cgroup::version::none;
  int stalls_ = -1;
  int events_ = -1;
  std::int64_t last_look_ = 0;  // 0: none yet
  std::int64_t last_stall_ = -1;
  std::int64_t last_events_ = -1;
};

/// Microseconds in which some task stalled: the total of the first line.
std::optional<std::int64_t> parse_stall(std::string_view text) noexcept;

/// The sum of high, max and oom.
std::optional<std::int64_t> parse_memory_events(std::string_view text) noexcept;

}  // namespace weft::rt
