// The poller on Linux: epoll, edge-triggered, and an eventfd to break a wait.
//
// Every descriptor is added once, for both directions, and stays until it is closed: no system call per
// wait. The eventfd is level-triggered: a break that comes before the wait ends it all the same. Only
// whoever waits drains it; who merely looks leaves it for the one who waits.
//
// BR1: after a break the eventfd is readable until whoever waits has drained it, and that one returns. `broken`
//      spares the system call if it is readable already; it is cleared after the drain: a break in between
//      is left out, but the waiter is on its way back then, and sees what the break was about.
//
// epoll_pwait2 has nanoseconds. Without it (before Linux 5.11, some emulators) a wait ends up to a
// millisecond late.
//
// Rejected: one-shot registration (a system call per wait); level-triggered (a wake-up for each look
// that does not drain the socket); io_uring polls (a submission per wait).
//
// Go: runtime/netpoll_epoll.go [NP-1], [NP-2], [NP-7], [NP-9]
#include <cerrno>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/fatal.h"
#include "base/print.h"
#include "base/tsan_signals.h"
#include "fiber/sanitizer.h"
#include "os/clock.h"
#include "os/test_hooks.h"
#include "poll/poller.h"
#include "timer/timer_event.h"

namespace weft::rt {

namespace {

constexpr std::uint64_t kBreakName = ~std::uint64_t{0};
constexpr std::uint64_t kWatchName = kBreakName - 1;

constinit int epoll_fd = -1;  // constant after poller_start()
constinit int break_fd = -1;
constinit bool has_pwait2 = true;  // written by whoever waits
constinit atomic<std::uint32_t> broken{0};

constexpr std::uint32_t kInterest = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET;
constexpr std::uint32_t kEnd = EPOLLRDHUP | EPOLLHUP | EPOLLERR | EPOLLPRI;

// errno belongs to the thread, and so to whichever goroutine is on it: it is put back, unseen by TSan. The
// result is that of the call, or -errno.
template <class F>
WEFT_NO_TSAN long keeping_errno(F call) {
  const int saved = errno;
  const long n = call();
  const int error = errno;
  errno = saved;
  return n < 0 ? -error : n;
}

int control(int operation, int fd, std::uint32_t events, std::uint64_t name) {
  epoll_event e{};
  e.events = events;
  e.data.u64 = name;
  return static_cast<int>(-keeping_errno([&] { return epoll_ctl(epoll_fd, operation, fd, &e); }));
}

long wait_coarsely(epoll_event* events, std::int64_t ns) {
  constexpr std::int64_t kMillisecond = 1'000'000;
  constexpr std::int64_t kLongest = 1'000'000'000;  // ms: eleven days; then the caller asks again
  const std::int64_t ms = ns < 0 ? -1 : (ns + kMillisecond - 1) / kMillisecond;
  return keeping_errno([&] {
    return epoll_wait(epoll_fd, events, kMostNews, static_cast<int>(ms < kLongest ? ms : kLongest));
  });
}

// For tests: as by a signal that came just before.
[[gnu::noinline, gnu::cold]] bool one_in(std::int64_t n) {
  static constinit atomic<std::uint32_t> waits{0};
  // order: EP0 relaxed, a count on its own
  return waits.fetch_add(1, WEFT_ORDER(EP0, relaxed)) % n == 0;
}

// ns < 0: for ever.
long wait_once(epoll_event* events, std::int64_t ns) {
  if (const std::int64_t n = os::test_hooks.poller_interrupts.get(); n != 0 && one_in(n))
      [[unlikely]] {
    return -EINTR;
  }
  if (ns > 0 && has_pwait2) {
    const timespec limit{static_cast<time_t>(ns / 1'000'000'000),
                         static_cast<long>(ns % 1'000'000'000)};
    const bool denied = os::test_hooks.deny_epoll_pwait2.get() != 0;
    const long n = denied ? -ENOSYS : keeping_errno([&] {
      return syscall(SYS_epoll_pwait2, epoll_fd, events, kMostNews, &limit, nullptr,
                     std::size_t{0});
    });
    if (n == -EINTR) {
      run_delayed_handlers();
    }
    if (n != -ENOSYS && n != -EPERM) {
      return n;
    }
    has_pwait2 = false;
  }
  return wait_coarsely(events, ns);
}

void drain_break() {
  std::uint64_t count = 0;
  keeping_errno([&] { return read(break_fd, &count, sizeof count); });
  // order: BR1 acquire pairs with the release in poller_break(): sees what it was about
  broken.exchange(0, WEFT_ORDER(BR1, acquire));
}

}  // namespace

bool poller_start() noexcept {
  os::load_test_hooks();
  epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  break_fd = epoll_fd < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const bool good = break_fd >= 0 && control(EPOLL_CTL_ADD, break_fd, EPOLLIN, kBreakName) == 0;
  tsan_release(&epoll_fd);  // by a goroutine; who waits comes after it by the scheduler's locks
  return good;
}

int poller_add(int fd, std::uint64_t name) noexcept {
  if (const std::int64_t error = os::test_hooks.poller_add_error.get(); error != 0) [[unlikely]] {
    return static_cast<int>(error);
  }
  return control(EPOLL_CTL_ADD, fd, kInterest, name);
}

int poller_watch(int fd) noexcept { return control(EPOLL_CTL_ADD, fd, EPOLLIN, kWatchName); }

void poller_remove(int fd) noexcept { control(EPOLL_CTL_DEL, fd, 0, 0); }

void poller_rearm(int fd, std::uint64_t name) noexcept {
  control(EPOLL_CTL_MOD, fd, kInterest, name);
}

int poller_wait(poll_news* news, std::int64_t deadline) noexcept {
  const bool waits = deadline != 0;
  epoll_event events[kMostNews];
  std::int64_t ns = deadline == kNever ? -1 : 0;
  if (waits && deadline != kNever) {
    ns = deadline - nanotime();
    ns = ns < 0 ? 0 : ns;
  }
  tsan_acquire(&epoll_fd);
  const long n = wait_once(events, ns);
  if (n < 0 && n != -EINTR) {
    {
      printer out;
      out.str("runtime: epoll_wait failed with errno ").dec(-n).str("\n");
    }
    fatal("runtime: netpoll failed");
  }
  int count = 0;
  for (long i = 0; i < n; ++i) {
    const std::uint32_t what = events[i].events;
    if (events[i].data.u64 == kBreakName) {
      if (waits) {
        drain_break();
      }
      continue;
    }
    if (events[i].data.u64 == kWatchName) {
      continue;
    }
    news[count++] = {events[i].data.u64, (what & (EPOLLIN | kEnd)) != 0,
                     (what & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0, (what & kEnd) != 0};
  }
  return count;
}

void poller_break() noexcept {
  // order: BR1 release: whatever the waiter shall find precedes; pairs with drain_break()
  if (broken.exchange(1, WEFT_ORDER(BR1, release)) != 0) {
    return;
  }
  tsan_acquire(&epoll_fd);  // as in wait: somebody polls, so it was started before
  const std::uint64_t one = 1;
  while (keeping_errno([&] { return write(break_fd, &one, sizeof one); }) == -EINTR) {
  }
}

}  // namespace weft::rt
