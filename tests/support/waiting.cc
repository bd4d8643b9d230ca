// See waiting.h.
#include "support/waiting.h"

#ifdef WEFT_TEST_INTERNALS
#include "gmp/arena.h"
#endif

namespace weft::test {

#ifdef WEFT_TEST_INTERNALS

namespace {

// The runtime's own come and go as they like. Not instrumented: the bits beside it are the goroutine's.
WEFT_NO_TSAN bool is_helper(const rt::G& g) { return g.helper; }

void count_waiting(rt::G& g, void* arg) {
  *static_cast<std::uint64_t*>(arg) += g.in(rt::g_status::waiting) && !is_helper(g) ? 1 : 0;
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
