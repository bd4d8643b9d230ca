// What LeakSanitizer says about goroutines that are alive when the process ends: nothing about what they
// hold, and everything about what nobody holds any more. In other builds the programs just run.
#include <atomic>
#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/run.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "support/child.h"
#include "support/patience.h"

namespace {

using weft::test::run_child;

struct block {
  char bytes[1000] = {};
};

// On the stack, in a register, or in the closure: wherever the compiler keeps it.
[[gnu::noinline]] void use(const block* b) { asm volatile("" ::"r"(b) : "memory"); }
[[gnu::noinline]] void leak() {
  auto* b = new block;
  use(b);
}
[[gnu::noinline]] void scrub() {  // frames of earlier calls
  volatile char frame[4096];
  for (volatile char& c : frame) c = 0;
}

}  // namespace

WEFT_CHILD(waits_with_a_local) {
  return weft::run([] {
    const weft::chan<int> ready(1);
    weft::go([ready] {
      const auto held = std::make_unique<block>();
      ready.send(1);
      weft::chan<int>(nullptr).recv();
      use(held.get());
    });
    ready.recv();
  });
}

WEFT_CHILD(sleeps_with_a_closure) {
  return weft::run([] {
    weft::go([held = std::make_shared<block>()] {
      weft::this_thread::sleep_for(std::chrono::hours(1));  // sleep-ok: to be asleep at the end
      use(held.get());
    });
    weft::gosched();
  });
}

WEFT_CHILD(has_not_started) {
  return weft::run(
      [] {
        weft::go([held = std::make_shared<block>()] { use(held.get()); });
        weft::go([held = std::make_shared<block>(), large = block()] { use(&large); });
      },
      {.max_procs = 1});
}

WEFT_CHILD(computes) {
  return weft::run(
      [] {
        static std::atomic<bool> computing{false};
        weft::go([] {
          const auto held = std::make_unique<block>();
          for (;;) {
            use(held.get());
            computing = true;
          }
        });
        while (!computing) weft::gosched();
      },
      {.max_procs = 2});
}

WEFT_CHILD(exits_itself) {
  return weft::run([] {
    const auto held = std::make_unique<block>();
    use(held.get());
    std::exit(0);
  });
}

WEFT_CHILD(many_wait) {
  return weft::run([] {
    const weft::chan<int> never;
    for (int i = 0; i < 2000; ++i) {
      weft::go([held = std::make_unique<block>(), never] {
        never.recv();
        use(held.get());
      });
    }
    weft::gosched();
  });
}

WEFT_CHILD(leaks_on_a_thread) {
  const int status = weft::run([] {});
  leak();
  scrub();
  return status;
}

WEFT_CHILD(leaks_in_a_goroutine) {
  return weft::run([] {
    weft::thread(leak).join();
    scrub();
  });
}

// Below the stack pointer of one that waits, and above it nothing.
WEFT_CHILD(leaks_below_the_stack_pointer) {
  return weft::run([] {
    const weft::chan<int> ready(1);
    weft::go([ready] {
      leak();
      scrub();
      ready.send(1);
      weft::chan<int>(nullptr).recv();
    });
    ready.recv();
  });
}

namespace {

class Alive : public testing::TestWithParam<const char*> {};
TEST_P(Alive, IsNoLeak) {
  const auto child = run_child(GetParam(), {"ASAN_OPTIONS=detect_leaks=1"});
  EXPECT_EQ(child.output.find("LeakSanitizer"), std::string::npos) << child.output;
  EXPECT_EQ(child.status, 0) << child.output;
}

class Lost : public testing::TestWithParam<const char*> {};
TEST_P(Lost, IsALeak) {
  if (!WEFT_TEST_ASAN) GTEST_SKIP() << "needs AddressSanitizer";
  const auto child = run_child(GetParam(), {"ASAN_OPTIONS=detect_leaks=1"});
  EXPECT_NE(child.output.find("detected memory leaks"), std::string::npos) << child.output;
  EXPECT_NE(child.output.find("1000 byte(s) in 1 object"), std::string::npos) << child.output;
}

std::string plain_name(const testing::TestParamInfo<const char*>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(, Alive,
                         testing::Values("waits_with_a_local", "sleeps_with_a_closure",
                                         "has_not_started", "computes", "exits_itself",
                                         "many_wait"),
                         plain_name);
INSTANTIATE_TEST_SUITE_P(, Lost,
                         testing::Values("leaks_on_a_thread", "leaks_in_a_goroutine",
                                         "leaks_below_the_stack_pointer"),
                         plain_name);

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
