// Programs that show what a key of WEFTDEBUG changes.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>

#include <weft/latch.h>
#include <weft/weft.h>

#include "crash/programs/program.h"
#include "gmp/g.h"
#include "os/test_hooks.h"
#include "sched/sched_api.h"
#include "support/thread_state.h"

namespace app {

// migrate: on how many of so many parks the thread changed, and on how many errno came along.
void count_moves(const char* who) {
  constexpr int kParks = 50;
  int parks = 0, moved = 0, kept = 0;
  weft::chan<int> ping(1), pong;
  weft::thread partner([&] {
    for (auto n : ping) pong.send(n);
  });
  weft::rt::G* self = weft::rt::current_goroutine();
  while (parks < kParks) {
    ping.send(parks);  // there is room
    const int before = gettid();
    self->reason = weft::rt::wait_reason::none;
    weft::test::set_errno(ERANGE);
    static_cast<void>(pong.recv());  // parks, unless the partner was quicker
    const int error = weft::test::get_errno();
    if (self->reason != weft::rt::wait_reason::chan_receive) continue;
    ++parks;
    kept += error == ERANGE ? 1 : 0;
    moved += gettid() != before ? 1 : 0;
  }
  ping.close();
  partner.join();
  std::printf("%s: moved %d, errno kept %d of %d\n", who, moved, kept, parks);
}

// From one of the numbers of the process, in KiB.
long in_smaps(const char* name) {
  std::FILE* file = std::fopen("/proc/self/smaps_rollup", "r");
  if (file == nullptr) return -1;
  char line[256];
  long found = -1;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strncmp(line, name, std::strlen(name)) == 0) {
      found = std::strtol(line + std::strlen(name), nullptr, 10);
    }
  }
  std::fclose(file);
  return found;
}

[[gnu::noinline]] void use_stack(std::size_t bytes) {
  auto* memory = static_cast<volatile char*>(__builtin_alloca(bytes));
  for (std::size_t i = 0; i < bytes; i += 1024) memory[i] = 1;
}

[[gnu::noinline]] int panic_below(int depth) {
  if (depth == 0) throw std::runtime_error("deep down");
  const int n = panic_below(depth - 1);
  asm volatile("");
  return n + 1;
}

std::atomic<long> turns{0};

// Reads the report up to the first stack, and lets the reporter wait for room in the pipe meanwhile.
void read_the_head(int from) {
  std::string text;
  while (text.find("[running]") == std::string::npos) {
    char c;
    if (read(from, &c, 1) != 1) return;
    text += c;
  }
}

bool runs_on(bool expected) {
  constexpr long kMany = 1000;
  const long start = turns.load();
  long last = start;
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // sleep-ok: as long as it takes
    const long now = turns.load();
    if (now - start > kMany && expected) return true;
    if (now == last && !expected) return false;
    last = now;
  }
}

[[noreturn]] void watch(int from, bool expected) {
  read_the_head(from);
  std::puts(runs_on(expected) ? "they run on" : "they stand still");
  std::fflush(stdout);
  _exit(0);
}

// A crash whose report does not fit into the pipe that it goes to, beside a goroutine that takes turns.
int crash_beside_others(bool expected) {
  int ends[2];
  if (pipe(ends) != 0 || fcntl(ends[1], F_SETPIPE_SZ, 4096) < 0) return 1;
  if (dup2(ends[1], STDERR_FILENO) < 0) return 1;
  std::thread(watch, ends[0], expected).detach();
  return weft::run(
      [] {
        weft::go([] {
          for (;;) {
            turns.fetch_add(1);
            weft::gosched();
          }
        });
        while (turns.load() == 0) weft::gosched();
        panic_below(90);
      },
      {.max_procs = 2});
}

}  // namespace app

CRASH_PROGRAM(key_migrate) {
  return weft::run([] {
    app::count_moves("free");
    weft::runtime::lock_os_thread();
    app::count_moves("locked");
    weft::runtime::unlock_os_thread();
  });
}

// Reads what the page cache is said not to have.
CRASH_PROGRAM(key_iouring) {
  weft::rt::os::test_hooks.ring_operations.set(0);
  weft::rt::os::test_hooks.force_miss.set(1);
  return weft::run([] {
    const std::string text = weft::io::read_file("/proc/self/exe");
    const bool by_ring = weft::rt::os::test_hooks.ring_operations.get() > 0;
    std::printf("%s by %s\n", text.substr(1, 3).c_str(), by_ring ? "the ring" : "threads");
  });
}

CRASH_PROGRAM(key_madvdontneed) {
  return weft::run([] {
    constexpr int kMany = 64;
    weft::latch all(kMany);
    weft::wait_group ended;
    for (int i = 0; i < kMany; ++i) {
      ended.go([&] {
        app::use_stack(128 * 1024);
        all.arrive_and_wait();  // each on its own stack
      });
    }
    ended.wait();
    weft::runtime::gc();
    std::printf("lazy: %s\n", app::in_smaps("LazyFree:") >= 1024 ? "much" : "little");
  });
}

CRASH_PROGRAM(key_dontfreezetheworld) { return app::crash_beside_others(/*expected=*/true); }
CRASH_PROGRAM(key_freezes_the_world) { return app::crash_beside_others(/*expected=*/false); }

CRASH_PROGRAM(key_stackusage) {
  return weft::run([] {
    for (int i = 0; i < 3; ++i) weft::thread([] { app::use_stack(100'000); }).join();
    for (int i = 0; i < 5; ++i) weft::thread([] { app::use_stack(10); }).join();
    weft::chan<int> never, there;
    weft::go([=] {
      app::use_stack(50'000);
      there.send(1);
      static_cast<void>(never.recv());
    });
    static_cast<void>(there.recv());
    for (const auto& site : weft::runtime::stack_usage_by_site()) {
      std::printf("%zu pages, %llu goroutines: %s\n", site.most / 4096,
                  static_cast<unsigned long long>(site.goroutines), site.created_by.c_str());
    }
  });
}
