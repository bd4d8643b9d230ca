// Bugs that sanitizers must find in goroutines, with the stacks of those concerned.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <unistd.h>

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
// Nor here, on one P, where nobody gets on unless computing ones are interrupted, and the P is taken from those who block
// in the kernel and have not said so. Parks, and handlers that park, in between: WEFTDEBUG=migrate=1.
CRASH_PROGRAM(every_way_to_lose_a_p) {
  return weft::run(
      [] {
        for (int round = 0; round < 5; ++round) {
          std::atomic<bool> enough{false};
          weft::thread computes([&] {
            while (!enough.load(std::memory_order_relaxed)) {
            }
          });
          weft::gosched();  // to it, and back by an interruption
          enough = true;
          computes.join();

          int ends[2];
          if (pipe(ends) != 0) return 1;
          std::string got(5, ' ');
          weft::thread blocks([&] {
            if (read(ends[0], got.data(), got.size()) != 5) std::abort();
          });
          weft::gosched();  // to it, and back because it is seen to block
          if (write(ends[1], "hello", 5) != 5) return 1;
          blocks.join();
          for (const int fd : ends) close(fd);

          weft::chan<std::string> c;
          weft::task_group all;
          for (int i = 0; i < 20; ++i) {
            all.run([&] {
              try {
                throw got;
              } catch (const std::string& text) {
                c.send(text);
              }
            });
          }
          for (int i = 0; i < 20; ++i) {
            if (c.recv() != "hello") return 1;
          }
          all.wait();
        }
        return 0;
      },
      {.max_procs = 1});
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
CRASH_PROGRAM(nine_thousand_at_once) {
  return weft::run([] {
    weft::wait_group begun, over;
    over.add();
    for (int i = 0; i < 9000; ++i) {
      begun.add();
      weft::go([&] {
        begun.done();
        over.wait();
      });
    }
    begun.wait();
    std::_Exit(0);  // they need not end
  });
}
