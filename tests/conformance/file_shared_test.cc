// Files with many goroutines: whose bytes are whose, closing, cancelling, plain threads. The same program runs by other
// ways, as file_test.cc does.
#include <atomic>
#include <chrono>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <weft/chan.h>
#include <weft/context.h>
#include <weft/go.h>
#include <weft/io.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "support/files.h"
#include "support/fixture.h"
#include "support/no_uring.h"
#include "support/waiting.h"

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::errc;
using weft::io::file;
using weft::test::block;
using weft::test::scaled;
namespace io = weft::io;

constexpr std::size_t kBlock = 64 << 10;
constexpr std::size_t kSector = 4096;  // less cannot be asked for past the page cache, nor injected

class FileShared : public weft::test::over_procs {
 protected:
  weft::test::folder dir_;
};

std::int64_t offset_of(std::uint64_t random, std::size_t size) {
  return static_cast<std::int64_t>((random >> 20) % (size / kBlock) * kBlock);
}

// 64 goroutines read random blocks: each gets what is there.
TEST_P(FileShared, RandomBlocks) {
  run([&] {
    const std::size_t size = 64 * kBlock;
    file f = weft::test::filled_file(dir_ / "a", 7, size);
    weft::wait_group all;
    for (std::uint64_t i = 0; i < 64; ++i) {
      all.go([&, i] {
        const block b(kBlock);
        for (std::uint64_t k = 0; k < static_cast<std::uint64_t>(scaled(8, 2)); ++k) {
          const std::int64_t at = offset_of((i * 1000 + k) * 0x9e3779b97f4a7c15u, size);
          EXPECT_EQ(f.read_at(b, at), kBlock);
          EXPECT_TRUE(weft::test::is_filled(b.data(), 7, static_cast<std::uint64_t>(at), kBlock));
        }
      });
    }
    all.wait();
  });
}

TEST_P(FileShared, OperationsWithThePositionTakeTurns) {
  run([&] {
    file f = file::create(dir_ / "a");
    const int writers = 16, lines = scaled(30, 5);
    weft::wait_group all;
    for (int w = 0; w < writers; ++w) {
      all.go([&, w] {
        for (int i = 0; i < lines; ++i) {
          std::string line(51, static_cast<char>('a' + w));
          line.back() = '\n';
          const weft::const_buffer parts[] = {{line.data(), 20}, {line.data() + 20, 31}};
          i % 2 == 0 ? f.write_all(parts) : f.write_all(line);
        }
      });
    }
    all.wait();
    const std::string text = io::read_file(f.path());
    ASSERT_EQ(text.size(), static_cast<std::size_t>(writers * lines * 51));
    for (std::size_t at = 0; at < text.size(); at += 51) {
      EXPECT_EQ(text.find_first_not_of(text[at], at), at + 50);
      EXPECT_EQ(text[at + 50], '\n');
    }
    // Readers share it as well: every byte is read once.
    f.seek(0);
    std::atomic<std::size_t> read{0};
    for (int r = 0; r < 8; ++r) {
      all.go([&] {
        char buffer[10];  // small steps: many chances to meet
        while (const std::size_t n = f.read_some(buffer)) read += n;
      });
    }
    all.wait();
    EXPECT_EQ(read, text.size());
  });
}

TEST_P(FileShared, WritersAtOffsetsDoNotMeet) {
  run([&] {
    file f = file::open(dir_ / "a", O_RDWR | O_CREAT | (procs() == 4 ? O_DSYNC : 0));
    weft::wait_group all;
    for (std::uint64_t w = 0; w < 16; ++w) {
      all.go([&, w] {
        std::string part(4096, '\0');
        for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(scaled(8, 2)); ++i) {
          const std::uint64_t at = (i * 16 + w) * part.size();
          weft::test::fill(part.data(), 3, at, part.size());
          f.write_at(part, static_cast<std::int64_t>(at));
          if (i % 4 == 0) f.datasync();
        }
      });
    }
    all.wait();
    const std::string text = io::read_file(f.path());
    EXPECT_TRUE(weft::test::is_filled(text.data(), 3, 0, text.size()));
    EXPECT_EQ(text.size(), 16u * 4096u * static_cast<std::size_t>(scaled(8, 2)));
  });
}

