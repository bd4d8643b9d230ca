// close() returns when everybody who was inside is out, however they leave; and so does whoever closes a second time, or
// destroys what somebody else is closing.
#include <atomic>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/go.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/panic.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "io/file_object.h"
#include "io/object.h"
#include "os/test_hooks.h"
#include "support/files.h"
#include "support/fixture.h"
#include "support/sockets.h"
#include "support/waiting.h"

namespace {

using weft::detail::io_object;
using weft::rt::os::test_hooks;
using weft::test::eventually;

// What goes on inside, as the object sees it. Outlives it.
struct witness {
  std::atomic<int> talking{0};       // are making a message of it
  std::atomic<bool> slow{true};      // that takes long
  std::atomic<bool> go_on{false};    // they may be done
  std::atomic<bool> closing{false};  // somebody closes it
};

// The reading end of a pipe that stays empty, of which it takes long to say what it is.
struct slow_object final : io_object {
  slow_object(int number, weft::rt::poll_desc* pd, witness* seen) noexcept
      : io_object(number, pd, weft::rt::fd_kind::pipe), w(*seen) {}
  std::string about() const override {
    ++w.talking;
    if (w.slow) {
      EXPECT_TRUE(eventually([this] { return w.go_on.load(); }));
    }
    return " it";
  }
  void before_close() noexcept override { w.closing = true; }
  witness& w;
};

struct handle : weft::detail::stream {
  explicit handle(io_object* o) : readable(o) {}
  int users() const { return object()->fd.users(); }
};

class Closing : public weft::test::over_procs {
 protected:
  std::unique_ptr<handle> open() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    writer_ = ends[1];
    int error = 0;
    io_object* o = weft::detail::make_object<slow_object>(ends[0], false, &error, &seen_);
    EXPECT_EQ(error, 0);
    return std::make_unique<handle>(o);
  }
  void TearDown() override {
    test_hooks.close_error.set(0);
    if (writer_ >= 0) ::close(writer_);
    over_procs::TearDown();
  }
  // Blocks in f(handle), which says why it ends.
  template <class F>
  static weft::thread blocked(handle& h, F f) {
    const int before = h.users();
    weft::thread t([&h, f] {
      try {
        f(h);
        ADD_FAILURE() << "it goes on";
      } catch (const std::system_error& e) {
        EXPECT_EQ(e.code(), weft::errc::closed);
        EXPECT_EQ(std::string(e.what()).substr(0, 7), "read it");
      }
    });
    EXPECT_TRUE(eventually([&] { return h.users() > before; }));
    return t;
  }
  // Time for what must not happen.
  static void some_time() {
    for (int i = 0; i < weft::test::scaled(1000, 100); ++i) weft::test::give_way();
  }

  int writer_ = -1;
  witness seen_;
};

constexpr auto kReadSome = [](handle& h) {
  char buffer[10];
  h.read_some(buffer);
};
constexpr auto kReadFull = [](handle& h) {
  char buffer[10];
  h.read_full(buffer);
};

// One reader waits for news, one for its turn: both have to say what they have failed with.
TEST_P(Closing, WaitsForThoseWhoSayWhatHasFailed) {
  run([&] {
    std::unique_ptr<handle> h = open();
    weft::thread first = blocked(*h, kReadSome);
    weft::thread second = blocked(*h, kReadFull);
    std::atomic<bool> closed{false};
    weft::thread closes([&] {
      h->close();
      closed = true;
      h.reset();
    });
    EXPECT_TRUE(eventually([&] { return seen_.talking == 2; }));
    some_time();
    EXPECT_FALSE(closed) << "the object may be gone, and two still talk of it";
    seen_.go_on = true;
    closes.join();
    first.join();
    second.join();
  });
}

// … and so does a second close(), and the destructor.
TEST_P(Closing, TheSecondWaitsForTheFirst) {
  run([&] {
    std::unique_ptr<handle> h = open();
    weft::thread reads = blocked(*h, kReadSome);
    std::atomic<int> closed{0};
    weft::thread first([&] {
      h->close();
      ++closed;
    });
    EXPECT_TRUE(eventually([&] { return seen_.talking == 1; }));
    std::error_code ec;
    weft::thread second([&] {
      h->close(ec);
      ++closed;
    });
    some_time();
    EXPECT_EQ(closed, 0);
    seen_.go_on = true;
    first.join();
    second.join();
    reads.join();
    EXPECT_EQ(ec, weft::errc::closed);
  });
}

