// Who waits for his turn at a descriptor, one reader and one writer at a time, waits no longer than he has said. [FD-1]
#include <atomic>
#include <chrono>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <weft/chan.h>
#include <weft/context.h>
#include <weft/go.h>
#include <weft/io.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "support/files.h"
#include "support/fixture.h"
#include "support/waiting.h"

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::clock;
using weft::test::eventually;
using weft::test::how_many_wait_in;
using weft::test::scaled;
namespace io = weft::io;

class IoTurns : public weft::test::over_procs {
 protected:
  void SetUp() override {
    over_procs::SetUp();
    event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  }
  void TearDown() override {
    ::close(event_);
    over_procs::TearDown();
  }
  void make_news() const {
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(event_, &one, sizeof one), 8);
  }
  void take_news() const {
    std::uint64_t n = 0;
    EXPECT_EQ(::read(event_, &n, sizeof n), 8);
  }

  int event_ = -1;
};

// Has its turn, and waits for news.
weft::thread first_at(io::poll_fd& p, std::error_code expected = {}) {
  weft::thread t([&p, expected] {
    std::error_code ec;
    p.wait_readable(ec);
    EXPECT_EQ(ec, expected);
  });
  EXPECT_TRUE(eventually([] { return how_many_wait_in("IO wait") == 1; }));
  return t;
}

// Is behind others.
template <class F>
weft::thread next_one(F f) {
  const int before = how_many_wait_in("semacquire");
  weft::thread t(f);
  EXPECT_TRUE(eventually([&] { return how_many_wait_in("semacquire") == before + 1; }));
  return t;
}

