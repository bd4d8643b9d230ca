// See base/readable.h.
#include "base/readable.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"

namespace weft::rt {

// Not instrumented: errno is the thread's, whichever goroutine is there.
WEFT_NO_TSAN bool readable(std::uintptr_t address, std::size_t size) noexcept {
  constexpr int kImpossibleOperation = ~0;
  constexpr std::uintptr_t kSmallestPage = 4096;
  constexpr std::size_t kSetSize = 8;  // the kernel's sigset_t
  // Of a null pointer the kernel would read nothing.
  if (address < kSmallestPage || address + size < address) return false;
  const int saved_errno = errno;
  bool ok = true;
  for (std::uintptr_t page = address & ~(kSmallestPage - 1); page < address + size && ok;
       page += kSmallestPage) {
    ::syscall(SYS_rt_sigprocmask, kImpossibleOperation, page, nullptr, kSetSize);
    ok = errno != EFAULT;
  }
  errno = saved_errno;
  return ok;
}

}  // namespace weft::rt
