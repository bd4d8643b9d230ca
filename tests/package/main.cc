// The smallest program that needs the whole library: a goroutine, a wait group, an exit status.
#include <cstdio>

#include <weft/weft.h>

int main() {
  return weft::run([] {
    int sum = 0;
    weft::wait_group wg;
    wg.add(1);
    weft::go([&] {
      sum = 42;
      wg.done();
    });
    wg.wait();
    std::printf("sum %d\n", sum);
    return sum == 42 ? 0 : 1;
  });
}
