// What all handles do: close, deadlines, reading and writing. See include/weft/detail/io_handle.h.
#include <memory>

#include <weft/detail/io_handle.h>

#include "io/object.h"

namespace weft::detail {

namespace {

constexpr std::size_t kFew = 16;

// As many of the parts as fit.
template <class Buffer>
std::size_t to_vector(std::span<const Buffer> parts, iovec (&all)[kFew]) {
  std::size_t count = 0;
  for (const Buffer& b : parts.first(parts.size() < kFew ? parts.size() : kFew)) {
    all[count++] = {const_cast<void*>(static_cast<const void*>(b.data())), b.size()};
  }
  return count;
}

// Parts without bytes at the front must not use up the places.
template <class Buffer>
std::span<const Buffer> without_empty(std::span<const Buffer> parts) {
  while (!parts.empty() && parts.front().size() == 0) {
    parts = parts.subspan(1);
  }
  return parts;
}

}  // namespace

void io_throw(const io_object* o, const char* operation, std::error_code ec) {
  throw std::system_error(ec, std::string(operation) + (o != nullptr ? o->about() : std::string()));
}

io_handle::~io_handle() { delete object_; }

void io_handle::close(std::error_code& ec) noexcept {
  const int error = object_ != nullptr ? object_->fd.close() : rt::own_error(errc::closed);
  if (error == 0) {
    object_->after_close();
  }
  ec = error == 0 ? std::error_code() : rt::to_error_code(error);
}

void io_handle::close() {
  std::error_code ec;
  close(ec);
  check("close", ec);
}

int io_handle::native_handle() const noexcept {
  if (object_ == nullptr || object_->fd.closed()) {
    return -1;
  }
  object_->fd.distrust();
  return object_->fd.raw();
}

void io_handle::set(bool read, bool write, io_time t, std::error_code& ec) noexcept {
  const int error = object_ != nullptr ? object_->fd.set_deadline(read, write, deadline_at(t))
                                       : rt::own_error(errc::closed);
  ec = error == 0 ? std::error_code() : rt::to_error_code(error);
}

std::size_t input::read_some(io_object* o, mutable_buffer b, std::error_code& ec) {
  if (o == nullptr) {
    ec = no_object();
    return 0;
  }
  return count_or(o->fd.read_some(b.data(), b.size()), ec);
}

std::size_t input::read_some(io_object* o, std::span<const mutable_buffer> parts,
                             std::error_code& ec) {
  if (o == nullptr) {
    ec = no_object();
    return 0;
  }
  iovec all[kFew];
  const std::size_t count = to_vector(without_empty(parts), all);
  return count_or(o->fd.read_parts(all, count), ec);
}

std::size_t input::read_full(io_object* o, mutable_buffer b, std::error_code& ec) {
  std::size_t n = 0;
  ec.clear();
  while (n < b.size()) {
    const std::size_t got = read_some(o, b + n, ec);
    n += got;
    if (ec) {
      return n;
    }
    if (got == 0) {
      ec = errc::unexpected_eof;
      return n;
    }
  }
  return n;
}

std::size_t output::write_some(io_object* o, const_buffer b, std::error_code& ec) {
  if (o == nullptr) {
    ec = no_object();
    return 0;
  }
  return count_or(o->fd.write_some(b.data(), b.size()), ec);
}

std::size_t output::write_some(io_object* o, std::span<const const_buffer> parts,
                               std::error_code& ec) {
  if (o == nullptr) {
    ec = no_object();
    return 0;
  }
  iovec all[kFew];
  const std::size_t count = to_vector(without_empty(parts), all);
  return count_or(o->fd.write_parts(all, count), ec);
}

std::size_t output::write_all(io_object* o, const_buffer b, std::error_code& ec) {
  if (o == nullptr) {
    ec = no_object();
    return 0;
  }
  return count_or(o->fd.write_all(b.data(), b.size()), ec);
}

std::size_t output::write_all(io_object* o, std::span<const const_buffer> parts,
                              std::error_code& ec) {
  if (o == nullptr) {
    ec = no_object();
    return 0;
  }
  iovec few[kFew];
  std::unique_ptr<iovec[]> many(parts.size() > kFew ? new iovec[parts.size()] : nullptr);
  iovec* all = many != nullptr ? many.get() : few;
  std::size_t count = 0;
  for (const const_buffer& b : parts) {
    all[count++] = {const_cast<void*>(b.data()), b.size()};
  }
  return count_or(o->fd.write_vector(all, count), ec);
}

}  // namespace weft::detail
