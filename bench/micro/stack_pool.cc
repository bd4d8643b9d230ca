// The stack pool: warm stacks taken and given back one at a time and in the batches a P uses.

#include <benchmark/benchmark.h>

#include <array>

#include "fiber/stack.h"

namespace {

constexpr std::size_t kLargestBatch = 64;

// The argument: stacks per call. Time is per stack, through the items counter.
void take_give(benchmark::State& state) {
  std::array<weft::rt::stack, kLargestBatch> stacks;
  const auto n = static_cast<std::size_t>(state.range(0));
  auto& pool = weft::rt::the_stacks;
  for (auto _ : state) {
    const std::size_t got = pool.take(stacks.data(), n);
    if (got == 0) {
      state.SkipWithError("no stack");
      break;
    }
    pool.give(stacks.data(), got);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(take_give)->ArgName("batch")->Arg(1)->Arg(16)->Arg(kLargestBatch);

}  // namespace
