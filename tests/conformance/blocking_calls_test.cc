// Calls that block without a word to weft: libc's, the resolver's, those of a library that was built without weft. The
// others go on meanwhile, however many block, and each call returns what it should.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <mutex>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <resolv.h>
#include <stdexcept>
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
#include "support/thread_state.h"

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

// They sleep for an hour, or until the last one, which runs meanwhile, sends them a signal of the program's.
TEST_P(BlockingCalls, Sleep) {
  std::signal(SIGUSR1, [](int) {});
  std::mutex lock;
  std::vector<pid_t> sleepers;
  std::atomic<int> awake{0};
  std::atomic<bool> told{false};
  let_others_run(
      [&] {
        {
          const std::lock_guard held(lock);
          sleepers.push_back(gettid());
        }
        unsigned left;
        do {
          weft::test::set_errno(0);
          left = sleep(3600);  // sleep-ok: the call that blocks
        } while (!told && weft::test::may_be_interrupted());
        EXPECT_GT(left, 0u);
        ++awake;
      },
      [&] {
        EXPECT_EQ(awake, 0);
        told = true;
        // Again, for those who had not begun to sleep.
        EXPECT_TRUE(weft::test::eventually([&] {
          const std::lock_guard held(lock);
          for (const pid_t tid : sleepers) tgkill(getpid(), tid, SIGUSR1);
          return awake == procs() + 1;
        }));
      });
  std::signal(SIGUSR1, SIG_IGN);  // one may still be on its way
}

// Whoever loses its P in it sleeps as long as it wanted to.
TEST_P(BlockingCalls, SleepEndsInTime) {
  run([&] {
    const weft::test::crowd others;
    weft::wait_group ended;
    for (int i = 0; i < procs(); ++i) {
      ended.go([] {
        const auto before = test_clock::now();
        const auto sleep = [] { return usleep(30'000); };  // sleep-ok: the call that blocks
        EXPECT_EQ(weft::test::uninterrupted(sleep), 0);
        EXPECT_GE(test_clock::now() - before, 30ms);
      });
    }
    ended.wait();
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

// A name server that says nothing until it is told to, and then to everybody that there is no such name.
class silent_server {
 public:
  silent_server() : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address_), sizeof address_), 0);
    socklen_t size = sizeof address_;
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address_), &size), 0);
  }
  ~silent_server() {
    shutdown(fd_, SHUT_RDWR);  // ends the recvfrom()
    if (speaker_.joinable()) speaker_.join();
    close(fd_);
  }
  silent_server(const silent_server&) = delete;
  silent_server& operator=(const silent_server&) = delete;

  // The calling thread's resolver asks here, and waits for long. One at a time: all resolvers share a table, under a lock of
  // libc's that TSan does not see.
  WEFT_TEST_OF_THE_THREAD void be_asked_by_this_thread() const {
    static std::mutex table;
    const std::scoped_lock held(table);
    res_init();
    _res.nscount = 1;
    _res.nsaddr_list[0] = address_;
    _res.retrans = 60;
    _res.retry = 1;
  }
  void speak() {
    speaker_ = std::thread([this] {
      unsigned char question[512];
      sockaddr_in from{};
      socklen_t size = sizeof from;
      ssize_t n;
      while ((n = recvfrom(fd_, question, sizeof question, 0, reinterpret_cast<sockaddr*>(&from),
                           &size)) > 0) {
        ++asked_;
        question[2] |= 0x80;                     // an answer
        question[3] = (question[3] & 0xf0) | 3;  // no such name
        sendto(fd_, question, static_cast<std::size_t>(n), 0, reinterpret_cast<sockaddr*>(&from),
               size);
      }
    });
  }
  int asked() const { return asked_; }

 private:
  int fd_;
  sockaddr_in address_{};
  std::atomic<int> asked_{0};
  std::thread speaker_;
};

TEST_P(BlockingCalls, Getaddrinfo) {
  silent_server server;
  let_others_run(
      [&] {
        server.be_asked_by_this_thread();
        addrinfo* found = nullptr;
        addrinfo hints{};
        hints.ai_family = AF_INET;
        hints.ai_socktype = SOCK_STREAM;
        const int error = getaddrinfo("nobody.invalid.", "80", &hints, &found);
        EXPECT_TRUE(error == EAI_NONAME || server.asked() == 0) << error;
      },
      [&] { server.speak(); });
  if (server.asked() == 0) GTEST_SKIP() << "this machine asks no name servers (nsswitch.conf)";
  EXPECT_GE(server.asked(), procs() + 1);
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
    weft::go([&] { c.send(6); });
    const auto fail = [](void* arg) -> int {
      throw std::out_of_range(std::to_string(*static_cast<weft::chan<int>*>(arg)->recv()));
    };
    try {
      call_back(fail, &c);
      ADD_FAILURE() << "the exception got lost";
    } catch (const std::out_of_range& e) {
      EXPECT_STREQ(e.what(), "6");
    }
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

// How long others stand still beside calls that block: some hundred microseconds; here the order of magnitude. By most of
// the rounds in a row of some, sooner or later, as a busy machine may take longer for a while. The calls end when they
// are told to, so that one that kept its P would be waited for in vain.
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
    constexpr int kRow = 9;
    int brief = 0;
    EXPECT_TRUE(weft::test::eventually([&] {
      brief = 0;
      for (int i = 0; i < kRow; ++i) {
        const auto before = test_clock::now();
        ++rounds;
        all_go_on();
        all_are_in_calls();
        brief += test_clock::now() - before < 20ms * weft::test::slowness() ? 1 : 0;
      }
      return brief > kRow / 2;
    })) << brief
        << " of " << kRow << " after " << rounds;
    stop = true;
    all_go_on();
    ended.wait();
  });
  close(fd[0]);
  close(fd[1]);
}

// Go: TestNotInGoMetric. Who is in such a call is counted, and not as running; plain threads that wait are no goroutines.
TEST_P(BlockingCalls, AreCounted) {
  int fd[2];
  ASSERT_EQ(pipe2(fd, O_CLOEXEC), 0);
  run([&] {
    constexpr std::uint64_t kBlocked = 10;
    const auto not_in_go = [] {
      return weft::test::metric_now("/sched/goroutines/not-in-go:goroutines");
    };
    weft::wait_group ended;
    const weft::chan<int> gate;
    std::atomic<int> parked{0};
    std::vector<std::thread> plain;
    for (int i = 0; i < 5; ++i) {
      plain.emplace_back([&] {
        ++parked;
        gate.recv();
      });
    }
    while (parked < 5) weft::test::give_way();
    EXPECT_EQ(not_in_go(), 0u);
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
    gate.close();
    for (std::thread& t : plain) t.join();
  });
  close(fd[0]);
  close(fd[1]);
}

WEFT_OVER_PROCS(BlockingCalls);

}  // namespace
