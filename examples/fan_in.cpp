// Several sources, one consumer: select takes whatever comes first, a selector does so for a number of
// sources that is known at run time only.
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <weft/weft.h>

namespace {

using namespace std::chrono_literals;

weft::recv_chan<int> source(int first, int last) {
  const weft::chan<int> out;
  weft::go([=] {
    for (int i = first; i <= last; ++i) out.send(i);
    out.close();
  });
  return out;
}

}  // namespace

int main() {
  return weft::run([] {
    // Two sources. A nil channel is never ready, so that is how a case is switched off.
    weft::recv_chan<int> small = source(1, 10), large = source(100, 110);
    int sum = 0;
    const auto take = [&sum](weft::recv_chan<int>& from, std::optional<int> v) {
      if (v) {
        sum += *v;
      } else {
        from = nullptr;
      }
    };
    while (small || large) {
      weft::select(weft::recv(small, [&](std::optional<int> v) { take(small, v); }),
                   weft::recv(large, [&](std::optional<int> v) { take(large, v); }));
    }
    std::printf("two: %d\n", sum);

    // A hundred sources.
    std::vector<weft::recv_chan<int>> sources;
    for (int i = 0; i < 100; ++i) sources.push_back(source(i, i));
    weft::selector all;
    int open = 100, total = 0;
    for (auto& s : sources) {
      all.add(weft::recv(s, [&](std::optional<int> v) {
        if (v) {
          total += *v;
          --open;
        }
      }));
    }
    while (open != 0) all.select();
    std::printf("hundred: %d\n", total);

    // Nobody sends: a limit.
    const weft::chan<int> silent;
    weft::select(weft::recv(silent), weft::timeout(1ms, [] { std::printf("nothing came\n"); }));
  });
}

// Output:
// two: 1210
// hundred: 4950
// nothing came
