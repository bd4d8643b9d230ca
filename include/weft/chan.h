// Channels: how goroutines hand values to each other.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include <weft/detail/channel.h>
#include <weft/detail/deadline.h>
#include <weft/detail/export.h>
#include <weft/panic.h>

namespace weft {

/// "send on closed channel", "close of closed channel".
struct WEFT_EXPORT closed_channel : panic_error {
  using panic_error::panic_error;
  closed_channel(const closed_channel&) = default;
  closed_channel& operator=(const closed_channel&) = default;
  ~closed_channel() override;
};

/// "close of nil channel".
struct WEFT_EXPORT nil_channel : panic_error {
  using panic_error::panic_error;
  nil_channel(const nil_channel&) = default;
  nil_channel& operator=(const nil_channel&) = default;
  ~nil_channel() override;
};

namespace detail {
template <class T>
struct receiving;
}

/// What a receive that does not wait for ever has found: a value, nothing (yet), or that the channel
/// is closed and drained.
template <class T>
class try_result {
 public:
  constexpr try_result() noexcept = default;

  constexpr bool has_value() const noexcept { return value_.has_value(); }
  constexpr explicit operator bool() const noexcept { return has_value(); }
  constexpr bool closed() const noexcept { return closed_; }
  constexpr T& operator*() & noexcept { return *value_; }
  constexpr const T& operator*() const& noexcept { return *value_; }
  constexpr T&& operator*() && noexcept { return *std::move(value_); }
  constexpr T* operator->() noexcept { return value_.operator->(); }
  constexpr const T* operator->() const noexcept { return value_.operator->(); }

 private:
  friend struct detail::receiving<T>;
  std::optional<T> value_;
  bool closed_ = false;
};

template <class T>
class chan;
template <class T>
class recv_chan;

namespace detail {

struct channel_access;

// What all three kinds of handle are.
class chan_handle {
 public:
  explicit operator bool() const noexcept { return ref_.get() != nullptr; }

 protected:
  chan_handle() noexcept = default;
  explicit chan_handle(channel* owned) noexcept : ref_(owned) {}
  channel* core() const noexcept { return ref_.get(); }

 private:
  friend struct channel_access;
  channel_ref ref_;
};

// For select.
struct channel_access {
  static channel* core(const chan_handle& h) noexcept { return h.core(); }
  static channel_ref& ref(chan_handle& h) noexcept { return h.ref_; }
  template <class View>
  static View adopt(channel* owned) noexcept {
    return View(owned);
  }
};

template <class T>
struct sending {
  static void send(channel* c, T& value) {
    if (!chan_send(c, address_of(value))) [[unlikely]] {
      throw_send_on_closed();
    }
  }
  static bool try_send(channel* c, T& value) { return sent(chan_try_send(c, address_of(value))); }
  static bool send_until(channel* c, T& value, std::int64_t deadline) {
    return sent(chan_send_until(c, address_of(value), deadline));
  }
  template <class Clock, class Duration>
  static bool send_until(channel* c, T& value, const std::chrono::time_point<Clock, Duration>& t) {
    return attempt_until(t, [c, &value](std::int64_t d) { return send_until(c, value, d); });
  }
  static bool send_with(channel* c, T& value, const context& ctx) {
    return sent(chan_send_with(c, address_of(value), ctx));
  }
  static bool sent(chan_end end) {
    if (end == chan_end::closed) [[unlikely]] {
      throw_send_on_closed();
    }
    return end == chan_end::done;
  }
};

template <class T>
struct receiving {
  static std::optional<T> recv(channel* c) requires(plain_bytes<T>) {
    landing<T> here;
    const bool received = chan_recv(c, here.address());
    return here.get(received);
  }
  // Straight into the caller's object, without a move.
  static std::optional<T> recv(channel* c) requires(!plain_bytes<T>) {
    std::optional<T> value;
    chan_recv(c, &value);
    return value;
  }
  static try_result<T> try_recv(channel* c) {
    return result([c](void* to) { return chan_try_recv(c, to); });
  }
  static try_result<T> recv_with(channel* c, const context& ctx) {
    return result([c, &ctx](void* to) { return chan_recv_with(c, to, ctx); });
  }
  static try_result<T> recv_until(channel* c, std::int64_t deadline) {
    return result([c, deadline](void* to) { return chan_recv_until(c, to, deadline); });
  }
  // As attempt_until(), but a T need not be assignable.
  template <class Clock, class Duration>
  static try_result<T> recv_until(channel* c, const std::chrono::time_point<Clock, Duration>& t) {
    for (;;) {
      try_result<T> r = recv_until(c, deadline_at(t, /*again=*/true));
      if (std::is_same_v<Clock, std::chrono::steady_clock> || r.has_value() || r.closed() ||
          nanoseconds_until(t) == 0) {
        return r;
      }
    }
  }

