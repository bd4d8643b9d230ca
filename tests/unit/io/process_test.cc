// Other programs, with a pidfd and without.
#include <atomic>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include <weft/context.h>
#include <weft/go.h>
#include <weft/process.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/time.h>

#include "os/test_hooks.h"
#include "support/files.h"
#include "support/fixture.h"
#include "support/sockets.h"

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::process::command;
using weft::process::stream_choice;

class Process : public weft::test::over_procs {
 protected:
  void TearDown() override {
    weft::rt::os::test_hooks.reset();
    over_procs::TearDown();
  }
  // f with each way to wait.
  template <class F>
  void both_ways(F f) {
    for (const int deny : {0, 1}) {
      weft::rt::os::test_hooks.deny_pidfd.set(deny);
      run(f);
    }
  }
};

TEST_P(Process, EndsAsItEnds) {
  both_ways([] {
    EXPECT_TRUE(command("true").run().ok());
    EXPECT_EQ(command("sh", {"-c", "exit 7"}).run().exit_code, 7);
    EXPECT_EQ(command("sh", "-c", std::string("exit 8")).run().exit_code, 8);
    const auto r = command("sh", {"-c", "kill -TERM $$"}).run();
    EXPECT_EQ(r.signal, SIGTERM);
    EXPECT_EQ(r.exit_code, -1);
    // An emulator's vfork() is a fork(), from which glibc hears of no error.
    if (weft::test::emulated()) return;
    std::error_code ec;
    command("no-such-program-anywhere").run(ec);
    EXPECT_EQ(ec, std::errc::no_such_file_or_directory);
    EXPECT_THROW(command("true").dir("/no/such/folder").run(), std::system_error);
  });
}

// The kernel would take what stands before it, and run something else.
TEST_P(Process, TakesNoZeroByte) {
  run([] {
    using namespace std::string_literals;  // NOLINT
    const auto refused = [](const command& c) {
      std::error_code ec;
      EXPECT_EQ(c.start(ec).pid(), -1);
      EXPECT_EQ(ec, std::errc::invalid_argument);
      EXPECT_EQ(c.run(ec).exit_code, -1);
      EXPECT_EQ(ec, std::errc::invalid_argument);
      try {
        c.output();
      } catch (const std::system_error& e) {
        EXPECT_EQ(e.code(), std::errc::invalid_argument);
        return std::string(e.what());
      }
      return "it has run"s;
    };
    EXPECT_EQ(refused(command("true\0 blue"s)),
              "run true: unexpected zero byte in name: Invalid argument");
    EXPECT_EQ(refused(command("true", {"first", "a\0b"s})),
              "run true: unexpected zero byte in argument: Invalid argument");
    EXPECT_EQ(refused(command("true").dir("/\0tmp"s)),
              "run true: unexpected zero byte in directory: Invalid argument");
    EXPECT_EQ(refused(command("true").env("NAME", "\0"s)),
              "run true: unexpected zero byte in environment: Invalid argument");
    EXPECT_EQ(refused(command("true").env("NA\0ME"s, "")),
              "run true: unexpected zero byte in environment: Invalid argument");
    EXPECT_THROW(command("true\0"s).start(), std::system_error);
  });
}