// Whoever is in an operation finishes it; whoever comes later is told.
TEST_P(FileShared, ClosingAmongReaders) {
  run([&] {
    const std::size_t size = 16 * kBlock;
    weft::test::filled_file(dir_ / "a", 5, size);
    for (int round = 0; round < scaled(4, 2); ++round) {
      file f = file::open(dir_ / "a", O_RDONLY | (round % 2 == 0 ? O_DIRECT : 0));
      weft::wait_group all;
      weft::chan<int> going(32);
      for (std::uint64_t i = 0; i < 16; ++i) {
        all.go([&, i] {
          const block b(kBlock);
          for (std::uint64_t k = 0;; ++k) {
            std::error_code ec;
            const std::int64_t at = offset_of((i * 1000 + k) * 0x9e3779b97f4a7c15u, size);
            const std::size_t n = i % 4 == 0 && k % 2 == 1 ? f.read_some({b.data(), kSector}, ec)
                                                           : f.read_at(b, at, ec);
            if (ec) {
              EXPECT_EQ(ec, errc::closed_file);
              break;
            }
            if (n == kBlock) {
              EXPECT_TRUE(weft::test::is_filled(b.data(), 5, static_cast<std::uint64_t>(at), n));
            }
            if (k == 0) going.send(1);
          }
        });
      }
      for (int i = 0; i < 16; ++i) going.recv();
      f.close();
      all.wait();
      std::error_code ec;
      f.close(ec);
      EXPECT_EQ(ec, errc::closed_file);
    }
  });
}

// A cancelled operation returns when nobody writes to its buffer any more.
TEST_P(FileShared, CancelledBuffersAreLeftAlone) {
  run([&] {
    const std::size_t size = 32 * kBlock;
    file f = weft::test::filled_file(dir_ / "a", 9, size);
    weft::wait_group all;
    for (int round = 0; round < scaled(10, 2); ++round) {
      auto [ctx, cancel] = weft::with_cancel(weft::context());
      std::vector<block> buffers;
      for (int i = 0; i < 16; ++i) buffers.emplace_back(kBlock);
      for (std::uint64_t i = 0; i < 16; ++i) {
        all.go([&, i, &ctx = ctx] {
          const block& b = buffers[i];
          std::error_code ec;
          const std::int64_t at = offset_of(i * 0x9e3779b97f4a7c15u, size);
          const std::size_t n = i % 2 == 0 ? f.read_at(b, at, ctx, ec)
                                           : f.read_at(b, at, weft::clock::now() + 100us, ec);
          EXPECT_TRUE(!ec ? n == kBlock
                          : ec == std::errc::operation_canceled || ec == std::errc::timed_out)
              << ec.message();
          if (!ec) {
            EXPECT_TRUE(weft::test::is_filled(b.data(), 9, static_cast<std::uint64_t>(at), n));
          }
          weft::test::fill(b.data(), 1, 0, kBlock);
        });
      }
      weft::gosched();
      cancel();
      all.wait();
      for (const block& b : buffers) EXPECT_TRUE(weft::test::is_filled(b.data(), 1, 0, kBlock));
    }
  });
}

