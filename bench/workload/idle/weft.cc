// TASKS goroutines are parked and the main one sleeps for MILLISECONDS: the processor time that a
// runtime takes with nothing to do, scaled to five seconds.

#include <chrono>

#include <weft/weft.h>

#include "report.h"

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 2, "TASKS MILLISECONDS");
  const long tasks = args.size[0], ms = args.size[1];
  return weft::run(
      [=] {
        weft::wait_group gate, finished;
        gate.add(1);
        for (long i = 0; i < tasks; i++) {
          finished.go([&] { gate.wait(); });
        }
        weft::this_thread::sleep_for(std::chrono::milliseconds(ms / 25));  // all come to rest
        const double cpu_ms = bench::cpu_ms();
        weft::this_thread::sleep_for(std::chrono::milliseconds(ms));
        bench::report("cpu_ms_per_5s", (bench::cpu_ms() - cpu_ms) * 5000 / static_cast<double>(ms));
        gate.done();
        finished.wait();
      },
      {.max_procs = args.procs});
}
