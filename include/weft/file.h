// Files and directories. Part of <weft/io.h>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fcntl.h>  // O_RDONLY and the like, which open() takes
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <weft/buffer.h>
#include <weft/detail/deadline.h>
#include <weft/detail/export.h>

namespace weft::detail {

struct file_object;  // opaque

// When a single operation gives up: a time, a context, or never.
struct io_limit : limit {
  constexpr io_limit() noexcept : limit(kNoDeadline) {}
  io_limit(std::chrono::steady_clock::time_point t) noexcept  // NOLINT: implicit, as the next
      : limit(deadline_at(t)) {}
  io_limit(const context& until) noexcept : limit(until) {}  // NOLINT
};

}  // namespace weft::detail

namespace weft::io {

enum class file_type : std::uint8_t {
  unknown,
  regular,
  directory,
  symlink,
  block_device,
  character_device,
  fifo,
  socket
};

/// What a file is, as the system says.
struct file_info {
  file_type type = file_type::unknown;
  std::int64_t size = 0;   ///< bytes; of a block device, too
  std::uint32_t mode = 0;  ///< permissions: 0644 and the like
  std::uint32_t uid = 0, gid = 0;
  std::uint64_t device = 0, inode = 0, links = 0;
  std::int64_t allocated = 0;  ///< bytes on the disk
  std::chrono::system_clock::time_point modified, accessed, changed;
};

struct dir_entry {
  std::string name;  ///< without the directory
  file_type type = file_type::unknown;
};

enum class whence : std::uint8_t { begin, current, end };

/// An open file. Only the goroutine waits for the disk, not its thread, where the system has io_uring; otherwise
/// others get the thread's P. Several goroutines may use one file at once: operations with an offset run side by side,
/// those without share the position and take turns.
///
/// Every operation throws std::system_error, or takes an error code as its last argument. Before that it may have a limit,
/// a time or a context, also while it waits for its turn; an operation that has begun ends early only if the disk can be
/// stopped.
/// Moved like a pointer; destroying it closes the file, which nobody may use then.
class WEFT_EXPORT file {
 public:
  using limit = detail::io_limit;

