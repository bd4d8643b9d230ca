// What debuggers need to know about our records, so that src/debug/weft-gdb.py works without debug information,
// and on core files. Words only; the script has their names, in this order.
#pragma once

namespace weft::rt {

// Once, while booting.
void fill_debug_layout() noexcept;

}  // namespace weft::rt
