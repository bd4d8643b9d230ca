// Park and ready, the primitive below everything that blocks: two goroutines on one P wake each
// other in turn. A round trip is two wakes, two parks and two switches.

#include <benchmark/benchmark.h>

#include <weft/weft.h>

#include "sched/park.h"

namespace {

using weft::rt::waiter;

// Where the goroutine that is parked can be found. Plain: there is a single P.
struct seat {
  waiter* parked = nullptr;

  void sit_down() {
    waiter w;
    weft::rt::block(w, &publish, this, &parked, weft::rt::wait_reason::semacquire);
  }
  void call() {
    waiter* w = parked;
    parked = nullptr;
    weft::rt::wake(w);
  }
  static bool publish(waiter* w, void* self) {
    static_cast<seat*>(self)->parked = w;
    return true;
  }
};

void park_ready_round_trip(benchmark::State& state) {
  const auto measure = [&state] {
    seat here, there;
    bool stop = false, stopped = false;
    weft::go([&] {
      while (!stop) {
        there.sit_down();
        if (here.parked != nullptr) here.call();
      }
      stopped = true;
    });
    weft::gosched();  // the other one is seated
    for (auto _ : state) {
      there.call();
      here.sit_down();
    }
    stop = true;
    there.call();
    while (!stopped) weft::gosched();
  };
  weft::run(measure, {.max_procs = 1});
}
BENCHMARK(park_ready_round_trip);

}  // namespace