  file() noexcept = default;
  file(file&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  /// What was here before is closed.
  file& operator=(file&& other) noexcept {
    const file old(std::exchange(object_, std::exchange(other.object_, nullptr)));
    return *this;
  }
  ~file();

  /// Flags and mode as for open(2), in <fcntl.h>; 0 is O_RDONLY. The descriptor is closed on exec.
  static file open(std::string path, int flags = 0, unsigned mode = 0666);
  static file open(std::string path, int flags, unsigned mode, std::error_code& ec);
  static file open(std::string path, int flags, std::error_code& ec) {
    return open(std::move(path), flags, 0666, ec);
  }
  static file open(std::string path, std::error_code& ec) {
    return open(std::move(path), 0, 0666, ec);
  }
  /// For reading and writing; empty, whatever it was before.
  static file create(std::string path);
  static file create(std::string path, std::error_code& ec);
  /// Takes a descriptor over. What can be polled is made non-blocking.
  static file adopt(int fd);
  static file adopt(int fd, std::error_code& ec);

  /// False: nothing was opened, or it was moved from.
  explicit operator bool() const noexcept { return object_ != nullptr; }
  /// As it was opened.
  const std::string& path() const noexcept;
  /// The descriptor, which stays ours; -1 if there is none.
  int native_handle() const noexcept;

  /// Waits for operations under way. Those that wait for a terminal, a FIFO or the like fail with errc::closed_file, as
  /// does everything afterwards.
  void close();
  void close(std::error_code& ec) noexcept;

  /// Fills the buffers from there on, and returns how much it was: less than their size only at the end of the file.
  /// On an error what was read before.
  std::size_t read_at(mutable_buffer b, std::int64_t offset, limit until = {});
  std::size_t read_at(mutable_buffer b, std::int64_t offset, limit until, std::error_code& ec);
  std::size_t read_at(mutable_buffer b, std::int64_t offset, std::error_code& ec) {
    return read_at(b, offset, {}, ec);
  }
  std::size_t read_at(std::span<const mutable_buffer> parts, std::int64_t offset, limit until = {});
  std::size_t read_at(std::span<const mutable_buffer> parts, std::int64_t offset, limit until,
                      std::error_code& ec);
  std::size_t read_at(std::span<const mutable_buffer> parts, std::int64_t offset,
                      std::error_code& ec) {
    return read_at(parts, offset, {}, ec);
  }

  /// Writes everything, from there on. Not to a file opened with O_APPEND: errc::append_only.
  std::size_t write_at(const_buffer b, std::int64_t offset, limit until = {});
  std::size_t write_at(const_buffer b, std::int64_t offset, limit until, std::error_code& ec);
  std::size_t write_at(const_buffer b, std::int64_t offset, std::error_code& ec) {
    return write_at(b, offset, {}, ec);
  }
  std::size_t write_at(std::span<const const_buffer> parts, std::int64_t offset, limit until = {});
  std::size_t write_at(std::span<const const_buffer> parts, std::int64_t offset, limit until,
                       std::error_code& ec);
  std::size_t write_at(std::span<const const_buffer> parts, std::int64_t offset,
                       std::error_code& ec) {
    return write_at(parts, offset, {}, ec);
  }

  /// At the file's position, which it moves. 0 at the end, and for an empty buffer.
  std::size_t read_some(mutable_buffer b, limit until = {});
  std::size_t read_some(mutable_buffer b, limit until, std::error_code& ec);
  std::size_t read_some(mutable_buffer b, std::error_code& ec) { return read_some(b, {}, ec); }
  /// Fills the buffer, or errc::unexpected_eof.
  std::size_t read_full(mutable_buffer b, limit until = {});
  std::size_t read_full(mutable_buffer b, limit until, std::error_code& ec);
  std::size_t read_full(mutable_buffer b, std::error_code& ec) { return read_full(b, {}, ec); }
  std::size_t write_some(const_buffer b, limit until = {});
  std::size_t write_some(const_buffer b, limit until, std::error_code& ec);
  std::size_t write_some(const_buffer b, std::error_code& ec) { return write_some(b, {}, ec); }
  /// All of it, and nobody else's in between.
  std::size_t write_all(const_buffer b, limit until = {});
  std::size_t write_all(const_buffer b, limit until, std::error_code& ec);
  std::size_t write_all(const_buffer b, std::error_code& ec) { return write_all(b, {}, ec); }
  std::size_t write_all(std::span<const const_buffer> parts, limit until = {});
  std::size_t write_all(std::span<const const_buffer> parts, limit until, std::error_code& ec);
  std::size_t write_all(std::span<const const_buffer> parts, std::error_code& ec) {
    return write_all(parts, {}, ec);
  }
  /// The new position.
  std::int64_t seek(std::int64_t offset, whence from = whence::begin);
  std::int64_t seek(std::int64_t offset, whence from, std::error_code& ec);
  std::int64_t seek(std::int64_t offset, std::error_code& ec) {
    return seek(offset, whence::begin, ec);
  }

  /// Until it is on the disk: fsync(2), and fdatasync(2), which leaves out what reading does not need.
  void sync(limit until = {});
  void sync(limit until, std::error_code& ec);
  void sync(std::error_code& ec) { sync({}, ec); }
  void datasync(limit until = {});
  void datasync(limit until, std::error_code& ec);
  void datasync(std::error_code& ec) { datasync({}, ec); }
  /// Room on the disk, as fallocate(2); mode: 0, or FALLOC_FL_KEEP_SIZE and the like of <fcntl.h>.
  void fallocate(std::int64_t offset, std::int64_t size, int mode = 0, limit until = {});
  void fallocate(std::int64_t offset, std::int64_t size, int mode, limit until,
                 std::error_code& ec);
  void fallocate(std::int64_t offset, std::int64_t size, std::error_code& ec) {
    fallocate(offset, size, 0, {}, ec);
  }
  void fallocate(std::int64_t offset, std::int64_t size, int mode, std::error_code& ec) {
    fallocate(offset, size, mode, {}, ec);
  }
  void truncate(std::int64_t size);
  void truncate(std::int64_t size, std::error_code& ec);
  file_info stat() const;
  file_info stat(std::error_code& ec) const;
  std::int64_t size() const { return stat().size; }
  std::int64_t size(std::error_code& ec) const { return stat(ec).size; }

  /// The next entries of a directory, about so many at most, as the system has them; none at its end.
  std::vector<dir_entry> read_dir(std::size_t most);
  std::vector<dir_entry> read_dir(std::size_t most, std::error_code& ec);

  /// For what can be polled, as of connections; otherwise errc::no_deadline.
  void set_deadline(std::chrono::steady_clock::time_point t);
  void set_deadline(std::chrono::steady_clock::time_point t, std::error_code& ec);

 private:
  explicit file(detail::file_object* owned) noexcept : object_(owned) {}
  detail::file_object* object_ = nullptr;
};

/// All entries but "." and "..", sorted by name.
WEFT_EXPORT std::vector<dir_entry> read_dir(const std::string& path);
WEFT_EXPORT std::vector<dir_entry> read_dir(const std::string& path, std::error_code& ec);

/// Of what a path leads to, through symbolic links; lstat: of the link.
WEFT_EXPORT file_info stat(const std::string& path);
WEFT_EXPORT file_info stat(const std::string& path, std::error_code& ec);
WEFT_EXPORT file_info lstat(const std::string& path);
WEFT_EXPORT file_info lstat(const std::string& path, std::error_code& ec);

/// The whole file.
WEFT_EXPORT std::string read_file(const std::string& path);
WEFT_EXPORT std::string read_file(const std::string& path, std::error_code& ec);
/// Makes it, or replaces what it was.
WEFT_EXPORT void write_file(const std::string& path, const_buffer data, unsigned mode = 0666);
WEFT_EXPORT void write_file(const std::string& path, const_buffer data, unsigned mode,
                            std::error_code& ec);
WEFT_EXPORT void write_file(const std::string& path, const_buffer data, std::error_code& ec);

}  // namespace weft::io
