// Waiting for the first of several channel operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include <weft/chan.h>
#include <weft/detail/deadline.h>
#include <weft/detail/select.h>

namespace weft {

namespace detail {

struct do_nothing {
  void operator()() const noexcept {}
};

// A case keeps the channel if it was given a temporary handle, and borrows it otherwise.
class case_channel {
 public:
  explicit case_channel(const chan_handle& borrowed) noexcept
      : c_(channel_access::core(borrowed)) {}
  explicit case_channel(chan_handle&& owned) noexcept
      : owned_(std::move(channel_access::ref(owned))), c_(owned_.get()) {}
  channel* get() const noexcept { return c_; }
  // From now on it outlives whatever it was borrowed from.
  void keep() {
    if (owned_.get() == nullptr && c_ != nullptr) {
      chan_retain(c_);
      owned_ = channel_ref(c_);
    }
  }
  void drop() noexcept { c_ = nullptr; }

 private:
  channel_ref owned_;
  channel* c_;
};

template <class T, class F>
class recv_case {
 public:
  template <class H, class G>
  recv_case(H&& handle, G&& f) : ch_(std::forward<H>(handle)), f_(std::forward<G>(f)) {}
  void keep() { ch_.keep(); }
  select_case prepare() noexcept {
    here_.clear();
    return {ch_.get(), here_.address(), 0, case_kind::recv};
  }
  void run(bool received) {
    if constexpr (std::is_invocable_v<F&, std::optional<T>>) {
      f_(here_.get(received));
    } else {
      f_();
    }
  }

 private:
  case_channel ch_;
  [[no_unique_address]] F f_;
  landing<T> here_;
};

template <class T, class F>
class send_case {
 public:
  template <class H, class V, class G>
  send_case(H&& handle, V&& value, G&& f)
      : ch_(std::forward<H>(handle)), value_(std::forward<V>(value)), f_(std::forward<G>(f)) {}
  void keep() {
    ch_.keep();
    again_ = true;
  }
  select_case prepare() {
    if constexpr (std::is_copy_constructible_v<T>) {
      if (again_) {
        if (!copy_ ||
            !std::is_nothrow_move_constructible_v<T>) {  // a move that throws may spoil it
          copy_.emplace(value_);
        }
        return {ch_.get(), copy_.operator->(), 0, case_kind::send};
      }
    }
    return {ch_.get(), address_of(value_), 0, case_kind::send};
  }
  void run(bool) {
    if constexpr (std::is_copy_constructible_v<T>) {
      copy_.reset();  // it has been moved away
    } else if (again_) {
      ch_.drop();
    }
    f_();
  }

 private:
  case_channel ch_;
  bool again_ = false;  // in a selector
  T value_;
  [[no_unique_address]] std::conditional_t<std::is_copy_constructible_v<T>, std::optional<T>,
                                           do_nothing>
      copy_;
  [[no_unique_address]] F f_;
};

template <class F, case_kind Kind>
class other_case {
 public:
  template <class G>
  explicit other_case(G&& f, std::int64_t ns = 0) : ns_(ns), f_(std::forward<G>(f)) {}
  void keep() {}
  select_case prepare() noexcept { return {nullptr, nullptr, ns_, Kind}; }
  void run(bool) { f_(); }

