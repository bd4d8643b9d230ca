// A weft connection as Asio's SyncReadStream and SyncWriteStream, for Boost.Beast and whatever else reads and writes
// through these: it blocks the goroutine and not the thread, and needs no io_context.
//
// The only header of weft that includes Boost; <weft/weft.h> does not include it.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include <weft/buffer.h>
#include <weft/detail/io_handle.h>

namespace weft {

/// The category of those of weft's errors that Boost has no name for.
inline const boost::system::error_category& boost_io_category() noexcept {
  class category final : public boost::system::error_category {
    const char* name() const noexcept override { return io_category().name(); }
    std::string message(int value) const override { return io_category().message(value); }
  };
  static const category the_one;
  return the_one;
}

/// An error of weft as one of Boost: a deadline, or a context's, is asio::error::timed_out, a context that was cancelled or a
/// connection that was closed here asio::error::operation_aborted, what the system said stays what it is. An error of another
/// library's that does not say which of the system's it is like is boost::system::errc::io_error.
inline boost::system::error_code to_boost(const std::error_code& ec) noexcept {
  if (!ec) {
    return {};
  }
  if (ec == std::errc::timed_out) {
    return boost::asio::error::timed_out;
  }
  if (ec == std::errc::operation_canceled) {
    return boost::asio::error::operation_aborted;
  }
  if (ec.category() == io_category()) {
    switch (static_cast<errc>(ec.value())) {
      case errc::closed:
      case errc::closed_file: return boost::asio::error::operation_aborted;
      case errc::unexpected_eof: return boost::asio::error::eof;
      case errc::no_such_host: return boost::asio::error::host_not_found;
      case errc::server_misbehaving: return boost::asio::error::no_recovery;
      default: return {ec.value(), boost_io_category()};
    }
  }
  if (ec.category() == std::generic_category()) {
    return {ec.value(), boost::system::generic_category()};
  }
  if (ec.category() == std::system_category()) {
    return {ec.value(), boost::system::system_category()};
  }
  const std::error_condition like = ec.default_error_condition();
  return {like.category() == std::generic_category() ? like.value() : EIO,
          boost::system::generic_category()};
}

/// A stream for Asio's read(), write(), read_until() and for Beast. Owns the connection, or refers to one:
///
///     weft::asio_stream s(listener.accept());              // asio_stream<net::tcp_conn>
///     weft::asio_stream<weft::net::tcp_conn&> t(mine);
///     boost::beast::http::read(s, buffer, request);
///
/// The end of the stream is asio::error::eof. Deadlines and close() are the connection's: next_layer().
template <class Stream>
class asio_stream {
 public:
  using next_layer_type = std::remove_reference_t<Stream>;

  template <class S>
  requires(!std::is_same_v<std::remove_cvref_t<S>, asio_stream>) explicit asio_stream(S&& stream)
      : stream_(std::forward<S>(stream)) {}

  next_layer_type& next_layer() noexcept { return stream_; }
  const next_layer_type& next_layer() const noexcept { return stream_; }

  template <class MutableBufferSequence>
  std::size_t read_some(const MutableBufferSequence& buffers, boost::system::error_code& ec) {
    parts<mutable_buffer, boost::asio::mutable_buffer> all(buffers);
    std::error_code error;
    const std::size_t n = stream_.read_some(all.span(), error);
    ec = n == 0 && !error && !all.empty() ? boost::asio::error::eof : to_boost(error);
    return n;
  }
  template <class MutableBufferSequence>
  std::size_t read_some(const MutableBufferSequence& buffers) {
    boost::system::error_code ec;
    const std::size_t n = read_some(buffers, ec);
    check(ec, "read_some");
    return n;
  }

  template <class ConstBufferSequence>
  std::size_t write_some(const ConstBufferSequence& buffers, boost::system::error_code& ec) {
    parts<const_buffer, boost::asio::const_buffer> all(buffers);
    std::error_code error;
    const std::size_t n = stream_.write_some(all.span(), error);
    ec = to_boost(error);
    return n;
  }
  template <class ConstBufferSequence>
  std::size_t write_some(const ConstBufferSequence& buffers) {
    boost::system::error_code ec;
    const std::size_t n = write_some(buffers, ec);
    check(ec, "write_some");
    return n;
  }

 private:
  // The first buffers of a sequence that have bytes; a call that does some of the work needs no more.
  template <class Ours, class Theirs>
  class parts {
   public:
    template <class Sequence>
    explicit parts(const Sequence& buffers) {
      const auto end = boost::asio::buffer_sequence_end(buffers);
      for (auto i = boost::asio::buffer_sequence_begin(buffers); i != end && count_ < kMost; ++i) {
        const Theirs b(*i);
        if (b.size() > 0) {
          all_[count_++] = Ours(b.data(), b.size());
        }
      }
    }
    bool empty() const noexcept { return count_ == 0; }
    std::span<const Ours> span() const noexcept { return {all_, count_}; }

   private:
    static constexpr std::size_t kMost = 16;
    Ours all_[kMost];
    std::size_t count_ = 0;
  };

  static void check(const boost::system::error_code& ec, const char* operation) {
    if (ec) {
      throw boost::system::system_error(ec, operation);
    }
  }

  Stream stream_;
};

template <class S>
asio_stream(S&&) -> asio_stream<std::remove_cvref_t<S>>;

}  // namespace weft
