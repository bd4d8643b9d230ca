// Things that are dear to make and may be used again by anybody: Go's sync.Pool.
#pragma once

#include <concepts>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include <weft/detail/export.h>

namespace weft {

namespace detail {

// A box for one value; the value lies behind it.
struct pool_box {
  pool_box* next = nullptr;
};

struct pool_shelves;

// Boxes, full and empty, by P (src/sync/pool.cc).
class pool_core {
 public:
  WEFT_EXPORT explicit pool_core(void (*drop)(pool_box* full) noexcept,
                                 void (*discard)(pool_box* empty) noexcept);
  pool_core(const pool_core&) = delete;
  pool_core& operator=(const pool_core&) = delete;
  WEFT_EXPORT ~pool_core();

  WEFT_EXPORT pool_box* get_full();   // null: there is none
  WEFT_EXPORT pool_box* get_empty();  // null: make one
  WEFT_EXPORT void put_full(pool_box* b);
  WEFT_EXPORT void put_empty(pool_box* b);

 private:
  pool_shelves* shelves_;
};

// A generation passes: what has not been used since the one before is dropped. By runtime::gc().
WEFT_EXPORT void trim_pools();

}  // namespace detail

/// Go's sync.Pool for values of type T: put() what is no longer needed, get() anything that was put, or
/// a new one. Each P keeps its own, so that neither waits for others. What lies there through two rounds
/// of runtime::gc() is dropped, and one comes by itself every two minutes; where memory is short, all of it is
/// (docs/guide/memory.md). What put() did before is seen after the get() that returns the value.
///
///     weft::pool<std::string> buffers([] { return std::string(4096, 0); });
///     std::string b = buffers.get();
///     buffers.put(std::move(b));
///
/// When not to use it: for things that must not be lost (connections), or that are cheap.
template <class T>
class pool {
 public:
  pool() requires std::default_initializable<T> : pool([] { return T(); }) {}
  template <class F>
  requires std::is_invocable_r_v<T, F&>
  explicit pool(F make_new)
      : core_(&drop, &discard), factory_(new factory_of<F>(std::move(make_new))) {}
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;
  ~pool() { delete factory_; }

  T get() {
    if (detail::pool_box* b = core_.get_full()) {
      struct emptied {
        pool& self;
        box* b;
        ~emptied() {
          b->value()->~T();
          self.core_.put_empty(b);
        }
      } const after{*this, static_cast<box*>(b)};
      return std::move(*after.b->value());
    }
    return factory_->make();
  }

  void put(T value) {
    auto* b = static_cast<box*>(core_.get_empty());
    if (b == nullptr) {
      b = new box;
    }
    try {
      ::new (static_cast<void*>(b->memory)) T(std::move(value));
    } catch (...) {
      core_.put_empty(b);
      throw;
    }
    core_.put_full(b);
  }

 private:
  struct box : detail::pool_box {
    T* value() { return std::launder(reinterpret_cast<T*>(memory)); }
    alignas(T) unsigned char memory[sizeof(T)];
  };
  static void drop(detail::pool_box* b) noexcept {
    auto* full = static_cast<box*>(b);
    full->value()->~T();
    delete full;
  }

  static void discard(detail::pool_box* b) noexcept { delete static_cast<box*>(b); }

  struct factory {
    virtual ~factory() = default;
    virtual T make() = 0;
  };
  template <class F>
  struct factory_of final : factory {
    explicit factory_of(F&& f) : f_(std::move(f)) {}
    T make() override { return f_(); }
    F f_;
  };

  detail::pool_core core_;
  factory* factory_;
};

}  // namespace weft
