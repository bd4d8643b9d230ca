// Files and directories, one at a time. The same program runs without io_uring, with tiny rings and with faults
// (tests/CMakeLists.txt): nothing here may depend on how the bytes travel.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <weft/context.h>
#include <weft/io.h>
#include <weft/thread.h>
#include <weft/time.h>

#include "support/files.h"
#include "support/fixture.h"
#include "support/no_uring.h"

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::errc;
using weft::io::file;
namespace io = weft::io;

class File : public weft::test::over_procs {
 protected:
  weft::test::folder dir_;
};

std::string text_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::system_error& e) {
    return e.what();
  }
  return "no exception";
}

TEST_P(File, BytesAtOffsets) {
  run([&] {
    file f = file::create(dir_ / "a");
    EXPECT_EQ(f.write_at("world", 6), 5u);
    EXPECT_EQ(f.write_at("hello ", 0), 6u);
    char buffer[20];
    EXPECT_EQ(f.read_at(buffer, 0), 11u);  // to the end
    EXPECT_EQ(std::string(buffer, 11), "hello world");
    EXPECT_EQ(f.read_at({buffer, 5}, 3), 5u);
    EXPECT_EQ(std::string(buffer, 5), "lo wo");
    EXPECT_EQ(f.read_at(buffer, 11), 0u);
    EXPECT_EQ(f.read_at(buffer, 1000), 0u);
    EXPECT_EQ(f.read_at({buffer, 0}, 0), 0u);
    EXPECT_EQ(f.write_at("", 0), 0u);
    EXPECT_EQ(f.seek(0, io::whence::current), 0);  // nobody has moved it
    EXPECT_EQ(f.size(), 11);
    std::error_code ec;
    EXPECT_EQ(f.read_at(buffer, -1, ec), 0u);
    EXPECT_EQ(ec, std::errc::invalid_argument);
    f.write_at("x", -1, ec);
    EXPECT_EQ(ec, std::errc::invalid_argument);
  });
}

TEST_P(File, SeveralBuffers) {
  run([&] {
    file f = file::create(dir_ / "a");
    std::vector<std::string> words;
    std::string all;
    for (int i = 0; i < 3000; ++i) {  // more than the system takes at once, some empty
      words.push_back(i % 7 == 0 ? "" : std::to_string(i) + " ");
      all += words.back();
    }
    const std::vector<weft::const_buffer> parts(words.begin(), words.end());
    EXPECT_EQ(f.write_at(parts, 10), all.size());
    EXPECT_EQ(f.seek(10), 10);
    EXPECT_EQ(f.write_all(parts), all.size());
    EXPECT_EQ(f.seek(0, io::whence::current), static_cast<std::int64_t>(10 + all.size()));
    std::string first(5, '\0'), none, rest(all.size() + 7, '\0');
    const std::array<weft::mutable_buffer, 3> to{weft::mutable_buffer(first), none, rest};
    EXPECT_EQ(f.read_at(to, 10), all.size());
    EXPECT_EQ((first + rest).substr(0, all.size()), all);
  });
}

TEST_P(File, AStreamOfBytes) {
  run([&] {
    file f = file::create(dir_ / "a");
    std::string all;
    for (int i = 0; i < 100; ++i) {
      const std::string piece(static_cast<std::size_t>(i * 37), static_cast<char>('a' + i % 26));
      EXPECT_EQ(f.write_all(piece), piece.size());
      all += piece;
    }
    EXPECT_EQ(f.seek(0), 0);
    std::string got, buffer(1000, '\0');
    while (const std::size_t n = f.read_some(buffer)) got += buffer.substr(0, n);
    EXPECT_EQ(got, all);
    EXPECT_EQ(f.read_some(buffer), 0u);
    EXPECT_EQ(f.seek(-500, io::whence::end), static_cast<std::int64_t>(all.size()) - 500);
    std::error_code ec;
    EXPECT_EQ(f.read_full(buffer, ec), 500u);
    EXPECT_EQ(ec, errc::unexpected_eof);
    EXPECT_EQ(buffer.substr(0, 500), all.substr(all.size() - 500));
    f.seek(2);
    EXPECT_EQ(f.read_full({buffer.data(), 10}), 10u);
    EXPECT_EQ(f.seek(0, io::whence::current), 12);
    f.seek(-1, ec);
    EXPECT_EQ(ec, std::errc::invalid_argument);
  });
}

