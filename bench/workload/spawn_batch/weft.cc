// TASKS goroutines started in one go, then waited for together, ROUNDS times: spawn throughput. The
// local ring overflows (it holds 256), so the global queue and the reuse of stacks take part.

#include <weft/weft.h>

#include "report.h"

static void batch(weft::wait_group& wg, long tasks) {
  wg.add(static_cast<int>(tasks));
  for (long i = 0; i < tasks; i++) weft::go([&wg] { wg.done(); });
  wg.wait();
}

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 2, "TASKS ROUNDS");
  const long tasks = args.size[0], rounds = args.size[1];
  return weft::run(
      [=] {
        weft::wait_group wg;
        batch(wg, tasks);  // warm
        const auto t = bench::now_ns();
        for (long r = 0; r < rounds; r++) batch(wg, tasks);
        bench::report_per_op("ns_per_task", t, tasks * rounds);
      },
      {.max_procs = args.procs});
}
