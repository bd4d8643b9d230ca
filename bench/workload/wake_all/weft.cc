// TASKS goroutines wait on one condition variable; all are notified at once, ROUNDS times. Only the way
// from the notification until the last one has seen it is timed.

#include <chrono>
#include <mutex>

#include <weft/weft.h>

#include "report.h"

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 2, "TASKS ROUNDS");
  const long tasks = args.size[0], rounds = args.size[1];
  return weft::run(
      [=] {
        weft::mutex mutex;
        weft::condition_variable next_round;
        long round = 0, arrivals = 0;  // guarded by mutex
        weft::wait_group seen, finished;
        for (long i = 0; i < tasks; i++) {
          finished.go([&] {
            std::unique_lock lock(mutex);
            for (long mine = 0; mine < rounds; mine++) {
              arrivals++;
              while (round == mine) next_round.wait(lock);
              seen.done();
            }
          });
        }
        const auto all_arrived = [&](long r) {
          const std::lock_guard guard(mutex);
          return arrivals == (r + 1) * tasks;
        };
        std::int64_t total = 0;
        for (long r = 0; r < rounds; r++) {
          while (!all_arrived(r)) weft::gosched();
          weft::this_thread::sleep_for(std::chrono::microseconds(200));  // the others come to rest
          seen.add(static_cast<int>(tasks));
          const auto t = bench::now_ns();
          {
            const std::lock_guard guard(mutex);
            round++;
            next_round.notify_all();
          }
          seen.wait();
          total += bench::now_ns() - t;
        }
        finished.wait();
        bench::report("ns_per_wake",
                      static_cast<double>(total) / static_cast<double>(rounds * tasks));
      },
      {.max_procs = args.procs});
}
