// See test_hooks.h. Parsing is by hand: this runs where malloc may not.
#include "os/test_hooks.h"

#include <cstdlib>
#include <string_view>
#include <unistd.h>

#include "base/at_start.h"

namespace weft::rt::os {

constinit test_hooks_t test_hooks;

namespace {

WEFT_SET_AT_START constinit atomic<bool> g_loaded{false};

[[noreturn]] void refuse(std::string_view entry) noexcept {
  constexpr std::string_view kMessage = "weft: WEFT_TEST_FORCE: unknown or malformed entry: ";
  [[maybe_unused]] auto ignored = ::write(2, kMessage.data(), kMessage.size());
  ignored = ::write(2, entry.data(), entry.size());
  ignored = ::write(2, "\n", 1);
  ::_exit(3);
}

test_hook* find(std::string_view key) noexcept {
  const struct {
    std::string_view name;
    test_hook* hook;
  } known[] = {
      {"force_thread_eagain_count", &test_hooks.force_thread_eagain_count},
      {"hold_threads", &test_hooks.hold_threads},
      {"threads_held", &test_hooks.threads_held},
      {"force_mmap_fail_after", &test_hooks.force_mmap_fail_after},
      {"deny_guard_install", &test_hooks.deny_guard_install},
      {"deny_process_madvise", &test_hooks.deny_process_madvise},
      {"pretend_qemu_guard", &test_hooks.pretend_qemu_guard},
      {"deny_mprotect", &test_hooks.deny_mprotect},
      {"map_count_budget", &test_hooks.map_count_budget},
      {"pretend_cpus", &test_hooks.pretend_cpus},
      {"deny_epoll_pwait2", &test_hooks.deny_epoll_pwait2},
      {"poller_interrupts", &test_hooks.poller_interrupts},
      {"poller_add_error", &test_hooks.poller_add_error},
      {"io_faults", &test_hooks.io_faults},
      {"io_faults_left", &test_hooks.io_faults_left},
      {"close_error", &test_hooks.close_error},
      {"deny_pidfd", &test_hooks.deny_pidfd},
      {"resolver_delay_ms", &test_hooks.resolver_delay_ms},
      {"resolver_asked", &test_hooks.resolver_asked},
      {"accept_emfile_count", &test_hooks.accept_emfile_count},
      {"accept_aborted_count", &test_hooks.accept_aborted_count},
      {"hold_signals", &test_hooks.hold_signals},
      {"signals_held", &test_hooks.signals_held},
      {"no_sysmon", &test_hooks.no_sysmon},
      {"deny_io_uring", &test_hooks.deny_io_uring},
      {"deny_ring_feature", &test_hooks.deny_ring_feature},
      {"ring_submit_error", &test_hooks.ring_submit_error},
      {"ring_room", &test_hooks.ring_room},
      {"ring_overflow_late", &test_hooks.ring_overflow_late},
      {"ring_operations", &test_hooks.ring_operations},
      {"deny_nowait", &test_hooks.deny_nowait},
      {"force_miss", &test_hooks.force_miss},
      {"longest_entry", &test_hooks.longest_entry},
      {"sends_refused", &test_hooks.sends_refused},
  };
  for (const auto& entry : known) {
    if (entry.name == key) return entry.hook;
  }
  return nullptr;
}

void apply(std::string_view entry) noexcept {
  const auto equals = entry.find('=');
  if (equals == entry.npos || equals + 1 == entry.size()) refuse(entry);
  test_hook* hook = find(entry.substr(0, equals));
  if (hook == nullptr) refuse(entry);
  std::int64_t value = 0;
  for (char digit : entry.substr(equals + 1)) {
    if (digit < '0' || digit > '9') refuse(entry);
    value = value * 10 + (digit - '0');
  }
  hook->set(value);
}

}  // namespace

bool test_hook::count_down() noexcept {
  std::int64_t left = value_.load(WEFT_ORDER(OSH, relaxed));  // order: OSH re-validated by the CAS
  while (left > 0) {
    if (value_.compare_exchange_weak(left, left - 1, WEFT_ORDER(OSH, relaxed),
                                     WEFT_ORDER(OSH, relaxed))) {  // order: OSH counts, no more
      return true;
    }
  }
  return false;
}

void test_hook::count_up() noexcept {
  std::int64_t n = value_.load(WEFT_ORDER(OSH, relaxed));  // order: OSH re-validated by the CAS
  while (n >= 0 &&
         !value_.compare_exchange_weak(n, n + 1, WEFT_ORDER(OSH, relaxed),
                                       WEFT_ORDER(OSH, relaxed))) {  // order: OSH counts, no more
  }
}

void test_hooks_t::reset() noexcept {
  force_thread_eagain_count.set(0);
  hold_threads.set(0);
  threads_held.set(0);
  force_mmap_fail_after.set(-1);
  deny_guard_install.set(0);
  deny_process_madvise.set(0);
  pretend_qemu_guard.set(0);
  deny_mprotect.set(0);
  map_count_budget.set(-1);
  pretend_cpus.set(0);
  deny_epoll_pwait2.set(0);
  poller_interrupts.set(0);
  poller_add_error.set(0);
  io_faults.set(0);
  io_faults_left.set(-1);
  close_error.set(0);
  deny_pidfd.set(0);
  resolver_delay_ms.set(0);
  resolver_asked.set(-1);
  accept_emfile_count.set(0);
  hold_signals.set(0);
  signals_held.set(0);
  no_sysmon.set(0);
  accept_aborted_count.set(0);
  deny_io_uring.set(0);
  deny_ring_feature.set(0);
  ring_submit_error.set(0);
  ring_room.set(0);
  ring_overflow_late.set(0);
  ring_operations.set(-1);
  deny_nowait.set(0);
  force_miss.set(0);
  longest_entry.set(0);
  sends_refused.set(-1);
}

void load_test_hooks() noexcept {
  // order: OSH a second thread may go on before the first has parsed; only tests could tell, and
  // they force faults of the main thread.
  if (g_loaded.exchange(true, WEFT_ORDER(OSH, relaxed))) return;
  if (const char* text = std::getenv("WEFT_TEST_FORCE")) apply_test_hooks(text);
}

void apply_test_hooks(std::string_view text) noexcept {
  while (!text.empty()) {
    const auto comma = text.find(',');
    apply(text.substr(0, comma));
    if (comma == text.npos) break;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace weft::rt::os
