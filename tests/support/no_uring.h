// WEFT_TEST_SECCOMP=ERRNO: a filter of system calls answers io_uring_setup with that, before main() begins,
// as container runtimes do. Included by programs that shall run so, too.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace weft::test {

inline bool deny_io_uring(int error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof program / sizeof *program, program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

namespace {

[[maybe_unused]] const bool filtered = [] {
  const char* error = std::getenv("WEFT_TEST_SECCOMP");
  if (error != nullptr && !deny_io_uring(std::atoi(error))) std::abort();
  return error != nullptr;
}();

}  // namespace

}  // namespace weft::test
