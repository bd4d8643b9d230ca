// Deep pipelines of goroutines, each of which knows only its neighbours. Go: test/chan/powser1.go, sieve1.go, sieve2.go
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <weft/chan.h>
#include <weft/context.h>
#include <weft/go.h>
#include <weft/select.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

using weft::chan;
using weft::context;
using weft::recv_chan;

class Pipelines : public weft::test::over_procs {};

// --- power series: a series is a channel of its coefficients, which are made when somebody asks ---------

struct rational {
  std::int64_t num = 0, den = 1;
  rational(std::int64_t n = 0, std::int64_t d = 1) {  // NOLINT: a number is one
    const std::int64_t g = std::gcd(n, d) * (d < 0 ? -1 : 1);
    num = n / g;
    den = d / g;
  }
  friend rational operator+(rational a, rational b) {
    return {a.num * b.den + b.num * a.den, a.den * b.den};
  }
  friend rational operator*(rational a, rational b) { return {a.num * b.num, a.den * b.den}; }
  friend bool operator==(const rational&, const rational&) = default;
};
using series = recv_chan<rational>;

// All that is made of them ends with the workshop: endless as they are, their makers wait for room until then.
class workshop {
 public:
  workshop() : ends_(weft::with_cancel(context::background())) {}
  ~workshop() {
    ends_.cancel();
    makers_.wait();
  }

  // next() is the next coefficient, or nothing if the workshop closes.
  template <class F>
  series make(F next) {
    chan<rational> out;
    makers_.go([out, next = std::move(next), ctx = ends_.ctx]() mutable {
      for (;;) {
        const std::optional<rational> x = next();
        if (!x || !out.send(*x, ctx)) return;
      }
    });
    return out;
  }

  std::optional<rational> get(const series& s) {
    const auto x = s.recv(ends_.ctx);
    return x ? std::optional<rational>(*x) : std::nullopt;
  }

  series ones() {
    return make([] { return std::optional<rational>(1); });
  }
  series add(series f, series g) {
    return make([=, this]() -> std::optional<rational> {
      const auto a = get(f), b = a ? get(g) : std::nullopt;
      if (!b) return std::nullopt;
      return *a + *b;
    });
  }
  // c * f
  series scaled_by(rational c, series f) {
    return make([=, this]() -> std::optional<rational> {
      const auto a = get(f);
      if (!a) return std::nullopt;
      return c * *a;
    });
  }
  // The integral of f from 0.
  series integral(series f, rational constant) {
    return make([=, this, n = std::int64_t{0}]() mutable -> std::optional<rational> {
      if (n++ == 0) return constant;
      const auto a = get(f);
      if (!a) return std::nullopt;
      return *a * rational(1, n - 1);
    });
  }
  // Two that both have all of f. The one who reads faster is a little ahead.
  std::pair<series, series> split(series f) {
    chan<rational> a(kAhead), b(kAhead);
    makers_.go([=, this] {
      while (const auto x = get(f)) {
        if (!a.send(*x, ends_.ctx) || !b.send(*x, ends_.ctx)) return;
      }
    });
    return {a, b};
  }
  // f * g = f0 g0 + x (f0 G + F g), where F and G are what is left of f and g: a goroutine more per coefficient.
  series product(series f, series g) {
    return make([=, this, rest = series(nullptr), begun = false]() mutable {
      if (begun) return get(rest);
      begun = true;
      const auto f0 = get(f), g0 = f0 ? get(g) : std::nullopt;
      if (!g0) return std::optional<rational>();
      const auto left = split(g);
      const series whole_g = make([this, g0, others = left.first, first = true]() mutable {
        return std::exchange(first, false) ? g0 : get(others);
      });
      rest = add(scaled_by(*f0, left.second), product(f, whole_g));
      return std::optional<rational>(*f0 * *g0);
    });
  }

  std::vector<rational> first(int n, const series& s) {
    std::vector<rational> some;
    for (int i = 0; i < n; ++i) some.push_back(*get(s));
    return some;
  }

 private:
  static constexpr std::size_t kAhead = 8;

  weft::cancellable<weft::cancel_func> ends_;
  weft::wait_group makers_;
};

// 240
TEST_P(Pipelines, PowerSeries) {
  run([] {
    workshop w;
    // 1/(1-x) twice, then the logarithm, then 1/(1-x)^2: every coefficient is one goroutine deeper.
    EXPECT_EQ(w.first(10, w.add(w.ones(), w.ones())), std::vector<rational>(10, rational(2)));
    std::vector<rational> logarithm{0}, square, cube;
    for (int n = 1; n < 10; ++n) logarithm.emplace_back(1, n);
    EXPECT_EQ(w.first(10, w.integral(w.ones(), 0)), logarithm);
    for (int n = 1; n <= 10; ++n) square.emplace_back(n);
    EXPECT_EQ(w.first(10, w.product(w.ones(), w.ones())), square);
    for (int n = 1; n <= 8; ++n) cube.emplace_back(n * (n + 1) / 2);
    EXPECT_EQ(w.first(8, w.product(w.ones(), w.product(w.ones(), w.ones()))), cube);
  });
}

// --- primes ----------------------------------------------------------------------------------------------

const std::vector<int> kPrimes{2,  3,  5,  7,  11, 13, 17, 19, 23, 29, 31, 37, 41,
                               43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97};

// 248: a filter per prime, in a row.
TEST_P(Pipelines, SieveOfFilters) {
  run([] {
    weft::wait_group wg;
    chan<int> numbers;
    wg.go([numbers] {
      for (int i = 2; i < 100; ++i) numbers.send(i);
      numbers.close();
    });
    std::vector<int> primes;
    while (const auto prime = numbers.recv()) {
      primes.push_back(*prime);
      chan<int> left;
      wg.go([numbers, left, p = *prime] {
        for (const int n : numbers) {
          if (n % p != 0) left.send(n);
        }
        left.close();
      });
      numbers = left;
    }
    wg.wait();
    EXPECT_EQ(primes, kPrimes);
  });
}

// 248: … and each of them a generator of multiples, of which the earliest is taken off a heap, with numbers beside it.
TEST_P(Pipelines, SieveOfMultiples) {
  run([] {
    weft::wait_group wg;
    auto [ctx, cancel] = weft::with_cancel(context::background());
    struct multiples {
      int next;
      recv_chan<int> rest;
    };
    std::vector<multiples> queue;
    const auto later = [](const multiples& a, const multiples& b) { return a.next > b.next; };
    std::vector<int> primes;
    for (int n = 2; n < 100; ++n) {
      bool composite = false;
      while (!queue.empty() && queue.front().next == n) {
        composite = true;
        std::pop_heap(queue.begin(), queue.end(), later);
        queue.back().next = *queue.back().rest.recv();
        std::push_heap(queue.begin(), queue.end(), later);
      }
      if (composite) continue;
      primes.push_back(n);
      chan<int> rest;
      wg.go([rest, n, ctx = ctx] {
        for (int m = 2 * n; rest.send(m, ctx);) m += n;
      });
      queue.push_back({*rest.recv(), rest});
      std::push_heap(queue.begin(), queue.end(), later);
    }
    cancel();
    wg.wait();
    EXPECT_EQ(primes, kPrimes);
  });
}

WEFT_OVER_PROCS(Pipelines);

}  // namespace
