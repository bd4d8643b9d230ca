// TASKS goroutines, all alive and parked: what one costs to start and to keep. Page tables are not
// part of the resident size, so they are reported beside it.

#include <weft/weft.h>

#include "report.h"

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 1, "TASKS");
  return weft::run(
      [tasks = args.size[0]] {
        const double rss = bench::status_bytes("VmRSS"), tables = bench::status_bytes("VmPTE");
        weft::wait_group parked, gate, gone;
        parked.add(static_cast<int>(tasks));
        gate.add(1);
        gone.add(static_cast<int>(tasks));
        const auto t = bench::now_ns();
        for (long i = 0; i < tasks; i++) {
          weft::go([&] {
            parked.done();
            gate.wait();
            gone.done();
          });
        }
        parked.wait();
        bench::report_per_op("ns_per_spawn", t, tasks);
        const auto each = [tasks](double bytes) { return bytes / static_cast<double>(tasks); };
        bench::report("rss_bytes_per_task", each(bench::status_bytes("VmRSS") - rss));
        bench::report("pte_bytes_per_task", each(bench::status_bytes("VmPTE") - tables));
        gate.done();
        gone.wait();
      },
      {.max_procs = args.procs});
}
