// A thousand goroutines, and one that waits for them:  ./weft run examples/hello.cpp
#include <atomic>
#include <cstdio>

#include <weft/weft.h>

int main() {
  return weft::run([] {  // this lambda is goroutine 1
    std::atomic<int> sum = 0;
    weft::wait_group wg;
    for (int i = 1; i <= 1000; ++i) {
      wg.add();
      weft::go([&, i] {  // starts a goroutine; wg.go(f) is short for add, go and done
        sum += i;
        wg.done();
      });
    }
    wg.wait();  // parks this goroutine; its thread runs the others meanwhile
    std::printf("hello from 1000 goroutines: sum %d\n", sum.load());
    return sum == 500500 ? 0 : 1;  // the exit status
  });
}

// Output:
// hello from 1000 goroutines: sum 500500
