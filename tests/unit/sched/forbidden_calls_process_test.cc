// sysmon, g0 and whatever cannot be preempted call nothing that takes a lock of libc, the loader or the unwinder: a frozen
// goroutine may hold it (D2; sched/preempt.cc, PE2). Every part of the library runs here, while goroutines that compute
// are frozen, and forbidden_calls.cc looks at who calls what.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <weft/weft.h>

#include "base/fatal.h"
#include "base/print.h"
#include "gmp/inside.h"
#include "support/child_suite.h"
#include "support/files.h"
#include "support/preemptions.h"
#include "support/sockets.h"
#include "unit/sched/forbidden_calls.h"

namespace {

using namespace std::chrono_literals;

constexpr int kRight = 3;

// Larger than a goroutine's record has room for: on the heap.
struct cargo {
  std::vector<int> numbers = std::vector<int>(20, 1);
  char bytes[100] = {};
};

// -- what the library has; each is called by several goroutines, so often ------------------------

void spawns() {
  weft::wait_group ended;
  for (int i = 0; i < 50; ++i) ended.go([big = cargo()] { static_cast<void>(big); });
  ended.wait();
  weft::thread([big = cargo()] { static_cast<void>(big); }).join();
  weft::thread(weft::attrs{.name = "a name that is on the heap"}, [] {}).join();
  weft::task_group g;
  g.run([big = cargo()] { static_cast<void>(big); });
  g.wait();
  static_cast<void>(weft::async([] { return std::string(100, 'x'); }).get());
}

void ends_early() {
  weft::thread([] {
    const cargo destroyed;
    weft::goexit();
  }).join();
  try {
    const cargo destroyed;
    throw std::runtime_error(std::string(100, 'x'));
  } catch (const std::exception&) {
    weft::gosched();
  }
  static weft::goroutine_local<std::string> local;
  weft::thread([] { *local = std::string(100, 'x'); }).join();
}

void talks() {
  const weft::chan<std::string> to(1), from;
  weft::wait_group ended;
  ended.go([&] {
    for (const std::string& s : to) from.send(s + s);
    from.close();
  });
  for (int i = 0; i < 20; ++i) {
    to.send(std::string(100, 'x'));
    weft::select(weft::recv(from, [](std::optional<std::string>) {}),
                 weft::recv(weft::after(1s), [](std::optional<weft::clock::time_point>) {}));
  }
  to.close();
  ended.wait();
}

void locks() {
  static weft::mutex m;
  static weft::shared_mutex shared;
  static weft::condition_variable cv;
  static weft::counting_semaphore<> units(2);
  static std::mutex stds;
  static int turn = 0;
  for (int i = 0; i < 20; ++i) {
    {
      std::unique_lock held(m);
      ++turn;
      cv.notify_all();
      static_cast<void>(cv.wait_for(held, 100us, [] { return turn % 4 == 0; }));
    }
    units.acquire();
    const std::lock_guard also(stds);
    i % 2 == 0 ? shared.lock() : shared.lock_shared();
    i % 2 == 0 ? shared.unlock() : shared.unlock_shared();
    units.release();
  }
  weft::latch all(1);
  weft::thread([&] { all.count_down(); }).detach();
  all.wait();
}

void times() {
  weft::this_thread::sleep_for(100us);  // sleep-ok: a timer
  weft::wait_group ran;
  ran.add(1);
  const weft::timer later = weft::after_func(50us, [&, big = cargo()] { ran.done(); });
  ran.wait();
  weft::ticker often(200us);
  for (int i = 0; i < 3; ++i) static_cast<void>(often.c().recv());
  weft::timer stopped(1h);
  stopped.stop();
}

void waits_for_contexts() {
  auto [parent, cancel] = weft::with_cancel(weft::context());
  auto [ctx, cancel_too] = weft::with_timeout(parent, 300us);
  const auto stop = weft::after_func(ctx, [big = cargo()] { static_cast<void>(big); });
  static_cast<void>(ctx.done().recv());
  cancel_too();
  cancel();
}

void blocks() {
  int fd[2];
  if (pipe(fd) != 0) return;
  weft::wait_group ended;
  char byte;
  ended.go([&] { static_cast<void>(!read(fd[0], &byte, 1)); });
  poll(nullptr, 0, 1);
  weft::runtime::blocking([] { return poll(nullptr, 0, 1); });
  weft::runtime::blocking_for_long([] { return poll(nullptr, 0, 1); });
  static_cast<void>(!write(fd[1], "x", 1));
  ended.wait();
  close(fd[0]);
  close(fd[1]);
}

void connects() {
  weft::test::tcp_pair p = weft::test::connected();
  const std::string sent(100'000, 'x');
  weft::wait_group ended;
  ended.go([&] { p.a.write_all(sent); });
  std::string got(sent.size(), '\0');
  p.b.read_full(got);
  ended.wait();
  std::error_code ec;
  p.b.set_deadline(weft::clock::now() + 200us, ec);
  p.b.read_some(got, ec);
  p.a.close();
}

void uses_files(const std::string& path) {
  weft::io::write_file(path, std::string(100'000, 'x'));
  static_cast<void>(weft::io::read_file(path));
  weft::io::file f = weft::io::file::open(path, 2);
  f.write_at("hello", 3);
  f.sync();
  static_cast<void>(weft::process::command("/bin/true").output());
}

void makes_threads() {
  weft::thread([] {  // its thread ends with it
    weft::runtime::lock_os_thread();
    weft::gosched();
  })
      .join();
  std::thread([] { talks(); }).join();
}

void steers() {
  for (const int n : {1, 3, 2, 5}) {
    weft::runtime::gomaxprocs(n);
    weft::runtime::stop_the_world([] {});
    weft::runtime::gc();
  }
  static_cast<void>(weft::runtime::stack(true));
  weft::runtime::set_default_gomaxprocs();
}

// -- all of it -----------------------------------------------------------------------------------

void everything(const std::string& folder) {
  constexpr int kRounds = 6;
  std::atomic<int> number{0};
  weft::wait_group ended;
  const auto often = [&](int members, auto work) {
    for (int i = 0; i < members; ++i) {
      ended.go([work] {
        for (weft::test::budget b(kRounds, 2s); b.next();) work();
      });
    }
  };
  often(3, spawns);
  often(3, ends_early);
  often(3, talks);
  often(4, locks);
  often(3, times);
  often(3, waits_for_contexts);
  often(3, blocks);
  often(2, connects);
  often(2, [&] { uses_files(folder + "/" + std::to_string(number++)); });
  often(2, makes_threads);
  often(1, steers);
  ended.wait();
}

// They hold malloc's lock now and then.
void hog(const std::atomic<bool>& over) {
  while (!over) {
    const cargo allocated;
    for (int i = 0; i < 1000; ++i) asm volatile("");
  }
}

// Somebody is frozen, and those who give their Ps away find no M for them.
bool need_threads() {
  const int procs = weft::runtime::gomaxprocs(2);
  const std::uint64_t frozen = weft::test::preemptions();
  const weft::test::crowd others;
  const bool begun = weft::test::eventually([&] { return weft::test::preemptions() > frozen; });
  weft::wait_group ended;
  for (int i = 0; i < 20; ++i) {
    ended.go([] { weft::runtime::blocking_for_long([] { return poll(nullptr, 0, 10); }); });
  }
  ended.wait();
  weft::runtime::gomaxprocs(procs);
  return begun;
}

WEFT_CHILD(everything) {
  const weft::test::folder here;
  std::atomic<bool> over{false};
  bool enough = false;
  weft::run([&] {
    const std::uint64_t frozen = weft::test::preemptions(), handed = weft::test::handoffs();
    weft::wait_group hogs;
    for (int i = 0; i < 3; ++i) hogs.go([&] { hog(over); });
    enough = need_threads();
    everything(here.path());
    const weft::test::crowd others;
    enough &= weft::test::eventually([&] {
      blocks();
      return weft::test::preemptions() >= frozen + 20 && weft::test::handoffs() >= handed + 5;
    });
    over = true;
    hogs.wait();
  });
  return enough && weft::test::calls_looked_at() > 1000 ? kRight : 1;
}

class ForbiddenCalls : public weft::test::children_over_procs {
 protected:
  void SetUp() override {
    if (weft::test::emulated())
      GTEST_SKIP() << "it takes long, and nothing here knows the processor";
  }
};
TEST_P(ForbiddenCalls, OnlyInTheUsersCode) { expect("everything", kRight, ""); }

// … nor with what can be switched on.
TEST_P(ForbiddenCalls, OnlyInTheUsersCodeWhateverIsSwitchedOn) {
  for (const char* keys :
       {"schedtrace=5,scheddetail=1,lockcheck=1,stackusage=1,tracebackancestors=3",
        "migrate=1,iouring=0"}) {
    const auto r = run("everything", {std::string("WEFTDEBUG=") + keys});
    EXPECT_EQ(r.status, kRight) << r.output.substr(r.output.find("\nruntime: ") + 1);
  }
}
WEFT_OVER_PROCS(ForbiddenCalls);

// That it would be seen.
WEFT_CHILD(in_the_runtime) {
  return weft::run([] {
    const weft::rt::inside here;
    void* volatile allocated = std::malloc(1);
    std::free(allocated);
  });
}
TEST_P(ForbiddenCalls, AreSeenInTheRuntime) {
  const auto r = run("in_the_runtime");
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.output.rfind("runtime: malloc is called in the runtime\n", 0), 0u) << r.output;
}

WEFT_CHILD(prints_in_the_runtime) {
  return weft::run([] {
    const weft::rt::inside here;
    std::printf("%d\n", weft::runtime::gomaxprocs());
  });
}
TEST_P(ForbiddenCalls, PrintingIsSeenToo) {
  const auto r = run("prints_in_the_runtime");
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.output.rfind("runtime: printf is called in the runtime\n", 0), 0u) << r.output;
}

// -- who crashes ---------------------------------------------------------------------------------

// Others wait, compute, block and allocate meanwhile; and then this.
template <class F>
void among_others(F crash) {
  static int fd[2];
  if (pipe(fd) != 0) _exit(77);
  weft::run([&] {
    static const std::atomic<bool> over{false};
    std::atomic<int> begun{0};
    static weft::mutex held;
    const std::lock_guard lock(held);
    weft::go(weft::attrs{.name = "a name that is on the heap"}, [&] {
      ++begun;
      const std::lock_guard never(held);
    });
    weft::go([&] {
      ++begun;
      char byte;
      static_cast<void>(!read(fd[0], &byte, 1));
    });
    for (int i = 0; i < 2; ++i) {
      weft::go([&] {
        ++begun;
        hog(over);
      });
    }
    while (begun < 4) weft::gosched();
    crash();
  });
}

WEFT_CHILD(panics) {
  among_others([] { throw std::runtime_error(std::string(100, 'x')); });
  return 1;
}
WEFT_CHILD(dies) {
  among_others([] { weft::mutex().unlock(); });
  return 1;
}
WEFT_CHILD(quits) {
  among_others([] {
    raise(SIGQUIT);
    for (;;) pause();
  });
  return 1;
}
WEFT_CHILD(deadlocks) {
  return weft::run([] {
    static weft::mutex a, b;
    std::atomic<bool> other_has_b{false};
    const std::lock_guard first(a);
    weft::go([&] {
      const std::lock_guard second(b);
      other_has_b = true;
      const std::lock_guard never(a);
    });
    while (!other_has_b) weft::gosched();
    const std::lock_guard never(b);
  });
}
TEST_P(ForbiddenCalls, NoneInAReport) {
  for (const char* level : {"single", "system"}) {
    for (const auto& [child, first] :
         {std::pair("panics", "panic: "), std::pair("dies", "fatal error: sync: "),
          std::pair("quits", "SIGQUIT: quit\n"),
          std::pair("deadlocks", "fatal error: all goroutines")}) {
      const auto r = run(child, {std::string("WEFTTRACEBACK=") + level});
      EXPECT_EQ(r.status, 2) << child << ": " << r.output;
      EXPECT_EQ(r.output.rfind(first, 0), 0u) << r.output;
      EXPECT_NE(r.output.find("\ngoroutine "), std::string::npos) << r.output;
    }
  }
}

// That one would be seen.
WEFT_CHILD(allocates_in_a_report) {
  return weft::run([] {
    weft::rt::set_crash_hooks(
        {.freeze_world = nullptr, .dump = [](weft::rt::printer&, weft::rt::fault) {
           void* volatile allocated = std::malloc(1);
           std::free(allocated);
         }});
    weft::rt::fatal("a report");
  });
}
TEST_P(ForbiddenCalls, AreSeenInAReport) {
  const auto r = run("allocates_in_a_report");
  EXPECT_EQ(r.status, weft::test::kCalledWhileCrashing);
  EXPECT_EQ(r.output, "fatal error: a report\nruntime: malloc is called in a crash report\n");
}

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
