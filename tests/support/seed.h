// Random tests can be repeated: every one prints its seed, and WEFT_TEST_SEED sets it.
#pragma once

#include <cstdint>

namespace weft::test {

// The seed of this process; printed the first time somebody asks.
std::uint64_t seed();

// Small and fast; two generators with different numbers are independent.
class random_source {
 public:
  explicit random_source(std::uint64_t number) : state_(seed() + number * 0x9e3779b97f4a7c15u) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // 0 .. n-1
  int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace weft::test
