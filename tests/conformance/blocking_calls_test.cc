// Calls that block without a word to weft: libc's, the resolver's, those of a library that was built without weft. The
// others go on meanwhile, however many block, and each call returns what it should.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <mutex>
#include <netdb.h>
#include <pthread.h>
#include <string>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <weft/weft.h>

#include "support/fixture.h"
#include "support/interrupted.h"
#include "support/preemptions.h"

namespace {

using namespace std::chrono_literals;
using weft::test::test_clock;

class BlockingCalls : public weft::test::over_procs {
 protected:
  // As many goroutines as there are Ps, and one more, are in block() when the last one comes to release(), which ends
  // all of them: it can run only if a P was taken.
  template <class Block, class Release>
  void let_others_run(Block block, Release release) {
    run([&] {
      weft::wait_group ended;
      std::atomic<int> begun{0};
      for (int i = 0; i < procs() + 1; ++i) {
        ended.go([&] {
          ++begun;
          block();
        });
      }
      ended.go([&] {
        while (begun < procs() + 1) weft::gosched();
        release();
      });
      ended.wait();
    });
  }
};

TEST_P(BlockingCalls, Sleep) {
  run([&] {
    std::atomic<bool> ran{false};
    weft::wait_group ended;
    for (int i = 0; i < procs(); ++i) {
      const auto sleep = [] { return usleep(30'000); };  // sleep-ok: the call that blocks
      ended.go([=] { EXPECT_EQ(weft::test::uninterrupted(sleep), 0); });
    }
    ended.go([&] { ran = true; });
    ended.wait();
    EXPECT_TRUE(ran);
  });
}

TEST_P(BlockingCalls, PthreadMutex) {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  std::thread holder;
  std::atomic<bool> held{false}, release{false};
  holder = std::thread([&] {
    pthread_mutex_lock(&lock);
    held = true;
    while (!release) sched_yield();
    pthread_mutex_unlock(&lock);
  });
  while (!held) sched_yield();
  let_others_run(
      [&] {
        EXPECT_EQ(pthread_mutex_lock(&lock), 0);
        EXPECT_EQ(pthread_mutex_unlock(&lock), 0);
      },
      [&] { release = true; });
  holder.join();
}

TEST_P(BlockingCalls, ConditionVariable) {
  std::mutex lock;
  std::condition_variable changed;
  bool released = false;
  let_others_run(
      [&] {
        std::unique_lock held(lock);
        changed.wait(held, [&] { return released; });
      },
      [&] {
        const std::lock_guard held(lock);
        released = true;
        changed.notify_all();
      });
}

TEST_P(BlockingCalls, Flock) {
  std::string path = "/tmp/weft_flock.XXXXXX";
  const int holder = mkstemp(path.data());
  ASSERT_GE(holder, 0);
  ASSERT_EQ(flock(holder, LOCK_EX), 0);
  let_others_run(
      [&] {
        const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
        EXPECT_EQ(flock(fd, LOCK_SH), 0);
        close(fd);
      },
      [&] { flock(holder, LOCK_UN); });
  close(holder);
  unlink(path.c_str());
}

TEST_P(BlockingCalls, Waitpid) {
  int gate[2];
  ASSERT_EQ(pipe2(gate, O_CLOEXEC), 0);
  let_others_run(
      [&] {
        const pid_t child = fork();
        if (child == 0) {
          close(gate[1]);
          char byte;
          _exit(read(gate[0], &byte, 1) == 0 ? 7 : 1);
        }
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(WEXITSTATUS(status), 7);
      },
      [&] { close(gate[1]); });
  close(gate[0]);
}

TEST_P(BlockingCalls, Getaddrinfo) {
  run([&] {
    weft::wait_group ended;
    for (int i = 0; i < procs() + 1; ++i) {
      ended.go([] {
        addrinfo* found = nullptr;
        addrinfo hints{};
        hints.ai_socktype = SOCK_STREAM;
        EXPECT_EQ(getaddrinfo("localhost", "80", &hints, &found), 0);
        if (found != nullptr) freeaddrinfo(found);
      });
    }
    ended.wait();
  });
}

// Built apart, loaded at run time.
class stranger {
 public:
  stranger() : library_(dlopen(STRANGER, RTLD_NOW)) { EXPECT_NE(library_, nullptr) << dlerror(); }
  ~stranger() { dlclose(library_); }
  template <class F>
  F* get(const char* name) {
    return reinterpret_cast<F*>(dlsym(library_, name));
  }

 private:
  void* library_;
};

TEST_P(BlockingCalls, InALibraryThatKnowsNothingOfWeft) {
  stranger library;
  auto* read_it = library.get<long(int, void*, unsigned long)>("stranger_read");
  int fd[2];
  ASSERT_EQ(pipe2(fd, O_CLOEXEC), 0);
  let_others_run(
      [&] {
        char byte = 0;
        EXPECT_EQ(read_it(fd[0], &byte, 1), 1);
      },
      [&] {
        for (int i = 0; i < procs() + 1; ++i) EXPECT_EQ(write(fd[1], "x", 1), 1);
      });
  close(fd[0]);
  close(fd[1]);
}

// Go: TestCatchPanic, TestCgoPanicCallback. An exception of a callback goes through the frames of a C library that was
// built for it; and whatever else the callback does, it does on the goroutine.
TEST_P(BlockingCalls, CallbacksFromALibrary) {
  stranger library;
  auto* call_back = library.get<int(int (*)(void*), void*)>("stranger_call_back");
  run([&] {
    weft::chan<int> c;
    weft::go([&] { c.send(5); });
    const auto receive = [](void* arg) { return *static_cast<weft::chan<int>*>(arg)->recv(); };
    EXPECT_EQ(call_back(receive, &c), 5);
  });
}

// Hundreds at once.
TEST_P(BlockingCalls, HundredsAtOnce) {
  int fd[2];
  ASSERT_EQ(pipe2(fd, O_CLOEXEC), 0);
  run([&] {
    const int count = weft::test::scaled(300, 40);
    std::atomic<int> begun{0}, read_ok{0};
    weft::wait_group ended;
    for (int i = 0; i < count; ++i) {
      ended.go([&] {
        char byte;
        ++begun;
        read_ok += read(fd[0], &byte, 1) == 1 ? 1 : 0;
      });
    }
    while (begun < count) weft::gosched();
    for (int i = 0; i < count; ++i) EXPECT_EQ(write(fd[1], "x", 1), 1);
    ended.wait();
    EXPECT_EQ(read_ok, count);
  });
  close(fd[0]);
  close(fd[1]);
}

// How long others stand still beside calls that block: some hundred microseconds; here the order of magnitude. By the
// briefest, as a busy machine may take longer each time but one. The calls end when they are told to, so that one that
// kept its P would be waited for in vain.
TEST_P(BlockingCalls, OthersStallBriefly) {
  int fd[2];
  ASSERT_EQ(pipe2(fd, O_CLOEXEC), 0);
  run([&] {
    std::atomic<bool> stop{false};
    std::atomic<int> begun{0};
    weft::wait_group ended;
    for (int i = 0; i < procs(); ++i) {
      ended.go([&] {
        while (!stop) {
          ++begun;
          char byte;
          EXPECT_EQ(read(fd[0], &byte, 1), 1);
          weft::gosched();  // needs a P again
        }
      });
    }
    const auto all_go_on = [&] {
      for (int i = 0; i < procs(); ++i) EXPECT_EQ(write(fd[1], "x", 1), 1);
    };
    int rounds = 1;
    const auto all_are_in_calls = [&] {
      while (begun < rounds * procs()) weft::gosched();
    };
    all_are_in_calls();
    EXPECT_TRUE(weft::test::eventually([&] {
      const auto before = test_clock::now();
      ++rounds;
      all_go_on();
      all_are_in_calls();
      return test_clock::now() - before < 20ms;
    })) << rounds;
    stop = true;
    all_go_on();
    ended.wait();
  });
  close(fd[0]);
  close(fd[1]);
}

// Go: TestNotInGoMetric. Who is in such a call is counted, and not as running.
TEST_P(BlockingCalls, AreCounted) {
  int fd[2];
  ASSERT_EQ(pipe2(fd, O_CLOEXEC), 0);
  run([&] {
    constexpr std::uint64_t kBlocked = 10;
    const auto not_in_go = [] {
      return weft::test::metric_now("/sched/goroutines/not-in-go:goroutines");
    };
    weft::wait_group ended;
    for (std::uint64_t i = 0; i < kBlocked; ++i) {
      ended.go([&, i] {
        char byte;
        const auto call = [&] { return read(fd[0], &byte, 1); };
        EXPECT_EQ(i % 2 == 0 ? call() : weft::runtime::blocking_for_long(call), 1);
      });
    }
    // Those that nobody needed the P of still count as running.
    const std::uint64_t least = kBlocked > static_cast<std::uint64_t>(procs())
                                    ? kBlocked - static_cast<std::uint64_t>(procs()) + 1
                                    : 5;
    EXPECT_TRUE(weft::test::eventually([&] { return not_in_go() >= least; })) << not_in_go();
    for (std::uint64_t i = 0; i < kBlocked; ++i) EXPECT_EQ(write(fd[1], "x", 1), 1);
    ended.wait();
    EXPECT_TRUE(weft::test::eventually([&] { return not_in_go() == 0; })) << not_in_go();
  });
  close(fd[0]);
  close(fd[1]);
}

WEFT_OVER_PROCS(BlockingCalls);

}  // namespace
