// What is said if the kernel refuses what it has promised. See asymmetric_fence.h.
#include "base/asymmetric_fence.h"

#include "base/fatal.h"
#include "base/print.h"

namespace weft::rt {

void heavy_fence_refused(int error) noexcept {
  {
    printer out;
    out.str("runtime: membarrier(2) is refused (errno=").dec(error);
    out.str("), and was not when the runtime started\n");
    out.str(
        "runtime: a filter of system calls must allow it, or be loaded before weft is first "
        "used\n");
  }
  fatal("membarrier is denied", user_fault);
}

}  // namespace weft::rt
