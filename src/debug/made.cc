// Where an object is made, if its constructor cannot say so by itself: see weft/detail/made.h.
#include <weft/detail/made.h>

#include "debug/traceback.h"

namespace weft::detail {

const void* find_maker() noexcept { return rt::user_call_site(__builtin_return_address(0)); }

}  // namespace weft::detail
