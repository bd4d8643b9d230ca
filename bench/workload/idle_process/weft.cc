// TASKS goroutines are parked, and the main one waits for a connection, the first of which ends the program.
// driver/idle_process.py looks at the process from outside meanwhile.

#include <cstdio>

#include <weft/weft.h>

#include "report.h"

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 1, "TASKS");
  return weft::run(
      [=, tasks = args.size[0]] {
        weft::net::tcp_listener l = weft::net::listen("127.0.0.1:0");
        weft::wait_group gate, finished;
        gate.add(1);
        for (long i = 0; i < tasks; i++) {
          finished.go([&] { gate.wait(); });
        }
        std::printf("%s\n", l.local_endpoint().to_string().c_str());
        std::fflush(stdout);
        l.accept();
        gate.done();
        finished.wait();
      },
      {.max_procs = args.procs});
}
