// How much of the processors the cgroups of this process allow it to use.
//
// Problem. A process in a container sees all processors of the machine, but if it uses more than its
// quota in a period (mostly 100 ms) the kernel stops all its threads until the next one. So the quota
// bounds the number of Ps, and it may change at any time.
//
// Protocol. open() finds the group and opens the limit's files of it and of the groups around it, up to
// the root of the mount; processors() reads them again, by pread at 0, and returns the tightest limit.
// Membership is looked up once: a process that is moved to another group goes on with the old one.
//
//  C1: processors() makes no system call but pread. A program that has locked itself up since (seccomp,
//      chroot, another user) can still be asked. Otherwise the runtime's look, once a second, kills it.
//  C2: a file that cannot be read any more, or makes no sense, leaves its level at what it said last.
//      Otherwise a closefrom() by the program, or the removal of a group that it has left, would look
//      like the end of all limits.
//
// At most kLevels levels are kept open, from the group itself upwards; levels without files (v2 without
// the controller there) do not count. A tree that is deeper is read once above that, which is right
// until somebody changes those limits. Real trees have up to six levels.
//
// Rejected: the group alone, as in Go: Kubernetes and systemd put limits on pods and slices, too, and the
// kernel obeys the tightest. Opening the files anew each time: no descriptors, but see C1. Noticing a
// move to another group: /proc/self/cgroup would have to be read and searched each time.
//
// Go: internal/runtime/cgroup OpenCPU, ReadCPULimit
#pragma once

#include <cstdint>

#include "os/cgroup_text.h"

namespace weft::rt::cgroup {

/// What open() needs and nobody keeps.
struct scratch {
  char line[16384] = {};
  path_text group;
  path_text root;
  path_text directory;
};

/// The group of a controller: its directory into s.directory, without `tree`, and which kind of a group it is.
/// Its depth below the mount's root; 0: there is none.
int find_own_group(scratch& s, const char* tree, std::string_view controller,
                   version& kind) noexcept;

/// Constant-initialised. One user at a time.
class cpu_quota {
 public:
  static constexpr int kLevels = 8;

  /// False: no limit is to be found, now or later. `tree` stands before all paths; tests have trees of
  /// their own. Neither allocates nor takes a lock, as all here; keeps errno. Blocks: M, briefly.
  bool open(scratch& s, const char* tree = "") noexcept;

  /// The tightest limit at present, rounded up; kNoLimit if there is none. Keeps C1 and C2.
  std::int64_t processors() noexcept;

  void close() noexcept;

  int levels() const noexcept { return count_; }
  version kind() const noexcept { return kind_; }

 private:
  struct level {
    int limit = -1;   // cpu.max or cpu.cfs_quota_us
    int period = -1;  // v1: cpu.cfs_period_us
    std::int64_t last = kNoLimit;
  };

  bool open_level(path_text& directory, level& out) const noexcept;
  void read_level(level& l) const noexcept;
  static void close_level(level& l) noexcept;

  version kind_ = version::none;
  int count_ = 0;
  level levels_[kLevels];
  std::int64_t farther_ = kNoLimit;  // of levels beyond, when opened
};

}  // namespace weft::rt::cgroup
