// See thread.h. Threads are pthreads and not bare clones: users' code on them needs libc's TLS.
#include "os/thread.h"

#include <cstdint>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/test_hooks.h"

namespace weft::rt {
namespace {

void sleep_ms(int ms) noexcept {
  timespec left{0, ms * 1'000'000L};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

void wait_while_held() noexcept {
  while (os::test_hooks.hold_threads.get() != 0) {
    os::test_hooks.threads_held.set(1);
    sleep_ms(1);
  }
}

int create_once(const pthread_attr_t& attr, void* (*fn)(void*), void* arg) noexcept {
  if (os::test_hooks.force_thread_eagain_count.count_down()) return EAGAIN;
  wait_while_held();
  // The new thread inherits the mask: block everything around the creation, so that there is no
  // instruction at which the thread exists unmasked.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t ignored;
  const int error = pthread_create(&ignored, &attr, fn, arg);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

}  // namespace

int create_thread(void* (*fn)(void*), void* arg) noexcept {
  os::load_test_hooks();
  pthread_attr_t attr;
  if (const int error = pthread_attr_init(&attr); error != 0) return error;
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  int error = EAGAIN;
  for (int attempt = 1; attempt <= kThreadCreateAttempts && error == EAGAIN; ++attempt) {
    error = create_once(attr, fn, arg);
    if (error == EAGAIN) sleep_ms(attempt);
  }
  pthread_attr_destroy(&attr);
  return error;
}

constexpr std::uint64_t kResetOnFork = 1;  // SCHED_FLAG_RESET_ON_FORK

void ask_for_short_slices(bool shortly, bool inherited) noexcept {
  const int saved_errno = errno;  // it is asked for in handlers, too
  struct {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;
  } attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) == 0 &&
      attributes.policy == SCHED_OTHER &&
      (inherited || attributes.nice >= 0)) {     // or the other would not be inherited, either
    attributes.runtime = shortly ? 100'000 : 0;  // ns, the least it takes; the usual
    attributes.flags |= inherited ? 0 : kResetOnFork;
    syscall(SYS_sched_setattr, 0, &attributes, 0);
  }
  errno = saved_errno;
}

}  // namespace weft::rt
