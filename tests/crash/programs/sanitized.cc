// Bugs that sanitizers must find in goroutines, with the stacks of those concerned.
#include <cstdint>
#include <cstdlib>
#include <memory>

#include <weft/weft.h>

#include "crash/programs/program.h"

namespace app {

int shared_counter = 0;

[[gnu::noinline]] void first_writer() { shared_counter = shared_counter + 1; }
[[gnu::noinline]] void second_writer() { shared_counter = shared_counter + 2; }

[[gnu::noinline]] int* makes_it() { return new int(7); }
[[gnu::noinline]] void frees_it(int* p) { delete p; }
[[gnu::noinline]] int uses_it(const volatile int* p) { return *p; }

[[gnu::noinline]] int shifts_too_far(int n) { return 1 << n; }

[[gnu::noinline]] void leaks() {
  volatile auto* p = new int[100];
  p[0] = 1;
}

}  // namespace app

// Even on one thread: switches synchronise nothing.
CRASH_PROGRAM(race_between_goroutines) {
  return weft::run(
      [] {
        weft::wait_group done;
        done.go([] { app::first_writer(); });
        done.go([] { app::second_writer(); });
        done.wait();
        return app::shared_counter == 3 ? 0 : 1;
      },
      {.max_procs = 1});
}
CRASH_PROGRAM(use_after_free_by_another) {
  return weft::run([] {
    int* p = app::makes_it();
    weft::thread([p] { app::frees_it(p); }).join();
    int seen = 0;
    weft::thread([p, &seen] { seen = app::uses_it(p); }).join();
    return seen;
  });
}
CRASH_PROGRAM(undefined_shift) {
  volatile int n = 70;
  return weft::run([n] { return app::shifts_too_far(n) & 0; });
}
CRASH_PROGRAM(leak_in_a_goroutine) {
  return weft::run([] { weft::thread(app::leaks).join(); });
}
// Nothing is wrong here: parks, migrations, exceptions, many stacks.
CRASH_PROGRAM(nothing_wrong) {
  return weft::run(
      [] {
        weft::chan<std::unique_ptr<int>> c;
        weft::task_group all;
        for (int i = 0; i < 20; ++i) {
          all.run([&c, i] {
            try {
              c.send(std::make_unique<int>(i));
              throw i;
            } catch (int n) {
              weft::gosched();
              if (n != i) std::abort();
            }
          });
        }
        int sum = 0;
        for (int i = 0; i < 20; ++i) sum += **c.recv();
        all.wait();
        return sum == 190 ? 0 : 1;
      },
      {.max_procs = 4});
}
// Nor here: a thousand parks, for WEFTDEBUG=migrate=1.
CRASH_PROGRAM(many_parks) {
  return weft::run([] {
    weft::chan<int> ping, pong;
    weft::thread partner([&] {
      for (auto n : ping) pong.send(n);
    });
    for (int i = 0; i < 1000; ++i) {
      ping.send(i);
      if (pong.recv() != i) std::abort();
    }
    ping.close();
    partner.join();
  });
}
