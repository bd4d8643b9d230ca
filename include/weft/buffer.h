// Where bytes come from and go to, and the errors of I/O.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include <weft/detail/export.h>

namespace weft {

/// What can go wrong with I/O, beyond what the system says.
enum class errc {
  closed = 1,      ///< "use of closed network connection": by another goroutine, or before
  closed_file,     ///< "use of closed file"
  timed_out,       ///< "i/o timeout": the deadline; equal to std::errc::timed_out
  unexpected_eof,  ///< "unexpected EOF": the stream ended before read_full() had everything
  no_deadline,     ///< "file type does not support deadline"
  not_pollable,    ///< "not pollable"
  no_such_host,    ///< "no such host"
  append_only,     ///< "invalid use of write_at on file opened with O_APPEND"
  mismatch,        ///< "mismatched local address type" and the like: an address of another family
  server_misbehaving,  ///< "server misbehaving": who knows the names has failed, for good
};

WEFT_EXPORT const std::error_category& io_category() noexcept;
inline std::error_code make_error_code(errc e) noexcept {
  return {static_cast<int>(e), io_category()};
}

namespace detail {

template <class T>
concept byte_like =
    std::is_same_v<T, char> || std::is_same_v<T, unsigned char> || std::is_same_v<T, std::byte>;

}  // namespace detail

/// Bytes to be filled: from a span of char, unsigned char or std::byte, an array, a std::string, or a
/// pointer and a size. Refers to them, owns nothing.
class mutable_buffer {
 public:
  constexpr mutable_buffer() noexcept = default;
  constexpr mutable_buffer(void* data, std::size_t size) noexcept : data_(data), size_(size) {}
  template <detail::byte_like T, std::size_t N>
  constexpr mutable_buffer(std::span<T, N> s) noexcept  // NOLINT: implicit, as all below
      : data_(s.data()), size_(s.size()) {}
  template <detail::byte_like T, std::size_t N>
  constexpr mutable_buffer(T (&a)[N]) noexcept : data_(a), size_(N) {}           // NOLINT
  mutable_buffer(std::string& s) noexcept : data_(s.data()), size_(s.size()) {}  // NOLINT

  constexpr void* data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  /// Without its first n bytes, or empty.
  mutable_buffer operator+(std::size_t n) const noexcept {
    n = n < size_ ? n : size_;
    return {static_cast<char*>(data_) + n, size_ - n};
  }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Bytes to be sent. As mutable_buffer; also from a std::string_view, or text in quotes (without its end).
class const_buffer {
 public:
  constexpr const_buffer() noexcept = default;
  constexpr const_buffer(const void* data, std::size_t size) noexcept : data_(data), size_(size) {}
  constexpr const_buffer(const mutable_buffer& b) noexcept  // NOLINT: implicit, as all below
      : data_(b.data()), size_(b.size()) {}
  template <class T, std::size_t N>
  requires detail::byte_like<std::remove_const_t<T>>
  constexpr const_buffer(std::span<T, N> s) noexcept
      : data_(s.data()), size_(s.size()) {}  // NOLINT
  template <detail::byte_like T, std::size_t N>
  constexpr const_buffer(T (&a)[N]) noexcept
      : data_(a), size_(N) {}  // NOLINT: not for text in quotes
  constexpr const_buffer(std::string_view s) noexcept
      : data_(s.data()), size_(s.size()) {}                                              // NOLINT
  const_buffer(const std::string& s) noexcept : data_(s.data()), size_(s.size()) {}      // NOLINT
  constexpr const_buffer(const char* s) noexcept : const_buffer(std::string_view(s)) {}  // NOLINT

  constexpr const void* data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  const_buffer operator+(std::size_t n) const noexcept {
    n = n < size_ ? n : size_;
    return {static_cast<const char*>(data_) + n, size_ - n};
  }

 private:
  const void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace weft

template <>
struct std::is_error_code_enum<weft::errc> : std::true_type {};
