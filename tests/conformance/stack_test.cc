// runtime::stack(): what it says, and that it may be asked at any time.
#include <atomic>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <unistd.h>

#include <weft/weft.h>

namespace {

// Go: TestStackOutput
TEST(Stack, OfTheCaller) {
  std::string text;
  weft::run([&] { text = weft::runtime::stack(); });
  EXPECT_TRUE(text.starts_with("goroutine ")) << text;
  EXPECT_NE(text.find(" [running]:\n"), std::string::npos) << text;
  EXPECT_NE(text.find("(...)\n\t"), std::string::npos) << "no frames\n" << text;
  EXPECT_EQ(text.find("\n\ngoroutine "), std::string::npos) << "only this one\n" << text;
}

TEST(Stack, OfAPlainThread) {
  const std::string text = weft::runtime::stack();
  EXPECT_TRUE(text.starts_with("goroutine 0 [plain thread]:\n")) << text;
  EXPECT_NE(text.find("\nmain(...)\n"), std::string::npos) << text;
}

// Go: TestTracebackParentChildGoroutines
TEST(Stack, NamesTheParent) {
  std::string text;
  std::uint64_t parent = 0;
  weft::run([&] {
    weft::wait_group done;
    done.go([&] {
      parent = weft::runtime::goid();
      weft::wait_group inner;
      inner.go([&] { text = weft::runtime::stack(); });
      inner.wait();
    });
    done.wait();
  });
  EXPECT_NE(text.find(" in goroutine " + std::to_string(parent) + "\n"), std::string::npos) << text;
}

// Go: TestGoroutineProfile. Dumps of all while the others park, wake, spawn, end and call the kernel.
TEST(Stack, OfAllWhileTheyAreBusy) {
  weft::run(
      [] {
        std::atomic<bool> stop{false};
        weft::wait_group done;
        weft::chan<int> ping, pong;
        done.go([&] {
          for (auto v : ping) pong.send(v);
        });
        done.go([&] {
          while (!stop.load()) {
            ping.send(1);
            static_cast<void>(pong.recv());
          }
          ping.close();
        });
        for (int i = 0; i < 4; ++i) {
          done.go([&] {
            while (!stop.load()) {
              static_cast<void>(getppid());
              weft::wait_group child;
              child.go([] {});
              child.wait();
            }
          });
        }
        for (int i = 0; i < 200; ++i) {
          const std::string text = weft::runtime::stack(true);
          ASSERT_TRUE(text.starts_with("goroutine ")) << text;
          weft::gosched();
        }
        stop.store(true);
        done.wait();
      },
      {.max_procs = 4});
}

// Several at once take turns.
TEST(Stack, FromSeveralPlacesAtOnce) {
  std::thread plain([] {
    for (int i = 0; i < 50; ++i) EXPECT_FALSE(weft::runtime::stack(true).empty());
  });
  weft::run(
      [] {
        weft::wait_group done;
        for (int i = 0; i < 4; ++i) {
          done.go([] {
            for (int n = 0; n < 50; ++n) EXPECT_FALSE(weft::runtime::stack(true).empty());
          });
        }
        done.wait();
      },
      {.max_procs = 4});
  plain.join();
}

}  // namespace
