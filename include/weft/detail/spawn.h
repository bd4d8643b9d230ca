// How a callable becomes a goroutine: the typed shell over the untyped core in src/sched/spawn.cc.
//
// The callable and its arguments are built in place, in memory that belongs to the new goroutine, so
// a spawn copies nothing twice and most allocate nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <weft/detail/export.h>

namespace weft::detail {

// A goroutine that has been allocated but not started.
struct spawn_slot {
  void* goroutine;         // opaque
  void* memory;            // for the closure
  std::size_t heap_align;  // 0: the memory is the goroutine's own
};

struct spawn_options {
  std::string_view name{};
  std::size_t stack_size = 0;
  bool joinable = false;  // a thread handle: recycled by join_goroutine or detach_goroutine
};

WEFT_EXPORT spawn_slot spawn_begin(std::size_t size, std::size_t align);
// body(memory) runs the closure and destroys it. The options may be null.
WEFT_EXPORT void spawn_commit(spawn_slot, void (*body)(void*), const spawn_options*) noexcept;
WEFT_EXPORT void spawn_abort(spawn_slot) noexcept;
[[noreturn]] WEFT_EXPORT void go_of_nil_func();

// Function pointers and function objects that can be empty. A captureless lambda converts to a
// function pointer, but has no operator bool of its own.
template <class F>
constexpr bool is_empty_callable(const F& f) {
  if constexpr (std::is_pointer_v<F> || std::is_member_pointer_v<F>) {
    return f == nullptr;
  } else if constexpr (requires { f.operator bool(); }) {
    return !f.operator bool();
  } else {
    return false;
  }
}

// A callable with its arguments, all decayed, as std::thread keeps them.
template <class F, class... Args>
struct closure {
  template <class G, class... As>
  explicit closure(G&& g, As&&... as) noexcept(std::is_nothrow_constructible_v<F, G> &&
                                               (std::is_nothrow_constructible_v<Args, As> && ...))
      : callable(std::forward<G>(g)), args(std::forward<As>(as)...) {}

  static void run(void* memory) {
    struct guard {
      closure* self;
      ~guard() { self->~closure(); }
    } const g{static_cast<closure*>(memory)};
    std::apply(std::move(g.self->callable), std::move(g.self->args));
  }

  F callable;
  std::tuple<Args...> args;
};

template <class F>
struct closure<F> {
  template <class G>
  explicit closure(G&& g) noexcept(std::is_nothrow_constructible_v<F, G>)
      : callable(std::forward<G>(g)) {}

  static void run(void* memory) {
    struct guard {
      closure* self;
      ~guard() { self->~closure(); }
    } const g{static_cast<closure*>(memory)};
    std::move(g.self->callable)();
  }

  F callable;
};

template <class F, class... Args>
concept spawnable = std::is_invocable_v<std::decay_t<F>, std::decay_t<Args>...>;

// Starts f(args...) as a goroutine; returns the opaque goroutine, which is of use only if joinable.
// Inlined without optimisation too, as are its callers: where it returns to is what reports call
// "created by".
template <class F, class... Args>
[[gnu::always_inline]] inline void* spawn(const spawn_options* options, F&& f, Args&&... args) {
  static_assert(spawnable<F, Args...>, "weft: the callable cannot be called with these arguments");
  using closure_type = closure<std::decay_t<F>, std::decay_t<Args>...>;
  if (is_empty_callable(f)) {
    go_of_nil_func();
  }
  const spawn_slot slot = spawn_begin(sizeof(closure_type), alignof(closure_type));
  if constexpr (std::is_nothrow_constructible_v<closure_type, F, Args...>) {
    ::new (slot.memory) closure_type(std::forward<F>(f), std::forward<Args>(args)...);
  } else {
    try {
      ::new (slot.memory) closure_type(std::forward<F>(f), std::forward<Args>(args)...);
    } catch (...) {
      spawn_abort(slot);
      throw;
    }
  }
  spawn_commit(slot, &closure_type::run, options);
  return slot.goroutine;
}

}  // namespace weft::detail
