// Two threads that must be on processors at the same time: each on one of its own, since the machine may leave both on one
// for seconds.
#pragma once

#include <sched.h>

namespace weft::test {

// On the n-th processor that the caller may use, and on no other one, from now on: that thread, or the caller. False: there are
// not so many.
inline bool stay_on(int n, int tid = 0) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || n >= CPU_COUNT(&allowed)) return false;
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed) || n-- > 0) ++cpu;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  return sched_setaffinity(tid, sizeof one, &one) == 0;
}

}  // namespace weft::test