TEST_P(FileShared, PlainThreadsBesideGoroutines) {
  const std::size_t size = 16 * kBlock;
  file f = weft::test::filled_file(dir_ / "a", 2, size);
  const auto reads = [&](std::uint64_t seed) {
    const block b(kBlock);
    for (std::uint64_t k = 0; k < static_cast<std::uint64_t>(scaled(10, 3)); ++k) {
      const std::int64_t at = offset_of((seed + k) * 0x9e3779b97f4a7c15u, size);
      EXPECT_EQ(f.read_at(b, at), kBlock);
      EXPECT_TRUE(weft::test::is_filled(b.data(), 2, static_cast<std::uint64_t>(at), kBlock));
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 4; ++i) threads.emplace_back(reads, i * 100);
  run([&] {
    weft::wait_group all;
    for (std::uint64_t i = 0; i < 8; ++i) all.go([&, i] { reads(i * 77); });
    all.wait();
  });
  for (auto& t : threads) t.join();
}

// What can be polled behaves as a pipe does. [FD-1], [FD-6]
TEST_P(FileShared, NamedPipes) {
  run([&] {
    ASSERT_EQ(mkfifo((dir_ / "pipe").c_str(), 0600), 0);
    weft::chan<file> opened(1);
    weft::go(
        [&] { opened.send(file::open(dir_ / "pipe", O_WRONLY)); });  // each waits for the other
    file r = file::open(dir_ / "pipe");
    file w = std::move(*opened.recv());
    char buffer[10];
    std::error_code ec;
    r.set_deadline(weft::clock::now() + 1ms);
    r.read_some(buffer, ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    r.set_deadline(weft::clock::time_point::max());
    r.read_some(buffer, weft::clock::now() + 1ms, ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    w.write_all("hello");
    for (std::size_t got = 0; got < 5;) {  // injected faults cut reads short
      got += r.read_some(std::span(buffer).subspan(got));
    }
    EXPECT_EQ(std::string_view(buffer, 5), "hello");
    r.seek(0, ec);
    EXPECT_EQ(ec, std::errc::invalid_seek);
    // Limits come before what could be done at once, as for other files.
    auto [ctx, cancel] = weft::with_cancel(weft::context());
    cancel();
    EXPECT_EQ(w.write_all("lost", ctx, ec), 0u);
    EXPECT_EQ(ec, std::errc::operation_canceled);
    w.write_all("!");
    EXPECT_EQ(r.read_some(buffer, ctx, ec), 0u);
    EXPECT_EQ(ec, std::errc::operation_canceled);
    EXPECT_EQ(r.read_some(buffer, weft::clock::now() - 1ms, ec), 0u);
    EXPECT_EQ(ec, std::errc::timed_out);
    EXPECT_EQ(r.read_some(buffer), 1u);
    EXPECT_EQ(buffer[0], '!');
    weft::chan<std::error_code> ended(1);
    weft::go([&] {
      std::error_code e;
      char c[1];
      r.read_some(c, e);
      ended.send(e);
    });
    weft::gosched();
    r.close();
    EXPECT_EQ(ended.recv(), make_error_code(errc::closed_file));
    w.write_all("x", ec);  // an error, no signal
    EXPECT_EQ(ec, std::errc::broken_pipe);
  });
}

// Whoever blocks in a read of it is ended by close(), and does not hold the thread meanwhile.
template <class Reader>
void expect_close_ends_a_read(Reader r, weft::errc expected) {
  ASSERT_NE(::fcntl(r.native_handle(), F_GETFL) & O_NONBLOCK, 0);
  weft::chan<std::error_code> ended(1);
  weft::go([&] {
    std::error_code ec;
    char c[1];
    r.read_some(c, ec);
    ended.send(ec);
  });
  EXPECT_TRUE(weft::test::eventually([] { return weft::test::somebody_waits_in("IO wait"); }));
  r.close();
  EXPECT_EQ(ended.recv(), make_error_code(expected));
}

// 232. Go: TestCloseWithBlockingReadByFd, TestCloseWithBlockingReadByNewFile: there such a read holds its thread, and
// close() returns without ending it. [FD-1], [FD-4]
TEST_P(FileShared, AdoptsWhatWasInBlockingMode) {
  const auto blocking_pipe = [](int* writer) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    *writer = ends[1];
    return ends[0];
  };
  ASSERT_EQ(mkfifo((dir_ / "pipe").c_str(), 0600), 0);
  run([&] {
    for (int i = 0; i < 3; ++i) {
      int writer = -1;
      expect_close_ends_a_read(io::pipe_reader::adopt(blocking_pipe(&writer)), errc::closed);
      ::close(writer);
      expect_close_ends_a_read(file::adopt(blocking_pipe(&writer)), errc::closed_file);
      ::close(writer);
      const int fifo = ::open((dir_ / "pipe").c_str(), O_RDWR | O_CLOEXEC);  // nobody is waited for
      expect_close_ends_a_read(file::adopt(fifo), errc::closed_file);
    }
  });
}

}  // namespace
