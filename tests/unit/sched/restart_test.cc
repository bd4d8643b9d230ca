// sched/restart.h: the runtime's signal meets a thread in a system call, again and again, and the call does not notice.
#include "sched/restart.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csetjmp>
#include <ctime>
#include <functional>
#include <gtest/gtest.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <weft/weft.h>

#include "os/process.h"
#include "sched/preempt.h"
#include "support/fixture.h"
#include "support/patience.h"
#include "support/thread_state.h"

namespace weft::rt {
namespace {

using namespace std::chrono_literals;
using weft::test::test_clock;

int failed(long result) { return result < 0 ? weft::test::get_errno() : 0; }

timespec from_now(clockid_t clock, long ns) {
  timespec t{};
  clock_gettime(clock, &t);
  t.tv_nsec += ns;
  t.tv_sec += t.tv_nsec / 1'000'000'000;
  t.tv_nsec %= 1'000'000'000;
  return t;
}

// As sysmon does, but whatever the thread is at.
void send(long tid) { send_runtime_signal(static_cast<int>(tid)); }

// A goroutine makes the call, which lasts 20 ms, while a plain thread sends signals at it.
template <class Call>
void expect_undisturbed(Call call) {
  if (WEFT_TEST_TSAN) GTEST_SKIP() << "TSan calls handlers later";
  if (weft::test::emulated()) GTEST_SKIP() << "an emulator's system calls are its own";
  std::atomic<long> tid{0};
  std::atomic<bool> ended{false};
  std::atomic<int> sent{0};
  std::thread pest([&] {
    while (tid == 0) sched_yield();
    while (!ended) {
      send(tid);
      ++sent;
      timespec pause{0, 50'000};
      nanosleep(&pause, nullptr);  // sleep-ok: a signal per 50 us
    }
  });
  weft::run([&] {
    runtime::lock_os_thread();
    for (int i = 0; i < 3 || sent < 10; ++i) {
      const auto began = test_clock::now();
      tid = syscall(SYS_gettid);
      EXPECT_EQ(call(), 0);
      EXPECT_GE(test_clock::now() - began, 19ms);
    }
    ended = true;
    runtime::unlock_os_thread();
  });
  pest.join();
}

constexpr timespec kPause{0, 20'000'000};

class Restart : public weft::test::runtime_test {};

TEST_F(Restart, Nanosleep) {
  expect_undisturbed(
      [] { return failed(nanosleep(&kPause, nullptr)); });  // sleep-ok: the call that blocks
}

TEST_F(Restart, TimedSemaphore) {
  sem_t s;
  sem_init(&s, 0, 0);
  expect_undisturbed([&s] {
    const timespec until = from_now(CLOCK_REALTIME, kPause.tv_nsec);
    const int error = failed(sem_timedwait(&s, &until));
    return error == ETIMEDOUT ? 0 : error;
  });
  sem_destroy(&s);
}

// On aarch64 the first argument is lost, and poll(3) is ppoll(2).
#if defined(__x86_64__)

// What can only be made again, not completed.
#if __GLIBC_PREREQ(2, 41)
#define WEFT_NUMBERS_KNOWN_OR_SKIP() \
  GTEST_SKIP() << "this libc takes the numbers of its calls from a register"
#else
#define WEFT_NUMBERS_KNOWN_OR_SKIP() static_cast<void>(0)
#endif

TEST_F(Restart, Poll) {
  expect_undisturbed([] { return failed(poll(nullptr, 0, 20)); });
}

// libc's syscall() takes the number from a register, as all of its calls do since glibc 2.41.
TEST_F(Restart, NumberFromARegister) {
  expect_undisturbed([] { return failed(syscall(SYS_nanosleep, &kPause, nullptr)); });
  expect_undisturbed(
      [] { return failed(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &kPause, nullptr)); });
  expect_undisturbed([] { return failed(syscall(SYS_poll, nullptr, 0, 20)); });
  expect_undisturbed([] {
    const int word = 0;
    const int error = failed(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &kPause));
    return error == ETIMEDOUT ? 0 : error;
  });
}

// "xor %r8d, %r8d" ends as "xor %eax, %eax" does, which loads the number of read(2).
TEST_F(Restart, ZeroOfAnotherRegister) {
  expect_undisturbed([] {
    static volatile long number = SYS_nanosleep;
    long result = number;
    asm volatile("xorl %%r8d, %%r8d\n\tsyscall"
                 : "+a"(result)
                 : "D"(&kPause), "S"(nullptr)
                 : "rcx", "r8", "r11", "memory");
    return static_cast<int>(-result);
  });
}

// A handler of the user's jumps out of one call, whose rest nobody will ever ask for, and the runtime's signal meets the next
// one, which nobody can complete: it says EINTR, and is not taken for the first one.
TEST_F(Restart, RestOfAnEarlierCall) {
  if (WEFT_TEST_TSAN) GTEST_SKIP() << "TSan calls handlers later";
  if (weft::test::emulated()) GTEST_SKIP() << "an emulator's system calls are its own";
  static sigjmp_buf out;
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) { siglongjmp(out, 1); };
  sigaction(SIGUSR1, &action, &before);
  std::atomic<int> sleeper{0}, waiter{0};
  std::thread pest([&] {
    const auto sleeps = [](std::atomic<int>& tid) {
      return weft::test::eventually_hogging([&] { return tid != 0 && task_state(tid) == 'S'; });
    };
    EXPECT_TRUE(sleeps(sleeper));
    syscall(SYS_tgkill, getpid(), sleeper.load(), SIGUSR1);
    EXPECT_TRUE(sleeps(waiter));
    send(waiter);
  });
  const int epoll = epoll_create1(0);
  weft::run([&] {
    runtime::lock_os_thread();
    if (sigsetjmp(out, 1) == 0) {
      sleeper = gettid();
      const timespec second{1, 0};
      nanosleep(&second, nullptr);  // sleep-ok: the call that is left
    }
    waiter = gettid();
    epoll_event event;
    EXPECT_EQ(failed(syscall(SYS_epoll_wait, epoll, &event, 1, 10'000)), EINTR);
    runtime::unlock_os_thread();
  });
  pest.join();
  close(epoll);
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_F(Restart, ClockNanosleepUntil) {
  WEFT_NUMBERS_KNOWN_OR_SKIP();
  expect_undisturbed([] {
    const timespec until = from_now(CLOCK_MONOTONIC, kPause.tv_nsec);
    constexpr int kFlag = TIMER_ABSTIME;
    return clock_nanosleep(CLOCK_MONOTONIC, kFlag, &until, nullptr);  // sleep-ok: the call
  });
}

TEST_F(Restart, Select) {
  WEFT_NUMBERS_KNOWN_OR_SKIP();
  expect_undisturbed([] {
    timeval time{0, 20'000};
    return failed(select(0, nullptr, nullptr, nullptr, &time));
  });
}

TEST_F(Restart, PselectAndPpoll) {
  WEFT_NUMBERS_KNOWN_OR_SKIP();
  expect_undisturbed(
      [] { return failed(pselect(0, nullptr, nullptr, nullptr, &kPause, nullptr)); });
  expect_undisturbed([] { return failed(ppoll(nullptr, 0, &kPause, nullptr)); });
}

// A pipe takes 64 KiB at a time; a signal in between would cut the write short.
TEST_F(Restart, WritesAreNotCutShort) {
  WEFT_NUMBERS_KNOWN_OR_SKIP();
  int ends[2], pair[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  std::atomic<std::uint64_t> got{0};
  const auto drain = [&got](int fd) {
    static thread_local char buffer[5000];
    for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;
         usleep(100)) {  // sleep-ok: a slow reader
      for (ssize_t i = 0; i < n; ++i) got += static_cast<unsigned char>(buffer[i]);
    }
  };
  std::thread pipe_reader([&] { drain(ends[0]); }), socket_reader([&] { drain(pair[0]); });
  std::vector<char> text(1'200'000);
  std::uint64_t sum = 0, sent = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<char>(i * 7 % 251);
    sum += static_cast<unsigned char>(text[i]);
  }
  const auto whole = [&](ssize_t n) {
    ++sent;
    return n == static_cast<ssize_t>(text.size()) ? 0 : -1;
  };
  expect_undisturbed([&] { return whole(write(ends[1], text.data(), text.size())); });
  expect_undisturbed([&] { return whole(::send(pair[1], text.data(), text.size(), 0)); });
  close(ends[1]);
  close(pair[1]);
  pipe_reader.join();
  socket_reader.join();
  EXPECT_EQ(got, sent * sum);
  close(ends[0]);
  close(pair[0]);
}

// A reset arrives before a write that was cut short is completed, or while that waits for room: it is the caller's to hear of, by
// his next call, which would else be EPIPE and SIGPIPE.
void expect_to_hear_of_a_reset(bool meanwhile) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof here;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&here), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&here), &size), 0);
  const int writer = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(connect(writer, reinterpret_cast<sockaddr*>(&here), size), 0);
  const int reader = accept(listener, nullptr, nullptr);
  const linger at_once{1, 0};
  ASSERT_EQ(setsockopt(reader, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  char text[100] = {};
  std::thread resets;
  if (meanwhile) {
    while (::send(writer, text, sizeof text, MSG_DONTWAIT) > 0) {
    }
    resets = std::thread([reader, tid = gettid()] {
      EXPECT_TRUE(weft::test::eventually_hogging([&] { return task_state(tid) == 'S'; }));
      close(reader);
    });
  } else {
    close(reader);
    pollfd reset{writer, 0, 0};
    ASSERT_EQ(poll(&reset, 1, 20'000), 1);
  }

  // The thread was about to return 10 of 100 bytes, just after "mov $1, %eax; syscall".
  static constexpr unsigned char kCode[] = {0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
                                            0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
                                            0x90, 0xb8, 0x01, 0x00, 0x00, 0x00, 0x0f, 0x05};
  ucontext_t uc{};
  sigemptyset(&uc.uc_sigmask);
  auto* registers = uc.uc_mcontext.gregs;
  registers[REG_RIP] = reinterpret_cast<long>(kCode + sizeof kCode);
  registers[REG_RAX] = 10;
  registers[REG_RDI] = writer;
  registers[REG_RSI] = reinterpret_cast<long>(text);
  registers[REG_RDX] = sizeof text;
  resume_interrupted_call(runtime_signal(), &uc, 0);
  if (meanwhile) resets.join();
  EXPECT_EQ(registers[REG_RAX], 10);
  EXPECT_EQ(failed(::send(writer, text, sizeof text, MSG_NOSIGNAL)), ECONNRESET);
  close(writer);
  close(listener);
}
TEST_F(Restart, ErrorsAreTheCallers) {
  if (WEFT_TEST_TSAN) GTEST_SKIP() << "nothing is resumed";
  expect_to_hear_of_a_reset(false);
  expect_to_hear_of_a_reset(true);
}

// Ends each of a goroutine's calls from outside, once it has lasted for 20 ms.
class waker {
 public:
  explicit waker(std::function<void()> wakes)
      : thread_([this, wakes = std::move(wakes)] {
          for (int seen = 0;; ++seen) {
            calls_.wait(seen);
            if (over_) return;
            nanosleep(&kPause, nullptr);  // sleep-ok: how long the call is to last
            wakes();
          }
        }) {}
  ~waker() {
    over_ = true;
    call_begins();
    thread_.join();
  }
  void call_begins() {
    ++calls_;
    calls_.notify_one();
  }

 private:
  std::atomic<int> calls_{0};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// The kernel does not say how much of their time was left: under such a rain of signals they last as long as it does.
TEST_F(Restart, EpollWaitAndReceive) {
  WEFT_NUMBERS_KNOWN_OR_SKIP();
  const int epoll = epoll_create1(0);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &wanted);
  const timeval time{10, 0};
  setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  char byte;
  {
    waker writes([&] { EXPECT_EQ(write(ends[1], "x", 1), 1); });
    const auto wait = [&] {
      writes.call_begins();
      epoll_event event;
      const int error = failed(epoll_wait(epoll, &event, 1, 10'000));
      return error != 0 ? error : read(ends[0], &byte, 1) == 1 ? 0 : -1;
    };
    expect_undisturbed(wait);
    const auto receive = [&] {
      writes.call_begins();
      return failed(::recv(ends[0], &byte, 1, 0));
    };
    expect_undisturbed(receive);
    const auto read_byte = [&] {
      writes.call_begins();
      return failed(::read(ends[0], &byte, 1));
    };
    expect_undisturbed(read_byte);
  }
  close(epoll);
  close(ends[0]);
  close(ends[1]);
}

// As a compiler makes it, whatever libc does. Returns what the kernel does.
template <int Number>
long system_call(long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  long result;
  register long fourth asm("r10") = d;
  register long fifth asm("r8") = e;
  register long sixth asm("r9") = f;
  asm volatile("movl %1, %%eax\n\tsyscall"
               : "=&a"(result)
               : "i"(Number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
               : "rcx", "r11", "memory");
  return result;
}
long address(const void* p) { return reinterpret_cast<long>(p); }
int other_than(long wanted, long result) {
  return result == wanted ? 0 : result < 0 ? static_cast<int>(-result) : -1;
}

TEST_F(Restart, EpollPwait2AndIoGetevents) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  char byte;
  const auto gets_byte = [&](long result) {
    return result == 1 ? other_than(1, read(ends[0], &byte, 1)) : other_than(1, result);
  };
  {
    waker writes([&] { EXPECT_EQ(write(ends[1], "x", 1), 1); });
    const int epoll = epoll_create1(0);
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &wanted);
#ifdef SYS_epoll_pwait2
    if (system_call<SYS_epoll_pwait2>(-1) != -ENOSYS) {
      expect_undisturbed([&] {
        writes.call_begins();
        epoll_event event;
        const timespec time{10, 0};
        return gets_byte(system_call<SYS_epoll_pwait2>(epoll, address(&event), 1, address(&time)));
      });
    }
#endif
    close(epoll);
    aio_context_t context = 0;
    if (syscall(SYS_io_setup, 1, &context) == 0) {
      expect_undisturbed([&] {
        iocb readable{};
        readable.aio_lio_opcode = IOCB_CMD_POLL;
        readable.aio_fildes = static_cast<std::uint32_t>(ends[0]);
        readable.aio_buf = POLLIN;
        iocb* all = &readable;
        if (syscall(SYS_io_submit, context, 1, &all) != 1) return weft::test::get_errno();
        writes.call_begins();
        io_event event;
        return gets_byte(
            system_call<SYS_io_getevents>(static_cast<long>(context), 1, 1, address(&event), 0));
      });
      syscall(SYS_io_destroy, context);
    }
  }
  close(ends[0]);
  close(ends[1]);
}

TEST_F(Restart, SystemVSemaphoresAndMessages) {
  const int semaphore = semget(IPC_PRIVATE, 1, 0600);
  const int queue = msgget(IPC_PRIVATE, 0600);
  if (semaphore < 0 || queue < 0) {
    if (semaphore >= 0) semctl(semaphore, 0, IPC_RMID);
    if (queue >= 0) msgctl(queue, IPC_RMID, nullptr);
    GTEST_SKIP() << "not to be had here";
  }
  {
    waker raises([&] {
      sembuf raise{0, 1, 0};
      EXPECT_EQ(semop(semaphore, &raise, 1), 0);
    });
    sembuf lower{0, -1, 0};
    expect_undisturbed([&] {
      raises.call_begins();
      return other_than(0, system_call<SYS_semop>(semaphore, address(&lower), 1));
    });
    expect_undisturbed([&] {
      raises.call_begins();
      const timespec time{10, 0};
      return other_than(0,
                        system_call<SYS_semtimedop>(semaphore, address(&lower), 1, address(&time)));
    });
  }
  struct {
    long type = 1;
    char text[1000] = {};
  } message, received, sent;
  constexpr std::size_t kSize = sizeof message.text;
  {
    waker sends([&] { EXPECT_EQ(msgsnd(queue, &sent, kSize, 0), 0); });
    expect_undisturbed([&] {
      sends.call_begins();
      return other_than(kSize, system_call<SYS_msgrcv>(queue, address(&message), kSize, 0, 0));
    });
  }
  while (msgsnd(queue, &message, kSize, IPC_NOWAIT) == 0) {
  }
  {
    waker receives([&] { EXPECT_EQ(msgrcv(queue, &received, kSize, 0, 0), ssize_t{kSize}); });
    expect_undisturbed([&] {
      receives.call_begins();
      return other_than(0, system_call<SYS_msgsnd>(queue, address(&message), kSize, 0));
    });
  }
  semctl(semaphore, 0, IPC_RMID);
  msgctl(queue, IPC_RMID, nullptr);
}

// What waits for a signal of the user's waits for that one. It may come just before the call, so again and again.
TEST_F(Restart, WaitsForSignals) {
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) {};
  sigaction(SIGUSR1, &action, &before);
  std::atomic<int> tid{0}, calls{0}, over{0}, last{0};
  const auto signal = [&](int which) { syscall(SYS_tgkill, getpid(), tid.load(), which); };
  {
    waker signals([&] {
      const int call = calls;
      for (; over != call; sched_yield()) signal(SIGUSR1);
      last = call;
    });
    const auto until_signal = [&](auto waits) {
      return [&, waits] {
        tid = gettid();
        ++calls;
        signals.call_begins();
        const int error = other_than(-EINTR, waits());
        over = calls.load();
        while (last != over) sched_yield();  // none is left for the next call
        return error;
      };
    };
    expect_undisturbed(until_signal([] { return system_call<SYS_pause>(); }));
    expect_undisturbed(until_signal([] {
      const std::uint64_t nothing = 0;
      return system_call<SYS_rt_sigsuspend>(address(&nothing), sizeof nothing);
    }));
  }
  sigaction(SIGUSR1, &before, nullptr);
  waker signals([&] { signal(SIGUSR2); });
  expect_undisturbed([&] {
    constexpr std::uint64_t kThis = std::uint64_t{1} << (SIGUSR2 - 1);
    sigset_t blocked, mask;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &blocked, &mask);
    tid = gettid();
    signals.call_begins();
    const timespec time{10, 0};
    const long result =
        system_call<SYS_rt_sigtimedwait>(address(&kThis), 0, address(&time), sizeof kThis);
    pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    return other_than(SIGUSR2, result);
  });
}

#endif

// The program's own signals end the call as ever.
TEST_F(Restart, UsersSignalsEndTheCall) {
  if (WEFT_TEST_TSAN) GTEST_SKIP() << "TSan calls handlers later";
  static std::atomic<int> handled;
  handled = 0;
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) { ++handled; };
  sigaction(SIGUSR1, &action, &before);
  std::atomic<long> tid{0};
  std::atomic<bool> ended{false};
  std::thread pest([&] {
    while (tid == 0) sched_yield();
    while (!ended) {
      if (!test::emulated()) send(tid);  // whose kernel ends the call for it, too
      syscall(SYS_tgkill, getpid(), tid.load(), SIGUSR1);
      timespec pause{0, 1'000'000};
      nanosleep(&pause, nullptr);  // sleep-ok: it may come just before the call, so again and again
    }
  });
  weft::run([&] {
    runtime::lock_os_thread();
    tid = syscall(SYS_gettid);
    const timespec for_ever{1000, 0};
    EXPECT_EQ(failed(nanosleep(&for_ever, nullptr)), EINTR);  // sleep-ok: does not last
    EXPECT_EQ(failed(poll(nullptr, 0, 1'000'000)), EINTR);
    ended = true;
    runtime::unlock_os_thread();
  });
  pest.join();
  EXPECT_GT(handled, 1);
  sigaction(SIGUSR1, &before, nullptr);
}

// … but not those that are ignored, though they wait, too, while the thread is in our handler: SIGCHLD of a program that ends.
TEST_F(Restart, IgnoredSignalsDoNot) {
  if (WEFT_TEST_TSAN) GTEST_SKIP() << "TSan calls handlers later";
  if (test::emulated()) GTEST_SKIP() << "the emulator's kernel ends calls for ignored signals, too";
  std::atomic<long> tid{0};
  std::atomic<bool> ended{false};
  std::thread pest([&] {
    while (tid == 0) sched_yield();
    while (!ended) {
      send(tid);
      for (int i = 0; i < 100; ++i) syscall(SYS_tgkill, getpid(), tid.load(), SIGCHLD);
      timespec pause{0, 200'000};
      nanosleep(&pause, nullptr);  // sleep-ok: it paces those that must meet the handler
    }
  });
  weft::run([&] {
    runtime::lock_os_thread();
    tid = syscall(SYS_gettid);
    const timespec a_while{0, 1'000'000};
    for (int i = 0; i < 300; ++i) {
      ASSERT_EQ(failed(nanosleep(&a_while, nullptr)), 0);  // sleep-ok: the subject
      ASSERT_EQ(failed(poll(nullptr, 0, 1)), 0);
    }
    ended = true;
    runtime::unlock_os_thread();
  });
  ended = true;
  pest.join();
}

}  // namespace
}  // namespace weft::rt
