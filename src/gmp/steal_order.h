// The order in which a thief visits its victims: every P once, from a random start with a random
// stride that is coprime to their number, so that thieves spread without a shuffle.
//
// Go: runtime/proc.go randomOrder
#pragma once

#include <cstdint>
#include <numeric>

namespace weft::rt {

class steal_order {
 public:
  // Visits 0..n-1 in the order that r selects.
  class walk {
   public:
    walk(std::uint32_t r, std::uint32_t n)
        : n_(n), left_(n), pos_(r % n), stride_(coprime(r / n, n)) {}
    bool done() const { return left_ == 0; }
    std::uint32_t position() const { return pos_; }
    void next() {
      --left_;
      pos_ = (pos_ + stride_) % n_;
    }
    std::uint32_t stride() const { return stride_; }

   private:
    // The first number coprime to n at or after r's choice. Found by trial: n is small, and 1 always
    // is.
    static std::uint32_t coprime(std::uint32_t r, std::uint32_t n) {
      std::uint32_t c = r % n + 1;
      while (std::gcd(c, n) != 1) {
        c = c % n + 1;
      }
      return c;
    }

    std::uint32_t n_;
    std::uint32_t left_;
    std::uint32_t pos_;
    std::uint32_t stride_;
  };
};

}  // namespace weft::rt
