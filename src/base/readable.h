// May this memory be read? For code that follows pointers which may be garbage: stack walks in
// crash reports, the search for an exception in flight.
//
// rt_sigprocmask with an impossible operation copies the set in before it looks at the operation:
// EFAULT if the memory cannot be read, else EINVAL, and nothing changes. qemu-user does so too.
// Rejected: mincore (calls PROT_NONE readable), a pipe and write(2) (needs descriptors),
// process_vm_readv (sandboxes deny it), a SIGSEGV handler (the user's).
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::rt {

// Requires: size > 0. Runs on: any, signal handlers included. Keeps errno. A system call per page.
bool readable(std::uintptr_t address, std::size_t size) noexcept;

}  // namespace weft::rt
