// What a promise and its futures share: a result that will come, and those who wait for it. The typed
// part is only the storage of the value; everything else is compiled once (src/sync/future.cc).
#pragma once

#include <cstdint>
#include <exception>
#include <future>  // future_error, future_errc, future_status and launch are std's own
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <weft/detail/deadline.h>
#include <weft/detail/export.h>
#include <weft/detail/made.h>
#include <weft/detail/rethrow.h>

namespace weft::detail {

class future_state {
 public:
  // How a state is destroyed; and how a deferred one gets its result.
  struct methods {
    void (*destroy)(future_state*) noexcept;
    void (*run_deferred)(future_state*);
  };

  [[gnu::always_inline]] explicit future_state(const methods& m) noexcept
      : methods_(&m), gate_{made(this)} {}
  future_state(const future_state&) = delete;
  future_state& operator=(const future_state&) = delete;

  void retain() noexcept {
    // order: FU0 relaxed, as future_core::retain(): the caller has one already
    __atomic_fetch_add(&core_.refs, 1, __ATOMIC_RELAXED);
  }
  WEFT_EXPORT void release() noexcept;

  // The right to store the result. Throws future_error if somebody else has had it.
  WEFT_EXPORT void claim();
  WEFT_EXPORT void unclaim() noexcept;
  // The result is stored: now, or at the end of the calling goroutine or thread.
  WEFT_EXPORT void publish() noexcept;
  WEFT_EXPORT void publish_at_exit();
  void store(std::exception_ptr e) noexcept { error_ = std::move(e); }
  // Nobody will ever store a result.
  WEFT_EXPORT void abandon() noexcept;

  // Throws future_error if a future exists already.
  WEFT_EXPORT void retrieve();

  WEFT_EXPORT void wait();
  WEFT_EXPORT bool wait(const context& ctx);
  WEFT_EXPORT std::future_status wait_until(std::int64_t deadline);
  WEFT_EXPORT bool ready() const noexcept;
  // After wait(): rethrows what was stored instead of a value.
  void check() const {
    if (error_ != nullptr) {
      rethrow_carried(error_);
    }
  }

  void mark_deferred() noexcept { deferred_ = true; }
  void mark_joins() noexcept { joins_ = true; }

 private:
  void run_deferred();

  const methods* methods_;
  // Storage of rt::future_core (src/sync/future_core.h).
  struct core {
    std::uint32_t refs = 1;
    std::uint32_t claimed = 0;
    std::uint32_t retrieved = 0;
  } core_;
  bool deferred_ = false;  // runs when somebody waits
  bool joins_ = false;     // async: the last handle waits for the end
  std::exception_ptr error_;
  // Storage of rt::count_gate, which counts to one.
  struct gate {
    const void* made_by;
    std::uint64_t state = std::uint64_t{1} << 32;
    void* waiters[3] = {};
  } gate_;
};

// A reference that is counted.
template <class State>
class state_ptr {
 public:
  state_ptr() noexcept = default;
  explicit state_ptr(State* adopted) noexcept : state_(adopted) {}
  state_ptr(const state_ptr& other) noexcept : state_(other.state_) {
    if (state_ != nullptr) {
      state_->retain();
    }
  }
  state_ptr(state_ptr&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  state_ptr& operator=(state_ptr other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~state_ptr() {
    if (state_ != nullptr) {
      state_->release();
    }
  }

  State* operator->() const noexcept { return state_; }
  State& operator*() const noexcept { return *state_; }
  explicit operator bool() const noexcept { return state_ != nullptr; }

  // Throws future_error(no_state) if there is none.
  State& checked() const {
    if (state_ == nullptr) {
      throw std::future_error(std::future_errc::no_state);
    }
    return *state_;
  }

 private:
  State* state_ = nullptr;
};

// What is stored for a result of type T.
template <class T>
struct stored {
  using type = T;
};
template <class T>
struct stored<T&> {
  using type = T*;
};
template <>
struct stored<void> {
  struct type {};
};

template <class T>
class value_state : public future_state {
  using value_type = typename stored<T>::type;

 public:
  [[gnu::always_inline]] value_state() noexcept : value_state(kMethods) {}
  ~value_state() {
    if (has_value_) {
      value()->~value_type();
    }
  }

  // Stores a value, or throws and changes nothing; publishing is the caller's next step.
  template <class... Args>
  void emplace(Args&&... args) {
    if constexpr (std::is_reference_v<T>) {
      ::new (static_cast<void*>(&memory_)) value_type(std::addressof(args)...);
    } else {
      ::new (static_cast<void*>(&memory_)) value_type(std::forward<Args>(args)...);
    }
    has_value_ = true;
  }
  template <class... Args>
  void claim_and_emplace(Args&&... args) {
    claim();
    try {
      emplace(std::forward<Args>(args)...);
    } catch (...) {
      unclaim();
      throw;
    }
  }
  // Stores what f(args...) returns or throws.
  template <class F, class... Args>
  void emplace_result(F&& f, Args&&... args) {
    std::exception_ptr thrown;
    try {
      if constexpr (std::is_void_v<T>) {
        static_cast<void>(std::__invoke(std::forward<F>(f), std::forward<Args>(args)...));
        emplace();
      } else {
        emplace(std::__invoke(std::forward<F>(f), std::forward<Args>(args)...));
      }
    } catch (...) {
      thrown = std::current_exception();
    }
    store(std::move(thrown));  // a goexit() does not come here: whoever unwinds abandons
  }

  T take() {
    if constexpr (std::is_reference_v<T>) {
      return **value();
    } else if constexpr (!std::is_void_v<T>) {
      return std::move(*value());
    }
  }
  decltype(auto) peek() {
    if constexpr (std::is_reference_v<T>) {
      return static_cast<T>(**value());
    } else if constexpr (!std::is_void_v<T>) {
      return static_cast<const T&>(*value());
    }
  }

 protected:
  [[gnu::always_inline]] explicit value_state(const methods& m) noexcept : future_state(m) {}

 private:
  static void destroy(future_state* s) noexcept { delete static_cast<value_state*>(s); }
  static constexpr methods kMethods{&destroy, nullptr};

  value_type* value() { return std::launder(reinterpret_cast<value_type*>(&memory_)); }

  bool has_value_ = false;
  alignas(value_type) unsigned char memory_[sizeof(value_type)];
};

// Whoever is unwound by goexit() leaves a broken promise behind.
class abandon_guard {
 public:
  explicit abandon_guard(future_state& s) noexcept : state_(&s) {}
  ~abandon_guard() {
    if (state_ != nullptr) {
      state_->unclaim();
      state_->abandon();
    }
  }
  void dismiss() noexcept { state_ = nullptr; }

 private:
  future_state* state_;
};

}  // namespace weft::detail
