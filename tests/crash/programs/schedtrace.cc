// What WEFTDEBUG makes the runtime say.
#include "debug/schedtrace.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <sys/mman.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/print.h"
#include "crash/programs/program.h"
#include "gmp/inside.h"
#include "gmp/sched.h"
#include "os/clock.h"
#include "sched/diagnostics.h"
#include "sched/sysmon.h"

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
// Until sysmon has printed two lines.
CRASH_PROGRAM(schedtrace_sleeper) {
  using namespace std::chrono_literals;
  const int to = dup(STDERR_FILENO);
  const int lines = memfd_create("lines", MFD_CLOEXEC);
  if (to < 0 || lines < 0 || dup2(lines, STDERR_FILENO) < 0) return 1;
  return weft::run(
      [=] {
        char text[4096];
        ssize_t size = 0;
        while (size < 0 || std::count(text, text + size, '\n') < 2) {
          weft::this_thread::sleep_for(1ms);  // sleep-ok: a look now and then
          size = pread(lines, text, sizeof text, 0);
        }
        return write(to, text, static_cast<std::size_t>(size)) == size ? 0 : 1;
      },
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
// Two goroutines compute beside this one, on one P.
CRASH_PROGRAM(schedtrace_frozen) {
  return weft::run(
      [] {
        static std::atomic<int> computing{0};
        for (int i = 0; i < 2; ++i) {
          weft::go([] {
            computing.fetch_add(1);
            for (;;) asm volatile("");
          });
        }
        while (computing.load() < 2) weft::gosched();
        // Who has lost its P while its thread waited for a page is frozen when sysmon looks at it again.
        for (bool frozen = false; !frozen; weft::gosched()) {
          const weft::rt::inside here;
          {
            const weft::rt::scoped_lock held(weft::rt::sched.lock);
            frozen = weft::rt::sched.frozen_ms == 2;
          }
          weft::rt::printer out;
          if (frozen) weft::rt::print_schedtrace(out, weft::rt::nanotime(), false, true);
        }
      },
      {.max_procs = 1});
}
CRASH_PROGRAM(schedtrace_sysmon_sleeps) {
  return weft::run([] {
    for (int i = 0; i < 50; ++i) {  // it may wake in between
      while (!weft::rt::sysmon_rest.asleep()) weft::gosched();
      const weft::rt::inside here;
      weft::rt::printer out;
      weft::rt::print_schedtrace(out, weft::rt::nanotime(), true, true);
    }
  });
}
CRASH_PROGRAM(schedtrace_panic) {
  return weft::run([] { throw weft::panic_error("with a trace"); });
}
CRASH_PROGRAM(only_starts) {
  return weft::run([] {});
}
