// An uncontended wait group inside a goroutine: nobody ever has to park.

#include <benchmark/benchmark.h>

#include <weft/weft.h>

namespace {

void wait_group_uncontended(benchmark::State& state) {
  const auto measure = [&state] {
    weft::wait_group wg;
    for (auto _ : state) {
      wg.add(1);
      wg.done();
      wg.wait();
    }
  };
  weft::run(measure, {.max_procs = 1});
}
BENCHMARK(wait_group_uncontended);

}  // namespace
