// Groups of goroutines of which one fails, calls that are made once and fail, and programs whose main does not wait.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include <weft/once.h>
#include <weft/task_group.h>
#include <weft/weft.h>

#include "crash/programs/program.h"

namespace groups {

[[gnu::noinline]] void fail() { throw std::runtime_error("a task failed"); }

}  // namespace groups

// The destructor waits, and finds an exception that nobody has taken.
CRASH_PROGRAM(task_group_untaken) {
  return weft::run([] {
    try {
      weft::task_group g;
      g.run(groups::fail);
    } catch (...) {
      std::puts("caught");
    }
    std::puts("went on");
  });
}
// … but not if wait() has taken it, or if another one is on its way.
CRASH_PROGRAM(task_group_taken) {
  return weft::run([] {
    try {
      weft::task_group g;
      g.run(groups::fail);
      g.wait();
    } catch (const std::runtime_error& e) {
      std::fprintf(stderr, "%s\n", e.what());
    }
    // Whoever waits to be cancelled is; what fails beside it is second, and not heard of.
    for (const bool one_fails : {false, true}) {
      try {
        weft::task_group g;
        g.run([ctx = g.ctx()] { ctx.done().recv(); });
        if (one_fails) g.run(groups::fail);
        throw std::logic_error("on its way");
      } catch (const std::logic_error& e) {
        std::fprintf(stderr, "%s\n", e.what());
      }
    }
    return 3;
  });
}

// Go: TestIssue76126. Who waits does not go on beside the panic.
CRASH_PROGRAM(wait_group_go_panics) {
  return weft::run([] {
    weft::wait_group wg;
    std::atomic<bool> waits{false};
    wg.go([&] {
      while (!waits) weft::gosched();
      for (int i = 0; i < 100; ++i) weft::gosched();
      groups::fail();
    });
    weft::go([&] {
      waits = true;
      wg.wait();
      std::fputs("waited\n", stderr);
    });
    wg.wait();
    std::fputs("waited\n", stderr);
  });
}

// Go: TestOnceXPanicTraceback
CRASH_PROGRAM(once_func_panics) {
  return weft::run([] {
    const auto f = weft::once_func(groups::fail);
    f();
  });
}
CRASH_PROGRAM(once_value_panics_again) {
  return weft::run([] {
    const auto f = weft::once_value([] {
      groups::fail();
      return 1;
    });
    try {
      f();
    } catch (const std::runtime_error&) {
    }
    weft::thread t([f] { f(); });
    t.join();
  });
}

// Go: test/chan/select3.go: nothing but nil channels
CRASH_PROGRAM(deadlock_select_nil) {
  return weft::run([] {
    const weft::chan<int> nil(nullptr);
    weft::select(weft::recv(nil), weft::send(nil, 1));
  });
}

// Go: test/goprint.go: nobody joins it, and it is done before the program is.
CRASH_PROGRAM(go_print) {
  return weft::run([] {
    weft::go([] { std::fputs("printed\n", stderr); });
    while (weft::runtime::num_goroutine() > 1) weft::gosched();
  });
}

// Go: test/fixedbugs/issue5963.go: main, locked to its thread, ends itself; what it leaves to be done at its end is done, and
// another one ends the program.
CRASH_PROGRAM(goexit_locked_main_another_exits) {
  return weft::run(
      [] {
        const weft::chan<int> c(1);
        struct at_end {
          weft::chan<int> c;
          ~at_end() { c.send(7); }
        } const e{c};
        weft::go([c] { std::exit(*c.recv()); });
        weft::goexit();
      },
      {.lock_main_thread = true});
}
