// The bare context switch: two contexts that hand control to each other, with nothing else around.

#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>

#include "fiber/context.h"
#include "fiber/stack.h"

namespace {

using weft::rt::context;

struct pair {
  context main;
  context other;
};

// Runs on the other stack; `transfer` is the pair, every time.
void bounce(void* transfer) {
  for (;;) {
    auto* p = static_cast<pair*>(transfer);
    transfer = weft_switch(&p->other, &p->main, p);
  }
}

void switch_round_trip(benchmark::State& state) {
  alignas(16) static std::array<std::byte, 16384> memory;
  pair p;
  weft::rt::make_context(p.other, memory.data() + memory.size(), bounce);
  for (auto _ : state) {
    benchmark::DoNotOptimize(weft_switch(&p.main, &p.other, &p));
  }
}
BENCHMARK(switch_round_trip);

}  // namespace
