// What all handles do: close, deadlines, reading and writing. See include/weft/detail/io_handle.h.
#include <memory>
#include <string>

#include <weft/detail/io_handle.h>

#include "io/object.h"

namespace weft::detail {

namespace {

constexpr std::size_t kFew = 16;

// Parts as the system takes them, without those that are empty: all of them, or the first few.
class buffer_list {
 public:
  template <class Buffer>
  buffer_list(std::span<const Buffer> parts, bool all)
      : many_(all && parts.size() > kFew ? new iovec[parts.size()] : nullptr) {
    const std::size_t room = many_ != nullptr ? parts.size() : kFew;
    for (const Buffer& b : parts) {
      if (count_ == room) {
        break;
      }
      if (b.size() != 0) {
        data()[count_++] = {const_cast<void*>(static_cast<const void*>(b.data())), b.size()};
      }
    }
  }
  iovec* data() noexcept { return many_ != nullptr ? many_.get() : few_; }
  std::size_t size() const noexcept { return count_; }

 private:
  std::unique_ptr<iovec[]> many_;
  iovec few_[kFew];
  std::size_t count_ = 0;
};

}  // namespace

void io_throw(const io_object* o, const char* operation, std::error_code ec) {
  throw std::system_error(ec, std::string(operation) + (o != nullptr ? o->about() : std::string()));
}

io_handle::~io_handle() {
  if (object_ != nullptr) {
    object_->close();  // first, and as a whole: somebody else may be at it
    delete object_;
  }
}

void io_handle::close(std::error_code& ec) noexcept {
  const int error = object_ != nullptr ? object_->close() : rt::own_error(errc::closed);
  ec = error == 0 ? std::error_code() : rt::to_error_code(error);
}

void io_handle::close() {
  if (object_ == nullptr) {
    io_throw(nullptr, "close", errc::closed);
  }
  std::string what;
  if (object_->fd.closed()) {
    what = object_->about();  // now: whoever was first may destroy it before this close() returns
  }
  const int error = object_->close(&what);
  if (error != 0) {
    throw std::system_error(rt::to_error_code(error), "close" + what);
  }
}

int io_handle::native_handle() const noexcept {
  if (object_ == nullptr || object_->fd.closed()) {
    return -1;
  }
  object_->fd.distrust();
  return object_->fd.raw();
}

namespace {

std::error_code set_deadline_of(io_object* o, bool read, bool write, io_time t, rt::fd_guest* g) {
  const int error = o != nullptr ? o->fd.set_deadline(read, write, deadline_at(t), g)
                                 : rt::own_error(errc::closed);
  return error == 0 ? std::error_code() : rt::to_error_code(error);
}

// f(object, guest) of an object that is there.
template <class F>
std::size_t transfer_or(io_object* o, std::error_code& ec, rt::fd_guest* g, F&& f) {
  if (o == nullptr) {
    ec = no_object();
    return 0;
  }
  return count_or(f(o->fd, g), ec);
}
template <class F>
std::size_t transfer_or_throw(io_object* o, const char* operation, F&& f) {
  return io_call(o, operation,
                 [&](std::error_code& ec, rt::fd_guest* g) { return transfer_or(o, ec, g, f); });
}

auto read_into(mutable_buffer b) {
  return [b](rt::io_fd& fd, rt::fd_guest* g) { return fd.read_some(b.data(), b.size(), g); };
}
auto read_into(std::span<const mutable_buffer> parts) {
  return [parts](rt::io_fd& fd, rt::fd_guest* g) {
    buffer_list list(parts, /*all=*/fd.keeps_messages());
    return fd.read_parts(list.data(), list.size(), g);
  };
}
auto fill(mutable_buffer b) {
  return [b](rt::io_fd& fd, rt::fd_guest* g) { return fd.read_full(b.data(), b.size(), g); };
}
auto write_some_of(const_buffer b) {
  return [b](rt::io_fd& fd, rt::fd_guest* g) { return fd.write_some(b.data(), b.size(), g); };
}
auto write_some_of(std::span<const const_buffer> parts) {
  return [parts](rt::io_fd& fd, rt::fd_guest* g) {
    buffer_list list(parts, /*all=*/fd.keeps_messages());
    return fd.write_parts(list.data(), list.size(), g);
  };
}
auto write_all_of(const_buffer b) {
  return [b](rt::io_fd& fd, rt::fd_guest* g) { return fd.write_all(b.data(), b.size(), g); };
}
auto write_all_of(std::span<const const_buffer> parts) {
  return [parts](rt::io_fd& fd, rt::fd_guest* g) {
    buffer_list list(parts, /*all=*/true);
    return fd.write_vector(list.data(), list.size(), g);
  };
}

}  // namespace

void io_handle::set(bool read, bool write, io_time t, std::error_code& ec) {
  ec = set_deadline_of(object_, read, write, t, nullptr);
}
void io_handle::set(const char* operation, bool read, bool write, io_time t) {
  io_call(object_, operation, [&](std::error_code& ec, rt::fd_guest* g) {
    ec = set_deadline_of(object_, read, write, t, g);
    return 0;
  });
}

std::size_t input::read_some(io_object* o, mutable_buffer b) {
  return transfer_or_throw(o, "read", read_into(b));
}
std::size_t input::read_some(io_object* o, mutable_buffer b, std::error_code& ec) {
  return transfer_or(o, ec, nullptr, read_into(b));
}
std::size_t input::read_some(io_object* o, std::span<const mutable_buffer> parts) {
  return transfer_or_throw(o, "read", read_into(parts));
}
std::size_t input::read_some(io_object* o, std::span<const mutable_buffer> parts,
                             std::error_code& ec) {
  return transfer_or(o, ec, nullptr, read_into(parts));
}
std::size_t input::read_full(io_object* o, mutable_buffer b) {
  return transfer_or_throw(o, "read", fill(b));
}
std::size_t input::read_full(io_object* o, mutable_buffer b, std::error_code& ec) {
  return transfer_or(o, ec, nullptr, fill(b));
}

std::size_t output::write_some(io_object* o, const_buffer b) {
  return transfer_or_throw(o, "write", write_some_of(b));
}
std::size_t output::write_some(io_object* o, const_buffer b, std::error_code& ec) {
  return transfer_or(o, ec, nullptr, write_some_of(b));
}
std::size_t output::write_some(io_object* o, std::span<const const_buffer> parts) {
  return transfer_or_throw(o, "write", write_some_of(parts));
}
std::size_t output::write_some(io_object* o, std::span<const const_buffer> parts,
                               std::error_code& ec) {
  return transfer_or(o, ec, nullptr, write_some_of(parts));
}
std::size_t output::write_all(io_object* o, const_buffer b) {
  return transfer_or_throw(o, "write", write_all_of(b));
}
std::size_t output::write_all(io_object* o, const_buffer b, std::error_code& ec) {
  return transfer_or(o, ec, nullptr, write_all_of(b));
}
std::size_t output::write_all(io_object* o, std::span<const const_buffer> parts) {
  return transfer_or_throw(o, "write", write_all_of(parts));
}
std::size_t output::write_all(io_object* o, std::span<const const_buffer> parts,
                              std::error_code& ec) {
  return transfer_or(o, ec, nullptr, write_all_of(parts));
}

}  // namespace weft::detail
