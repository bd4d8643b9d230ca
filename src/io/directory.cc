// Directories, what files are, and whole files. See include/weft/file.h.
//
// Entries come by getdents64, a page of them at a time, so that close() waits for one system call at most. Some file
// systems do not say what an entry is: those are asked for one by one.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weft/file.h>

#include "io/file_object.h"
#include "os/test_hooks.h"
#include "sched/sched_api.h"

namespace weft::io {

using namespace detail;  // NOLINT: a thin cover

namespace {

file_type type_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return file_type::regular;
    case S_IFDIR: return file_type::directory;
    case S_IFLNK: return file_type::symlink;
    case S_IFBLK: return file_type::block_device;
    case S_IFCHR: return file_type::character_device;
    case S_IFIFO: return file_type::fifo;
    case S_IFSOCK: return file_type::socket;
    default: return file_type::unknown;
  }
}

std::chrono::system_clock::time_point time_of(const timespec& t) {
  using namespace std::chrono;  // NOLINT
  return system_clock::time_point(
      duration_cast<system_clock::duration>(seconds(t.tv_sec) + nanoseconds(t.tv_nsec)));
}

file_info info_of(const struct stat& st) {
  file_info info;
  info.type = type_of(st.st_mode);
  info.size = st.st_size;
  info.mode = st.st_mode & 07777;
  info.uid = st.st_uid;
  info.gid = st.st_gid;
  info.device = st.st_dev;
  info.inode = st.st_ino;
  info.links = st.st_nlink;
  info.allocated = st.st_blocks * std::int64_t{512};
  info.modified = time_of(st.st_mtim);
  info.accessed = time_of(st.st_atim);
  info.changed = time_of(st.st_ctim);
  return info;
}

file_info stat_of(const std::string& path, int flags, std::error_code& ec) {
  struct stat st {};
  ec = on_path(path, [&](const char* name) {
    return fstatat(AT_FDCWD, name, &st, flags) == 0 ? 0 : rt::calls::last_errno();
  });
  return ec ? file_info() : info_of(st);
}

// What the kernel writes: linux/dirent.h is not for us.
struct kernel_entry {
  std::uint64_t inode;
  std::int64_t next;
  std::uint16_t size;
  std::uint8_t type;
  char name[1];
};

void add_entry(int directory, const kernel_entry& e, std::vector<dir_entry>& to) {
  if (std::strcmp(e.name, ".") == 0 || std::strcmp(e.name, "..") == 0) {
    return;
  }
  file_type type = type_of(DTTOIF(e.type));
  struct stat st {};
  if (type == file_type::unknown &&
      fstatat(directory, e.name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0) {
    type = type_of(st.st_mode);
  }
  to.push_back({e.name, type});
}

// Bytes, or minus an errno: -EINVAL if the next entry needs more room.
long get_entries(int directory, char* to, std::size_t room) {
  if (room < static_cast<std::size_t>(rt::os::test_hooks.longest_entry.get())) {
    return -EINVAL;
  }
  const long n = syscall(SYS_getdents64, directory, to, room);
  return n < 0 ? -rt::calls::last_errno() : n;
}

// 0 or an errno; *end: there are no more.
int next_entries(int directory, std::size_t most, std::vector<dir_entry>& to, bool* end) {
  constexpr std::size_t kAtOnce = 8192;  // has room for every entry: a path has 4096 at most
  constexpr std::size_t kOne = 280;      // one entry, where names have 255 bytes
  alignas(kernel_entry) char buffer[kAtOnce];
  const std::size_t room = std::clamp(most * 32, kOne, kAtOnce);
  long n = get_entries(directory, buffer, room);
  if (n == -EINVAL && room < kAtOnce) {
    n = get_entries(directory, buffer, kAtOnce);  // names are longer here: FUSE, vfat
  }
  if (n < 0) {
    return static_cast<int>(-n);
  }
  *end = n == 0;
  for (long at = 0; at < n;) {
    const auto& e = *reinterpret_cast<const kernel_entry*>(buffer + at);
    add_entry(directory, e, to);
    at += e.size;
  }
  return 0;
}

template <class T>
T or_throw(const char* operation, const std::string& path, T result, std::error_code ec) {
  if (ec) {
    path_throw(operation, path, ec);
  }
  return result;
}

}  // namespace

