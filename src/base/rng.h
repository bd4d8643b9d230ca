// A small generator for scheduling decisions: which victim first, which case of a select.
//
// Eight bytes, one multiplication a number, one instance per P so that no draw is shared. The
// quality needed is that nearby seeds diverge at once and that the low bits are as good as the
// high ones (callers reduce by multiplication or by modulo). Not for secrets.
// Rejected: xorshift (zero is a trap, low bits weak), std::minstd (slow division, 2.4 KiB twister).
#pragma once

#include <cstdint>

namespace weft::rt {

class rng {
 public:
  constexpr explicit rng(std::uint64_t seed = 0) noexcept : state_(seed) {}

  constexpr void seed(std::uint64_t value) noexcept { state_ = value; }

  // A Weyl sequence (odd step, so every state is visited) folded by a 128-bit product.
  constexpr std::uint64_t next() noexcept {
    state_ += 0xa0761d6478bd642full;
    const auto product = static_cast<unsigned __int128>(state_) * (state_ ^ 0xe7037ed1a0b428dbull);
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  constexpr std::uint32_t next32() noexcept { return static_cast<std::uint32_t>(next()); }

  // Uniform in [0, n) up to a bias of n / 2^32. Requires: n > 0.
  constexpr std::uint32_t below(std::uint32_t n) noexcept {
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(next32()) * n) >> 32);
  }

 private:
  std::uint64_t state_;
};

}  // namespace weft::rt
