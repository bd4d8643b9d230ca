// The local run queue: owner operations with the plain stores of a lone P and with the atomics that
// thieves require, and a steal of half the ring.

#include "gmp/run_queue.h"

#include <benchmark/benchmark.h>
#include <memory>

namespace {

struct item {};
using queue = weft::rt::run_queue<item>;

std::unique_ptr<queue> make_queue(bool lone) {
  auto q = std::make_unique<queue>();
  q->set_lone(lone);
  return q;
}

// The argument: 1 if there is no other P.
void push_pop(benchmark::State& state) {
  const auto q = make_queue(state.range(0) != 0);
  item one;
  for (auto _ : state) {
    q->push(&one);
    benchmark::DoNotOptimize(q->pop());
  }
}
BENCHMARK(push_pop)->ArgName("lone")->Arg(0)->Arg(1);

void next_put_pop(benchmark::State& state) {
  const auto q = make_queue(state.range(0) != 0);
  item one;
  for (auto _ : state) {
    benchmark::DoNotOptimize(q->put_next(&one));
    benchmark::DoNotOptimize(q->pop_next());
  }
}
BENCHMARK(next_put_pop)->ArgName("lone")->Arg(0)->Arg(1);

// Fill a ring, steal half of it, empty both: per element moved.
void steal_half(benchmark::State& state) {
  const auto victim = make_queue(false), thief = make_queue(false);
  constexpr int kFilled = 64;
  item one;
  for (auto _ : state) {
    for (int i = 0; i < kFilled; i++) victim->push(&one);
    benchmark::DoNotOptimize(victim->steal_into(*thief));
    while (thief->pop() != nullptr) {
    }
    while (victim->pop() != nullptr) {
    }
  }
  state.SetItemsProcessed(state.iterations() * kFilled);
}
BENCHMARK(steal_half);

}  // namespace
