// Filters of system calls, as sandboxes have them: the kernel answers a call with an error.
#pragma once

#include <cerrno>
#include <cstddef>
#include <iterator>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weft::test {

enum class denied_to { creators, all };

// From now on: to this thread and those that it creates, or to all threads there are, too. False: no filters here.
inline bool deny(unsigned call, unsigned error = ENOSYS, denied_to whom = denied_to::creators) {
  const sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), const_cast<sock_filter*>(program)};
  const unsigned flags = whom == denied_to::all ? SECCOMP_FILTER_FLAG_TSYNC : 0;
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter) == 0;
}

}  // namespace weft::test
