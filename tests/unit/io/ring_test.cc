// Operations of the ring: that files use it, and what becomes of them when it refuses, loses its submitter, or is
// told to stop.
#include "poll/ring.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include <weft/context.h>
#include <weft/go.h>
#include <weft/io.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "fiber/sanitizer.h"
#include "io/fd.h"
#include "io/ring_wait.h"
#include "os/clock.h"
#include "os/process.h"
#include "os/test_hooks.h"
#include "support/files.h"
#include "support/fixture.h"
#include "sync/context_node.h"

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::io::file;
using weft::rt::ring_call;
using weft::rt::ring_op;
using weft::rt::os::test_hooks;
using weft::test::block;
using weft::test::scaled;

constexpr std::size_t kBlock = 64 << 10;

// Whether the kernel would let us, asked without the library.
[[maybe_unused]] bool kernel_has_rings() {
  io_uring_params p{};
  const long fd = syscall(SYS_io_uring_setup, 4, &p);
  if (fd >= 0) close(static_cast<int>(fd));
  return fd >= 0;
}

class Ring : public weft::test::over_procs {
 protected:
  void SetUp() override {
    over_procs::SetUp();
    weft::run([] { usable_ = weft::rt::ring_usable(); });
    if (!usable_) GTEST_SKIP() << "no rings here: there is nothing to look at";
  }
  void TearDown() override {
    test_hooks.reset();
    over_procs::TearDown();
  }
  weft::test::folder dir_;

 private:
  static inline bool usable_ = false;
};

#ifdef WEFT_TEST_LIBURING
TEST(RingProbe, UsesWhatTheKernelHas) {
  weft::run([] { EXPECT_EQ(weft::rt::ring_usable(), kernel_has_rings()); });
}
#endif

TEST_P(Ring, HitsNeedNoRing) {
  run([&] {
    file f = file::create(dir_ / "a");
    f.write_all(std::string(kBlock, 'x'));
    test_hooks.ring_operations.set(0);
    std::string buffer(kBlock, '\0');
    EXPECT_EQ(f.read_at(buffer, 0), kBlock);
    f.write_at(buffer, 0);
    EXPECT_EQ(test_hooks.ring_operations.get(), 0);
    f.sync();
    EXPECT_EQ(test_hooks.ring_operations.get(), 1);
    f.datasync();
    EXPECT_EQ(test_hooks.ring_operations.get(), 2);
  });
}

// More at once than have a place: the rest queues.
TEST_P(Ring, MoreThanThereIsRoomFor) {
  run([&] {
    file f = file::create(dir_ / "a");
    f.write_all(std::string(4096, 'x'));
    test_hooks.force_miss.set(1);
    weft::wait_group all;
    std::atomic<int> good{0};
    const int many = scaled(weft::rt::kMostRingOps + 500, 200);
    for (int i = 0; i < many; ++i) {
      all.go([&] {
        char c[1];
        good += f.read_at(c, 4095) == 1 && c[0] == 'x';
      });
    }
    all.wait();
    EXPECT_EQ(good, many);
  });
}

// A kernel that takes nothing for a while: threads do it, and the ring is used again afterwards.
TEST_P(Ring, RefusedForAWhile) {
  run([&] {
    file f = file::create(dir_ / "a");
    f.write_all("text");
    test_hooks.force_miss.set(1);
    char buffer[4], early[4];
    for (const int error : {EAGAIN, EBUSY, ENOMEM}) {
      test_hooks.ring_submit_error.set(error);
      for (int i = 0; i < 100; ++i) {  // more than the ring has places for what was taken back
        EXPECT_EQ(f.read_at(early, 0), 4u);
      }
      f.sync();
      std::fill_n(early, 4, 'z');  // nobody has it any more
      test_hooks.ring_submit_error.set(0);
      test_hooks.ring_operations.set(0);
      EXPECT_EQ(f.read_at(buffer, 0), 4u);
      EXPECT_EQ(test_hooks.ring_operations.get(), 1);
      EXPECT_EQ(std::string(buffer, 4), "text");
      EXPECT_EQ(std::string(early, 4), "zzzz");
    }
  });
}

struct pipe_ends {
  pipe_ends() {
    if (pipe2(fd, O_CLOEXEC) != 0) std::abort();
  }
  ~pipe_ends() {
    close(fd[0]);
    close(fd[1]);
  }
  ring_op reading(char* to) const {
    return {.call = ring_call::read,
            .fd = fd[0],
            .address = to,
            .length = 1,
            .offset = weft::rt::kOwnPosition,
            .done = {}};
  }
  void write(char c) const { EXPECT_EQ(::write(fd[1], &c, 1), 1); }
  int fd[2];
};

