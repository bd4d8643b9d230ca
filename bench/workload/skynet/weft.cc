// A tree of goroutines, ten children each, LEAVES leaves; everyone adds up what its children send over
// an unbuffered channel.

#include <cstdlib>

#include <weft/weft.h>

#include "report.h"

namespace {

void node(const weft::chan<long>& parent, long first, long leaves) {
  if (leaves == 1) {
    parent.send(first);
    return;
  }
  const weft::chan<long> children;
  for (long i = 0; i < 10; i++) {
    weft::go([=] { node(children, first + i * (leaves / 10), leaves / 10); });
  }
  long sum = 0;
  for (int i = 0; i < 10; i++) sum += *children.recv();
  parent.send(sum);
}

}  // namespace

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 1, "LEAVES");
  const long leaves = args.size[0];
  return weft::run(
      [=] {
        const weft::chan<long> result;
        const auto t = bench::now_ns();
        weft::go([=] { node(result, 0, leaves); });
        if (*result.recv() != leaves * (leaves - 1) / 2) std::abort();
        bench::report("wall_ms", static_cast<double>(bench::now_ns() - t) / 1e6);
      },
      {.max_procs = args.procs});
}
