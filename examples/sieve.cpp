// The prime sieve: a chain of goroutines, one per prime, each of which lets through what its prime does
// not divide. The chain grows as primes are found; closing the first channel takes it down again.
#include <cstdio>

#include <weft/weft.h>

namespace {

void generate(weft::send_chan<int> out, int limit) {
  for (int i = 2; i < limit; ++i) out.send(i);
  out.close();
}

void filter(weft::recv_chan<int> in, weft::send_chan<int> out, int prime) {
  for (const int i : in) {
    if (i % prime != 0) out.send(i);
  }
  out.close();
}

}  // namespace

int main() {
  return weft::run([] {
    weft::chan<int> numbers;
    weft::go(generate, numbers, 60);
    while (const auto prime = numbers.recv()) {
      std::printf(*prime == 2 ? "%d" : " %d", *prime);
      const weft::chan<int> rest;
      weft::go(filter, numbers, rest, *prime);
      numbers = rest;
    }
    std::printf("\n");
  });
}

// Output:
// 2 3 5 7 11 13 17 19 23 29 31 37 41 43 47 53 59
