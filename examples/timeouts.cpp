// Time-outs, timers and tickers.
#include <chrono>
#include <cstdio>

#include <weft/weft.h>

using namespace std::chrono_literals;

// Answers after d.
static weft::chan<int> ask(int question, weft::clock::duration d) {
  weft::chan<int> answer(1);  // room for one: whoever gives up does not hold the answerer up
  weft::go([=] {
    weft::this_thread::sleep_for(d);
    answer.send(question * 2);
  });
  return answer;
}

static void ask_patiently(int question, weft::clock::duration d, weft::clock::duration patience) {
  weft::select(weft::recv(ask(question, d), [](auto a) { std::printf("answer %d\n", *a); }),
               weft::timeout(patience, [] { std::puts("too late"); }));
}

int main() {
  return weft::run([] {
    ask_patiently(21, 1ms, 1h);
    ask_patiently(4, 1h, 1ms);

    weft::ticker pulse(2ms);
    for (int i = 1; i <= 3; ++i) {
      pulse.c().recv();
      std::printf("tick %d\n", i);
    }

    weft::wait_group called;
    called.add();
    weft::timer alarm = weft::after_func(1h, [&] {
      std::puts("alarm");
      called.done();
    });
    alarm.reset(1ms);
    called.wait();
    std::puts(alarm.stop() ? "stopped in time" : "has rung");
  });
}

// Output:
// answer 42
// too late
// tick 1
// tick 2
// tick 3
// alarm
// has rung
