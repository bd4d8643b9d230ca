// Faults that tests inject where the operating system would have to fail.
//
// Problem. Every fallback of the runtime (no thread to be had, no memory, an old kernel, qemu) must
// be walked by a test, on a machine where nothing fails.
//
// Protocol. One process-global struct of relaxed atomics, read on slow paths only (creating threads,
// mapping memory, installing guards): a product pays one load there and has no other build. Unit
// tests set the fields; programs that must die as child processes get them by the environment:
//   WEFT_TEST_FORCE=force_mmap_fail_after=3,deny_guard_install=1
// which is read once, at the first slow path. Unknown keys end the process, so that a misspelt test
// cannot pass.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/atomic.h"

namespace weft::rt::os {

/// One injected fault; relaxed throughout, for nothing is published through it.
class test_hook {
 public:
  explicit constexpr test_hook(std::int64_t initial) noexcept : value_(initial) {}

  std::int64_t get() const noexcept {
    return value_.load(WEFT_ORDER(OSH, relaxed));  // order: OSH a switch on its own
  }
  void set(std::int64_t value) noexcept {
    value_.store(value, WEFT_ORDER(OSH, relaxed));  // order: OSH a switch on its own
  }
  /// Counts a positive value down; true while there was something left to count.
  bool count_down() noexcept;
  /// Counts up what is not negative.
  void count_up() noexcept;

 private:
  atomic<std::int64_t> value_;
};

struct test_hooks_t {
  test_hook force_thread_eagain_count{0};  ///< so many attempts to create a thread give EAGAIN
  test_hook hold_threads{0};            ///< who creates a thread waits, as if for a lock of libc's
  test_hook threads_held{0};            ///< … and somebody does
  test_hook force_mmap_fail_after{-1};  ///< so many reserve() succeed, then all give ENOMEM; -1 off
  test_hook deny_guard_install{0};      ///< MADV_GUARD_INSTALL gives EINVAL
  test_hook deny_process_madvise{0};    ///< process_madvise gives EPERM
  test_hook pretend_qemu_guard{0};      ///< guard advice succeeds and guards nothing
  test_hook deny_mprotect{0};           ///< mprotect of a guard gives ENOMEM
  test_hook map_count_budget{-1};       ///< mappings that mprotect guards may use; -1: the kernel's
  test_hook pretend_cpus{0};            ///< so many in every affinity mask; 0: the kernel's
  test_hook deny_epoll_pwait2{0};       ///< epoll_pwait2 gives ENOSYS
  test_hook poller_interrupts{
      0};                         ///< one in so many waits for news is interrupted at once; not all
  test_hook poller_add_error{0};  ///< no descriptor can be watched: this errno
  test_hook io_faults{0};         ///< see io/calls.h: a fault in so many calls, by chance
  test_hook io_faults_left{-1};   ///< … so many of them, then none; -1: without end
  test_hook close_error{0};       ///< close(2) gives this errno, and closes all the same
  test_hook deny_pidfd{0};        ///< pidfd_open gives ENOSYS
  test_hook resolver_delay_ms{
      0};  ///< getaddrinfo takes so long, and knows "slow.test"; -1: as long as it is -1
  test_hook resolver_asked{-1};       ///< counts what getaddrinfo was asked for, if not negative
  test_hook accept_emfile_count{0};   ///< so many accepts give EMFILE
  test_hook accept_aborted_count{0};  ///< so many accepts give ECONNABORTED
  test_hook hold_signals{0};  ///< a handler of signal::notify waits: 1 before it counts, 2 after
  test_hook signals_held{0};  ///< … and somebody does, at that place
  test_hook no_sysmon{
      0};  ///< nobody watches: for tests that count what goroutines do by themselves
  test_hook deny_io_uring{0};      ///< io_uring_setup gives this errno
  test_hook deny_ring_feature{0};  ///< 1: a feature of the ring is missing, 2: an operation
  test_hook ring_submit_error{0};  ///< io_uring_enter gives this errno
  test_hook ring_room{0};          ///< completions that a ring has room for; 0: as ever
  test_hook ring_overflow_late{
      0};  ///< whoever has emptied a ring does not see yet that it overflowed
  test_hook ring_operations{-1};  ///< counts what the rings have taken, if not negative
  test_hook deny_nowait{0};       ///< RWF_NOWAIT gives EOPNOTSUPP
  test_hook force_miss{0};        ///< … or EAGAIN: the page cache has nothing
  test_hook longest_entry{0};     ///< getdents64 gives EINVAL below so many bytes
  test_hook sends_refused{-1};    ///< counts sendmsg that gave EAGAIN, if not negative

  void reset() noexcept;
};

extern test_hooks_t test_hooks;

/// Reads WEFT_TEST_FORCE if nobody has yet. Called by those who look at a hook.
void load_test_hooks() noexcept;

/// Sets hooks from "key=value,key=value"; ends the process if it does not understand.
void apply_test_hooks(std::string_view text) noexcept;

}  // namespace weft::rt::os
