// See guard.h.
#include "fiber/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/print.h"
#include "base/readable.h"
#include "base/valgrind.h"
#include "os/test_hooks.h"

namespace weft::rt {
namespace {

constexpr int kGuardInstall = 102;         // MADV_GUARD_INSTALL, Linux 6.13
constexpr int kGuardRemove = 103;          // MADV_GUARD_REMOVE
constexpr int kPidfdSelf = -10000;         // PIDFD_SELF: no descriptor needed, Linux 6.14
constexpr std::size_t kBatch = 64;         // ranges per call: 1 KiB of the caller's stack
constexpr std::int64_t kMapsPerGuard = 2;  // the guard, and what it splits off
constexpr std::int64_t kDefaultMaxMaps = 65530;

/// The kernel's answer to the advice for one range, after the injected faults.
bool advise(std::byte* start, std::size_t bytes) noexcept {
  if (os::test_hooks.deny_guard_install.get() != 0) {
    errno = EINVAL;
    return false;
  }
  if (os::test_hooks.pretend_qemu_guard.get() != 0) return true;
  return madvise(start, bytes, kGuardInstall) == 0;
}

long process_madvise_self(const iovec* ranges, std::size_t count) noexcept {
  long done = syscall(SYS_process_madvise, kPidfdSelf, ranges, count, kGuardInstall, 0U);
  if (done >= 0 || errno != EBADF) return done;
  // Linux 6.13 takes only a real descriptor. It is opened per batch: the runtime keeps none open.
  const long fd = syscall(SYS_pidfd_open, getpid(), 0U);
  if (fd < 0) return -1;
  done = syscall(SYS_process_madvise, fd, ranges, count, kGuardInstall, 0U);
  const int error = errno;
  close(static_cast<int>(fd));
  errno = error;
  return done;
}

/// The same for many ranges in one call; returns how many were advised, -1 if it is not allowed.
long advise_batch(std::byte* first, std::size_t stride, std::size_t bytes,
                  std::size_t count) noexcept {
  if (os::test_hooks.deny_process_madvise.get() != 0 || on_valgrind())
    return -1;  // it does not know it
  if (os::test_hooks.deny_guard_install.get() != 0) return -1;
  if (os::test_hooks.pretend_qemu_guard.get() != 0) return static_cast<long>(count);
  iovec ranges[kBatch];
  for (std::size_t i = 0; i < count; ++i) ranges[i] = {first + i * stride, bytes};
  const long done = process_madvise_self(ranges, count);
  return done < 0 ? -1 : done / static_cast<long>(bytes);
}

/// Three quarters of vm.max_map_count: the rest is the program's.
std::int64_t kernel_map_budget() noexcept {
  std::int64_t maps = 0;
  char text[24];
  const int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
  const ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text);
  if (fd >= 0) close(fd);
  for (ssize_t i = 0; i < got && text[i] >= '0' && text[i] <= '9'; ++i) {
    maps = maps * 10 + (text[i] - '0');
  }
  return (maps == 0 ? kDefaultMaxMaps : maps) / 4 * 3;
}

std::int64_t initial_budget() noexcept {
  const std::int64_t forced = os::test_hooks.map_count_budget.get();
  return forced >= 0 ? forced : kernel_map_budget();
}

}  // namespace

guard_result guard_installer::guard(std::byte* first, std::size_t stride, std::size_t bytes,
                                    std::size_t count) noexcept {
  os::load_test_hooks();
  guard_result result;
  result.installed = install(first, stride, bytes, count);
  if (result.installed == count) return result;
  result.protected_ =
      protect(first + result.installed * stride, stride, bytes, count - result.installed);
  const std::size_t guarded = result.installed + result.protected_;
  if (guarded < count) {
    remove(first + guarded * stride, stride, bytes, count - guarded);
    warn_once();
  }
  return result;
}

