// PAIRS senders and as many receivers over one channel with room for 128, ITEMS in all.

#include <weft/weft.h>

#include "report.h"

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 2, "PAIRS ITEMS");
  const long pairs = args.size[0], items = args.size[1];
  return weft::run(
      [=] {
        const weft::chan<long> c(128);
        weft::wait_group finished;
        const auto t = bench::now_ns();
        for (long p = 0; p < pairs; p++) {
          finished.go([&] {
            for (long i = 0; i < items / pairs; i++) c.send(i);
          });
          finished.go([&] {
            for (long i = 0; i < items / pairs; i++) c.recv();
          });
        }
        finished.wait();
        bench::report_per_op("ns_per_item", t, items);
      },
      {.max_procs = args.procs});
}
