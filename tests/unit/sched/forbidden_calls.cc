// A program that this is linked into ends with a report as soon as one of the runtime's own threads calls what may
// wait for a lock of libc, the loader or the unwinder, where it must not (D2; sched/preempt.cc, PE2).
//
// Problem. A goroutine is frozen wherever it is, with malloc's lock or the loader's. Whoever could let it go on and
// asks for that lock waits for ever; but only if the signal comes at that very moment, so no other test sees it.
//
// So these functions are defined here once more, in front of libc's, and look who calls: sysmon never may, nor may an M
// on its own stack (g0), in the runtime (gmp/border.h), or in the handler in which it freezes. An M may create a thread
// unless somebody is frozen in his own code, and a new thread may ask to be told of its end, likewise, or if it has no P,
// so that nobody waits for it. What these two call in turn is not looked at. Nor may whoever writes a crash report call any of
// them, whatever it was at: the thread that it is may have been stopped anywhere, with those very locks.
#include "unit/sched/forbidden_calls.h"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <typeinfo>
#include <unistd.h>
#include <unwind.h>

#include "base/fatal.h"
#include "base/print.h"
#include "base/tls.h"
#include "gmp/m.h"
#include "gmp/sched.h"
#include "sched/sysmon.h"

namespace {

using namespace weft::rt;

std::atomic<std::uint64_t> seen{0};
constinit thread_local bool may_lock = false;

// Null: anything may be called here.
const char* where_not() noexcept {
  if (crashing() && reports_crash()) return "in a crash report";
  const M* mp = current_m();
  if (mp == nullptr) {
    return is_sysmon() ? "on sysmon" : nullptr;
  }
  if (mp->in_handler) return "in the handler";
  if (mp->curg == nullptr) return "on g0";
  return mp->border.outside() ? nullptr : "in the runtime";
}

[[noreturn]] void report(const char* what, const char* where) noexcept {
  {
    printer out;
    out.str("runtime: ").str(what).str(" is called ").str(where).str("\n");
  }
  if (crashing()) syscall(SYS_exit_group, weft::test::kCalledWhileCrashing);
  fatal("a lock that a frozen goroutine may hold");
}

void look(const char* what) noexcept {
  if (may_lock) return;
  const int saved = errno;
  if (const char* where = where_not()) report(what, where);
  if (current_m() != nullptr) seen.fetch_add(1, std::memory_order_relaxed);
  errno = saved;
}

bool somebody_is_frozen() {
  const scoped_lock held(sched.lock);
  for (const M* mp = sched.all_ms; mp != nullptr; mp = mp->all_next) {
    if (mp->frozen_outside) return true;
  }
  return false;
}

void look_at_creation() noexcept {
  const char* where = where_not();
  if (where != nullptr && (is_sysmon() || somebody_is_frozen())) report("pthread_create", where);
}

void look_at_beginning() noexcept {
  const M* mp = current_m();
  const char* where = where_not();
  if (where == nullptr) return;
  const bool spare = mp != nullptr && mp->curg == nullptr && mp->p == nullptr && !mp->nextp;
  if (!spare && somebody_is_frozen()) report("__cxa_thread_atexit", where);
}

}  // namespace

namespace weft::test {

std::uint64_t calls_looked_at() noexcept { return seen.load(std::memory_order_relaxed); }

}  // namespace weft::test

namespace {

// libc's own, looked up before there are goroutines. But what libstdc++ calls when it begins is earlier.
class libcs {
 public:
  explicit constexpr libcs(const char* name) noexcept : name_(name) {}
  void* get() noexcept {
    void* f = found_.load(std::memory_order_relaxed);
    if (f == nullptr) {
      f = dlsym(RTLD_NEXT, name_);
      found_.store(f, std::memory_order_relaxed);
    }
    return f;
  }

 private:
  const char* name_;
  std::atomic<void*> found_{nullptr};
};

}  // namespace