TEST_P(Process, CapturesWhatItSays) {
  both_ways([] {
    const auto r = command("sh", {"-c", "echo out; echo err >&2; pwd; echo $WORD"})
                       .dir("/")
                       .env("WORD", "first")
                       .env("WORD", "second")
                       .output();
    EXPECT_EQ(r.out, "out\n/\nsecond\n");
    EXPECT_EQ(r.err, "err\n");
    EXPECT_EQ(command("/usr/bin/env").clear_env().env("A", "b").output().out, "A=b\n");
    // More than a pipe holds, on both.
    const auto much =
        command("sh", {"-c", "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2"}).output();
    EXPECT_EQ(much.out.size(), 300'000u);
    EXPECT_EQ(much.err.size(), 300'000u);
  });
}

TEST_P(Process, TalksThroughPipes) {
  both_ways([] {
    auto c = command("cat").in(stream_choice::pipe()).out(stream_choice::pipe()).start();
    EXPECT_GT(c.pid(), 0);
    c.in.write_all("hello");
    char five[5];
    c.out.read_full(five);
    EXPECT_EQ(std::string(five, 5), "hello");
    c.in.close();
    EXPECT_TRUE(c.wait().ok());
    std::error_code ec;
    c.wait(ec);
    EXPECT_EQ(ec, std::errc::no_child_process);
    EXPECT_TRUE(command("cat").in(stream_choice::null()).out(stream_choice::null()).run().ok());
  });
}

// Descriptors 0 to 2 of this process are meant as they are here, whatever the program has there by then.
TEST_P(Process, StreamsMayBeSwapped) {
  run([] {
    const weft::test::folder dir;
    const auto text = [&](const char* name) { return weft::io::read_file(dir / name); };
    weft::io::file first = weft::io::file::create(dir / "first");
    weft::io::file second = weft::io::file::create(dir / "second");
    std::fflush(stdout);
    const int ours[] = {::dup(1), ::dup(2)};
    ::dup2(first.native_handle(), 1);
    ::dup2(second.native_handle(), 2);
    const command says("sh", {"-c", "echo out; echo err >&2"});
    auto piped = command(says).out(stream_choice::pipe()).err(stream_choice::fd(1)).start();
    std::string out(4, '\0');
    piped.out.read_full(out);
    const bool good = piped.wait().ok() && piped.out.read_some(out) == 0 &&
                      command(says).out(stream_choice::fd(2)).err(stream_choice::fd(1)).run().ok();
    ::dup2(ours[0], 1);
    ::dup2(ours[1], 2);
    for (const int fd : ours) ::close(fd);
    EXPECT_TRUE(good);
    EXPECT_EQ(out, "out\n");
    EXPECT_EQ(text("first"), "err\nerr\n");
    EXPECT_EQ(text("second"), "out\n");
    std::error_code ec;
    command("true").err(stream_choice::fd(-1)).run(ec);
    EXPECT_EQ(ec, std::errc::bad_file_descriptor);
  });
}

// Which signals a program blocks, and ignores, as the kernel says.
std::string own_signals() {
  return command("grep", {"-E", "Sig(Blk|Ign)", "/proc/self/status"}).output().out;
}

// Not what the goroutine's thread blocks; but what the process ignores.
TEST_P(Process, InheritsSignalsOfTheProcess) {
  run([] {
    const std::string clean = own_signals();
    weft::runtime::lock_os_thread();
    sigset_t mine, before;
    sigemptyset(&mine);
    sigaddset(&mine, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &mine, &before);
    std::signal(SIGWINCH, [](int) {});  // which another program cannot have
    EXPECT_EQ(own_signals(), clean);
    const auto old = std::signal(SIGUSR1, SIG_IGN);
    std::string ignored = clean;
    const std::size_t digit = ignored.size() - 1 - (SIGUSR1 + 3) / 4;  // of the last word
    const int bits = std::stoi(ignored.substr(digit, 1), nullptr, 16) | 1 << (SIGUSR1 - 1) % 4;
    ignored[digit] = "0123456789abcdef"[bits];
    EXPECT_EQ(own_signals(), ignored);
    std::signal(SIGUSR1, old);
    std::signal(SIGWINCH, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    weft::runtime::unlock_os_thread();
  });
}

TEST_P(Process, IsKilled) {
  both_ways([] {
    const int before = weft::test::open_descriptors();
    {
      auto c = command("sleep", {"1000"}).start();
      c.kill(SIGINT);
      EXPECT_EQ(c.wait().signal, SIGINT);
      std::error_code ec;
      auto [ctx, cancel] = weft::with_timeout(weft::context(), 5ms);
      const auto r = command("sleep", {"1000"}).run(ctx, ec);
      EXPECT_EQ(r.signal, SIGKILL);
      EXPECT_EQ(ec, std::errc::timed_out);
      cancel();
    }
    EXPECT_EQ(weft::test::open_descriptors(), before);
  });
}

// Of a signal that does not exist, or of a program that is no more.
TEST_P(Process, KillingMayFail) {
  both_ways([] {
    auto c = command("sleep", {"1000"}).start();
    std::error_code ec;
    c.kill(1000, ec);
    EXPECT_EQ(ec, std::errc::invalid_argument);
    try {
      c.kill(1000);
      ADD_FAILURE() << "there is such a signal";
    } catch (const std::system_error& e) {
      EXPECT_EQ(e.code(), std::errc::invalid_argument);
      EXPECT_EQ(e.what(), "kill process " + std::to_string(c.pid()) + ": Invalid argument");
    }
    c.kill(SIGTERM, ec);
    EXPECT_FALSE(ec);
    EXPECT_EQ(c.wait().signal, SIGTERM);
    c.kill(SIGTERM, ec);
    EXPECT_FALSE(ec) << ec.message();
    c.kill();
    try {
      c.wait();
      ADD_FAILURE() << "it has ended twice";
    } catch (const std::system_error& e) {
      EXPECT_EQ(e.what(), "wait process " + std::to_string(c.pid()) + ": No child processes");
    }
  });
}

// … and has done nothing.
TEST_P(Process, IsNotStartedForAContextThatIsCancelled) {
  both_ways([] {
    const weft::test::folder dir;
    const command leaves_a_trace("sh", {"-c", ": > \"$0\"", dir / "trace"});
    auto [ctx, cancel] = weft::with_cancel(weft::context());
    cancel();
    std::error_code ec;
    EXPECT_EQ(leaves_a_trace.run(ctx, ec).exit_code, -1);
    EXPECT_EQ(ec, ctx.err());
    EXPECT_EQ(leaves_a_trace.output(ctx, ec).exit_code, -1);
    EXPECT_EQ(ec, ctx.err());
    EXPECT_THROW(leaves_a_trace.run(ctx), std::system_error);
    EXPECT_THROW(command("no-such-program-anywhere").run(ctx), std::system_error);
    command("no-such-program-anywhere").run(ctx, ec);
    EXPECT_EQ(ec, ctx.err()) << "it was looked for";
    EXPECT_FALSE(std::filesystem::exists(dir / "trace"));
  });
}

// Nobody has anything to say to it: it reads the end.
TEST_P(Process, ReadsTheEndOfAPipeThatNobodyHas) {
  both_ways([] {
    const command cat = command("cat").in(stream_choice::pipe());
    auto [ctx, cancel] = weft::with_timeout(weft::context(), 10s * weft::test::slowness());
    std::error_code ec;
    EXPECT_TRUE(cat.run(ctx, ec).ok());
    EXPECT_FALSE(ec) << ec.message();
    EXPECT_TRUE(cat.output(ctx, ec).ok());
    EXPECT_FALSE(ec) << ec.message();
    cancel();
  });
}

// What it has said until then is not lost, though a program that it has started goes on, and holds its pipes open.
TEST_P(Process, IsKilledAndLeavesOthersBehind) {
  both_ways([] {
    const weft::test::folder dir;
    const std::string ready = dir / "ready";
    int until[2];  // the other program reads this, to its end
    ASSERT_EQ(::pipe2(until, O_CLOEXEC), 0);
    auto [ctx, cancel] = weft::with_cancel(weft::context());
    weft::thread cancels([&, cancel = cancel] {
      EXPECT_TRUE(weft::test::eventually([&] { return std::filesystem::exists(ready); }));
      cancel();
    });
    std::error_code ec;
    const auto r =
        command("sh",
                {"-c", "exec 3<&0; cat <&3 & echo out; echo err >&2; : > \"$0\"; wait", ready})
            .in(stream_choice::fd(until[0]))
            .output(ctx, ec);
    cancels.join();
    EXPECT_EQ(ec, std::errc::operation_canceled);
    EXPECT_EQ(r.signal, SIGKILL);
    EXPECT_EQ(r.out, "out\n");
    EXPECT_EQ(r.err, "err\n");
    for (const int fd : until) ::close(fd);
  });
}

// Its number is its own until kill() has looked: TSan would see it otherwise.
TEST_P(Process, IsKilledWhileItIsWaitedFor) {
  both_ways([] {
    for (int i = 0; i < weft::test::scaled(20, 5); ++i) {
      auto c = command("sleep", {"1000"}).start();
      const int pid = c.pid();
      std::atomic<bool> over{false};
      weft::thread killer([&] {
        for (c.kill(SIGINT); !over.load(std::memory_order_relaxed); weft::gosched()) c.kill(0);
      });
      EXPECT_EQ(c.wait().signal, SIGINT);
      c.kill();  // nobody any more
      EXPECT_EQ(c.pid(), pid);
      over.store(true, std::memory_order_relaxed);
      killer.join();
    }
  });
}

}  // namespace