TEST_P(File, OpeningAndFlags) {
  run([&] {
    const std::string path = dir_ / "a";
    std::error_code ec;
    EXPECT_FALSE(file::open(path, ec));
    EXPECT_EQ(ec, std::errc::no_such_file_or_directory);
    const mode_t before = umask(022);
    file f = file::open(path, O_WRONLY | O_CREAT | O_EXCL, 0640);
    umask(before);
    EXPECT_EQ(f.stat().mode, 0640u);
    EXPECT_EQ(f.path(), path);
    EXPECT_NE(fcntl(f.native_handle(), F_GETFD) & FD_CLOEXEC, 0);
    f.write_all("one");
    EXPECT_FALSE(file::open(path, O_WRONLY | O_CREAT | O_EXCL, 0640, ec));
    EXPECT_EQ(ec, std::errc::file_exists);
    file more = file::open(path, O_WRONLY | O_APPEND);
    more.write_all(" two");
    f.write_all("!!!!");  // its own position
    more.write_all(" three");
    EXPECT_EQ(io::read_file(path), "one!!!! three");
    more.write_at("x", 0, ec);
    EXPECT_EQ(ec, errc::append_only);
    file again = file::open(path, O_RDWR | O_TRUNC);
    EXPECT_EQ(again.size(), 0);
    file(std::move(again)).close();
    EXPECT_FALSE(again);
    again = file::adopt(open(path.c_str(), O_RDWR | O_CLOEXEC));
    again.write_all("adopted");
    EXPECT_EQ(io::read_file(path), "adopted");
    file::adopt(-1, ec);
    EXPECT_EQ(ec, std::errc::bad_file_descriptor);
  });
}

// 234; [FD-5]
TEST_P(File, ErrorsSayWhatAndWhere) {
  run([&] {
    const std::string path = dir_ / "a", none = dir_ / "none";
    EXPECT_EQ(text_of([&] { file::open(none); }), "open " + none + ": No such file or directory");
    EXPECT_EQ(text_of([&] { io::read_dir(none); }),
              "readdir " + none + ": No such file or directory");
    EXPECT_EQ(text_of([&] { io::stat(none); }), "stat " + none + ": No such file or directory");
    EXPECT_EQ(text_of([&] { io::read_file(none); }),
              "read " + none + ": No such file or directory");
    EXPECT_EQ(text_of([&] { file::open(std::string("a\0b", 3)); }).substr(0, 5), "open ");
    io::write_file(path, "text");
    EXPECT_EQ(text_of([&] { io::read_dir(path); }), "readdir " + path + ": Not a directory");
    file f = file::open(path);
    char buffer[10];
    EXPECT_EQ(text_of([&] { f.write_all("x"); }), "write " + path + ": Bad file descriptor");
    EXPECT_EQ(text_of([&] { f.write_at("x", 0); }), "write " + path + ": Bad file descriptor");
    EXPECT_EQ(text_of([&] { f.truncate(0); }), "truncate " + path + ": Invalid argument");
    EXPECT_EQ(text_of([&] { f.fallocate(0, 10); }), "fallocate " + path + ": Bad file descriptor");
    EXPECT_EQ(text_of([&] { f.set_deadline(weft::clock::now()); }),
              "set deadline " + path + ": file type does not support deadline");
    file folder = file::open(dir_.path());
    EXPECT_EQ(text_of([&] { folder.read_some(buffer); }),
              "read " + dir_.path() + ": Is a directory");
    EXPECT_EQ(text_of([&] { folder.read_at(buffer, 0); }),
              "read " + dir_.path() + ": Is a directory");
    f.close();
    EXPECT_EQ(text_of([&] { f.close(); }), "close " + path + ": use of closed file");
    EXPECT_EQ(text_of([&] { f.read_at(buffer, 0); }), "read " + path + ": use of closed file");
    EXPECT_EQ(text_of([&] { f.sync(); }), "sync " + path + ": use of closed file");
    EXPECT_EQ(text_of([&] { f.size(); }), "stat " + path + ": use of closed file");
    EXPECT_EQ(text_of([&] { f.seek(0); }), "seek " + path + ": use of closed file");
    EXPECT_EQ(text_of([&] { folder.close(), folder.read_dir(1); }),
              "readdir " + dir_.path() + ": use of closed file");
    EXPECT_EQ(text_of([&] { file().read_some(buffer); }), "read: use of closed file");
    EXPECT_EQ(f.native_handle(), -1);
    std::error_code ec;
    f.datasync(ec);
    EXPECT_EQ(ec, std::errc::bad_file_descriptor);
  });
}