// The first may destroy it as soon as its close() returns, beside a second one who is still in there: for AddressSanitizer.
TEST_P(Closing, TheFirstMayDestroyItBesideTheSecond) {
  run([&] {
    std::unique_ptr<handle> h = open();
    handle& same = *h;
    weft::thread reads = blocked(*h, kReadSome);
    weft::thread first([&] {
      h->close();
      h.reset();
    });
    EXPECT_TRUE(eventually([&] { return seen_.talking == 1; }));
    seen_.slow = false;
    weft::thread second([&same] {
      try {
        same.close();
        ADD_FAILURE() << "it was closed already";
      } catch (const std::system_error& e) {
        EXPECT_EQ(e.code(), weft::errc::closed);
        EXPECT_EQ(std::string(e.what()).substr(0, 8), "close it");
      }
    });
    EXPECT_TRUE(eventually([] { return weft::test::how_many_wait_in("semacquire") == 2; }));
    seen_.go_on = true;
    first.join();
    second.join();
    reads.join();
  });
}

TEST_P(Closing, DestroyedWhileSomebodyCloses) {
  run([&] {
    std::unique_ptr<handle> h = open();
    weft::thread reads = blocked(*h, kReadSome);
    std::atomic<bool> destroyed{false};
    weft::thread first([&h = *h] { h.close(); });
    EXPECT_TRUE(eventually([&] { return seen_.talking == 1; }));
    weft::thread second([&] {
      h.reset();
      destroyed = true;
    });
    some_time();
    EXPECT_FALSE(destroyed);
    seen_.go_on = true;
    first.join();
    second.join();
    reads.join();
  });
}

// A path is removed before the socket is closed, while it is certainly ours: as soon as it is closed another process
// may have bound it.
TEST_P(Closing, APathGoesFirst) {
  struct opened : weft::net::unix_listener {
    static io_object* object_of(weft::net::unix_listener& l) { return (l.*&opened::object)(); }
  };
  const weft::test::folder dir;
  run([&] {
    const std::string path = dir / "socket";
    weft::net::unix_listener l = weft::net::listen_unix(path);
    auto inside = std::make_unique<weft::rt::fd_guest>();
    EXPECT_EQ(opened::object_of(l)->fd.with_fd([](int) { return EIO; }, inside.get()), EIO);
    const int fd = l.native_handle();
    weft::thread closes([&] { l.close(); });
    EXPECT_TRUE(eventually([&] { return ::access(path.c_str(), F_OK) != 0; }));
    EXPECT_GE(::fcntl(fd, F_GETFD), 0) << "it is closed already";
    inside.reset();
    closes.join();
  });
}

// Files have texts, too: what is behind every throwing operation of a file.
TEST_P(Closing, FilesAndTheirPaths) {
  using weft::detail::file_object;
  const weft::test::folder dir;
  const std::string path = dir / "a_name_that_is_longer_than_what_a_string_keeps_in_itself";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto read = [](file_object* o) {
    char buffer[10];
    iovec part{buffer, sizeof buffer};
    weft::detail::file_call(o, "read", [&](std::error_code& ec, weft::rt::fd_guest* g) {
      const auto r = o->fd.transfer(weft::rt::direction::read, weft::rt::file_fd::amount::full,
                                    &part, 1, weft::rt::kOwnPosition, {}, g);
      ec = weft::detail::file_error(r.error);
      return 0;
    });
  };
  run([&] {
    for (weft::test::budget b(300); b.next();) {
      auto f = std::make_unique<file_object>(std::string(path), ::open(path.c_str(), O_RDWR));
      weft::wait_group readers;
      for (int i = 0; i < 3; ++i) {
        readers.go([&read, &path, o = f.get()] {
          try {
            read(o);
            ADD_FAILURE() << "it goes on";
          } catch (const std::system_error& e) {
            EXPECT_EQ(e.code(), weft::errc::closed_file);
            EXPECT_EQ(std::string(e.what()).substr(0, path.size() + 5), "read " + path);
          }
        });
      }
      ASSERT_TRUE(eventually([&] { return f->fd.users() == 3; }));
      EXPECT_EQ(f->fd.close(), 0);
      f.reset();
      readers.wait();
    }
  });
}

