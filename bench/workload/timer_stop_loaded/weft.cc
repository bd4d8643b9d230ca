// A timer with a function, made and stopped OPS times while OTHERS later ones are pending: how deadlines
// of connections look, which are nearly always taken back.

#include <chrono>
#include <cstdlib>
#include <vector>

#include <weft/weft.h>

#include "report.h"

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 2, "OTHERS OPS");
  const long others = args.size[0], ops = args.size[1];
  return weft::run(
      [=] {
        using std::chrono::hours, std::chrono::minutes, std::chrono::milliseconds;
        std::vector<weft::timer> pending;
        for (long i = 0; i < others; i++) {
          pending.push_back(weft::after_func(hours(1) + milliseconds(i), [] {}));
        }
        const auto t = bench::now_ns();
        for (long i = 0; i < ops; i++) {
          weft::timer timer = weft::after_func(minutes(30), [] {});
          if (!timer.stop()) std::abort();
        }
        bench::report_per_op("ns_per_op", t, ops);
      },
      {.max_procs = args.procs});
}
