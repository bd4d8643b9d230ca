// The errors of I/O that are not the system's.
#include <cerrno>

#include <weft/buffer.h>

#include "io/fd.h"

namespace weft {

namespace {

class io_errors final : public std::error_category {
 public:
  const char* name() const noexcept override { return "weft.io"; }
  std::string message(int code) const override {
    switch (static_cast<errc>(code)) {
      case errc::closed: return "use of closed network connection";
      case errc::closed_file: return "use of closed file";
      case errc::timed_out: return "i/o timeout";
      case errc::unexpected_eof: return "unexpected EOF";
      case errc::no_deadline: return "file type does not support deadline";
      case errc::not_pollable: return "not pollable";
      case errc::no_such_host: return "no such host";
      case errc::append_only: return "invalid use of write_at on file opened with O_APPEND";
      case errc::mismatch: return "mismatched address type";
      case errc::server_misbehaving: return "server misbehaving";
    }
    return "unknown I/O error";
  }
  std::error_condition default_error_condition(int code) const noexcept override {
    switch (static_cast<errc>(code)) {
      case errc::timed_out: return std::errc::timed_out;
      case errc::closed:
      case errc::closed_file: return std::errc::bad_file_descriptor;
      case errc::append_only:
      case errc::mismatch: return std::errc::invalid_argument;
      default: return {code, *this};
    }
  }
};

}  // namespace

const std::error_category& io_category() noexcept {
  // Never destroyed: goroutines and static destructors may still fail. NOLINTNEXTLINE
  static const io_errors& the_category = *new io_errors;
  return the_category;
}

}  // namespace weft

namespace weft::rt {

std::error_code to_error_code(int error) noexcept {
  if (error > kOwn) {
    return static_cast<errc>(error - kOwn);
  }
  return {error, std::system_category()};
}

}  // namespace weft::rt
