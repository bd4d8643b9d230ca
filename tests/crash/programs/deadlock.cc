// Everybody asleep, or out of something: fatal errors of the scheduler.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <unistd.h>

#include <weft/weft.h>

#include "base/fatal.h"
#include "base/print.h"
#include "crash/programs/program.h"
#include "support/waiting.h"

namespace {

weft::wait_group never;

[[gnu::noinline]] void wait_forever() {
  never.wait();
  asm volatile("");
}

}  // namespace

// Whichever program was asked for, if the environment says so.
namespace {
weft::wait_group nobody_yet;  // not `never`: the compiler would take the two functions for one
[[gnu::noinline]] void wait_before_main() {
  nobody_yet.wait();
  asm volatile("");
}
struct early_deadlock {
  early_deadlock() {
    if (std::getenv("CRASH_IN_STATIC_INITIALISER") == nullptr) return;
    nobody_yet.add();
    weft::run([] { wait_before_main(); });
  }
};
[[maybe_unused]] const early_deadlock before_main;
}  // namespace

CRASH_PROGRAM(deadlock_main) {
  never.add();
  return weft::run([] { wait_forever(); });
}
CRASH_PROGRAM(deadlock_two) {
  never.add();
  return weft::run([] {
    weft::go(weft::attrs{.name = "sleeper"}, wait_forever);
    weft::gosched();
    wait_forever();
  });
}
CRASH_PROGRAM(deadlock_locked_main) {
  never.add();
  return weft::run([] { wait_forever(); }, {.lock_main_thread = true});
}
CRASH_PROGRAM(deadlock_join) {
  never.add();
  return weft::run([] {
    weft::thread t(wait_forever);
    t.join();
  });
}
CRASH_PROGRAM(deadlock_many) {
  never.add();
  return weft::run([] {
    for (int i = 0; i < 3000; ++i) weft::go(wait_forever);
    weft::gosched();
    wait_forever();
  });
}

// Nobody has called goexit(): the goroutine of run() has simply returned.
CRASH_PROGRAM(deadlock_after_run) {
  never.add();
  weft::run([] {});
  wait_forever();
  return 0;
}
// There is no M that could look again when the last other thread has ended.
CRASH_PROGRAM(deadlock_without_goroutines) {
  never.add();
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // sleep-ok: the subject
    weft::rt::printer().str("the other thread ends\n");
  }).detach();
  wait_forever();
  return 0;
}

// … nor while there is: the other thread takes its time, in a call that is none of weft's, and comes in the end.
CRASH_PROGRAM(awaits_a_plain_thread) {
  return weft::run([] {
    weft::wait_group thread, others;
    thread.add();
    std::thread plain([&thread] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // sleep-ok: the subject
      thread.done();
    });
    for (int i = 0; i < 3; ++i) others.go([&thread] { thread.wait(); });
    others.wait();
    plain.join();
    return 7;
  });
}

// A thread that lingers after it has kept its promise is not the one who could wake the others.
CRASH_PROGRAM(deadlock_after_thread_exit) {
  struct lingers {
    ~lingers() {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // sleep-ok: the subject
    }
  };
  never.add();
  return weft::run([] {
    weft::promise<void> first;
    std::thread([&first] {
      weft::promise<std::unique_ptr<lingers>> last;
      last.set_value_at_thread_exit(std::make_unique<lingers>());
      first.set_value_at_thread_exit();
    }).detach();
    first.get_future().wait();
    wait_forever();
  });
}

// Whoever has stopped the world waits for nobody.
CRASH_PROGRAM(stop_and_yield) {
  return weft::run([] { weft::runtime::stop_the_world([] { weft::gosched(); }); });
}
CRASH_PROGRAM(stop_and_block) {
  never.add();
  return weft::run([] { weft::runtime::stop_the_world([] { wait_forever(); }); });
}
CRASH_PROGRAM(stop_and_stop) {
  return weft::run(
      [] { weft::runtime::stop_the_world([] { weft::runtime::stop_the_world([] {}); }); });
}
CRASH_PROGRAM(stop_and_resize) {
  return weft::run([] { weft::runtime::stop_the_world([] { weft::runtime::gomaxprocs(3); }); });
}
CRASH_PROGRAM(stop_and_block_locked) {
  never.add();
  return weft::run([] { weft::runtime::stop_the_world([] { wait_forever(); }); },
                   {.lock_main_thread = true});
}
CRASH_PROGRAM(stop_and_block_on_a_plain_thread) {
  never.add();
  weft::runtime::stop_the_world([] { wait_forever(); });
  return 0;
}
CRASH_PROGRAM(stop_and_stop_on_a_plain_thread) {
  weft::runtime::stop_the_world([] { weft::runtime::stop_the_world([] {}); });
  return 0;
}

