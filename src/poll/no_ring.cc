// The contract of poll/ring.h in a build without liburing: files are read and written by threads.
#include <cerrno>

#include "poll/ring.h"

namespace weft::rt {

bool ring_usable() noexcept { return false; }
int ring_submit(ring_op&) noexcept { return ENOSYS; }
void ring_cancel(ring_op&) noexcept {}
void reap_rings(ready_list&, bool) noexcept {}

}  // namespace weft::rt
