// What a handle of the public headers points to.
#pragma once

#include <cerrno>
#include <cstdint>
#include <new>
#include <string>
#include <system_error>
#include <type_traits>

#include <weft/detail/io_handle.h>

#include "io/fd.h"
#include "sync/context_node.h"

namespace weft::detail {

struct io_object {
  io_object(int number, rt::poll_desc* pd, rt::fd_kind kind, bool owned = true) noexcept
      : fd(number, pd, kind, owned) {}
  virtual ~io_object() = default;
  io_object(const io_object&) = delete;
  io_object& operator=(const io_object&) = delete;

  // " tcp 127.0.0.1:80->127.0.0.1:4711": what it is about, for messages.
  virtual std::string about() const { return {}; }

  // By whoever closes it, before that.
  virtual void before_close() noexcept {}

  // 0, or an error. If close(2) has failed *what, unless null, is about(): the caller must not ask for it any more, since
  // somebody else who closes it may destroy it now. No more must whoever learns that it was closed already.
  int close(std::string* what = nullptr) noexcept {
    return fd.close([this] { before_close(); },
                    [this, what] {
                      if (what != nullptr) {
                        try {
                          *what = about();
                        } catch (const std::bad_alloc&) {  // then the error goes without
                        }
                      }
                    });
  }

  rt::io_fd fd;
};

// An object for fd, which the poller watches from now on: Object(fd, record, args...), which must not throw. Null and
// an errno otherwise, and nothing has changed. The memory comes first, so that nothing must be undone.
template <class Object, class... Args>
Object* make_object(int fd, bool set_nonblocking, int* error, const Args&... args) noexcept {
  static_assert(std::is_nothrow_constructible_v<Object, int, rt::poll_desc*, const Args&...>);
  void* room = ::operator new(sizeof(Object), std::nothrow);
  if (room == nullptr) {
    *error = ENOMEM;
    return nullptr;
  }
  rt::poll_desc* pd = nullptr;
  *error = rt::io_fd::make_pollable(fd, set_nonblocking, &pd);
  if (*error != 0) {
    ::operator delete(room);
    return nullptr;
  }
  return new (room) Object(fd, pd, args...);
}

// What failed, and where: "read tcp 127.0.0.1:80->127.0.0.1:4711".
[[noreturn]] void io_throw(const io_object* o, const char* operation, std::error_code ec);

// What f(ec, guest) returns; or throws its error, with what it is about, for which the guest keeps the object.
template <class F>
auto io_call(const io_object* o, const char* operation, F&& f) {
  std::error_code ec;
  rt::fd_guest g;
  auto result = f(ec, &g);
  if (ec) [[unlikely]] {
    io_throw(o, operation, ec);
  }
  return result;
}

inline std::error_code no_object() noexcept { return errc::closed; }

// n, or nothing and the error.
inline std::size_t count_or(rt::io_result r, std::error_code& ec) noexcept {
  ec = r.error == 0 ? std::error_code() : rt::to_error_code(r.error);
  return r.n;
}

// An error of an operation with a limit: one that was cancelled has the context's.
inline std::error_code error_with(int error, const limit& l) {
  if (error == ECANCELED && l.ctx != nullptr) {
    if (std::error_code ec = context_error(context_access::node(*l.ctx))) {
      return ec;
    }
  }
  return error == 0 ? std::error_code() : rt::to_error_code(error);
}

}  // namespace weft::detail