 private:
  template <class F>
  static try_result<T> result(F f) {
    try_result<T> r;
    if constexpr (plain_bytes<T>) {
      landing<T> here;
      const chan_end end = f(here.address());
      r.closed_ = end == chan_end::closed;
      if (end == chan_end::done) {
        r.value_.emplace(here.value());
      }
    } else {
      r.closed_ = f(&r.value_) == chan_end::closed;
    }
    return r;
  }
};

// Receives as it is advanced; equal to the end when the channel is closed and drained.
template <class T>
class chan_iterator {
 public:
  using value_type = T;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::input_iterator_tag;

  explicit chan_iterator(const chan_handle& h) : handle_(h) { ++*this; }
  T& operator*() const noexcept { return *value_; }
  T* operator->() const noexcept { return value_.operator->(); }
  chan_iterator& operator++() {
    std::optional<T> next = receiving<T>::recv(channel_access::core(handle_));
    value_.reset();
    if (next) {
      value_.emplace(std::move(*next));
    }
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const chan_iterator& it, std::default_sentinel_t) noexcept {
    return !it.value_.has_value();
  }

 private:
  chan_handle handle_;
  mutable std::optional<T> value_;
};

}  // namespace detail

/// The sending end of a channel. See chan.
template <class T>
class send_chan : public detail::chan_handle {
 public:
  using value_type = T;

  template <std::same_as<std::nullptr_t> N>
  send_chan(N) noexcept {}                                        // NOLINT: nil, as in Go
  send_chan(const chan<T>& c) noexcept : chan_handle(c) {}        // NOLINT: implicit, as in Go
  send_chan(chan<T>&& c) noexcept : chan_handle(std::move(c)) {}  // NOLINT: implicit, as in Go

  void send(T value) const { detail::sending<T>::send(core(), value); }
  bool try_send(T& value) const { return detail::sending<T>::try_send(core(), value); }
  bool try_send(T&& value) const { return try_send(value); }
  template <class Rep, class Period>
  bool send_for(T value, const std::chrono::duration<Rep, Period>& d) const {
    return detail::sending<T>::send_until(core(), value, detail::deadline_after(d));
  }
  template <class Clock, class Duration>
  bool send_until(T value, const std::chrono::time_point<Clock, Duration>& t) const {
    return detail::sending<T>::send_until(core(), value, t);
  }
  bool send(T value, const context& ctx) const {
    return detail::sending<T>::send_with(core(), value, ctx);
  }
  void close() const { detail::chan_close(core()); }
  std::size_t size() const noexcept { return detail::chan_size(core()); }
  std::size_t capacity() const noexcept { return detail::chan_capacity(core()); }
  bool operator==(const send_chan& other) const noexcept { return core() == other.core(); }
};

/// The receiving end of a channel. See chan.
template <class T>
class recv_chan : public detail::chan_handle {
 public:
  using value_type = T;
  using iterator = detail::chan_iterator<T>;

  template <std::same_as<std::nullptr_t> N>
  recv_chan(N) noexcept {}                                        // NOLINT: nil, as in Go
  recv_chan(const chan<T>& c) noexcept : chan_handle(c) {}        // NOLINT: implicit, as in Go
  recv_chan(chan<T>&& c) noexcept : chan_handle(std::move(c)) {}  // NOLINT: implicit, as in Go

  std::optional<T> recv() const { return detail::receiving<T>::recv(core()); }
  try_result<T> try_recv() const { return detail::receiving<T>::try_recv(core()); }
  template <class Rep, class Period>
  try_result<T> recv_for(const std::chrono::duration<Rep, Period>& d) const {
    return detail::receiving<T>::recv_until(core(), detail::deadline_after(d));
  }
  template <class Clock, class Duration>
  try_result<T> recv_until(const std::chrono::time_point<Clock, Duration>& t) const {
    return detail::receiving<T>::recv_until(core(), t);
  }
  try_result<T> recv(const context& ctx) const {
    return detail::receiving<T>::recv_with(core(), ctx);
  }
  std::size_t size() const noexcept { return detail::chan_size(core()); }
  std::size_t capacity() const noexcept { return detail::chan_capacity(core()); }
  bool operator==(const recv_chan& other) const noexcept { return core() == other.core(); }

