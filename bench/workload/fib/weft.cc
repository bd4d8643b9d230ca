// The Nth Fibonacci number by fork-join: of the two calls one is a goroutine of its own, the other is
// made in place.

#include <cstdlib>

#include <weft/weft.h>

#include "report.h"

namespace {

long fib(long n) {
  if (n < 2) return n;
  long a = 0;
  weft::thread other([&] { a = fib(n - 1); });
  const long b = fib(n - 2);
  other.join();
  return a + b;
}

}  // namespace

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 1, "N");
  return weft::run(
      [n = args.size[0]] {
        long expected = 0, next = 1;
        for (long i = 0; i < n; i++) {
          const long sum = expected + next;
          expected = next;
          next = sum;
        }
        const auto t = bench::now_ns();
        const long result = fib(n);
        bench::report_per_op("ns_per_task", t, next - 1);  // so many calls have forked
        if (result != expected) std::abort();
      },
      {.max_procs = args.procs});
}