 private:
  std::int64_t ns_;
  [[no_unique_address]] F f_;
};

template <class C>
concept selectable = requires(C& c) {
  { c.prepare() } -> std::same_as<select_case>;
  c.run(true);
};

template <class H>
using value_of = typename std::remove_cvref_t<H>::value_type;

template <class H>
concept receivable = std::same_as<std::remove_cvref_t<H>, chan<value_of<H>>> ||
    std::same_as<std::remove_cvref_t<H>, recv_chan<value_of<H>>>;
template <class H>
concept sendable = std::same_as<std::remove_cvref_t<H>, chan<value_of<H>>> ||
    std::same_as<std::remove_cvref_t<H>, send_chan<value_of<H>>>;

// Room on the caller's stack, so that a select allocates nothing.
template <std::size_t N>
struct select_room {
  select_node nodes[N];
  std::uint32_t order[N];
};

// A case on the heap, in a selector.
template <class C>
struct kept_case final : any_case {
  template <class D>
  explicit kept_case(D&& d) : c(std::forward<D>(d)) {
    c.keep();
  }
  select_case prepare() override { return c.prepare(); }
  void run(bool received) override { c.run(received); }
  C c;
};

}  // namespace detail

/// A case of select(): receive from ch (a chan or a recv_chan) and call f with what came, an
/// std::optional<T> that is empty if the channel is closed and drained. f may also take nothing.
template <detail::receivable H, class F = detail::do_nothing>
auto recv(H&& ch, F&& f = {}) {
  using T = detail::value_of<H>;
  static_assert(std::is_invocable_v<std::decay_t<F>&, std::optional<T>> ||
                    std::is_invocable_v<std::decay_t<F>&>,
                "weft: the callable of recv() takes an std::optional of the channel's type");
  return detail::recv_case<T, std::decay_t<F>>(std::forward<H>(ch), std::forward<F>(f));
}

/// A case of select(): send the value to ch (a chan or a send_chan) and call f. The value is taken
/// when the case is made; if another case is chosen it is dropped.
template <detail::sendable H, class V, class F = detail::do_nothing>
auto send(H&& ch, V&& value, F&& f = {}) {
  using T = detail::value_of<H>;
  return detail::send_case<T, std::decay_t<F>>(std::forward<H>(ch), std::forward<V>(value),
                                               std::forward<F>(f));
}

/// A case of select(): chosen if no other can proceed at once.
template <class F = detail::do_nothing>
auto otherwise(F&& f = {}) {
  return detail::other_case<std::decay_t<F>, detail::case_kind::otherwise>(std::forward<F>(f));
}

/// A case of select(): chosen if no other could proceed for this long.
template <class Rep, class Period, class F = detail::do_nothing>
auto timeout(const std::chrono::duration<Rep, Period>& d, F&& f = {}) {
  return detail::other_case<std::decay_t<F>, detail::case_kind::timeout>(std::forward<F>(f),
                                                                         detail::nanoseconds_of(d));
}

/// Go's select: waits until one of the cases can proceed, does it, runs its callable, and returns its
/// index among the arguments. If several can proceed, one of them is chosen at random, each with the
/// same probability. Exactly one operation takes place.
///
///     weft::select(
///         weft::recv(requests, [&](std::optional<request> r) { ... }),
///         weft::send(answers, next, [&] { ... }),
///         weft::timeout(1s, [&] { ... }));
///
/// Channels may appear several times, and at both ends; a select does not communicate with itself. A
/// nil channel is never ready. Without any case that could become ready it blocks for ever.
/// Throws closed_channel if it chooses a send on a closed channel, and whatever the callable throws.
template <detail::selectable... C>
std::size_t select(C&&... cases) {
  constexpr std::size_t n = sizeof...(C);
  detail::select_result chosen;
  if constexpr (n == 0) {
    return detail::select_run(nullptr, 0, nullptr, nullptr, false).index;
  } else {
    {
      const detail::select_case list[] = {cases.prepare()...};
      detail::select_room<n> room;
      chosen = detail::select_run(list, n, room.nodes, room.order, false);
    }
    std::size_t i = 0;
    (void)((i++ == chosen.index ? (cases.run(chosen.received), true) : false) || ...);
    return chosen.index;
  }
}

/// select() with a number of cases that is known at run time.
///
///     weft::selector s;
///     for (auto& c : channels) s.add(weft::recv(c, [&](std::optional<int> v) { ... }));
///     while (work_is_left()) s.select();
///
/// It may be used any number of times. The channels stay alive while it has them. A case that sends
/// does so with a copy of its value each time, made by the first select() after it was last chosen (by each, if
/// moving the value may throw); if the value cannot be copied, once, and is never ready again after that. Not for use by several goroutines at once, but by the callables of its own
/// cases: they may add to it, clear it, select again, and destroy it.
class selector {
 public:
  selector() noexcept = default;
  selector(selector&& other) noexcept : cases_(std::exchange(other.cases_, nullptr)) {}
  selector& operator=(selector&& other) noexcept {
    std::swap(cases_, other.cases_);
    return *this;
  }
  ~selector() { detail::selector_destroy(cases_); }

  /// Returns the index of the case, counted from 0.
  template <detail::selectable C>
  std::size_t add(C&& c) {
    return detail::selector_add(cases_, new detail::kept_case<std::decay_t<C>>(std::forward<C>(c)));
  }

  /// As weft::select().
  std::size_t select() { return detail::selector_select(cases_); }

  std::size_t size() const noexcept { return detail::selector_size(cases_); }
  bool empty() const noexcept { return size() == 0; }
  void clear() noexcept { detail::selector_destroy(std::exchange(cases_, nullptr)); }

 private:
  detail::selector_cases* cases_ = nullptr;
};

}  // namespace weft