TEST_P(File, SizesAndRoom) {
  run([&] {
    file f = file::create(dir_ / "a");
    f.truncate(10'000);
    EXPECT_EQ(f.size(), 10'000);
    f.write_at("end", 9'997);
    f.sync();
    f.datasync();
    std::error_code ec;
    f.fallocate(0, 1 << 20, ec);
    if (!ec) {  // not every file system can
      EXPECT_EQ(f.size(), 1 << 20);
      EXPECT_GE(f.stat().allocated, 1 << 20);
      f.fallocate(1 << 20, 4096, FALLOC_FL_KEEP_SIZE);
      EXPECT_EQ(f.size(), 1 << 20);
    } else {
      EXPECT_EQ(ec, std::errc::operation_not_supported);
    }
    f.truncate(3);
    const io::file_info info = io::stat(dir_ / "a");
    EXPECT_EQ(info.size, 3);
    EXPECT_EQ(info.type, io::file_type::regular);
    EXPECT_EQ(info.inode, f.stat().inode);
    EXPECT_EQ(info.links, 1u);
    EXPECT_LT(std::chrono::system_clock::now() - info.modified, 1h);
    f.fallocate(0, -1, ec);
    EXPECT_EQ(ec, std::errc::invalid_argument);
    std::filesystem::create_symlink("a", dir_ / "link");
    EXPECT_EQ(io::lstat(dir_ / "link").type, io::file_type::symlink);
    EXPECT_EQ(io::stat(dir_ / "link").inode, info.inode);
  });
}

TEST_P(File, DirectoriesAreListed) {
  run([&] {
    std::vector<std::string> names;
    for (int i = 0; i < 700; ++i) {
      names.push_back("file " + std::to_string(i) +
                      std::string(static_cast<std::size_t>(i % 90), '-'));
      io::write_file(dir_ / names.back().c_str(), "");
    }
    std::filesystem::create_directory(dir_ / "folder");
    std::filesystem::create_symlink("nowhere", dir_ / "link");
    ASSERT_EQ(mkfifo((dir_ / "pipe").c_str(), 0600), 0);
    names.insert(names.end(), {"folder", "link", "pipe"});
    std::sort(names.begin(), names.end());
    const std::vector<io::dir_entry> found = io::read_dir(dir_.path());
    ASSERT_EQ(found.size(), names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(found[i].name, names[i]);
      EXPECT_EQ(found[i].type, names[i] == "folder" ? io::file_type::directory
                               : names[i] == "link" ? io::file_type::symlink
                               : names[i] == "pipe" ? io::file_type::fifo
                                                    : io::file_type::regular);
    }
    file folder = file::open(dir_.path());  // the same a few at a time
    std::vector<std::string> again;
    for (auto some = folder.read_dir(10); !some.empty(); some = folder.read_dir(10)) {
      EXPECT_LE(some.size(), 20u);
      for (auto& e : some) again.push_back(e.name);
    }
    std::sort(again.begin(), again.end());
    EXPECT_EQ(again, names);
    EXPECT_TRUE(folder.read_dir(10).empty());
    EXPECT_TRUE(io::read_dir(dir_ / "folder").empty());
  });
}

TEST_P(File, WholeFilesAndThoseOfTheKernel) {
  run([&] {
    const std::string big(300'000, 'x');
    io::write_file(dir_ / "a", big);
    EXPECT_EQ(io::read_file(dir_ / "a"), big);
    io::write_file(dir_ / "a", "short");
    EXPECT_EQ(io::read_file(dir_ / "a"), "short");
    EXPECT_NE(io::read_file("/proc/self/status").find("Threads:"), std::string::npos);
    char zeros[100] = {1};
    file::open("/dev/zero").read_full(zeros);
    EXPECT_EQ(std::string(zeros, 100), std::string(100, '\0'));
    file null = file::open("/dev/null", O_RDWR);
    EXPECT_EQ(null.write_all("x"), 1u);
    EXPECT_EQ(null.read_some(zeros), 0u);
    std::error_code ec;
    io::write_file("/dev/full", "x", 0666, ec);
    EXPECT_EQ(ec, std::errc::no_space_on_device);
  });
}

TEST_P(File, OfPlainThreads) {
  file f = file::create(dir_ / "a");
  f.write_all("from a thread");
  EXPECT_EQ(io::read_file(dir_ / "a"), "from a thread");
  f.sync();
  f.close();
  EXPECT_EQ(io::read_dir(dir_.path()).size(), 1u);
}

TEST_P(File, LimitsThatAreOver) {
  run([&] {
    file f = file::create(dir_ / "a");
    auto [ctx, cancel] = weft::with_cancel(weft::context());
    f.write_at("good", 0, ctx);
    char buffer[4];
    EXPECT_EQ(f.read_at(buffer, 0, ctx), 4u);
    EXPECT_EQ(f.read_at(buffer, 0, weft::clock::now() + 1h), 4u);
    cancel();
    std::error_code ec;
    EXPECT_EQ(f.read_at(buffer, 0, ctx, ec), 0u);
    EXPECT_EQ(ec, std::errc::operation_canceled);
    f.write_all("bad", ctx, ec);
    EXPECT_EQ(ec, std::errc::operation_canceled);
    f.sync(ctx, ec);
    EXPECT_EQ(ec, std::errc::operation_canceled);
    f.read_at(buffer, 0, weft::clock::now(), ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    EXPECT_EQ(text_of([&, &ctx = ctx] { f.read_some(buffer, ctx); }),
              "read " + f.path() + ": context canceled");
    EXPECT_EQ(io::read_file(f.path()), "good");
  });
}

}  // namespace
