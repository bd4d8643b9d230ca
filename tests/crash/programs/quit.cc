// Programs that are asked for a report by SIGQUIT, or ask for one themselves.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>

#include <weft/weft.h>

#include "crash/programs/program.h"
#include "gmp/arena.h"
#include "gmp/g.h"
#include "support/waiting.h"

namespace app {

std::atomic<int> spinning{0};
weft::wait_group never;

void say(const char* text) {
  std::fputs(text, stdout);
  std::fflush(stdout);
}

[[gnu::noinline]] void spin_for_ever() {
  spinning.fetch_add(1);
  for (;;) asm volatile("");
}
[[gnu::noinline]] void wait_here() {
  never.wait();
  asm volatile("");
}
[[gnu::noinline]] void read_for_ever() {
  int ends[2];
  if (pipe(ends) == 0) {
    spinning.fetch_add(1);
    char c;
    while (read(ends[0], &c, 1) >= 0) {
    }
  }
}

// A frame of unknown size: functions like this one, and all without optimisation, find it by a register
// that the kernel does not tell of a thread that is asleep.
[[gnu::noinline]] long read_into_frame(int from, std::size_t size) {
  char* buffer = static_cast<char*>(__builtin_alloca(size));
  const long got = read(from, buffer, size);
  asm volatile("" : : "r"(buffer) : "memory");
  return got;
}
[[gnu::noinline]] long call_reader(int from) {
  const long got = read_into_frame(from, 64);
  asm volatile("");
  return got;
}

void begin_another(int more) {
  if (more == 0) throw weft::panic_error("the last of them");
  weft::go([more] {
    begin_another(more - 1);
    wait_here();
  });
}

[[gnu::noinline]] void throws() { throw std::runtime_error("first"); }
[[gnu::noinline]] std::string stack_of_handler() {
  try {
    throws();
  } catch (const std::exception&) {
    try {
      throws();
    } catch (const std::exception&) {
      std::string text = weft::runtime::stack();
      asm volatile("");
      return text;
    }
  }
  return {};
}

// f(what a walk says) while a goroutine is in such a call.
template <class F>
int beside_a_reader(F f) {
  return weft::run([f] {
    int ends[2];
    if (pipe(ends) != 0) return;
    long got = 0;
    weft::thread reader([&] { got = call_reader(ends[0]); });
    std::string all;
    // Until it is there, and has told what the kernel does not know: within 100 ms, or it is not waited for.
    while (all.find("app::call_reader(") == std::string::npos) {
      weft::gosched();
      all = weft::runtime::stack(true);
    }
    f(all);
    const bool sent = write(ends[1], "hello", 5) == 5;
    reader.join();
    std::fprintf(stderr, "got %ld\n", sent ? got : -1);
  });
}

// As if every goroutine that waits had done so for three minutes more.
void age() {
  weft::rt::for_each_g(
      [](weft::rt::G& gp, void*) {
        if (gp.in(weft::rt::g_status::waiting))
          gp.waiting_since -= std::int64_t{185} * 1'000'000'000;
      },
      nullptr);
}

}  // namespace app

// Go: TestCrashDumpsAllThreads
CRASH_PROGRAM(quit_spinning) {
  return weft::run(
      [] {
        for (int i = 0; i < 3; ++i) weft::go(app::spin_for_ever);
        std::thread([] {
          while (app::spinning.load() < 4) std::this_thread::yield();
          app::say("ready\n");
        }).detach();
        app::spin_for_ever();
      },
      {.max_procs = 4});
}
// Two are frozen, or have not begun, whenever the third one runs.
CRASH_PROGRAM(frozen_hogs) {
  return weft::run(
      [] {
        for (int i = 0; i < 2; ++i) weft::go(app::spin_for_ever);
        while (app::spinning.load() < 2) weft::gosched();
        std::fputs(weft::runtime::stack(true).c_str(), stderr);
        app::say("frozen\n");
      },
      {.max_procs = 1});
}
CRASH_PROGRAM(stack_of_reader) {
  return app::beside_a_reader([](const std::string& all) { std::fputs(all.c_str(), stderr); });
}
CRASH_PROGRAM(quit_waiting) {
  app::never.add();
  weft::runtime::gomaxprocs(1);
  return weft::run([] {
    weft::go(weft::attrs{.name = "sleeper"}, app::wait_here);
    weft::go([] { weft::this_thread::sleep_for(std::chrono::hours(1)); });  // sleep-ok: to be seen
    weft::go([] {
      while (weft::test::waiting_goroutines() < 3) weft::gosched();
      app::age();
      app::say("ready\n");
      weft::this_thread::sleep_for(std::chrono::hours(1));  // sleep-ok: until the signal
    });
    app::wait_here();
  });
}
// In a call of the kernel that nobody has announced.
CRASH_PROGRAM(quit_reading) {
  return weft::run(
      [] {
        weft::go(app::read_for_ever);
        while (app::spinning.load() < 1) weft::gosched();
        app::say("ready\n");
        app::never.add();
        app::wait_here();
      },
      {.max_procs = 2});
}
CRASH_PROGRAM(quit_ignored) {
  std::signal(SIGQUIT, SIG_IGN);
  return weft::run([] {
    raise(SIGQUIT);
    return 7;
  });
}
CRASH_PROGRAM(quit_handled) {
  std::signal(SIGQUIT, [](int) { _exit(8); });
  return weft::run([] {
    raise(SIGQUIT);
    return 7;
  });
}
// Whoever has taken SIGQUIT since then gets none from a walk that would like to know more of a thread.
CRASH_PROGRAM(stack_quit_notified) {
  return app::beside_a_reader([](const std::string&) {
    const weft::chan<int> quits(1);
    weft::signal::notify(quits, {SIGQUIT});
    std::string
        text;  // of one who sits in the kernel: who was stopped there needs no signal to tell
    do {
      weft::gosched();
      text = weft::runtime::stack(true);
    } while (text.find("[runnable]") != std::string::npos);
    std::fputs(text.c_str(), stderr);
    weft::signal::stop(quits);
    std::fprintf(stderr, "signals: %zu\n", quits.size());
    std::string again;  // it is weft's again
    while (again.find("app::call_reader(") == std::string::npos) again = weft::runtime::stack(true);
    app::say(again.c_str());
  });
}
CRASH_PROGRAM(stack_quit_handled) {
  return app::beside_a_reader([](const std::string&) {
    std::signal(SIGQUIT, [](int) { _exit(8); });
    std::fputs(weft::runtime::stack(true).c_str(), stderr);
  });
}
CRASH_PROGRAM(stack_quit_default) {
  return app::beside_a_reader([](const std::string&) {
    std::signal(SIGQUIT, SIG_DFL);
    std::fputs(weft::runtime::stack(true).c_str(), stderr);
  });
}
CRASH_PROGRAM(quit_plain_thread) {
  weft::runtime::num_goroutine();
  app::say("ready\n");
  for (;;) pause();
}
CRASH_PROGRAM(terminated) {
  weft::run([] {});
  app::say("ready\n");
  for (;;) pause();
}

