// What the templates of chan.h and select.h know of a channel: a pointer and a few functions. The
// channel itself is compiled once (src/chan).
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include <weft/detail/export.h>

namespace weft {
class context;
}

namespace weft::detail {

struct channel;  // opaque

// std::addressof(), for a T that has an operator& of its own, without the cost of <memory>.
template <class T>
constexpr T* address_of(T& object) noexcept {
  return __builtin_addressof(object);
}

// How values of a type are moved. Plain bytes have no functions: they are copied.
struct element_type {
  std::size_t size;  // 0: nothing to copy
  std::size_t align;
  void (*receive)(void* optional, void* from);  // into a receiver's empty std::optional<T>
  void (*store)(void* slot, void* from);        // into raw memory
  void (*destroy)(void* slot) noexcept;
};

template <class T>
inline constexpr bool plain_bytes =
    std::is_trivially_copyable_v<T>&& std::is_trivially_move_constructible_v<T>;

template <class T>
inline constexpr element_type element_of = [] {
  if constexpr (plain_bytes<T>) {
    return element_type{std::is_empty_v<T> ? 0 : sizeof(T), alignof(T), nullptr, nullptr, nullptr};
  } else {
    return element_type{
        sizeof(T), alignof(T),
        [](void* to, void* from) {
          static_cast<std::optional<T>*>(to)->emplace(std::move(*static_cast<T*>(from)));
        },
        [](void* slot, void* from) { ::new (slot) T(std::move(*static_cast<T*>(from))); },
        [](void* slot) noexcept { static_cast<T*>(slot)->~T(); }};
  }
}();

// Where a receiver wants its value: room for the bytes, or an empty optional.
template <class T, bool Plain = plain_bytes<T>>
class landing {
 public:
  landing() noexcept {}  // NOLINT: the bytes come later
  void* address() noexcept { return address_of(value_); }
  void clear() noexcept {}
  T&& value() noexcept { return std::move(value_); }
  std::optional<T> get(bool received) {
    return received ? std::optional<T>(std::move(value_)) : std::nullopt;
  }

 private:
  union {
    T value_;
  };
};

template <class T>
class landing<T, false> {
 public:
  void* address() noexcept { return &value_; }
  void clear() noexcept { value_.reset(); }
  std::optional<T> get(bool) { return std::move(value_); }

 private:
  std::optional<T> value_;
};

enum class chan_end : std::uint8_t { done, closed, blocked };

WEFT_EXPORT channel* chan_make(const element_type& type, std::size_t capacity);
WEFT_EXPORT void chan_retain(channel* c) noexcept;
WEFT_EXPORT void chan_release(channel* c) noexcept;

// False: closed.
WEFT_EXPORT bool chan_send(channel* c, void* value);
WEFT_EXPORT bool chan_recv(channel* c, void* to);
// Blocked: not possible at once.
WEFT_EXPORT chan_end chan_try_send(channel* c, void* value);
WEFT_EXPORT chan_end chan_try_recv(channel* c, void* to);
// Blocked: the time was up. The deadline is in nanoseconds of the steady clock.
WEFT_EXPORT chan_end chan_send_until(channel* c, void* value, std::int64_t deadline);
WEFT_EXPORT chan_end chan_recv_until(channel* c, void* to, std::int64_t deadline);
// Blocked: the context was cancelled.
WEFT_EXPORT chan_end chan_send_with(channel* c, void* value, const context& ctx);
WEFT_EXPORT chan_end chan_recv_with(channel* c, void* to, const context& ctx);
WEFT_EXPORT void chan_close(channel* c);
WEFT_EXPORT std::size_t chan_size(const channel* c) noexcept;
WEFT_EXPORT std::size_t chan_capacity(const channel* c) noexcept;
[[noreturn]] WEFT_EXPORT void throw_send_on_closed();

// A counted reference to a channel, or to none.
class channel_ref {
 public:
  constexpr channel_ref() noexcept = default;
  constexpr explicit channel_ref(channel* owned) noexcept : c_(owned) {}
  channel_ref(const channel_ref& other) noexcept : c_(other.c_) {
    if (c_ != nullptr) {
      chan_retain(c_);
    }
  }
  channel_ref(channel_ref&& other) noexcept : c_(std::exchange(other.c_, nullptr)) {}
  channel_ref& operator=(channel_ref other) noexcept {
    std::swap(c_, other.c_);
    return *this;
  }
  ~channel_ref() {
    if (c_ != nullptr) {
      chan_release(c_);
    }
  }
  channel* get() const noexcept { return c_; }

 private:
  channel* c_ = nullptr;
};

}  // namespace weft::detail
