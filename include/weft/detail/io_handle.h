// What everything that can be read, written or waited for has in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>
#include <utility>

#include <weft/buffer.h>
#include <weft/detail/deadline.h>
#include <weft/detail/export.h>

namespace weft::detail {

struct io_object;  // opaque

using io_time = std::chrono::steady_clock::time_point;

/// Owns a descriptor. Movable; destroying it closes the descriptor, which nobody may use then. close() may be
/// called while others are blocked in an operation: they fail with errc::closed.
class WEFT_EXPORT io_handle {
 public:
  io_handle(io_handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  /// What was here before is closed.
  io_handle& operator=(io_handle&& other) noexcept {
    const io_handle old(std::exchange(object_, std::exchange(other.object_, nullptr)));
    return *this;
  }
  ~io_handle();

  /// False: nothing was opened, or it was moved from. (One that was closed is still something.)
  explicit operator bool() const noexcept { return object_ != nullptr; }

  /// Ends what others do with it, and closes; returns when they are out of their calls, and out of close() if they
  /// were first. Then it may be destroyed, if nobody else is about to close() it: who comes second
  /// has to find it there. errc::closed the second time. What close(2) says is said here, though it is
  /// closed all the same; destroying it says nothing.
  void close();
  void close(std::error_code& ec) noexcept;

  /// The descriptor, which stays ours and non-blocking; -1 if there is none.
  int native_handle() const noexcept;

  /// All operations fail with errc::timed_out from then on, those that are blocked, too, until another
  /// deadline is set; time_point::max() clears it.
  void set_deadline(io_time t) { set("set deadline", true, true, t); }
  void set_read_deadline(io_time t) { set("set read deadline", true, false, t); }
  void set_write_deadline(io_time t) { set("set write deadline", false, true, t); }
  void set_deadline(io_time t, std::error_code& ec) { set(true, true, t, ec); }
  void set_read_deadline(io_time t, std::error_code& ec) { set(true, false, t, ec); }
  void set_write_deadline(io_time t, std::error_code& ec) { set(false, true, t, ec); }

 protected:
  constexpr io_handle() noexcept = default;
  explicit io_handle(io_object* owned) noexcept : object_(owned) {}
  io_object* object() const noexcept { return object_; }

 private:
  void set(bool read, bool write, io_time t, std::error_code& ec);
  void set(const char* operation, bool read, bool write, io_time t);

  io_object* object_ = nullptr;
};

/// Bytes in order.
class WEFT_EXPORT input {
 public:
  /// Waits until there is something, and returns how much; 0 at the end of the stream, and for a buffer
  /// without room.
  static std::size_t read_some(io_object*, mutable_buffer);
  static std::size_t read_some(io_object*, mutable_buffer, std::error_code&);
  static std::size_t read_some(io_object*, std::span<const mutable_buffer>);
  static std::size_t read_some(io_object*, std::span<const mutable_buffer>, std::error_code&);
  static std::size_t read_full(io_object*, mutable_buffer);
  static std::size_t read_full(io_object*, mutable_buffer, std::error_code&);
};

class WEFT_EXPORT output {
 public:
  static std::size_t write_some(io_object*, const_buffer);
  static std::size_t write_some(io_object*, const_buffer, std::error_code&);
  static std::size_t write_some(io_object*, std::span<const const_buffer>);
  static std::size_t write_some(io_object*, std::span<const const_buffer>, std::error_code&);
  static std::size_t write_all(io_object*, const_buffer);
  static std::size_t write_all(io_object*, const_buffer, std::error_code&);
  static std::size_t write_all(io_object*, std::span<const const_buffer>);
  static std::size_t write_all(io_object*, std::span<const const_buffer>, std::error_code&);
};

/// The reading half of a connection or a pipe.
template <class Base>
class readable : public Base {
 public:
  /// Waits until there is something to read, and returns how much it was: at most the buffer's size. 0 at
  /// the end of the stream, and for an empty buffer.
  std::size_t read_some(mutable_buffer b) { return input::read_some(this->object(), b); }
  std::size_t read_some(mutable_buffer b, std::error_code& ec) {
    return input::read_some(this->object(), b, ec);
  }

  /// The same into several buffers, one after the other, in one system call if the kernel can.
  std::size_t read_some(std::span<const mutable_buffer> parts) {
    return input::read_some(this->object(), parts);
  }
  std::size_t read_some(std::span<const mutable_buffer> parts, std::error_code& ec) {
    return input::read_some(this->object(), parts, ec);
  }

  /// Fills the buffer; nobody else reads in between. If the stream ends before that: errc::unexpected_eof. Returns
  /// its size; in the second form what was read before the error.
  std::size_t read_full(mutable_buffer b) { return input::read_full(this->object(), b); }
  std::size_t read_full(mutable_buffer b, std::error_code& ec) {
    return input::read_full(this->object(), b, ec);
  }

 protected:
  using Base::Base;
};

/// The writing half.
template <class Base>
class writable : public Base {
 public:
  /// Writes at least one byte, and returns how many. To a datagram socket all of it is one message, also if it is
  /// empty; so it is with all writes below.
  std::size_t write_some(const_buffer b) { return output::write_some(this->object(), b); }
  std::size_t write_some(const_buffer b, std::error_code& ec) {
    return output::write_some(this->object(), b, ec);
  }

  /// The same out of several buffers.
  std::size_t write_some(std::span<const const_buffer> parts) {
    return output::write_some(this->object(), parts);
  }
  std::size_t write_some(std::span<const const_buffer> parts, std::error_code& ec) {
    return output::write_some(this->object(), parts, ec);
  }

  /// Writes everything; in the second form returns what was written before the error.
  std::size_t write_all(const_buffer b) { return output::write_all(this->object(), b); }
  std::size_t write_all(const_buffer b, std::error_code& ec) {
    return output::write_all(this->object(), b, ec);
  }

  /// The same with several buffers, in one system call if the kernel takes them: at most 1024, and as much as there
  /// is room for. One message has no more of them: std::errc::message_size.
  std::size_t write_all(std::span<const const_buffer> parts) {
    return output::write_all(this->object(), parts);
  }
  std::size_t write_all(std::span<const const_buffer> parts, std::error_code& ec) {
    return output::write_all(this->object(), parts, ec);
  }

 protected:
  using Base::Base;
};

using stream = readable<writable<io_handle>>;

}  // namespace weft::detail
