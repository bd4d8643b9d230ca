// Cgroups of a test's own, made below that of this process where the machine lets us, and removed again.
//
//     own_cgroup group;
//     if (!group) GTEST_SKIP() << group.why_not();
//     group.limit(2.5);
//     run_child("prints_procs", {group.variable()});   // whose first act is join_cgroup()
#pragma once

#include <string>

namespace weft::test {

class own_cgroup {
 public:
  // Below the group of this process, or below `outer`.
  explicit own_cgroup(const own_cgroup* outer = nullptr);
  ~own_cgroup();  // whoever was in it must have ended
  own_cgroup(const own_cgroup&) = delete;
  own_cgroup& operator=(const own_cgroup&) = delete;

  explicit operator bool() const { return !directory_.empty(); }
  const std::string& why_not() const { return why_not_; }

  // So many processors; 0: as many as there are.
  void limit(double processors) const;
  // For run_child().
  std::string variable() const;

 private:
  std::string directory_;
  std::string why_not_;
};

// In the child: goes into the group that its parent has chosen, or ends the process with status 99.
void join_cgroup();
// In the child, in the group: what own_cgroup::limit() does, from inside.
void limit_cgroup(double processors);
// In the child: what kind of a group it is.
bool cgroup_is_v1();

}  // namespace weft::test
