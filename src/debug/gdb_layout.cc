// See debug/gdb_layout.h.
#include "debug/gdb_layout.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/at_start.h"
#include "gmp/arena.h"
#include "gmp/g.h"
#include "gmp/m.h"
#include "gmp/wait_reason.h"
#include "os/clock.h"

namespace weft::rt {

namespace {

constexpr std::size_t kReasons = static_cast<std::size_t>(wait_reason::io_wait) + 1;
static_assert(to_string(static_cast<wait_reason>(kReasons)) == std::string_view("unknown"),
              "that was not the last reason");

struct reason_table {
  const char* texts[kReasons];
};
constexpr reason_table all_reasons() {
  reason_table all{};
  for (std::size_t i = 0; i < kReasons; ++i) all.texts[i] = to_string(static_cast<wait_reason>(i));
  return all;
}
constinit const reason_table reasons = all_reasons();

std::uint64_t word(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

}  // namespace

// The order is that of FIELDS in weft-gdb.py and weft_lldb.py.
struct debug_layout {
  std::uint64_t magic = 0;  // set last: the runtime has started
  std::uint64_t version = 3;
  std::uint64_t all_gs = 0;
  std::uint64_t chunk_next = 0, chunk_used = 0, chunk_records = 0;
  std::uint64_t g_size = sizeof(G);
  std::uint64_t g_sp = 0, g_m = 0, g_status = 0, g_reason = 0, g_goid = 0, g_parent = 0;
  std::uint64_t g_created_pc = 0, g_name = 0, g_locked_m = 0, g_waiting_on = 0, g_waiting_since = 0;
  std::uint64_t m_id = 0, m_tid = 0;
  std::uint64_t reasons = 0, reason_count = kReasons;
  std::uint64_t clock = 0;
  std::uint64_t g_frozen = 0;
  std::uint64_t m_lent_once = 0, m_locked_by_user = 0;
};

extern "C" {
// Its name is part of the script.
[[gnu::used, gnu::visibility("default")]] constinit debug_layout weft_debug_layout;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // conditionally supported, and supported here

WEFT_RUNS_AT_START void fill_debug_layout() noexcept {
  debug_layout& l = weft_debug_layout;
  const g_table table = all_g_table();
  l.all_gs = word(table.first);
  l.chunk_next = table.next_offset;
  l.chunk_used = table.used_offset;
  l.chunk_records = table.records_offset;
  l.g_sp = offsetof(G, ctx);
  l.g_m = offsetof(G, m);
  l.g_status = offsetof(G, status);
  l.g_reason = offsetof(G, reason);
  l.g_goid = offsetof(G, goid);
  l.g_parent = offsetof(G, parent_goid);
  l.g_created_pc = offsetof(G, created_pc);
  l.g_name = offsetof(G, name);
  l.g_locked_m = offsetof(G, locked_m);
  l.g_waiting_on = offsetof(G, waiting_on);
  l.g_waiting_since = offsetof(G, waiting_since);
  l.g_frozen = offsetof(G, frozen);
  l.m_id = offsetof(M, id);
  l.m_tid = offsetof(M, tid);
  l.m_lent_once = offsetof(M, lent_once);
  l.m_locked_by_user = offsetof(M, locked_by_user);
  l.reasons = word(reasons.texts);
  l.clock = word(&the_coarse_clock);
  l.magic = 0x4244476674666577;  // "weftfGDB"
}

#pragma GCC diagnostic pop

}  // namespace weft::rt

// The script itself: gdb loads it with the program. Type 4, a name, a newline, the text, a zero byte.
asm(".pushsection \".debug_gdb_scripts\", \"MS\",%progbits,1\n"
    ".byte 4\n"
    ".ascii \"weft-gdb.py\\n\"\n"
    ".incbin \"" WEFT_GDB_SCRIPT
    "\"\n"
    ".byte 0\n"
    ".popsection\n");
