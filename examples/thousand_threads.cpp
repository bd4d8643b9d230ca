// A program written for std::thread, with std:: replaced by weft::. A thousand threads become a
// thousand goroutines on as many OS threads as there are processors.
//
// There is no weft::run here: the runtime starts itself when main makes its first goroutine, and
// join() blocks main as an ordinary thread. The original is one flag away:
//
//     CXXFLAGS=-DUSE_STD ./weft run examples/thousand_threads.cpp
#include <atomic>
#include <cstdio>
#include <vector>

#ifdef USE_STD
#include <thread>
namespace threads = std;
#else
#include <weft/thread.h>
namespace threads = weft;
#endif

int main() {
  std::atomic<int> started = 0;
  std::atomic<int> stopped = 0;

  std::vector<threads::thread> workers;
  for (int i = 0; i < 1000; ++i) {
    workers.emplace_back(
        [&](int rounds) {
          ++started;
          for (int r = 0; r < rounds; ++r) {
            threads::this_thread::yield();
          }
        },
        i % 10);  // an argument, as for std::thread
  }
  for (threads::thread& w : workers) {
    w.join();
  }

  {
    threads::jthread ticker([&](std::stop_token stop) {
      while (!stop.stop_requested()) {
        threads::this_thread::yield();
      }
      ++stopped;
    });
  }  // asks it to stop, and joins

  std::printf("%d started, %d stopped on request\n", started.load(), stopped.load());
  return started == 1000 && stopped == 1 ? 0 : 1;
}

// Output:
// 1000 started, 1 stopped on request
