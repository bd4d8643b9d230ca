// Two goroutines that take turns. Each parks until the other hands it the ball; on one P a hand-over
// is a switch from stack to stack, without the kernel.
//
// A wait group with the count 1 serves as "not your turn": wait() returns when the other side calls
// done(). The player takes the next turn's count before it passes the ball on, so that add() never
// meets a wait() of the same turn.
#include <cstdio>

#include <weft/weft.h>

namespace {

constexpr int kRallies = 20'000;

struct player {
  weft::wait_group turn;
  int touches = 0;

  void play(player& other, const char* name) {
    for (int i = 1; i <= kRallies; ++i) {
      turn.wait();
      turn.add();
      ++touches;
      if (i <= 2) {
        std::printf("%s %d\n", name, i);
      }
      other.turn.done();
    }
  }
};

}  // namespace

int main() {
  return weft::run([] {
    player ping;
    player pong;
    ping.turn.add();
    pong.turn.add();

    weft::thread a([&] { ping.play(pong, "ping"); });
    weft::thread b([&] { pong.play(ping, "pong"); });
    ping.turn.done();  // the serve
    a.join();
    b.join();

    std::printf("%d touches\n", ping.touches + pong.touches);
    return ping.touches == kRallies && pong.touches == kRallies ? 0 : 1;
  });
}

// Output:
// ping 1
// pong 1
// ping 2
// pong 2
// 40000 touches
