// Crashes, and debuggers, while goroutines compute and are frozen wherever they are: in malloc, in stdio.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>

#include <weft/weft.h>

#include "crash/programs/program.h"

namespace {

std::atomic<bool> over{false};
std::atomic<long> rounds{0};

// Whoever reports a crash must not need what these hold.
void start_hogs() {
  for (int i = 0; i < 6; ++i) {
    weft::go([] {
      while (!over.load(std::memory_order_relaxed)) {
        std::string text(1000 + static_cast<std::size_t>(rounds % 100) * 50, 'x');
        std::fprintf(stdout, "%s", text.size() > 100'000 ? text.c_str() : "");
        ++rounds;
      }
    });
  }
  while (rounds < 1000) weft::gosched();
}

// Go: TestCgoPanicDeadlock. Its text is made by a call that blocks.
struct slow_error : std::exception {
  const char* what() const noexcept override {
    usleep(5000);  // sleep-ok: the call that blocks
    return "after a while";
  }
};

}  // namespace

// Go: TestCgoExternalThreadPanic
CRASH_PROGRAM(panic_in_a_callback) {
  weft::run([] { start_hogs(); }, {.max_procs = 2});
  std::thread([] { weft::run([] { throw std::runtime_error("in a callback"); }); }).join();
  return 1;
}

CRASH_PROGRAM(panic_whose_text_blocks) {
  return weft::run(
      [] {
        start_hogs();
        throw slow_error();
      },
      {.max_procs = 2});
}

// Goes on for a while and ends well. For debuggers.
[[gnu::noinline]] void reached_the_end() { asm volatile(""); }

CRASH_PROGRAM(computes_for_a_while) {
  return weft::run(
      [] {
        start_hogs();
        constexpr std::chrono::milliseconds kPause(2);
        for (int i = 0; i < 50; ++i) {
          weft::this_thread::sleep_for(kPause);  // sleep-ok: others are preempted
        }
        reached_the_end();
        over = true;
        return 5;
      },
      {.max_procs = 2});
}

namespace app {

// For a profiler: a third of a second of processor time, in a goroutine.
[[gnu::noinline]] void burn_inner() {
  const std::clock_t until = std::clock() + CLOCKS_PER_SEC / 3;
  while (std::clock() < until) {
    for (int i = 0; i < 1'000'000; ++i) asm volatile("");
  }
}
[[gnu::noinline]] void burn_outer() {
  burn_inner();
  asm volatile("");
}

}  // namespace app

CRASH_PROGRAM(burns) {
  return weft::run([] { weft::thread(app::burn_outer).join(); });
}