// What an operation throws.
template <class F>
std::string text_of(F&& f) {
  try {
    f();
  } catch (const std::system_error& e) {
    return e.what();
  }
  return "nothing";
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

TEST_P(IoTurns, EndWithATime) {
  run([&] {
    io::poll_fd p(event_);
    weft::thread first = first_at(p);
    for (int i = 0; i < scaled(50, 5); ++i) {
      std::error_code ec;
      const auto until = clock::now() + i % 4 * 500us;
      p.wait_readable(until, ec);
      EXPECT_EQ(ec, weft::errc::timed_out);
      EXPECT_GE(clock::now(), until);
    }
    const std::string text = text_of([&] { p.wait_readable(clock::now() + 1ms); });
    EXPECT_TRUE(ends_with(text, "i/o timeout")) << text;
    EXPECT_EQ(how_many_wait_in("IO wait"), 1) << "the first has been disturbed";
    make_news();
    first.join();
    p.wait_readable(clock::now() + 1h);  // nobody is there any more
  });
}

TEST_P(IoTurns, EndWithAContext) {
  run([&] {
    io::poll_fd p(event_);
    weft::thread first = first_at(p);
    for (int i = 0; i < scaled(50, 5); ++i) {
      auto [ctx, cancel] = weft::with_cancel(weft::context());
      weft::thread second = next_one([&p, &ctx = ctx] {
        const std::string text = text_of([&] { p.wait_readable(ctx); });
        EXPECT_TRUE(ends_with(text, "context canceled")) << text;
      });
      cancel();
      second.join();
    }
    auto [ctx, cancel] = weft::with_timeout(weft::context(), 1ms);
    const std::string text = text_of([&, &ctx = ctx] { p.wait_readable(ctx); });
    EXPECT_TRUE(ends_with(text, "context deadline exceeded")) << text;
    make_news();
    first.join();
  });
}

// He is behind somebody who stays, or in front of him: that one has his turn all the same.
TEST_P(IoTurns, OneGivesUpAnotherStays) {
  run([&] {
    for (const bool in_front : {true, false}) {
      io::poll_fd p(event_);
      weft::thread first = first_at(p);
      auto [ctx, cancel] = weft::with_cancel(weft::context());
      const auto hurries = [&p, &ctx = ctx] {
        std::error_code ec;
        p.wait_readable(ctx, ec);
        EXPECT_EQ(ec, std::errc::operation_canceled);
      };
      const auto stays = [&p] {
        std::error_code ec;
        p.wait_readable(clock::now() + 1h, ec);
        EXPECT_FALSE(ec) << ec.message();
      };
      weft::thread second = in_front ? next_one(hurries) : next_one(stays);
      weft::thread third = in_front ? next_one(stays) : next_one(hurries);
      cancel();
      (in_front ? second : third).join();
      EXPECT_EQ(how_many_wait_in("semacquire"), 1);
      make_news();
      first.join();
      (in_front ? third : second).join();
      take_news();
    }
  });
}

TEST_P(IoTurns, OfPlainThreads) {
  run([&] {
    io::poll_fd p(event_);
    weft::thread first = first_at(p);
    for (int i = 0; i < scaled(20, 3); ++i) {
      auto [ctx, cancel] = weft::with_cancel(weft::context());
      weft::chan<std::error_code> ends(2);
      std::thread by_time([&] {
        std::error_code ec;
        p.wait_readable(clock::now() + 1ms, ec);
        ends.send(ec);
      });
      EXPECT_EQ(ends.recv(), make_error_code(weft::errc::timed_out));
      by_time.join();
      std::thread by_context([&, &ctx = ctx] {
        std::error_code ec;
        p.wait_readable(ctx, ec);
        ends.send(ec);
      });
      weft::gosched();  // before it comes, or while it waits
      cancel();
      EXPECT_EQ(ends.recv().value_or(std::error_code()), std::errc::operation_canceled);
      by_context.join();
    }
    make_news();
    first.join();
  });
}

// It sends away those who wait for their turn, whatever their limits are, and returns.
TEST_P(IoTurns, EndWithAClose) {
  run([&] {
    io::poll_fd p(event_);
    weft::thread first = first_at(p, weft::errc::closed);
    weft::thread second = next_one([&p] {
      std::error_code ec;
      p.wait_readable(clock::now() + 1h, ec);
      EXPECT_EQ(ec, weft::errc::closed);
    });
    weft::thread third = next_one([&p] {
      std::error_code ec;
      auto [ctx, cancel] = weft::with_cancel(weft::context());
      p.wait_readable(ctx, ec);
      EXPECT_EQ(ec, weft::errc::closed);
    });
    p.close();
    first.join();
    second.join();
    third.join();
  });
}

// Limits come while turns pass from one to the next, and while it is closed: nobody is lost, and nobody is counted who has
// left, or the close would wait for him. (Whoever comes late finds it closed.)
TEST_P(IoTurns, LimitsRaceWithTurnsAndClose) {
  run([&] {
    for (int round = 0; round < scaled(30, 5); ++round) {
      io::poll_fd p(event_);
      std::atomic<int> waits{0};
      weft::wait_group all;
      const auto waits_often = [&](int who) {
        for (int i = 0;; ++i) {
          std::error_code ec;
          p.wait_readable(clock::now() + (who * 7 + i * 3) % 20 * 2us, ec);
          ++waits;
          if (ec == weft::errc::closed) return;
          EXPECT_EQ(ec, weft::errc::timed_out);
        }
      };
      for (int who = 0; who < 4; ++who) all.go([&, who] { waits_often(who); });
      std::thread plain([&] { waits_often(4); });
      weft::thread patient([&] {
        if (round % 2 == 0) return;  // or nobody else has his turn
        std::error_code ec;
        p.wait_readable(ec);
        EXPECT_EQ(ec, weft::errc::closed);
      });
      EXPECT_TRUE(eventually([&] { return waits > 100; }));
      p.close();
      all.wait();
      patient.join();
      plain.join();
    }
  });
}

// Files that can be polled, both ways; what has not had its turn has done nothing.
TEST_P(IoTurns, OfFiles) {
  const weft::test::folder dir;
  const std::string path = dir / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  run([&] {
    io::file f = io::file::open(path, O_RDWR);
    weft::thread reads([&] {
      char buffer[10];
      EXPECT_EQ(f.read_some(buffer), 1u);
    });
    EXPECT_TRUE(eventually([] { return how_many_wait_in("IO wait") == 1; }));
    char buffer[4096];
    EXPECT_EQ(text_of([&] { f.read_some(buffer, clock::now() + 1ms); }),
              "read " + path + ": i/o timeout");
    auto [ctx, cancel] = weft::with_cancel(weft::context());
    weft::thread cancelled = next_one([&, &ctx = ctx] {
      char none[10];
      EXPECT_EQ(text_of([&] { f.read_full(none, ctx); }), "read " + path + ": context canceled");
    });
    cancel();
    cancelled.join();
    f.write_all("x");
    reads.join();

    const std::string much(1 << 20, 'x');
    weft::thread writes([&] { EXPECT_EQ(f.write_all(much), much.size()); });
    EXPECT_TRUE(eventually([] { return how_many_wait_in("IO wait") == 1; }));
    std::error_code ec;
    EXPECT_EQ(f.write_all("lost", clock::now() + 1ms, ec), 0u);
    EXPECT_EQ(ec, weft::errc::timed_out);
    EXPECT_EQ(f.write_some("lost", ctx, ec), 0u);
    EXPECT_EQ(ec, std::errc::operation_canceled);
    for (std::size_t got = 0; got < much.size();) {
      const std::size_t n = f.read_some(buffer);
      EXPECT_EQ(std::string_view(buffer, n).find_first_not_of('x'), std::string_view::npos);
      got += n;
    }
    writes.join();
    EXPECT_EQ(f.read_some(buffer, clock::now() + 1ms, ec), 0u) << "more was written";
    EXPECT_EQ(ec, weft::errc::timed_out);
    f.close();
  });
}

}  // namespace
