// What once.h cannot say in a header.
#include <weft/once.h>
#include <weft/panic.h>

namespace weft::detail {

void throw_once_has_no_value() {
  throw panic_error("panic called with nil argument");  // Go's words for such a once function
}

}  // namespace weft::detail
