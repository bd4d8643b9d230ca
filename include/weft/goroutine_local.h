// A variable of which every goroutine has its own.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include <weft/detail/export.h>

namespace weft {

namespace detail {

WEFT_EXPORT std::uint64_t local_key();  // never given out twice
// The calling goroutine's (or plain thread's) value under a key, made by make(context) at first use.
WEFT_EXPORT void* local_get(std::uint64_t key, void* (*make)(const void*), const void* context,
                            void (*destroy)(void*) noexcept);

// How a value is made, and of what. There is something to give back only if the initialiser has captured something:
// others can be used before and after everything.
struct local_initialiser {
  void* (*make)(const void*) = nullptr;
  void* state = nullptr;
  void (*drop)(void*) noexcept = nullptr;

  template <class T, class F>
  static local_initialiser of(F&& f) {
    using callable = std::decay_t<F>;
    if constexpr (std::is_empty_v<callable> && std::is_default_constructible_v<callable>) {
      return {[](const void*) -> void* { return new T(callable()()); }, nullptr, nullptr};
    } else if constexpr (std::is_pointer_v<callable>) {
      return {[](const void* p) -> void* {
                return new T(reinterpret_cast<callable>(const_cast<void*>(p))());
              },
              reinterpret_cast<void*>(static_cast<callable>(f)), nullptr};
    } else {
      return {
          [](const void* p) -> void* { return new T((*static_cast<const callable*>(p))()); },
          new callable(std::forward<F>(f)),
          [](void* p) noexcept { delete static_cast<callable*>(p); },
      };
    }
  }
};

template <class F, class T>
concept makes_local = requires(const std::decay_t<F>& f) {
  new T(f());
};

}  // namespace detail

/// thread_local for goroutines: a goroutine keeps its value wherever it runs, and a plain thread has one,
/// too. Value-initialised, made by an initialiser, or a copy of a value, at first use; destroyed when the goroutine ends,
/// in reverse order, so that a destructor may use values made earlier than its own; of one that has been
/// destroyed it gets a new one. Destroying the goroutine_local itself leaves values behind until then.
///
///     static weft::goroutine_local<std::string> request_id;
///     *request_id = "42";
///
/// When not to use it: for what can be passed as an argument; a context says what it carries.
template <class T>
class goroutine_local {
 public:
  goroutine_local()
      : key_(detail::local_key()), how_{[](const void*) -> void* { return new T(); }} {}
  /// Every goroutine's value starts as what `initialiser` returns: a T, or something that one can be made of. It may be
  /// called by several at once.
  template <class F>
  requires(!std::is_same_v<std::decay_t<F>, goroutine_local> &&
           detail::makes_local<F, T>) explicit goroutine_local(F&& initialiser)
      : key_(detail::local_key()),
        how_(detail::local_initialiser::of<T>(std::forward<F>(initialiser))) {}
  /// Every goroutine's value starts as a copy of a T that is made of `value` now.
  template <class V>
  requires(!std::is_same_v<std::decay_t<V>, goroutine_local> && !detail::makes_local<V, T> &&
           (std::is_same_v<std::remove_cvref_t<V>, T> ||
            !std::is_invocable_v<V>)&&std::is_copy_constructible_v<T> &&
           std::is_constructible_v<T, V>) explicit goroutine_local(V&& value)
      : goroutine_local([kept = T(std::forward<V>(value))]() -> const T& { return kept; }) {}
  goroutine_local(const goroutine_local&) = delete;
  goroutine_local& operator=(const goroutine_local&) = delete;
  ~goroutine_local() {
    if (how_.drop != nullptr) {
      how_.drop(how_.state);
    }
  }

  T& operator*() const { return *get(); }
  T* operator->() const { return get(); }
  T* get() const {
    return static_cast<T*>(detail::local_get(key_, how_.make, how_.state, &destroy));
  }

 private:
  static void destroy(void* value) noexcept { delete static_cast<T*>(value); }

  std::uint64_t key_;
  detail::local_initialiser how_;
};

}  // namespace weft
