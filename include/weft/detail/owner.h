// Who is running, for those who lock: the lower half of the goroutine's id, 0 on plain threads.
//
// Mutexes keep it beside their word, so that reports can say who holds them (src/debug/lock_owners.h). Uncontended,
// lock() is one atomic instruction, and shall not become dearer: two loads beside it and a store that nobody waits
// for do not show, a call would. In assembly, as src/base/tls.h: a goroutine may go on on another thread after any
// park, but compilers keep the addresses of thread-locals. Wherever it is interrupted here, the id is its own.
#pragma once

#include <cstdint>

#include <weft/detail/export.h>

namespace weft::detail {

// What is read is weft::detail::current_id, a thread-local of src/base/tls.cc: the id of the goroutine that runs on this
// thread, or of nobody; set by whoever switches.
#if defined(__x86_64__)
[[gnu::always_inline]] inline std::uint32_t this_owner() noexcept {
  std::uint64_t id;
  asm volatile(
      "{movq _ZN4weft6detail10current_idE@gottpoff(%%rip), %0|"
      "mov %0, QWORD PTR _ZN4weft6detail10current_idE@gottpoff[rip]}\n\t"
      "{movq %%fs:(%0), %0|mov %0, QWORD PTR fs:[%0]}\n\t"
      "{movl (%0), %k0|mov %k0, DWORD PTR [%0]}"  // also for programs that are compiled with -masm=intel
      : "=r"(id));
  return static_cast<std::uint32_t>(id);
}
#elif defined(__aarch64__)
[[gnu::always_inline]] inline std::uint32_t this_owner() noexcept {
  std::uint64_t id;
  void* thread;
  asm volatile(
      "adrp %0, :gottprel:_ZN4weft6detail10current_idE\n\t"
      "ldr %0, [%0, #:gottprel_lo12:_ZN4weft6detail10current_idE]\n\t"
      "mrs %1, tpidr_el0\n\t"
      "ldr %0, [%0, %1]\n\t"
      "ldr %w0, [%0]"
      : "=&r"(id), "=&r"(thread));
  return static_cast<std::uint32_t>(id);
}
#else
WEFT_EXPORT std::uint32_t this_owner() noexcept;
#endif

}  // namespace weft::detail
