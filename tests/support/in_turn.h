// Two goroutines on one P, of which the first runs until it has to wait, yields or ends, before the
// second begins. That is an order in time only: the flag that keeps it is relaxed, so that for
// ThreadSanitizer (and for the memory model) nothing but what the two call themselves orders them.
//
// Which of two new goroutines the scheduler takes first is no promise, and the chaos build takes either. And whoever sleeps
// in the kernel for long loses its P, whatever it is in the middle of: on a busy machine the second may begin before
// the first has waited. Where it must not, the two say which end of the first one's turn they mean.
#pragma once

#include <atomic>
#include <cstdint>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/wait_group.h>

#include "support/waiting.h"

namespace weft::test {

template <class First, class Second>
int both(First first, Second second) {
  std::atomic<bool> begun{false};
  return weft::run(
      [&] {
        wait_group wg;
        // Without it the first one's slice might be over before it waits, on a slow machine.
        wg.go([&] {
          const no_preempt whole_turn;
          while (!begun.load(std::memory_order_relaxed)) weft::gosched();
          second();
        });
        wg.go([&] {
          const no_preempt whole_turn;
          begun.store(true, std::memory_order_relaxed);
          first();
        });
        wg.wait();
      },
      {.max_procs = 1});
}

// The first one never waits for the second, who begins when it is through.
template <class First, class Second>
int one_then_the_other(First first, Second second) {
  std::atomic<bool> through{false};
  return both(
      [&] {
        first();
        through.store(true, std::memory_order_relaxed);
      },
      [&] {
        while (!through.load(std::memory_order_relaxed)) weft::gosched();
        second();
      });
}

// The first one waits for the second, who begins when it does. To see that, the second stops the world, which orders
// what the first has done until then before all that the second does: the accesses in question come later.
template <class First, class Second>
int one_waits_for_the_other(First first, Second second) {
  return both(first, [&] {
    constexpr std::uint64_t kBoth = 2;  // it, and who waits for both of us
    while (parked_goroutines() < kBoth) weft::gosched();
    second();
  });
}

}  // namespace weft::test
