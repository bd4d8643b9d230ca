// See g.h.
#include "gmp/g.h"

#include "base/print.h"

namespace weft::rt {

void G::bad_transition(g_status now, g_status from, g_status to) const {
  {
    printer out;
    out.str("runtime: goroutine ").udec(goid).str(" is ").str(to_string(now)).str(", not ");
    out.str(to_string(from)).str(", and should become ").str(to_string(to)).str("\n");
  }
  fatal("bad goroutine transition");
}

}  // namespace weft::rt
