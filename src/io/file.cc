// Files: the public face. See include/weft/file.h; how things are done is in file_fd.cc.
#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <unistd.h>

#include <weft/file.h>

#include "io/file_object.h"
#include "sched/sched_api.h"
#include "sync/context_node.h"

namespace weft::detail {

void path_throw(const char* operation, const std::string& path, std::error_code ec) {
  throw std::system_error(ec, operation + (' ' + path));
}

void file_throw(const file_object* o, const char* operation, std::error_code ec) {
  if (o == nullptr) {
    throw std::system_error(ec, operation);
  }
  path_throw(operation, o->path, ec);
}

std::error_code file_error(int error, const limit& l) {
  if (error == 0) {
    return {};
  }
  if (error == ECANCELED && l.ctx != nullptr) {
    if (std::error_code ec = context_error(context_access::node(*l.ctx))) {
      return ec;
    }
  }
  return rt::to_error_code(error);
}

namespace {

// The system's form of a list of buffers.
class part_list {
 public:
  template <class Buffer>
  explicit part_list(std::span<const Buffer> parts)
      : many_(parts.size() > kFew ? new iovec[parts.size()] : nullptr) {
    for (const Buffer& b : parts) {
      data()[count_++] = {const_cast<void*>(static_cast<const void*>(b.data())), b.size()};
    }
  }
  iovec* data() { return many_ != nullptr ? many_.get() : few_; }
  std::size_t count() const { return count_; }

 private:
  static constexpr std::size_t kFew = 16;
  std::size_t count_ = 0;
  iovec few_[kFew];
  std::unique_ptr<iovec[]> many_;
};

using amount = rt::file_fd::amount;

template <class Buffer>
std::size_t transfer(file_object* o, rt::direction d, amount how, std::span<const Buffer> parts,
                     std::int64_t offset, const limit& l, std::error_code& ec,
                     rt::fd_guest* g = nullptr) {
  if (o == nullptr) {
    ec = errc::closed_file;
    return 0;
  }
  part_list list(parts);
  const rt::io_result r =
      o->fd.transfer(d, how, list.data(), list.count(), offset, rt::limit_of(l), g);
  ec = file_error(r.error, l);
  return r.n;
}

template <class Buffer>
std::size_t transfer_at(file_object* o, rt::direction d, std::span<const Buffer> parts,
                        std::int64_t offset, const limit& l, std::error_code& ec,
                        rt::fd_guest* g = nullptr) {
  if (offset < 0) {
    ec = std::make_error_code(std::errc::invalid_argument);
    return 0;
  }
  if (d == rt::direction::write && o != nullptr && o->fd.appends()) {
    ec = errc::append_only;  // Linux would append
    return 0;
  }
  return transfer(o, d, amount::all, parts, offset, l, ec, g);
}

// The throwing forms.
template <class Buffer>
std::size_t transfer(file_object* o, rt::direction d, amount how, std::span<const Buffer> parts,
                     const limit& l) {
  return file_call(o, d == rt::direction::read ? "read" : "write",
                   [&](std::error_code& ec, rt::fd_guest* g) {
                     return transfer(o, d, how, parts, rt::kOwnPosition, l, ec, g);
                   });
}
template <class Buffer>
std::size_t transfer_at(file_object* o, rt::direction d, std::span<const Buffer> parts,
                        std::int64_t offset, const limit& l) {
  return file_call(o, d == rt::direction::read ? "read" : "write",
                   [&](std::error_code& ec, rt::fd_guest* g) {
                     return transfer_at(o, d, parts, offset, l, ec, g);
                   });
}

// f(fd, limit, guest) returns an error of io/fd.h.
template <class F>
std::error_code run_limited(file_object* o, const limit& l, rt::fd_guest* g, F&& f) {
  return o == nullptr ? make_error_code(errc::closed_file)
                      : file_error(f(o->fd, rt::limit_of(l), g), l);
}
template <class F>
void run_limited(file_object* o, const char* operation, const limit& l, F&& f) {
  file_call(o, operation, [&](std::error_code& ec, rt::fd_guest* g) {
    ec = run_limited(o, l, g, f);
    return 0;
  });
}

using in = std::span<const mutable_buffer>;
using out = std::span<const const_buffer>;
constexpr auto kRead = rt::direction::read;
constexpr auto kWrite = rt::direction::write;
constexpr auto kHere = rt::kOwnPosition;

}  // namespace

}  // namespace weft::detail

