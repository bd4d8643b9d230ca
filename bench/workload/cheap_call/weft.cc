// A system call that does next to nothing, CALLS times, as it is and under runtime::blocking: what the
// announcement costs.

#include <sys/syscall.h>
#include <unistd.h>

#include <weft/weft.h>

#include "report.h"

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 1, "CALLS");
  return weft::run(
      [=, calls = args.size[0]] {
        auto t = bench::now_ns();
        for (long i = 0; i < calls; i++) syscall(SYS_getpid);
        bench::report_per_op("raw_ns", t, calls);
        t = bench::now_ns();
        for (long i = 0; i < calls; i++) {
          weft::runtime::blocking([] { return syscall(SYS_getpid); });
        }
        bench::report_per_op("announced_ns", t, calls);
      },
      {.max_procs = args.procs});
}
