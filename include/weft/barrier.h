// A meeting point for a fixed number, again and again, in std's shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <weft/detail/deadline.h>
#include <weft/detail/export.h>
#include <weft/detail/made.h>

namespace weft {

namespace detail {

struct no_completion {
  void operator()() noexcept {}
};

// Storage of rt::barrier_core (src/sync/barrier_core.h).
class barrier {
 public:
  [[gnu::always_inline]] constexpr explicit barrier(std::ptrdiff_t expected) noexcept
      : made_by_(made(this)),
        state_(static_cast<std::uint64_t>(expected)),
        expected_(static_cast<std::uint64_t>(expected)) {}

  struct arrival {
    std::uint32_t phase;
    bool completes;
  };
  WEFT_EXPORT arrival arrive(std::ptrdiff_t n, bool drop);
  WEFT_EXPORT void begin_next();
  WEFT_EXPORT void wait(std::uint32_t phase) const;
  WEFT_EXPORT bool wait(std::uint32_t phase, limit until) const;

 private:
  [[maybe_unused]] const void* made_by_;
  [[maybe_unused]] std::uint64_t state_;
  [[maybe_unused]] std::uint64_t expected_;
  [[maybe_unused]] void* lists_[3] = {};
};

}  // namespace detail

/// std::barrier. The completion function runs on whoever arrives last. It may be destroyed as soon
/// as the last wait() has returned.
template <class CompletionFunction = detail::no_completion>
class barrier {
  static_assert(std::is_nothrow_invocable_v<CompletionFunction&>,
                "weft: the completion function of a barrier must be noexcept");

 public:
  class arrival_token {
   public:
    arrival_token(arrival_token&&) noexcept = default;
    arrival_token& operator=(arrival_token&&) noexcept = default;

   private:
    friend class barrier;
    explicit arrival_token(std::uint32_t phase) noexcept : phase_(phase) {}
    std::uint32_t phase_;
  };

  static constexpr std::ptrdiff_t max() noexcept { return 0x7fffffff; }

  [[gnu::always_inline]] constexpr explicit barrier(
      std::ptrdiff_t expected, CompletionFunction completion = CompletionFunction())
      : core_(expected), completion_(std::move(completion)) {}
  barrier(const barrier&) = delete;
  barrier& operator=(const barrier&) = delete;

  [[nodiscard]] arrival_token arrive(std::ptrdiff_t n = 1) {
    return arrival_token(arrive_as(n, false));
  }
  void wait(arrival_token&& token) const { core_.wait(token.phase_); }
  /// With a limit; false if that came first. Who gives up has arrived all the same, and may wait by the same
  /// token again, as long as the phase is not over; afterwards it must arrive for the next one.
  template <class Rep, class Period>
  bool wait_for(const arrival_token& token, const std::chrono::duration<Rep, Period>& d) const {
    return core_.wait(token.phase_, detail::deadline_after(d));
  }
  template <class Clock, class Duration>
  bool wait_until(const arrival_token& token,
                  const std::chrono::time_point<Clock, Duration>& t) const {
    return detail::attempt_until(
        t, [&](std::int64_t deadline) { return core_.wait(token.phase_, deadline); });
  }
  bool wait(const arrival_token& token, const context& ctx) const {
    return core_.wait(token.phase_, ctx);
  }
  void arrive_and_wait() { wait(arrive()); }
  void arrive_and_drop() { arrive_as(1, true); }

 private:
  std::uint32_t arrive_as(std::ptrdiff_t n, bool drop) {
    const detail::barrier::arrival a = core_.arrive(n, drop);
    if (a.completes) {
      completion_();
      core_.begin_next();
    }
    return a.phase;
  }

  detail::barrier core_;
  [[no_unique_address]] CompletionFunction completion_;
};

}  // namespace weft
