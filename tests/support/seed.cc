// See seed.h.
#include "support/seed.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace weft::test {

namespace {

std::uint64_t choose() {
  std::uint64_t s = std::random_device()();
  if (const char* text = std::getenv("WEFT_TEST_SEED")) {
    s = std::strtoull(text, nullptr, 0);
  }
  std::printf("seed %" PRIu64 " (again: WEFT_TEST_SEED=%" PRIu64 ")\n", s, s);
  std::fflush(stdout);
  return s;
}

}  // namespace

std::uint64_t seed() {
  static const std::uint64_t s = choose();
  return s;
}

}  // namespace weft::test
