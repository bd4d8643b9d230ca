// The bare context switch: two contexts that hand control to each other, with nothing else around.

#include <array>
#include <benchmark/benchmark.h>
#include <climits>
#include <cstddef>

#include "fiber/context.h"

namespace {

using weft::rt::context;

struct pair {
  context main;
  context other;
};

// Both sides suspend here, as all goroutines do in a scheduler: the processor, which expects a call
// to return to its caller, is right although it returns to somebody else's.
[[gnu::noinline]] void rally(context* mine, const context* yours, long times) {
  while (times-- > 0) weft_switch(mine, yours, nullptr, nullptr);
}

// What runs on the other stack.
weft::rt::departure same_place(void* transfer) {
  auto* p = static_cast<pair*>(transfer);
  rally(&p->other, &p->main, LONG_MAX);
  return {&p->main, nullptr};
}

weft::rt::departure another_place(void* transfer) {
  auto* p = static_cast<pair*>(transfer);
  for (;;) weft_switch(&p->other, &p->main, nullptr, nullptr);
}

void round_trip(benchmark::State& state, weft::rt::context_entry other_side) {
  constexpr long kBatch = 1000;
  alignas(16) static std::array<std::byte, 16384> memory;
  pair p;
  p.other = weft::rt::new_context(memory.data() + memory.size());
  weft_switch(&p.main, &p.other, &p, other_side);
  while (state.KeepRunningBatch(kBatch)) rally(&p.main, &p.other, kBatch);
}
BENCHMARK_CAPTURE(round_trip, same_place, same_place);
BENCHMARK_CAPTURE(round_trip, another_place, another_place);

}  // namespace
