// Calls that a signal would end although they are said to be restarted (signal(7)): nanosleep, poll, select,
// epoll_wait, sem_timedwait, sockets with a time-out. Goroutines that compute, and are asked to make room again and again,
// call them in between; none of the calls ever says EINTR, and none ends early.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <gtest/gtest.h>
#include <poll.h>
#include <semaphore.h>
#include <string>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/weft.h>

#include "support/fixture.h"
#include "support/thread_state.h"

namespace {

using namespace std::chrono_literals;
using weft::test::test_clock;

constexpr auto kCallLasts = 1ms;
#if defined(__x86_64__) && \
    !__GLIBC_PREREQ(2, 41)  // which takes the numbers of its calls from a register
constexpr bool kAllCanBeResumed = true;
#else
constexpr bool kAllCanBeResumed = false;
#endif

class Eintr : public weft::test::over_procs {
 protected:
  // Calls `call`, which lasts kCallLasts, again and again between stretches of computing that are as long as
  // a time slice, while others want to run. It returns 0, or errno.
  template <class Call>
  void never_seen_by(Call call) {
    if (weft::test::emulated() || WEFT_TEST_TSAN) {
      GTEST_SKIP() << "an emulator, and TSan, keep signals until the next call";
    }
    run([&] {
      std::atomic<bool> stop{false};
      std::atomic<int> calls{0}, interrupted{0}, failed{0}, early{0};
      weft::wait_group callers, others;
      for (int i = 0; i < 2; ++i) {
        others.go([&] {
          while (!stop.load(std::memory_order_relaxed)) weft::gosched();
        });
      }
      for (int i = 0; i < procs() + 1; ++i) {
        callers.go([&, i] {
          for (weft::test::budget b(weft::test::scaled(100, 5), 20ms); b.next();) {
            compute(600us + (b.round() * 7 + i) % 13 * 100us);
            const auto began = test_clock::now();
            if (const int error = call()) ++(error == EINTR ? interrupted : failed);
            ++calls;
            early += test_clock::now() - began < kCallLasts - 200us ? 1 : 0;  // poll counts in ms
          }
        });
      }
      callers.wait();
      stop = true;
      others.wait();
      // Elsewhere a signal that comes too late cannot be undone (docs/guide/preemption.md): rare.
      const int tolerated = kAllCanBeResumed ? 0 : calls / 10 + 1;
      EXPECT_LE(interrupted, tolerated);
      EXPECT_EQ(failed, 0);
      EXPECT_LE(early, tolerated);
    });
  }

 private:
  static void compute(test_clock::duration d) {
    for (const auto until = test_clock::now() + d; test_clock::now() < until;) {
    }
  }
};

constexpr timespec kMillisecond{0, 1'000'000};

int result(long r) { return r < 0 ? weft::test::get_errno() : 0; }

TEST_P(Eintr, Nanosleep) {
  never_seen_by(
      [] { return result(nanosleep(&kMillisecond, nullptr)); });  // sleep-ok: the call that blocks
}

TEST_P(Eintr, ClockNanosleepUntil) {
  never_seen_by([] {
    timespec until{};
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += kMillisecond.tv_nsec;
    until.tv_sec += until.tv_nsec / 1'000'000'000;
    until.tv_nsec %= 1'000'000'000;
    constexpr int kFlag = TIMER_ABSTIME;
    return clock_nanosleep(CLOCK_MONOTONIC, kFlag, &until, nullptr);  // sleep-ok: the call
  });
}

TEST_P(Eintr, Poll) {
  never_seen_by([] { return result(poll(nullptr, 0, 1)); });
}

TEST_P(Eintr, Ppoll) {
  never_seen_by([] { return result(ppoll(nullptr, 0, &kMillisecond, nullptr)); });
}

TEST_P(Eintr, Select) {
  never_seen_by([] {
    timeval time{0, 1000};
    return result(select(0, nullptr, nullptr, nullptr, &time));
  });
}

TEST_P(Eintr, Pselect) {
  never_seen_by(
      [] { return result(pselect(0, nullptr, nullptr, nullptr, &kMillisecond, nullptr)); });
}

TEST_P(Eintr, EpollWait) {
  const int epoll = epoll_create1(0);
  never_seen_by([epoll] {
    epoll_event event;
    return result(epoll_wait(epoll, &event, 1, 1));
  });
  close(epoll);
}

TEST_P(Eintr, EpollPwait) {
  const int epoll = epoll_create1(0);
  never_seen_by([epoll] {
    epoll_event event;
    sigset_t none;
    sigemptyset(&none);
    return result(epoll_pwait(epoll, &event, 1, 1, &none));
  });
  close(epoll);
}

TEST_P(Eintr, TimedSemaphore) {
  sem_t s;
  sem_init(&s, 0, 0);
  never_seen_by([&s] {
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += kMillisecond.tv_nsec;
    until.tv_sec += until.tv_nsec / 1'000'000'000;
    until.tv_nsec %= 1'000'000'000;
    const int error = result(sem_timedwait(&s, &until));
    return error == ETIMEDOUT ? 0 : error;
  });
  sem_destroy(&s);
}

TEST_P(Eintr, ReceiveWithATimeout) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const timeval time{0, 1000};
  setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  never_seen_by([&] {
    char byte;
    const int error = result(recv(ends[0], &byte, 1, 0));
    return error == EAGAIN ? 0 : error;
  });
  never_seen_by([&] {
    char byte;
    const int error = result(read(ends[0], &byte, 1));
    return error == EAGAIN ? 0 : error;
  });
  close(ends[0]);
  close(ends[1]);
}

WEFT_OVER_PROCS(Eintr);

}  // namespace
