// See test_hooks.h. Parsing is by hand: this runs where malloc may not.
#include "os/test_hooks.h"

#include <cstdlib>
#include <string_view>
#include <unistd.h>

namespace weft::rt::os {

constinit test_hooks_t test_hooks;

namespace {

constinit atomic<bool> g_loaded{false};

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
      {"force_mmap_fail_after", &test_hooks.force_mmap_fail_after},
      {"deny_guard_install", &test_hooks.deny_guard_install},
      {"deny_process_madvise", &test_hooks.deny_process_madvise},
      {"pretend_qemu_guard", &test_hooks.pretend_qemu_guard},
      {"deny_mprotect", &test_hooks.deny_mprotect},
      {"map_count_budget", &test_hooks.map_count_budget},
      {"pretend_cpus", &test_hooks.pretend_cpus},
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

void test_hooks_t::reset() noexcept {
  force_thread_eagain_count.set(0);
  force_mmap_fail_after.set(-1);
  deny_guard_install.set(0);
  deny_process_madvise.set(0);
  pretend_qemu_guard.set(0);
  deny_mprotect.set(0);
  map_count_budget.set(-1);
  pretend_cpus.set(0);
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