namespace weft::io {

using namespace detail;  // NOLINT: a thin cover

file::~file() {
  if (object_ != nullptr) {
    object_->fd.close();  // first, and as a whole: somebody else may be at it
    delete object_;
  }
}

file file::open(std::string path, int flags, unsigned mode, std::error_code& ec) {
  rt::ensure_started();
  struct closing {
    int fd = -1;
    ~closing() {
      if (fd >= 0) {
        ::close(fd);
      }
    }
  } opened;
  ec = on_path(path, [&](const char* name) {
    opened.fd = ::open(name, flags | O_CLOEXEC, static_cast<mode_t>(mode));
    return opened.fd < 0 ? rt::calls::last_errno() : 0;
  });
  if (ec) {
    return {};
  }
  file f(new file_object(std::move(path), opened.fd));  // if there is no memory, it is closed again
  opened.fd = -1;
  return f;
}

file file::open(std::string path, int flags, unsigned mode) {
  std::error_code ec;
  file f = open(path, flags, mode, ec);
  if (ec) {
    path_throw("open", path, ec);
  }
  return f;
}

file file::create(std::string path) {
  return open(std::move(path), O_RDWR | O_CREAT | O_TRUNC, 0666);
}
file file::create(std::string path, std::error_code& ec) {
  return open(std::move(path), O_RDWR | O_CREAT | O_TRUNC, 0666, ec);
}

file file::adopt(int fd, std::error_code& ec) {
  rt::ensure_started();
  if (fcntl(fd, F_GETFD) < 0) {
    ec = file_error(rt::calls::last_errno());
    return {};
  }
  ec.clear();
  return file(new file_object("fd " + std::to_string(fd), fd));
}

file file::adopt(int fd) {
  std::error_code ec;
  file f = adopt(fd, ec);
  if (ec) {
    path_throw("adopt", "fd " + std::to_string(fd), ec);
  }
  return f;
}

const std::string& file::path() const noexcept {
  static const std::string& none = *new std::string;  // NOLINT: never destroyed
  return object_ != nullptr ? object_->path : none;
}

int file::native_handle() const noexcept {
  return object_ == nullptr || object_->fd.closed() ? -1 : object_->fd.raw();
}

void file::close(std::error_code& ec) noexcept {
  ec = object_ == nullptr ? make_error_code(errc::closed_file) : file_error(object_->fd.close());
}
void file::close() {
  const std::string path = this->path();  // who closes it at the same time may destroy it then
  std::error_code ec;
  close(ec);
  if (ec) {
    path_throw("close", path, ec);
  }
}

std::size_t file::read_at(mutable_buffer b, std::int64_t offset, limit until) {
  return transfer_at(object_, kRead, in(&b, 1), offset, until);
}
std::size_t file::read_at(mutable_buffer b, std::int64_t offset, limit until, std::error_code& ec) {
  return transfer_at(object_, kRead, in(&b, 1), offset, until, ec);
}
std::size_t file::read_at(std::span<const mutable_buffer> parts, std::int64_t offset, limit until) {
  return transfer_at(object_, kRead, parts, offset, until);
}
std::size_t file::read_at(std::span<const mutable_buffer> parts, std::int64_t offset, limit until,
                          std::error_code& ec) {
  return transfer_at(object_, kRead, parts, offset, until, ec);
}
std::size_t file::write_at(const_buffer b, std::int64_t offset, limit until) {
  return transfer_at(object_, kWrite, out(&b, 1), offset, until);
}
std::size_t file::write_at(const_buffer b, std::int64_t offset, limit until, std::error_code& ec) {
  return transfer_at(object_, kWrite, out(&b, 1), offset, until, ec);
}
std::size_t file::write_at(std::span<const const_buffer> parts, std::int64_t offset, limit until) {
  return transfer_at(object_, kWrite, parts, offset, until);
}
std::size_t file::write_at(std::span<const const_buffer> parts, std::int64_t offset, limit until,
                           std::error_code& ec) {
  return transfer_at(object_, kWrite, parts, offset, until, ec);
}

std::size_t file::read_some(mutable_buffer b, limit until) {
  return transfer(object_, kRead, amount::some, in(&b, 1), until);
}
std::size_t file::read_some(mutable_buffer b, limit until, std::error_code& ec) {
  return transfer(object_, kRead, amount::some, in(&b, 1), kHere, until, ec);
}
std::size_t file::read_full(mutable_buffer b, limit until) {
  return transfer(object_, kRead, amount::full, in(&b, 1), until);
}
std::size_t file::read_full(mutable_buffer b, limit until, std::error_code& ec) {
  return transfer(object_, kRead, amount::full, in(&b, 1), kHere, until, ec);
}
std::size_t file::write_some(const_buffer b, limit until) {
  return transfer(object_, kWrite, amount::some, out(&b, 1), until);
}
std::size_t file::write_some(const_buffer b, limit until, std::error_code& ec) {
  return transfer(object_, kWrite, amount::some, out(&b, 1), kHere, until, ec);
}
std::size_t file::write_all(const_buffer b, limit until) {
  return transfer(object_, kWrite, amount::all, out(&b, 1), until);
}
std::size_t file::write_all(const_buffer b, limit until, std::error_code& ec) {
  return transfer(object_, kWrite, amount::all, out(&b, 1), kHere, until, ec);
}
std::size_t file::write_all(std::span<const const_buffer> parts, limit until) {
  return transfer(object_, kWrite, amount::all, parts, until);
}
std::size_t file::write_all(std::span<const const_buffer> parts, limit until, std::error_code& ec) {
  return transfer(object_, kWrite, amount::all, parts, kHere, until, ec);
}

namespace {

std::int64_t seek_in(file_object* o, std::int64_t offset, whence from, std::error_code& ec,
                     rt::fd_guest* g) {
  constexpr int kFrom[] = {SEEK_SET, SEEK_CUR, SEEK_END};
  const std::int64_t at = o == nullptr ? -rt::own_error(errc::closed_file)
                                       : o->fd.seek(offset, kFrom[static_cast<int>(from)], g);
  ec = file_error(at < 0 ? static_cast<int>(-at) : 0);
  return at < 0 ? 0 : at;
}

constexpr auto kSync = [](rt::file_fd& fd, const rt::wait_limit& l, rt::fd_guest* g) {
  return fd.sync(/*data_only=*/false, l, g);
};
constexpr auto kDataSync = [](rt::file_fd& fd, const rt::wait_limit& l, rt::fd_guest* g) {
  return fd.sync(/*data_only=*/true, l, g);
};
auto fallocate_of(std::int64_t offset, std::int64_t size, int mode) {
  return [=](rt::file_fd& fd, const rt::wait_limit& l, rt::fd_guest* g) {
    return fd.fallocate(mode, offset, size, l, g);
  };
}
auto deadline_of(std::chrono::steady_clock::time_point t) {
  return [t](rt::file_fd& fd, const rt::wait_limit&, rt::fd_guest* g) {
    return fd.set_deadline(true, true, deadline_at(t), g);
  };
}

void truncate_to(file_object* o, std::int64_t size, std::error_code& ec, rt::fd_guest* g) {
  with_file(o, ec, g,
            [&](int fd) { return ftruncate(fd, size) == 0 ? 0 : rt::calls::last_errno(); });
}

}  // namespace

std::int64_t file::seek(std::int64_t offset, whence from) {
  return file_call(object_, "seek", [&](std::error_code& ec, rt::fd_guest* g) {
    return seek_in(object_, offset, from, ec, g);
  });
}
std::int64_t file::seek(std::int64_t offset, whence from, std::error_code& ec) {
  return seek_in(object_, offset, from, ec, nullptr);
}

void file::sync(limit until) { run_limited(object_, "sync", until, kSync); }
void file::sync(limit until, std::error_code& ec) {
  ec = run_limited(object_, until, nullptr, kSync);
}
void file::datasync(limit until) { run_limited(object_, "datasync", until, kDataSync); }
void file::datasync(limit until, std::error_code& ec) {
  ec = run_limited(object_, until, nullptr, kDataSync);
}
void file::fallocate(std::int64_t offset, std::int64_t size, int mode, limit until) {
  run_limited(object_, "fallocate", until, fallocate_of(offset, size, mode));
}
void file::fallocate(std::int64_t offset, std::int64_t size, int mode, limit until,
                     std::error_code& ec) {
  ec = run_limited(object_, until, nullptr, fallocate_of(offset, size, mode));
}

void file::truncate(std::int64_t size) {
  file_call(object_, "truncate", [&](std::error_code& ec, rt::fd_guest* g) {
    truncate_to(object_, size, ec, g);
    return 0;
  });
}
void file::truncate(std::int64_t size, std::error_code& ec) {
  truncate_to(object_, size, ec, nullptr);
}

void file::set_deadline(std::chrono::steady_clock::time_point t) {
  run_limited(object_, "set deadline", limit(), deadline_of(t));
}
void file::set_deadline(std::chrono::steady_clock::time_point t, std::error_code& ec) {
  ec = run_limited(object_, limit(), nullptr, deadline_of(t));
}

}  // namespace weft::io