// What close(2) says of make(), whose messages have about(it): said once, in either form, and it is closed all the same.
template <class Make, class About>
void expect_error_of_close(Make make, About about) {
  const int before = weft::test::open_descriptors();
  auto it = make();
  test_hooks.close_error.set(EIO);
  std::error_code ec;
  it.close(ec);
  EXPECT_EQ(ec, std::errc::io_error);
  it.close(ec);
  EXPECT_EQ(ec, std::errc::bad_file_descriptor) << "the second time it is closed: " << ec.message();
  it = make();
  const std::string text = "close" + about(it) + ": " + std::system_category().message(EIO);
  try {
    it.close();
    ADD_FAILURE() << "it says nothing: " << text;
  } catch (const std::system_error& e) {
    EXPECT_EQ(e.what(), text);
    EXPECT_EQ(e.code(), std::errc::io_error);
  }
  test_hooks.close_error.set(EINTR);  // Linux has closed it
  EXPECT_NO_THROW(make().close());
  test_hooks.close_error.set(0);
  EXPECT_EQ(weft::test::open_descriptors(), before);
}

TEST_P(Closing, SaysWhatTheSystemSays) {
  namespace net = weft::net;
  const weft::test::folder dir;
  const auto number = [](auto& end) { return " |" + std::to_string(end.native_handle()); };
  const auto at = [](auto& s) { return " tcp " + s.local_endpoint().to_string(); };
  run([&] {
    expect_error_of_close([] { return net::listen("127.0.0.1:0"); }, at);
    net::tcp_listener l = net::listen("127.0.0.1:0");
    const net::endpoint there = l.local_endpoint();
    expect_error_of_close([&] { return net::dial(there); },
                          [&](auto& s) { return at(s) + "->" + there.to_string(); });
    expect_error_of_close([] { return weft::io::pipe().r; }, number);
    expect_error_of_close([] { return weft::io::pipe().w; }, number);
    expect_error_of_close([&] { return weft::io::file::open(dir / "file", O_RDWR | O_CREAT); },
                          [](auto& f) { return ' ' + f.path(); });
    // … also where somebody else is the last one inside, and closes it.
    seen_.go_on = true;
    std::unique_ptr<handle> h = open();
    weft::thread reads = blocked(*h, kReadSome);
    test_hooks.close_error.set(EIO);
    std::error_code ec;
    h->close(ec);
    EXPECT_EQ(ec, std::errc::io_error);
    reads.join();
  });
}

// As many as the state has room for; one more is a mistake that is seen, where errors are codes, too.
TEST_P(Closing, TooManyAtOnce) {
  constexpr int kMost = (1 << 20) - 2;  // one place is close()'s
  run([&] {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    weft::rt::poll_desc* pd = nullptr;
    ASSERT_EQ(weft::rt::io_fd::make_pollable(ends[0], false, &pd), 0);
    weft::rt::io_fd fd(ends[0], pd, weft::rt::fd_kind::pipe);
    auto guests = std::make_unique<weft::rt::fd_guest[]>(kMost);
    for (int i = 0; i < kMost; ++i) {
      ASSERT_EQ(fd.with_fd([](int) { return EIO; }, &guests[static_cast<std::size_t>(i)]), EIO);
    }
    const auto expect_panic = [](auto f) {
      try {
        f();
        ADD_FAILURE() << "it goes on";
      } catch (const weft::panic_error& e) {
        EXPECT_EQ(std::string(e.what()),
                  "too many concurrent operations on a single file or socket (max 1048575)");
      }
    };
    char buffer[10];
    expect_panic([&] { fd.read_some(buffer, sizeof buffer); });
    expect_panic([&] { fd.set_deadline(true, true, 0); });
    std::atomic<int> closed{0};
    weft::thread closes([&] { closed = 1 + fd.close(); });  // has its own place
    EXPECT_TRUE(eventually([&] { return fd.closed(); }));
    EXPECT_EQ(closed, 0);
    guests.reset();
    closes.join();
    EXPECT_EQ(closed, 1);
    ::close(ends[1]);
  });
}

}  // namespace
