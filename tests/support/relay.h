// Two goroutines that start each other for ever: always one in runnext.
#pragma once

#include <atomic>

#include <weft/go.h>
#include <weft/wait_group.h>

namespace weft::test {

struct relay {
  std::atomic<bool> stop{false};
  std::atomic<long> legs{0};
  wait_group wg;
  void run_leg() {
    ++legs;
    if (stop) {
      wg.done();
    } else {
      go(&relay::run_leg, this);
    }
  }
};

}  // namespace weft::test
