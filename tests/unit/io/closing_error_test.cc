// What close(2) says is said to whoever calls close(). A handle that goes without that call, because its scope ends or another
// is put in its place, says nothing, and has closed its descriptor all the same.
#include <cerrno>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

#include <weft/file.h>
#include <weft/io.h>
#include <weft/net.h>

#include "os/test_hooks.h"
#include "support/files.h"
#include "support/fixture.h"
#include "support/sockets.h"

namespace {

using weft::rt::os::test_hooks;

class ClosingErrors : public weft::test::over_procs {
 protected:
  void TearDown() override {
    test_hooks.close_error.set(0);
    over_procs::TearDown();
  }
};

// f() while every close(2) fails, which nobody hears of.
template <class F>
void without_a_word(F&& f) {
  testing::internal::CaptureStderr();
  test_hooks.close_error.set(EIO);
  EXPECT_NO_THROW(f());
  test_hooks.close_error.set(0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// In each of the ways in which what make() makes may go. left(): how many of them are open.
template <class Make, class Left>
void expect_silence(Make make, Left left) {
  using handle = decltype(make());
  const int before = left();
  std::optional<handle> it(make());
  EXPECT_EQ(left(), before + 1);
  without_a_word([&] { it.reset(); });
  EXPECT_EQ(left(), before) << "it is open, and nobody has it";

  it.emplace(make());
  without_a_word([&] { *it = handle(); });
  EXPECT_EQ(left(), before);

  it.emplace(make());
  without_a_word([&] {
    try {
      const handle dies = std::move(*it);
      throw 1;  // a second one on its way would be the end
    } catch (int) {
    }
  });
  EXPECT_EQ(left(), before);
}

TEST_P(ClosingErrors, AreNotTheDestructors) {
  namespace net = weft::net;
  const weft::test::folder dir;
  run([&] {
    using weft::test::open_descriptors;
    expect_silence([] { return net::listen("127.0.0.1:0"); }, open_descriptors);
    expect_silence([] { return net::listen_udp("127.0.0.1:0"); }, open_descriptors);
    net::tcp_listener l = net::listen("127.0.0.1:0");
    expect_silence([&] { return net::dial(l.local_endpoint()); }, open_descriptors);
    expect_silence([] { return weft::io::pipe().r; }, open_descriptors);
    expect_silence([] { return weft::io::pipe().w; }, open_descriptors);

    // Of a file, by a lock that it has as long as it is open.
    const std::string path = dir / "file";
    const auto locked = [&path] {
      const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      const bool free = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
      ::close(fd);
      return free ? 0 : 1;
    };
    expect_silence(
        [&path] {
          weft::io::file f = weft::io::file::open(path, O_RDWR);
          EXPECT_EQ(::flock(f.native_handle(), LOCK_EX | LOCK_NB), 0);
          return f;
        },
        locked);
  });
}

WEFT_OVER_PROCS(ClosingErrors);

}  // namespace
