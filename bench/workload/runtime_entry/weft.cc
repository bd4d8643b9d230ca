// Into the runtime and out again, ENTRIES times, and nothing else: what every call of weft's pays for the P being
// taken away from goroutines that block without saying so (gmp/border.h). Go's counterpart is paid by system
// calls only: the difference between Syscall and RawSyscall.

#include <weft/weft.h>

#include "gmp/inside.h"
#include "report.h"

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 1, "ENTRIES");
  return weft::run(
      [=, entries = args.size[0]] {
        const auto t = bench::now_ns();
        for (long i = 0; i < entries; i++) {
          weft::rt::M* mp = weft::rt::enter_border();
          asm volatile("" : "+r"(mp) : : "memory");  // whatever is done inside
          weft::rt::leave_border(mp);
          asm volatile("" : : : "memory");
        }
        bench::report_per_op("ns_per_entry", t, entries);
      },
      {.max_procs = args.procs});
}
