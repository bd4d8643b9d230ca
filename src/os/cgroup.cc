// See cgroup.h.
#include "os/cgroup.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

#include "os/small_file.h"

namespace weft::rt::cgroup {
namespace {

/// name in directory; the directory is as before afterwards.
int open_in(path_text& directory, std::string_view name) noexcept {
  const std::size_t length = directory.view().size();
  const int fd =
      directory.append("/") && directory.append(name) ? open_to_read(directory.c_str()) : -1;
  directory.shorten(length);
  return fd;
}

std::ptrdiff_t read_some(void* fd, char* buffer, std::size_t size) noexcept {
  ssize_t got;
  do {
    got = ::read(*static_cast<int*>(fd), buffer, size);
  } while (got < 0 && errno == EINTR);
  return got;
}

/// A file of /proc, line by line.
struct proc_file {
  int fd;
  line_reader lines;

  proc_file(path_text& path, const char* tree, std::string_view name, scratch& s) noexcept
      : fd(open_named(path, tree, name)), lines(read_some, &fd, s.line, sizeof s.line) {}
  ~proc_file() {
    if (fd >= 0) ::close(fd);
  }

  static int open_named(path_text& path, const char* tree, std::string_view name) noexcept {
    path.clear();
    return path.append(tree) && path.append(name) ? open_to_read(path.c_str()) : -1;
  }
};

/// The limit's files are short: what fills the buffer is none of them. [CG-5]
class limit_text {
 public:
  bool read(int fd) noexcept { return text_.read(fd) && !text_.full(); }
  std::string_view view() const noexcept { return text_.view(); }

 private:
  small_text<64> text_;
};

}  // namespace

bool cpu_quota::open_level(path_text& directory, level& out) const noexcept {
  if (kind_ == version::v2) {
    out.limit = open_in(directory, "cpu.max");
    return out.limit >= 0;
  }
  out.limit = open_in(directory, "cpu.cfs_quota_us");
  if (out.limit < 0) return false;
  out.period = open_in(directory, "cpu.cfs_period_us");
  if (out.period >= 0) return true;
  close_level(out);
  return false;
}

void cpu_quota::read_level(level& l) const noexcept {
  limit_text limit;
  if (!limit.read(l.limit)) return;
  std::optional<std::int64_t> now;
  if (kind_ == version::v2) {
    now = parse_v2_limit(limit.view());
  } else if (limit_text period; period.read(l.period)) {
    now = parse_v1_limit(limit.view(), period.view());
  }
  if (now) l.last = *now;
}

void cpu_quota::close_level(level& l) noexcept {
  if (l.limit >= 0) ::close(l.limit);
  if (l.period >= 0) ::close(l.period);
  l = {};
}

int find_own_group(scratch& s, const char* tree, std::string_view controller,
                   version& kind) noexcept {
  int levels = 0;
  kind = version::none;
  if (proc_file membership(s.directory, tree, "/proc/self/cgroup", s); membership.fd >= 0) {
    kind = find_group(membership.lines, s.group, controller);
  }
  if (kind == version::none) return 0;
  proc_file mounts(s.directory, tree, "/proc/self/mountinfo", s);
  if (mounts.fd < 0 || !find_directory(mounts.lines, kind, s.group.view(), s.directory, levels,
                                       s.root, controller)) {
    return 0;
  }
  return levels;
}

bool cpu_quota::open(scratch& s, const char* tree) noexcept {
  const keeps_errno keeper;
  close();
  int levels = find_own_group(s, tree, "cpu", kind_);
  if (levels == 0) {
    kind_ = version::none;
    return false;
  }
  path_text& directory = s.group;  // which has been used up
  directory.clear();
  if (!directory.append(tree) || !directory.append(s.directory.view())) return false;
  for (; levels > 0; --levels) {
    level l;
    if (open_level(directory, l)) {
      if (count_ < kLevels) {
        levels_[count_++] = l;
      } else {
        read_level(l);
        farther_ = std::min(farther_, l.last);
        close_level(l);
      }
    }
    const std::size_t parent = directory.view().rfind('/');
    if (parent == std::string_view::npos) break;
    directory.shorten(parent);
  }
  return count_ > 0;
}

std::int64_t cpu_quota::processors() noexcept {
  const keeps_errno keeper;
  std::int64_t tightest = farther_;
  for (int i = 0; i < count_; ++i) {
    read_level(levels_[i]);
    tightest = std::min(tightest, levels_[i].last);
  }
  return tightest;
}

void cpu_quota::close() noexcept {
  for (int i = 0; i < count_; ++i) close_level(levels_[i]);
  count_ = 0;
  farther_ = kNoLimit;
  kind_ = version::none;
}

}  // namespace weft::rt::cgroup
