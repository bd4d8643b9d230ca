// What WEFTDEBUG makes the runtime say.
#include <chrono>
#include <cstdio>

#include <weft/weft.h>

#include "crash/programs/program.h"
#include "gmp/inside.h"
#include "os/clock.h"
#include "sched/diagnostics.h"

namespace {

weft::wait_group never;

}  // namespace

// As sysmon would: three rounds, of which the last two are a period apart.
CRASH_PROGRAM(schedtrace) {
  return weft::run(
      [] {
        const std::int64_t now = weft::rt::nanotime();
        const weft::rt::inside here;  // as sysmon, nobody takes the P
        weft::rt::schedtrace_tick(now);
        weft::rt::schedtrace_tick(now + 1'000'000);
        weft::rt::schedtrace_tick(now + 1'003'000'000);
      },
      {.max_procs = 3});
}
CRASH_PROGRAM(schedtrace_sleeper) {
  using namespace std::chrono_literals;
  return weft::run([] { weft::this_thread::sleep_for(100ms); },  // sleep-ok: sysmon is at work
                   {.max_procs = 2});
}
CRASH_PROGRAM(schedtrace_of_waiters) {
  never.add();
  return weft::run(
      [] {
        weft::go([] { never.wait(); });
        weft::gosched();
        weft::go([] {});
        const weft::rt::inside here;
        weft::rt::schedtrace_tick(weft::rt::nanotime());
      },
      {.max_procs = 1});
}
CRASH_PROGRAM(schedtrace_panic) {
  return weft::run([] { throw weft::panic_error("with a trace"); });
}
CRASH_PROGRAM(only_starts) {
  return weft::run([] {});
}