namespace {

file_info stat_open(file_object* o, std::error_code& ec, rt::fd_guest* g) {
  struct stat st {};
  with_file(o, ec, g, [&](int fd) {
    std::uint64_t bytes = 0;
    if (fstat(fd, &st) != 0) {
      return rt::calls::last_errno();
    }
    if (S_ISBLK(st.st_mode) && ioctl(fd, BLKGETSIZE64, &bytes) == 0) {
      st.st_size = static_cast<off_t>(bytes);
    }
    return 0;
  });
  return ec ? file_info() : info_of(st);
}

// A page may have had nothing but "." and "..": then the next, in the same visit.
std::vector<dir_entry> read_open(file_object* o, std::size_t most, std::error_code& ec,
                                 rt::fd_guest* g) {
  std::vector<dir_entry> found;
  bool end = most == 0;
  ec.clear();
  if (!end) {
    with_file(o, ec, g, [&](int fd) {
      int error = 0;
      while (!end && error == 0 && found.empty()) {
        error = next_entries(fd, most, found, &end);
      }
      return error;
    });
  }
  return found;
}

}  // namespace

file_info file::stat() const {
  return file_call(object_, "stat",
                   [&](std::error_code& ec, rt::fd_guest* g) { return stat_open(object_, ec, g); });
}
file_info file::stat(std::error_code& ec) const { return stat_open(object_, ec, nullptr); }

std::vector<dir_entry> file::read_dir(std::size_t most) {
  return file_call(object_, "readdir", [&](std::error_code& ec, rt::fd_guest* g) {
    return read_open(object_, most, ec, g);
  });
}
std::vector<dir_entry> file::read_dir(std::size_t most, std::error_code& ec) {
  return read_open(object_, most, ec, nullptr);
}

std::vector<dir_entry> read_dir(const std::string& path, std::error_code& ec) {
  std::vector<dir_entry> all;
  file directory = file::open(path, O_RDONLY | O_DIRECTORY, 0, ec);
  while (!ec) {
    std::vector<dir_entry> some = directory.read_dir(SIZE_MAX / 32, ec);
    if (some.empty()) {
      break;
    }
    all.insert(all.end(), std::make_move_iterator(some.begin()),
               std::make_move_iterator(some.end()));
  }
  std::sort(all.begin(), all.end(),
            [](const dir_entry& a, const dir_entry& b) { return a.name < b.name; });
  return all;
}

std::vector<dir_entry> read_dir(const std::string& path) {
  std::error_code ec;
  auto all = read_dir(path, ec);
  return or_throw("readdir", path, std::move(all), ec);
}

file_info stat(const std::string& path, std::error_code& ec) { return stat_of(path, 0, ec); }
file_info stat(const std::string& path) {
  std::error_code ec;
  const file_info info = stat(path, ec);
  return or_throw("stat", path, info, ec);
}
file_info lstat(const std::string& path, std::error_code& ec) {
  return stat_of(path, AT_SYMLINK_NOFOLLOW, ec);
}
file_info lstat(const std::string& path) {
  std::error_code ec;
  const file_info info = lstat(path, ec);
  return or_throw("lstat", path, info, ec);
}

// What its size says may be wrong: /proc says 0, and a file may grow.
std::string read_file(const std::string& path, std::error_code& ec) {
  constexpr std::size_t kLeast = 512;
  std::string text;
  file f = file::open(path, O_RDONLY, 0, ec);
  const std::int64_t size = ec ? 0 : f.size(ec);
  std::size_t used = 0;
  text.resize(static_cast<std::size_t>(size) + kLeast);
  while (!ec) {
    const std::size_t n = f.read_some(mutable_buffer(text) + used, {}, ec);
    if (n == 0) {
      break;
    }
    used += n;
    if (text.size() - used < kLeast) {
      text.resize(text.size() * 2);
    }
  }
  text.resize(used);
  return text;
}

std::string read_file(const std::string& path) {
  std::error_code ec;
  std::string text = read_file(path, ec);
  return or_throw("read", path, std::move(text), ec);
}

void write_file(const std::string& path, const_buffer data, unsigned mode, std::error_code& ec) {
  file f = file::open(path, O_WRONLY | O_CREAT | O_TRUNC, mode, ec);
  if (!ec) {
    f.write_all(data, {}, ec);
    std::error_code closing;
    f.close(closing);
    ec = ec ? ec : closing;
  }
}

void write_file(const std::string& path, const_buffer data, std::error_code& ec) {
  write_file(path, data, 0666, ec);
}

void write_file(const std::string& path, const_buffer data, unsigned mode) {
  std::error_code ec;
  write_file(path, data, mode, ec);
  or_throw("write", path, 0, ec);
}

}  // namespace weft::io
