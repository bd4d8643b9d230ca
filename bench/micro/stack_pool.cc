// The stack pool: idle stacks taken and given back one at a time and in the batches a P uses.

#include <array>
#include <benchmark/benchmark.h>

#include "fiber/stack.h"

namespace {

constexpr std::size_t kLargestBatch = 64;
using batch = std::array<weft::rt::stack, kLargestBatch>;

// Makes sure that n stacks lie idle. A single take() may yield fewer than asked for.
bool stock(std::size_t n) {
  batch stacks;
  std::size_t have = 0;
  while (have < n) {
    const std::size_t got = weft::rt::the_stacks.take(stacks.data() + have, n - have);
    if (got == 0) break;
    have += got;
  }
  weft::rt::the_stacks.give(stacks.data(), have);
  return have == n;
}

// The argument: stacks per call.
void take_give(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  if (!stock(n)) state.SkipWithError("no stacks");
  batch stacks;
  std::size_t moved = 0;
  for (auto _ : state) {
    const std::size_t got = weft::rt::the_stacks.take(stacks.data(), n);
    weft::rt::the_stacks.give(stacks.data(), got);
    moved += got;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(moved));
}
BENCHMARK(take_give)->ArgName("batch")->Arg(1)->Arg(16)->Arg(kLargestBatch);

}  // namespace