  iterator begin() const { return iterator(*this); }
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  friend struct detail::channel_access;
  explicit recv_chan(detail::channel* owned) noexcept : chan_handle(owned) {}
};

/// Go's channel. A chan is a handle: copies share one channel, which goes with the last of them.
///
/// A send waits for a receiver, or for room in the buffer; a receive waits for a value. Values are
/// received in the order in which they were sent, each exactly once. close() says that no more will
/// be sent: what is in the buffer can still be received, then receives return nullopt at once.
///
///     weft::chan<std::string> lines(16);
///     weft::go([lines] { produce(lines); lines.close(); });
///     for (auto& line : lines) consume(line);
///
/// Everything may be called from goroutines and from plain threads. T is anything that can be moved.
/// If a move throws, the channel stays as it was and usable; when the value goes straight from one
/// waiting party to the other, the exception may reach either. Moves must not use the channel itself.
///
/// A nil channel, chan<T>(nullptr), blocks for ever and is never selected.
///
/// When not to use it: to protect data that stays where it is (weft::mutex), or to wait for the end of
/// something that has no result (weft::wait_group).
template <class T>
class chan : public detail::chan_handle {
  static_assert(std::is_object_v<T> && std::is_move_constructible_v<T>,
                "weft: the values of a channel must be movable");

 public:
  using value_type = T;
  using iterator = detail::chan_iterator<T>;

  /// Unbuffered: a send is complete when the value has been received.
  [[gnu::always_inline]] chan() : chan(std::size_t{0}) {}  // reports know channels by who made them
  /// Buffered. Throws panic_error ("makechan: size out of range").
  [[gnu::always_inline]] explicit chan(std::size_t capacity)
      : chan_handle(detail::chan_make(detail::element_of<T>, capacity)) {}
  template <std::same_as<std::nullptr_t> N>
  chan(N) noexcept {}  // NOLINT: nil, as in Go

  /// Throws closed_channel.
  void send(T value) const { detail::sending<T>::send(core(), value); }
  /// nullopt: closed and drained.
  std::optional<T> recv() const { return detail::receiving<T>::recv(core()); }

  /// Without waiting; moves from the argument only on success. Throws closed_channel.
  bool try_send(T& value) const { return detail::sending<T>::try_send(core(), value); }
  bool try_send(T&& value) const { return try_send(value); }
  try_result<T> try_recv() const { return detail::receiving<T>::try_recv(core()); }

  /// With a limit; false or an empty result if it came first.
  template <class Rep, class Period>
  bool send_for(T value, const std::chrono::duration<Rep, Period>& d) const {
    return detail::sending<T>::send_until(core(), value, detail::deadline_after(d));
  }
  template <class Clock, class Duration>
  bool send_until(T value, const std::chrono::time_point<Clock, Duration>& t) const {
    return detail::sending<T>::send_until(core(), value, t);
  }
  template <class Rep, class Period>
  try_result<T> recv_for(const std::chrono::duration<Rep, Period>& d) const {
    return detail::receiving<T>::recv_until(core(), detail::deadline_after(d));
  }
  template <class Clock, class Duration>
  try_result<T> recv_until(const std::chrono::time_point<Clock, Duration>& t) const {
    return detail::receiving<T>::recv_until(core(), t);
  }

  /// Until the context is cancelled; false or an empty result then.
  bool send(T value, const context& ctx) const {
    return detail::sending<T>::send_with(core(), value, ctx);
  }
  try_result<T> recv(const context& ctx) const {
    return detail::receiving<T>::recv_with(core(), ctx);
  }

  /// Throws closed_channel the second time, and nil_channel.
  void close() const { detail::chan_close(core()); }

  std::size_t size() const noexcept { return detail::chan_size(core()); }
  std::size_t capacity() const noexcept { return detail::chan_capacity(core()); }
  bool operator==(const chan& other) const noexcept { return core() == other.core(); }

  /// Range-for receives until the channel is closed and drained.
  iterator begin() const { return iterator(*this); }
  std::default_sentinel_t end() const noexcept { return {}; }
};

}  // namespace weft
