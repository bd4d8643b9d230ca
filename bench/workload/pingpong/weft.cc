// Two goroutines hand a number back and forth over two unbuffered channels, TRIPS times: the price of a
// hand-over.

#include <weft/weft.h>

#include "report.h"

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 1, "TRIPS");
  const long trips = args.size[0];
  return weft::run(
      [=] {
        const weft::chan<long> there, back;
        weft::wait_group finished;
        finished.go([&] {
          for (long i = 0; i < trips; i++) back.send(*there.recv());
        });
        const auto t = bench::now_ns();
        for (long i = 0; i < trips; i++) {
          there.send(i);
          back.recv();
        }
        bench::report_per_op("ns_per_roundtrip", t, trips);
        finished.wait();
      },
      {.max_procs = args.procs});
}
