// One goroutine at a time, started and waited for: the latency of fork-join without parallelism.

#include <weft/weft.h>

#include "report.h"

static void spawn_and_join(long tasks) {
  for (long i = 0; i < tasks; i++) weft::thread([] {}).join();
}

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 1, "TASKS");
  return weft::run(
      [tasks = args.size[0]] {
        spawn_and_join(tasks / 10);  // warm: threads started, caches filled
        const auto t = bench::now_ns();
        spawn_and_join(tasks);
        bench::report_per_op("ns_per_task", t, tasks);
      },
      {.max_procs = args.procs});
}
