// Calls that block the thread, announced or not: others go on, and the call does not notice.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <gtest/gtest.h>
#include <mutex>
#include <poll.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

#include "support/fixture.h"
#include "support/interrupted.h"
#include "support/thread_state.h"

namespace {

using namespace std::chrono_literals;

class Blocking : public weft::test::over_procs {
 protected:
  // One goroutine more than there are Ps blocks in block(); the last one runs release() for each.
  template <class Block, class Release>
  void blocks_nobody(Block block, Release release) {
    run([&] {
      weft::wait_group ended;
      const int blockers = procs() + 1;
      for (int i = 0; i < blockers; ++i) ended.go(block);
      ended.go([&] {
        for (int i = 0; i < blockers; ++i) release();
      });
      ended.wait();
    });
  }
};

struct pipe_ends {
  int fd[2];
  pipe_ends() { EXPECT_EQ(pipe(fd), 0); }
  ~pipe_ends() {
    close(fd[0]);
    close(fd[1]);
  }
  void read_one() {
    char byte = 0;
    EXPECT_EQ(read(fd[0], &byte, 1), 1) << errno;
    EXPECT_EQ(byte, 'x');
  }
  void write_one() { EXPECT_EQ(write(fd[1], "x", 1), 1); }
};

TEST_P(Blocking, InRead) {
  pipe_ends p;
  blocks_nobody([&] { p.read_one(); }, [&] { p.write_one(); });
}

TEST_P(Blocking, InReadAnnounced) {
  pipe_ends p;
  blocks_nobody([&] { weft::runtime::blocking([&] { p.read_one(); }); }, [&] { p.write_one(); });
}

TEST_P(Blocking, InReadForLong) {
  pipe_ends p;
  blocks_nobody([&] { weft::runtime::blocking_for_long([&] { p.read_one(); }); },
                [&] { p.write_one(); });
}

TEST_P(Blocking, InPollSeesNoEintr) {
  pipe_ends p;
  blocks_nobody(
      [&] {
        pollfd wait{p.fd[0], POLLIN, 0};
        EXPECT_EQ(weft::test::uninterrupted([&] { return poll(&wait, 1, -1); }), 1) << errno;
      },
      [&] { p.write_one(); });
}

TEST_P(Blocking, InAConditionVariable) {
  std::mutex lock;
  std::condition_variable ready;
  int tokens = 0;
  blocks_nobody(
      [&] {
        std::unique_lock held(lock);
        ready.wait(held, [&] { return tokens > 0; });
        --tokens;
      },
      [&] {
        const std::lock_guard held(lock);
        ++tokens;
        ready.notify_one();
      });
}

TEST_P(Blocking, InASemaphore) {
  sem_t s;
  sem_init(&s, 0, 0);
  blocks_nobody([&] { EXPECT_EQ(sem_wait(&s), 0) << errno; }, [&] { sem_post(&s); });
  sem_destroy(&s);
}

TEST_P(Blocking, InABareSystemCall) {
  pipe_ends p;
  blocks_nobody(
      [&] {
        char byte = 0;
#if defined(__x86_64__)
        long result;
        asm volatile("syscall"
                     : "=a"(result)
                     : "0"(SYS_read), "D"(p.fd[0]), "S"(&byte), "d"(1)
                     : "rcx", "r11", "memory");
#else
        const long result = syscall(SYS_read, p.fd[0], &byte, 1);
#endif
        EXPECT_EQ(result, 1);
      },
      [&] { p.write_one(); });
}

// One computes where nobody may stop it, another one has just begun to block: the third gets the second one's P.
TEST_P(Blocking, BesideOneWhoCannotBeStopped) {
  if (procs() != 2) return;
  for (int i = 0; i < weft::test::scaled(20, 3); ++i) {
    pipe_ends p;
    std::atomic<bool> computes{false}, blocks{false}, ran{false};
    run([&] {
      weft::wait_group ended;
      ended.go([&] {
        const weft::no_preempt scope;
        computes = true;
        EXPECT_TRUE(weft::test::eventually_hogging([&] { return ran.load(); }));
      });
      const auto begun = std::chrono::steady_clock::now();
      while (!computes || std::chrono::steady_clock::now() - begun < 3ms) weft::gosched();
      std::thread outsider([&] {
        while (!blocks) sched_yield();
        weft::go([&] {
          ran = true;
          p.write_one();
        });
      });
      ended.go([&] {
        blocks = true;
        p.read_one();
      });
      ended.wait();
      outsider.join();
    });
  }
}

TEST_P(Blocking, SleepsLastAsLongAsTheyShould) {
  run([&] {
    weft::wait_group ended;
    for (int i = 0; i < procs() * 3; ++i) {
      ended.go([] {
        const auto began = std::chrono::steady_clock::now();
        timespec left{0, 20'000'000};
        const auto sleeps = [&] { return nanosleep(&left, &left); };  // sleep-ok: the subject
        EXPECT_EQ(weft::test::uninterrupted(sleeps), 0) << errno;
        EXPECT_GE(std::chrono::steady_clock::now() - began, 20ms);
      });
    }
    ended.wait();
  });
}

TEST_P(Blocking, GivesBackWhatTheCallReturns) {
  run([&] {
    weft::test::set_errno(0);
    EXPECT_EQ(weft::runtime::blocking([] { return close(-1); }), -1);
    EXPECT_EQ(weft::test::get_errno(), EBADF);
    int value = 3;
    int& same = weft::runtime::blocking([&]() -> int& { return value; });
    EXPECT_EQ(&same, &value);
    EXPECT_THROW(weft::runtime::blocking([] { throw 5; }), int);
  });
}

TEST_P(Blocking, MayParkInside) {
  run([&] {
    weft::chan<int> c;
    weft::wait_group ended;
    for (int i = 0; i < procs() * 2; ++i) {
      ended.go([&, i] { weft::runtime::blocking([&] { c.send(i); }); });
      ended.go([&] { weft::runtime::blocking_for_long([&] { EXPECT_TRUE(c.recv()); }); });
    }
    ended.wait();
  });
}

WEFT_OVER_PROCS(Blocking);

}  // namespace
