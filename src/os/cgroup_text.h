// The texts in which the kernel says where a process stands among cgroups and how much of the
// processors it may use. Pure functions over lines: tests feed them strings.
//
//   /proc/self/cgroup     which group          5:cpu,cpuacct:/a/b      0::/a/b
//   /proc/self/mountinfo  where that is seen   41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
//   cpu.max               v2's limit           150000 100000           max 100000
//   cpu.cfs_{quota,period}_us  v1's limit      -1
//
// Problem. sysmon reads the last ones, and whoever changes gomaxprocs may read all of them: on small
// stacks, and while a frozen thread may hold malloc's lock. So there is no allocation, no stdio, no
// strtol and no exception here, and what does not fit into a fixed buffer is refused.
//
// What is not understood is never guessed at: then there is no limit, as without cgroups. [CG-2]
//
// Go: internal/runtime/cgroup
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace weft::rt::cgroup {

enum class version : std::uint8_t { none, v1, v2 };

/// A path of at most PATH_MAX bytes, always with a zero behind it.
class path_text {
 public:
  static constexpr std::size_t kCapacity = 4095;

  std::string_view view() const noexcept { return {text_, length_}; }
  const char* c_str() const noexcept { return text_; }
  void clear() noexcept { shorten(0); }
  void shorten(std::size_t length) noexcept { text_[length_ = length] = '\0'; }
  /// False, and nothing is appended, if it does not fit.
  [[nodiscard]] bool append(std::string_view more) noexcept;

 private:
  std::size_t length_ = 0;
  char text_[kCapacity + 1] = {};
};

/// Lines of a file, through a buffer that may be shorter than a line.
class line_reader {
 public:
  /// As read(2): bytes, 0 at the end, negative on errors.
  using source = std::ptrdiff_t (*)(void* from, char* buffer, std::size_t size);

  enum class result : std::uint8_t {
    line,    // a whole one, without its newline; the last one may lack that
    cut,     // only the beginning: it is longer than the buffer
    end,     // no more
    failed,  // the source does not go on
  };

  line_reader(source read, void* from, char* buffer, std::size_t size) noexcept
      : read_(read), from_(from), buffer_(buffer), size_(size) {}

  [[nodiscard]] result next() noexcept;
  /// Until the next next().
  std::string_view line() const noexcept { return line_; }

 private:
  enum class filling : std::uint8_t { more, end, failed };

  std::string_view unread() const noexcept { return {buffer_ + begin_, end_ - begin_}; }
  filling fill() noexcept;
  filling skip_line() noexcept;

  source read_;
  void* from_;
  char* buffer_;
  std::size_t size_;
  std::size_t begin_ = 0;  // of what has not been given out
  std::size_t end_ = 0;    // of what has been read
  bool was_cut_ = false;   // the rest of the last line is still to come
  std::string_view line_;
};

/// The group of a controller: v1's, if there is one, or else v2's. None: it stands nowhere, or the file
/// is not what it should be. [CG-3]
version find_group(line_reader& membership, path_text& group,
                   std::string_view controller = "cpu") noexcept;

/// Whether a list separated by commas has this very element.
bool has_element(std::string_view list, std::string_view wanted) noexcept;

/// Whether a list of v1's controllers names `cpu`.
bool names_cpu(std::string_view controllers) noexcept;

/// Where the group is mounted: the first mount of its kind that shows it. `levels` counts the groups
/// from there up to the root of the mount, both included. `root` is only for use in between. [CG-4]
bool find_directory(line_reader& mounts, version which, std::string_view group,
                    path_text& directory, int& levels, path_text& root,
                    std::string_view controller = "cpu") noexcept;

/// Appends `text` with \ooo decoded. False: it does not fit, or is no such text.
[[nodiscard]] bool append_unescaped(std::string_view text, path_text& to) noexcept;

/// Limits count processors, rounded up.
inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// quota/period, rounded up. Nothing if that makes no sense.
std::optional<std::int64_t> processors(std::int64_t quota, std::int64_t period) noexcept;

/// "quota period\n" or "max period\n". [CG-5]
std::optional<std::int64_t> parse_v2_limit(std::string_view cpu_max) noexcept;

/// "number\n". [CG-5]
std::optional<std::int64_t> parse_v1_number(std::string_view text) noexcept;

/// Both files together; a negative quota is none.
std::optional<std::int64_t> parse_v1_limit(std::string_view quota,
                                           std::string_view period) noexcept;

}  // namespace weft::rt::cgroup
