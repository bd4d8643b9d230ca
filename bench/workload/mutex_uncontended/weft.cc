// One goroutine locks and unlocks a mutex that nobody else wants, PAIRS times, around one addition.

#include <mutex>

#include <weft/weft.h>

#include "report.h"

static volatile long counter;  // every section reads and writes memory

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 1, "PAIRS");
  return weft::run(
      [pairs = args.size[0]] {
        weft::mutex mutex;
        const auto t = bench::now_ns();
        for (long i = 0; i < pairs; i++) {
          const std::lock_guard guard(mutex);
          counter = counter + 1;
        }
        bench::report_per_op("ns_per_pair", t, pairs);
      },
      {.max_procs = args.procs});
}
