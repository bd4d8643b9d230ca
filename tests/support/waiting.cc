// See waiting.h.
#include "support/waiting.h"

#ifdef WEFT_TEST_INTERNALS
#include "gmp/arena.h"
#endif

namespace weft::test {

#ifdef WEFT_TEST_INTERNALS

namespace {

void count_waiting(rt::G& g, void* arg) {
  *static_cast<std::uint64_t*>(arg) += g.in(rt::g_status::waiting) ? 1 : 0;
}

}  // namespace

std::uint64_t parked_goroutines() {
  return runtime::stop_the_world([] {
    std::uint64_t n = 0;
    rt::for_each_g(count_waiting, &n);
    return n;
  });
}

#else

std::uint64_t parked_goroutines() { return waiting_goroutines(); }

#endif

}  // namespace weft::test
