// A large array summed in pieces: as many goroutines run at once as there are processors, however
// many there are in all, and each writes only its own result.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include <weft/weft.h>

namespace {

constexpr std::size_t kNumbers = 1'000'000;
constexpr std::size_t kPiece = 10'000;

std::uint64_t parallel_sum(std::span<const std::uint32_t> numbers) {
  std::vector<std::uint64_t> partial((numbers.size() + kPiece - 1) / kPiece);
  weft::wait_group wg;
  for (std::size_t i = 0; i < partial.size(); ++i) {
    wg.go([&partial, numbers, i] {
      const auto rest = numbers.subspan(i * kPiece);
      const auto piece = rest.first(std::min(kPiece, rest.size()));
      partial[i] = std::accumulate(piece.begin(), piece.end(), std::uint64_t{0});
    });
  }
  wg.wait();  // what the goroutines wrote before done() is visible from here on
  return std::accumulate(partial.begin(), partial.end(), std::uint64_t{0});
}

}  // namespace

int main() {
  return weft::run([] {
    std::vector<std::uint32_t> numbers(kNumbers);
    std::iota(numbers.begin(), numbers.end(), 1u);
    const std::uint64_t sum = parallel_sum(numbers);
    std::printf("1 + 2 + ... + %zu = %ju\n", kNumbers, static_cast<std::uintmax_t>(sum));
    return sum == std::uint64_t{kNumbers} * (kNumbers + 1) / 2 ? 0 : 1;
  });
}

// Output:
// 1 + 2 + ... + 1000000 = 500000500000