std::size_t guard_installer::install(std::byte* first, std::size_t stride, std::size_t bytes,
                                     std::size_t count) noexcept {
  // order: GD1 a fact about the kernel; who misses it finds it out again
  if (advice_.load(WEFT_ORDER(GD1, relaxed)) == advice::broken) return 0;
  std::size_t done = 0;
  while (done < count && batches_.load(WEFT_ORDER(GD2, relaxed))) {  // order: GD2 as GD1
    const std::size_t want = count - done < kBatch ? count - done : kBatch;
    const long advised = advise_batch(first + done * stride, stride, bytes, want);
    if (advised > 0) done += static_cast<std::size_t>(advised);
    if (advised < 0) batches_.store(false, WEFT_ORDER(GD2, relaxed));  // order: GD2 as GD1
    if (advised < static_cast<long>(want)) break;  // the range that failed is tried alone
  }
  while (done < count && advise(first + done * stride, bytes)) ++done;
  return done > 0 && believe(first) ? done : 0;
}

/// Advice that was taken for a part of a range only, or by a kernel that did nothing. keeps GU2
void guard_installer::remove(std::byte* first, std::size_t stride, std::size_t bytes,
                             std::size_t count) noexcept {
  // What lies between two guards has no mark that could be removed. A kernel that refuses has none.
  madvise(first, (count - 1) * stride + bytes, kGuardRemove);
}

/// The probe, once per process: keeps GU1.
bool guard_installer::believe(std::byte* guarded) noexcept {
  // order: GD1 a fact about the kernel; who misses it finds it out again
  if (advice_.load(WEFT_ORDER(GD1, relaxed)) == advice::works) return true;
  const bool works = !readable(reinterpret_cast<std::uintptr_t>(guarded), 1);
  // order: GD1 a fact about the kernel; nothing is published with it
  advice_.store(works ? advice::works : advice::broken, WEFT_ORDER(GD1, relaxed));
  return works;
}

std::size_t guard_installer::protect(std::byte* first, std::size_t stride, std::size_t bytes,
                                     std::size_t count) noexcept {
  std::size_t done = 0;
  for (; done < count && charge_budget(); ++done) {
    const bool denied = os::test_hooks.deny_mprotect.get() != 0;
    if (denied || mprotect(first + done * stride, bytes, PROT_NONE) != 0) {
      // The program has used up the mappings that were left to us: do not ask for each stack anew.
      budget_.store(0, WEFT_ORDER(GD3, relaxed));  // order: GD3 a count on its own
      break;
    }
  }
  return done;
}

bool guard_installer::charge_budget() noexcept {
  std::int64_t left = budget_.load(WEFT_ORDER(GD3, relaxed));  // order: GD3 validated by the CAS
  do {
    if (left < 0) {
      const std::int64_t initial = initial_budget();
      // order: GD3 a count on its own; if somebody else was first, his count stands
      if (budget_.compare_exchange_strong(left, initial, WEFT_ORDER(GD3, relaxed),
                                          WEFT_ORDER(GD3, relaxed))) {
        left = initial;
      }
    }
    if (left < kMapsPerGuard) return false;
    // order: GD3 a count on its own
  } while (!budget_.compare_exchange_weak(left, left - kMapsPerGuard, WEFT_ORDER(GD3, relaxed),
                                          WEFT_ORDER(GD3, relaxed)));
  return true;
}

void guard_installer::forget(guard_method method) noexcept {
  if (method != guard_method::protect) return;
  budget_.fetch_add(kMapsPerGuard, WEFT_ORDER(GD3, relaxed));  // order: GD3 a count on its own
}

void guard_installer::warn_once() noexcept {
  if (warned_.exchange(true, WEFT_ORDER(GD4, relaxed))) return;  // order: GD4 only one wins
  printer()
      .str("weft: warning: no more stack guards to be had (this kernel has no MADV_GUARD_INSTALL, ")
      .str("and vm.max_map_count is used up): further stacks are unguarded, ")
      .str("and an overflow is noticed only when its goroutine ends\n");
}

}  // namespace weft::rt