// [DD-6] A channel timer that nobody receives from keeps nobody alive …
CRASH_PROGRAM(deadlock_beside_channel_timer) {
  never.add();
  return weft::run([] {
    weft::timer idle(std::chrono::hours(1));
    weft::ticker ticks(std::chrono::milliseconds(1));
    auto c = idle.c(), k = ticks.c();
    static_cast<void>(k.recv());
    wait_forever();
  });
}
// … a sleeper does, and so does what was started by after_func().
CRASH_PROGRAM(deadlock_after_sleep) {
  never.add();
  return weft::run([] {
    weft::go([] {
      weft::this_thread::sleep_for(std::chrono::milliseconds(100));  // sleep-ok: the subject
    });
    weft::after_func(std::chrono::milliseconds(150),
                     [] { weft::rt::printer().str("still alive\n"); });
    wait_forever();
  });
}
CRASH_PROGRAM(asleep_beside_sleeper) {
  never.add();
  return weft::run([] {
    weft::go(weft::attrs{.name = "dreamer"},
             [] { weft::this_thread::sleep_for(std::chrono::hours(1)); });  // sleep-ok: the subject
    while (!weft::test::somebody_waits_in("sleep] {name: dreamer}")) weft::gosched();
    throw weft::panic_error("look at the sleeper");
  });
}

CRASH_PROGRAM(go_nil_function) {
  return weft::run([] {
    try {
      weft::go(std::function<void()>());
    } catch (...) {
    }
  });
}
CRASH_PROGRAM(go_nil_pointer) {
  return weft::run([] {
    void (*none)() = nullptr;
    weft::go(none);
  });
}

// With WEFT_TEST_FORCE: threads or memory give out.
CRASH_PROGRAM(many_goroutines) {
  return weft::run(
      [] {
        for (int i = 0; i < 20'000; ++i) weft::go(wait_forever);
        weft::gosched();
        return 4;
      },
      {.max_procs = 4});
}
CRASH_PROGRAM(thread_limit) {
  never.add();
  weft::runtime::set_max_threads(1);
  return weft::run(
      [] {
        for (int i = 0; i < 100; ++i) {
          weft::go([] {
            for (;;) weft::gosched();
          });
        }
        wait_forever();
      },
      {.max_procs = 4});
}
// More than one are there already: nobody waits for the next.
CRASH_PROGRAM(thread_limit_below_what_is) {
  return weft::run(
      [] {
        weft::chan<int> locked;
        weft::go([=] {
          weft::runtime::lock_os_thread();
          locked.send(1);
          wait_forever();
        });
        locked.recv();
        weft::runtime::set_max_threads(1);
        return write(STDOUT_FILENO, "after", 5) == 5 ? 7 : 8;
      },
      {.max_procs = 2});
}

// The reporting itself.
CRASH_PROGRAM(fatal_on_goroutine) {
  return weft::run([] { weft::rt::fatal("a bug of ours"); });
}
CRASH_PROGRAM(fatal_on_plain_thread) { weft::rt::fatal("a bug\nof ours"); }
CRASH_PROGRAM(check_fails) {
  volatile bool broken = true;
  WEFT_CHECK(!broken, "it must hold");
  return 0;
}
CRASH_PROGRAM(fatal_in_fatal) {
  weft::rt::set_crash_hooks(
      {.dump = [](weft::rt::printer&, weft::rt::fault) { weft::rt::fatal("inner"); }});
  weft::rt::fatal("outer");
}
// Whoever reports fails again and again: this thread begins anew each time.
CRASH_PROGRAM(fatal_three_times) {
  for (;;) static_cast<void>(weft::rt::begin_crash());
}
// … and even the attempt to say so fails: nobody reads, and who writes is told by a signal.
CRASH_PROGRAM(fatal_four_times) {
  int unread[2];
  if (pipe(unread) != 0 || dup2(unread[1], STDERR_FILENO) < 0) return 1;
  close(unread[0]);
  struct sigaction fails = {};
  fails.sa_handler = [](int) { static_cast<void>(weft::rt::begin_crash()); };
  fails.sa_flags = SA_NODEFER;
  sigaction(SIGPIPE, &fails, nullptr);
  for (;;) static_cast<void>(weft::rt::begin_crash());
}
