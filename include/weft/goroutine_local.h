// A variable of which every goroutine has its own.
#pragma once

#include <cstdint>
#include <utility>

#include <weft/detail/export.h>

namespace weft {

namespace detail {

WEFT_EXPORT std::uint64_t local_key();  // never given out twice
// The calling goroutine's (or plain thread's) value under a key, made by make(context) at first use.
WEFT_EXPORT void* local_get(std::uint64_t key, void* (*make)(const void*), const void* context,
                            void (*destroy)(void*) noexcept);

}  // namespace detail

/// thread_local for goroutines: a goroutine keeps its value wherever it runs, and a plain thread has one,
/// too. Value-initialised, or made by an initialiser, at first use; destroyed when the goroutine ends,
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
  goroutine_local() : key_(detail::local_key()), initialiser_(nullptr) {}
  /// Every goroutine's value starts as what `initialiser` returns.
  explicit goroutine_local(T (*initialiser)())
      : key_(detail::local_key()), initialiser_(initialiser) {}
  goroutine_local(const goroutine_local&) = delete;
  goroutine_local& operator=(const goroutine_local&) = delete;

  T& operator*() const { return *get(); }
  T* operator->() const { return get(); }
  T* get() const { return static_cast<T*>(detail::local_get(key_, &make, this, &destroy)); }

 private:
  static void* make(const void* self) {
    T (*const f)() = static_cast<const goroutine_local*>(self)->initialiser_;
    return f != nullptr ? new T(f()) : new T();
  }
  static void destroy(void* value) noexcept { delete static_cast<T*>(value); }

  std::uint64_t key_;
  T (*initialiser_)();
};

}  // namespace weft
