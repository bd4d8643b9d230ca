// Fork and join: every call starts a goroutine for one half of its work and does the other half
// itself. The textbook way to make far too many tasks; here each costs a record of 256 bytes, and a
// stack only while it runs.
//
//     ./weft run examples/fib.cpp [n]
#include <cstdio>
#include <cstdlib>

#include <weft/weft.h>

namespace {

long fib(int n) {
  if (n < 2) {
    return n;
  }
  long left = 0;
  weft::thread forked([&left, n] { left = fib(n - 1); });
  const long right = fib(n - 2);
  forked.join();
  return left + right;
}

long fib_in_a_loop(int n) {
  long a = 0;
  long b = 1;
  while (n-- > 0) {
    const long next = a + b;
    a = b;
    b = next;
  }
  return a;
}

}  // namespace

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 18;
  return weft::run([n] {
    const long value = fib(n);
    std::printf("fib(%d) = %ld\n", n, value);
    return value == fib_in_a_loop(n) ? 0 : 1;
  });
}

// Output:
// fib(18) = 2584