// An operation that nothing ends but its limit. (Files never are so slow: a pipe is read through the ring.)
TEST_P(Ring, LimitsEndWhatIsUnderWay) {
  run([&] {
    const pipe_ends p;
    std::int64_t result = 0;
    char c = 'a';
    ring_op op = p.reading(&c);
    EXPECT_TRUE(run_on_ring(op, {weft::rt::nanotime() + 2'000'000, nullptr}, &result));
    EXPECT_EQ(result, -weft::rt::own_error(weft::errc::timed_out));
    auto [ctx, cancel] = weft::with_cancel(weft::context());
    weft::thread waits([&, &ctx = ctx] {
      ring_op again = p.reading(&c);
      EXPECT_TRUE(run_on_ring(again, weft::rt::limit_of(ctx), &result));
    });
    weft::gosched();
    cancel();
    waits.join();
    EXPECT_EQ(result, -ECANCELED);
    p.write('b');
    ring_op third = p.reading(&c);
    EXPECT_TRUE(run_on_ring(third, {weft::rt::nanotime() + 3'600'000'000'000, nullptr}, &result));
    EXPECT_EQ(result, 1);
    EXPECT_EQ(c, 'b');
  });
}

// The byte arrives while the limit ends: it is read by this one or by the next, and not lost.
TEST_P(Ring, LimitsRaceWithCompletions) {
  run([&] {
    const pipe_ends p;
    int unread = 0;
    for (int i = 0; i < scaled(200, 30); ++i) {
      auto [ctx, cancel] = weft::with_cancel(weft::context());
      std::int64_t result = 0;
      char c = 0;
      weft::thread waits([&, &ctx = ctx] {
        ring_op op = p.reading(&c);
        EXPECT_TRUE(run_on_ring(op, weft::rt::limit_of(ctx), &result));
      });
      if (i % 3 != 0) weft::gosched();
      weft::thread writes([&] { p.write('x'); });
      if (i % 2 != 0) weft::gosched();
      cancel();
      waits.join();
      writes.join();
      EXPECT_TRUE(result == 1 ? c == 'x' : result == -ECANCELED) << result;
      unread += result == 1 ? 0 : 1;
    }
    for (; unread > 0; --unread) {
      char c = 0;
      EXPECT_EQ(::read(p.fd[0], &c, 1), 1);
    }
  });
}

// The thread that has submitted it ends.
TEST_P(Ring, SubmittersMayEnd) {
  bool met = false;
  for (int i = 0; i < 50 && !met; ++i) {
    run([&] {
      const pipe_ends p;
      test_hooks.ring_operations.set(0);
      std::atomic<int> submitter{0};
      std::int64_t result = 0;
      char c = 0;
      weft::thread reads([&] {
        submitter = weft::rt::gettid();
        ring_op op = p.reading(&c);
        EXPECT_TRUE(run_on_ring(op, {}, &result));
      });
      while (test_hooks.ring_operations.get() < 1) weft::gosched();
      weft::thread ends([&] {
        weft::runtime::lock_os_thread();
        met = submitter == weft::rt::gettid();
      });
      ends.join();
      p.write('x');
      reads.join();
      EXPECT_EQ(result, 1);
      EXPECT_EQ(c, 'x');
    });
  }
  EXPECT_TRUE(met || procs() > 1) << "with one P there is one thread";
}

// Kernels may cancel what such a thread has submitted. Nobody has asked for it: it is submitted again.
TEST_P(Ring, CancelledByNobody) {
  run([&] {
    const pipe_ends p;
    test_hooks.ring_operations.set(0);
    std::int64_t result = 0;
    char c = 0;
    ring_op op = p.reading(&c);
    weft::thread reads([&] { EXPECT_TRUE(run_on_ring(op, {}, &result)); });
    for (int n = 1; n < 5; ++n) {
      while (test_hooks.ring_operations.get() < n) weft::gosched();
      weft::rt::tsan_acquire(&op);  // it has been submitted: the count says so
      ring_cancel(op);
    }
    while (test_hooks.ring_operations.get() < 5) weft::gosched();
    p.write('x');
    reads.join();
    EXPECT_EQ(result, 1);
    EXPECT_EQ(c, 'x');
  });
}

TEST_P(Ring, PlainThreadsWaitAsThreads) {
  const pipe_ends p;
  char c[4] = {};
  std::vector<std::thread> threads;
  for (char& to : c) {
    threads.emplace_back([&] {
      std::int64_t result = 0;
      ring_op op = p.reading(&to);
      EXPECT_TRUE(run_on_ring(op, {}, &result));
      EXPECT_EQ(result, 1);
    });
  }
  for (int i = 0; i < 4; ++i) p.write('x');
  for (auto& t : threads) t.join();
  EXPECT_EQ(std::string(c, 4), "xxxx");
}

}  // namespace
