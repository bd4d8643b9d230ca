// Ordinary threads and goroutines that wait for each other. Everything in weft that blocks may be
// called from both: a goroutine parks, a plain thread sleeps.
#include <cstdio>
#include <thread>

#include <weft/weft.h>

int main() {
  weft::wait_group question;
  weft::wait_group answer;
  int asked = 0;
  int answered = 0;
  question.add();
  answer.add();

  // A goroutine, started by the plain thread that main is. It waits for a thread...
  weft::thread oracle([&] {
    question.wait();
    answered = asked + 2;
    answer.done();
  });

  // ... and a thread that waits for a goroutine.
  std::thread pilgrim([&] {
    asked = 40;
    question.done();
    answer.wait();
    std::printf("the answer is %d\n", answered);
    // Threads that weft did not make may start goroutines, too.
    weft::thread([] { std::puts("a goroutine started by a thread"); }).join();
  });

  pilgrim.join();
  oracle.join();
  return answered == 42 ? 0 : 1;
}

// Output:
// the answer is 42
// a goroutine started by a thread