// NOLINTBEGIN: libc's names
#define WEFT_LIBCS(name) static constinit libcs next_##name(#name)
#define WEFT_CALL(name) reinterpret_cast<decltype(&name)>(next_##name.get())
extern "C" int __cxa_thread_atexit_impl(void (*)(void*), void*, void*);
WEFT_LIBCS(__cxa_thread_atexit_impl);
WEFT_LIBCS(pthread_create);
WEFT_LIBCS(pthread_mutex_lock);
WEFT_LIBCS(dl_iterate_phdr);
WEFT_LIBCS(dlopen);
WEFT_LIBCS(dladdr);
WEFT_LIBCS(fopen);
WEFT_LIBCS(fwrite);
WEFT_LIBCS(fflush);
WEFT_LIBCS(_Unwind_RaiseException);
WEFT_LIBCS(_Unwind_ForcedUnwind);
WEFT_LIBCS(_Unwind_Backtrace);

[[gnu::constructor(101)]] static void look_up() {
  next___cxa_thread_atexit_impl.get();
  next_pthread_create.get();
  next_pthread_mutex_lock.get();
  next_dl_iterate_phdr.get();
  next_dlopen.get();
  next_dladdr.get();
  next_fopen.get();
  next_fwrite.get();
  next_fflush.get();
  next__Unwind_RaiseException.get();
  next__Unwind_ForcedUnwind.get();
  next__Unwind_Backtrace.get();
}

extern "C" {

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t n) noexcept {
  look("malloc");
  return __libc_malloc(n);
}
void* calloc(std::size_t n, std::size_t size) noexcept {
  look("calloc");
  return __libc_calloc(n, size);
}
void* realloc(void* p, std::size_t n) noexcept {
  look("realloc");
  return __libc_realloc(p, n);
}
void free(void* p) noexcept {
  if (p != nullptr) look("free");
  __libc_free(p);
}
void* aligned_alloc(std::size_t alignment, std::size_t n) noexcept {
  look("aligned_alloc");
  return __libc_memalign(alignment, n);
}
int posix_memalign(void** p, std::size_t alignment, std::size_t n) noexcept {
  look("posix_memalign");
  *p = __libc_memalign(alignment, n);
  return *p == nullptr ? ENOMEM : 0;
}

int pthread_create(pthread_t* id, const pthread_attr_t* attributes, void* (*f)(void*),
                   void* argument) noexcept {
  look_at_creation();
  may_lock = true;
  const int error = WEFT_CALL(pthread_create)(id, attributes, f, argument);
  may_lock = false;
  return error;
}
int __cxa_thread_atexit_impl(void (*f)(void*), void* argument, void* dso) {
  look_at_beginning();
  may_lock = true;
  const int error = WEFT_CALL(__cxa_thread_atexit_impl)(f, argument, dso);
  may_lock = false;
  return error;
}
int pthread_mutex_lock(pthread_mutex_t* m) noexcept {
  look("pthread_mutex_lock");
  return WEFT_CALL(pthread_mutex_lock)(m);
}

int dl_iterate_phdr(int (*f)(dl_phdr_info*, std::size_t, void*), void* argument) {
  look("dl_iterate_phdr");
  return WEFT_CALL(dl_iterate_phdr)(f, argument);
}
void* dlopen(const char* name, int mode) noexcept {
  look("dlopen");
  return WEFT_CALL(dlopen)(name, mode);
}
int dladdr(const void* address, Dl_info* info) noexcept {
  look("dladdr");
  return WEFT_CALL(dladdr)(address, info);
}

FILE* fopen(const char* name, const char* mode) {
  look("fopen");
  return WEFT_CALL(fopen)(name, mode);
}
std::size_t fwrite(const void* p, std::size_t size, std::size_t n, FILE* file) {
  look("fwrite");
  return WEFT_CALL(fwrite)(p, size, n, file);
}
int fflush(FILE* file) {
  look("fflush");
  return WEFT_CALL(fflush)(file);
}

}  // extern "C"

