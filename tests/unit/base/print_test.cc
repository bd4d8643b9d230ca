#include "base/print.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#include "base/readable.h"

namespace weft::rt {
namespace {

void append(void* to, const char* data, std::size_t size) {
  static_cast<std::string*>(to)->append(data, size);
}

TEST(Print, Numbers) {
  std::string text;
  {
    printer out(append, &text);
    out.dec(0).chr(' ').dec(-1).chr(' ').dec(std::numeric_limits<std::int64_t>::min()).chr(' ');
    out.udec(std::numeric_limits<std::uint64_t>::max()).chr(' ');
    out.hex(0).chr(' ').hex(0xdeadbeef).chr(' ').hex(~std::uint64_t{0});
  }
  EXPECT_EQ(text,
            "0 -1 -9223372036854775808 18446744073709551615 0x0 0xdeadbeef 0xffffffffffffffff");
}

TEST(Print, Indented) {
  std::string text;
  printer(append, &text).indented("a\nb\n\nc");
  EXPECT_EQ(text, "a\n\tb\n\t\n\tc");
}

TEST(Print, LongerThanItsBuffer) {
  const std::string line(10'000, 'x');
  std::string text;
  printer(append, &text).str(line).str("end");
  EXPECT_EQ(text, line + "end");
}

TEST(Print, WritesToANonBlockingPipeCompletely) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  const std::string line(1 << 20, 'x');
  std::string got;
  std::thread reader([&] {
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
      got.append(buffer, static_cast<std::size_t>(n));
    }
  });
  errno = 77;
  write_all(ends[1], line.data(), line.size());
  EXPECT_EQ(errno, 77);
  close(ends[1]);
  reader.join();
  close(ends[0]);
  EXPECT_EQ(got.size(), line.size());
}

TEST(Readable, TellsMappedFromUnmapped) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* memory =
      static_cast<char*>(mmap(nullptr, 3 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  ASSERT_EQ(mprotect(memory + page, page, PROT_NONE), 0);
  errno = 77;
  EXPECT_TRUE(readable(at, page));
  EXPECT_FALSE(readable(at + page, 1));
  EXPECT_FALSE(readable(at + page - 4, 8));
  EXPECT_TRUE(readable(at + 2 * page, page));
  EXPECT_FALSE(readable(0, 1));
  EXPECT_FALSE(readable(~std::uintptr_t{7}, 16)) << "wraps around";
  EXPECT_EQ(errno, 77);
  munmap(memory, 3 * page);
  EXPECT_FALSE(readable(at, 1));
}

}  // namespace
}  // namespace weft::rt
