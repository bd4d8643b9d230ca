// What a handle of <weft/file.h> points to.
#pragma once

#include <string>
#include <system_error>
#include <utility>

#include <weft/file.h>

#include "io/file_fd.h"

namespace weft::detail {

struct file_object {
  file_object(std::string&& name, int number) : path(std::move(name)), fd(number) {}

  const std::string path;  // for messages
  rt::file_fd fd;
};

// An error of io/fd.h; one of a context that was cancelled is the context's.
std::error_code file_error(int error, const limit& l = kNoDeadline);

[[noreturn]] void path_throw(const char* operation, const std::string& path, std::error_code ec);
[[noreturn]] void file_throw(const file_object* o, const char* operation, std::error_code ec);

// What f(ec, guest) returns; or throws its error, with the path, for which the guest keeps the object.
template <class F>
auto file_call(const file_object* o, const char* operation, F&& f) {
  std::error_code ec;
  rt::fd_guest g;
  auto result = f(ec, &g);
  if (ec) [[unlikely]] {
    file_throw(o, operation, ec);
  }
  return result;
}

// f(fd) with a descriptor that is open, or errc::closed_file. f returns 0 or an errno.
template <class F>
void with_file(file_object* o, std::error_code& ec, rt::fd_guest* g, F&& f) {
  ec = o == nullptr ? make_error_code(errc::closed_file)
                    : file_error(o->fd.with_fd(std::forward<F>(f), g));
}

// Calls f, which returns 0 or an errno, where others may have the P if it blocks. EINVAL: a name with a zero in it.
template <class F>
std::error_code on_path(const std::string& path, F&& f) {
  if (path.find('\0') != path.npos) {
    return std::make_error_code(std::errc::invalid_argument);
  }
  const blocking_call here(false);
  int error = 0;
  do {
    error = f(path.c_str());
  } while (error == EINTR);
  return file_error(error);
}

}  // namespace weft::detail
