// TASKS goroutines that do nothing but yield, TOTAL times in all: the price of passing the turn on.
// With 2 tasks everything is in the cache; with 1000 the next stack has to be fetched.

#include <weft/weft.h>

#include "report.h"

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 2, "TASKS TOTAL");
  const long tasks = args.size[0], total = args.size[1];
  return weft::run(
      [=] {
        weft::wait_group ready, start, finished;
        ready.add(static_cast<int>(tasks));
        start.add(1);
        finished.add(static_cast<int>(tasks));
        for (long i = 0; i < tasks; i++) {
          weft::go([&, each = total / tasks] {
            ready.done();
            start.wait();
            for (long j = 0; j < each; j++) weft::gosched();
            finished.done();
          });
        }
        ready.wait();
        const auto t = bench::now_ns();
        start.done();
        finished.wait();
        bench::report_per_op("ns_per_yield", t, total);
      },
      {.max_procs = args.procs});
}
