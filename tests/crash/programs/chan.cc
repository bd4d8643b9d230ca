// Channels and selects that nobody will ever serve, and channels misused.
#include <optional>

#include <weft/weft.h>

#include "crash/programs/program.h"

CRASH_PROGRAM(deadlock_chan_receive) {
  return weft::run([] { weft::chan<int>().recv(); });
}
CRASH_PROGRAM(deadlock_chan_send) {
  return weft::run([] {
    const weft::chan<int> full(1);
    full.send(1);
    full.send(2);
  });
}
CRASH_PROGRAM(deadlock_nil_chan_receive) {
  return weft::run([] { weft::chan<int>(nullptr).recv(); });
}
CRASH_PROGRAM(deadlock_nil_chan_send) {
  return weft::run([] { weft::chan<int>(nullptr).send(1); });
}
CRASH_PROGRAM(deadlock_select) {
  return weft::run([] {
    const weft::chan<int> a, b;
    weft::select(weft::recv(a), weft::send(b, 1));
  });
}
CRASH_PROGRAM(deadlock_select_no_cases) {
  return weft::run([] { weft::select(); });
}
CRASH_PROGRAM(panic_send_on_closed) {
  return weft::run([] {
    const weft::chan<int> c(1);
    c.close();
    c.send(1);
  });
}
CRASH_PROGRAM(panic_close_of_closed) {
  return weft::run([] {
    const weft::chan<int> c;
    c.close();
    c.close();
  });
}
CRASH_PROGRAM(panic_close_of_nil) {
  return weft::run([] { weft::chan<int>(nullptr).close(); });
}
CRASH_PROGRAM(panic_chan_size) {
  return weft::run([] { weft::chan<long>(static_cast<std::size_t>(-1)); });
}