// runtime::stack(): all of them, while they go on.
CRASH_PROGRAM(stack_of_all) {
  app::never.add();
  weft::runtime::gomaxprocs(1);
  return weft::run([] {
    weft::go(weft::attrs{.name = "sleeper"}, app::wait_here);
    while (weft::test::waiting_goroutines() < 1) weft::gosched();
    app::say(weft::runtime::stack(true).c_str());
    return 0;
  });
}
CRASH_PROGRAM(stack_of_thousands) {
  app::never.add();
  weft::runtime::gomaxprocs(1);
  return weft::run([] {
    for (int i = 0; i < 3000; ++i) weft::go(app::wait_here);
    while (weft::test::waiting_goroutines() < 3000) weft::gosched();
    app::say(weft::runtime::stack(true).c_str());
    return 0;
  });
}

// WEFTDEBUG=tracebackancestors
CRASH_PROGRAM(ancestors) {
  return weft::run([] {
    weft::wait_group done;
    done.go([&] {
      done.go([&] {
        done.go([] { throw weft::panic_error("grandchild"); });
        app::never.add();
        app::wait_here();
      });
    });
    done.wait();
  });
}

// Goroutine 1 has begun one, which has begun one, …: 60 in all, of which the last panics.
CRASH_PROGRAM(many_ancestors) {
  app::never.add();
  return weft::run([] {
    app::begin_another(60);
    app::wait_here();
  });
}

// runtime::stack() where an exception is handled, and while another one is.
CRASH_PROGRAM(stack_in_a_handler) {
  return weft::run([] { app::say(app::stack_of_handler().c_str()); });
}

// All that works behind the scenes: timers, and threads for signals, names and files.
CRASH_PROGRAM(panic_beside_helpers) {
  return weft::run([] {
    weft::timer later(std::chrono::hours(1));
    weft::timer calls = weft::after_func(std::chrono::hours(1), [] {});
    weft::ticker ticks(std::chrono::hours(1));
    const auto [ctx, cancel] = weft::with_timeout(weft::context(), std::chrono::hours(1));
    const weft::chan<int> signals(1);
    weft::signal::notify(signals, {SIGUSR1});
    std::error_code ec;
    // It need not find out: the thread that looks is there.
    weft::net::resolver::lookup("name.invalid:80",
                                weft::with_timeout(ctx, std::chrono::seconds(1)).ctx, ec);
    weft::io::file::open("/proc/self/exe").sync();
    weft::process::command("true").run();
    std::fprintf(stdout, "%d goroutine\n", weft::runtime::num_goroutine());
    std::fflush(stdout);
    throw weft::panic_error("beside helpers");
  });
}

// For debuggers, which stop at the signal.
CRASH_PROGRAM(reads_from_a_silent_pipe) {
  return weft::run([] {
    auto [reader, writer] = weft::io::pipe();
    weft::go([&reader = reader] {
      char byte[1];
      static_cast<void>(reader.read_some(byte));
    });
    while (!weft::test::somebody_waits_in("IO wait")) weft::gosched();
    std::raise(SIGTRAP);
  });
}

// What its names came from is cut off between two reports.
CRASH_PROGRAM(reports_after_its_debug_file_is_cut) {
  return weft::run([] {
    std::fputs(weft::runtime::stack(true).c_str(), stderr);
    if (truncate(std::getenv("WEFT_TEST_CUT"), 100) != 0) std::perror("truncate");
    // Files are looked at every millisecond.
    weft::this_thread::sleep_for(std::chrono::milliseconds(2));  // sleep-ok: the subject
    std::fputs(weft::runtime::stack(true).c_str(), stdout);
  });
}