// The rest of stdio under names of our own, since headers define some of libc's themselves.
#define WEFT_WATCHED_AS(seen, result, name, parameters, arguments)              \
  WEFT_LIBCS(name);                                                             \
  [[gnu::constructor(101)]] static void look_up_##name() { next_##name.get(); } \
  extern "C" result watched_##name parameters __asm__(#name);                   \
  result watched_##name parameters {                                            \
    look(seen);                                                                 \
    return reinterpret_cast<result(*) parameters>(next_##name.get()) arguments; \
  }
#define WEFT_WATCHED(result, name, parameters, arguments) \
  WEFT_WATCHED_AS(#name, result, name, parameters, arguments)

WEFT_WATCHED(int, puts, (const char* text), (text))
WEFT_WATCHED(int, fputs, (const char* text, FILE* file), (text, file))
WEFT_WATCHED(int, putchar, (int c), (c))
WEFT_WATCHED(int, putc, (int c, FILE* file), (c, file))
WEFT_WATCHED(int, fputc, (int c, FILE* file), (c, file))
WEFT_WATCHED(int, fclose, (FILE * file), (file))
WEFT_WATCHED(int, vfprintf, (FILE * file, const char* format, va_list list), (file, format, list))
WEFT_WATCHED(int, vprintf, (const char* format, va_list list), (format, list))
WEFT_WATCHED_AS("vfprintf", int, __vfprintf_chk,
                (FILE * file, int flag, const char* format, va_list list),
                (file, flag, format, list))
WEFT_WATCHED_AS("vprintf", int, __vprintf_chk, (int flag, const char* format, va_list list),
                (flag, format, list))

// Those whose arguments cannot be handed on are made of those that take a list.
static int print_list(FILE* file, const char* format, va_list list) {
  using vfprintf_type = int (*)(FILE*, const char*, va_list);
  return reinterpret_cast<vfprintf_type>(next_vfprintf.get())(file, format, list);
}
#define WEFT_WATCHED_PRINT(seen, name, file, ...)                                     \
  extern "C" int watched_##name(__VA_ARGS__, const char* format, ...) __asm__(#name); \
  int watched_##name(__VA_ARGS__, const char* format, ...) {                          \
    look(seen);                                                                       \
    va_list list;                                                                     \
    va_start(list, format);                                                           \
    const int n = print_list(file, format, list);                                     \
    va_end(list);                                                                     \
    return n;                                                                         \
  }

WEFT_WATCHED_PRINT("fprintf", fprintf, file, FILE* file)
WEFT_WATCHED_PRINT("printf", __printf_chk, stdout, int)
WEFT_WATCHED_PRINT("fprintf", __fprintf_chk, file, FILE* file, int)
extern "C" int watched_printf(const char* format, ...) __asm__("printf");
int watched_printf(const char* format, ...) {
  look("printf");
  va_list list;
  va_start(list, format);
  const int n = print_list(stdout, format, list);
  va_end(list);
  return n;
}

extern "C" {

_Unwind_Reason_Code _Unwind_RaiseException(_Unwind_Exception* e) {
  look("throw");
  return WEFT_CALL(_Unwind_RaiseException)(e);
}
_Unwind_Reason_Code _Unwind_ForcedUnwind(_Unwind_Exception* e, _Unwind_Stop_Fn stop, void* data) {
  look("_Unwind_ForcedUnwind");
  return WEFT_CALL(_Unwind_ForcedUnwind)(e, stop, data);
}
_Unwind_Reason_Code _Unwind_Backtrace(_Unwind_Trace_Fn f, void* data) {
  look("_Unwind_Backtrace");
  return WEFT_CALL(_Unwind_Backtrace)(f, data);
}

}  // extern "C"
// NOLINTEND
