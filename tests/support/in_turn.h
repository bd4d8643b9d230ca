// Two goroutines on one P, of which the first runs until it has to wait, yields or ends, before the
// second begins. That is an order in time only: the flag that keeps it is relaxed, so that for
// ThreadSanitizer (and for the memory model) nothing but what the two call themselves orders them.
//
// Which of two new goroutines the scheduler takes first is no promise, and the chaos build takes either.
#pragma once

#include <atomic>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/wait_group.h>

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

}  // namespace weft::test
