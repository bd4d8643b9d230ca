// A process without sysmon, in which a goroutine that has the only P is judged by a plain thread, at times that it says: so
// that nothing depends on how fast the machine is. For tests of sched/retake.cc and sched/robbed.cc.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <unistd.h>

#include <weft/run.h>
#include <weft/wait_group.h>

#include "gmp/inside.h"
#include "gmp/sched.h"
#include "os/clock.h"
#include "os/process.h"
#include "os/test_hooks.h"
#include "sched/sysmon.h"
#include "support/patience.h"

namespace weft::test {

inline constexpr int kRight = 3;

inline std::uint64_t robberies() {
  const rt::inside here;
  const rt::scoped_lock held(rt::sched.lock);
  return rt::sched.robberies;
}
inline std::uint64_t signals_that_froze() {
  const rt::inside here;
  const rt::scoped_lock held(rt::sched.lock);
  return rt::sched.freezes;
}

// A goroutine that has the only P, beside one that waits for it.
struct subject {
  int fd[2] = {-1, -1};
  std::atomic<int> tid{0};    // of who has the P, once it is where it is judged
  std::atomic<int> turns{0};  // for those who do several things
  std::atomic<bool> over{false};
  std::atomic<bool> other_ran{false};

  void reads() {
    char byte;
    tid = gettid();
    static_cast<void>(!read(fd[0], &byte, 1));
  }
  void computes() {
    tid = gettid();
    while (!over) {
    }
  }
  // So that no look sees it use its processor any more: it is said to sleep shortly before.
  bool sleeps() const {
    if (tid == 0 || rt::task_state(tid) != 'S') return false;
    const long long before = rt::task_cpu_time(tid);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // sleep-ok: two looks at another
    return rt::task_state(tid) == 'S' && rt::task_cpu_time(tid) == before;
  }
  bool wakes() const { return write(fd[1], "x", 1) == 1; }
};

// In place of sysmon.
class watcher {
 public:
  // So long after it was made.
  void look(std::chrono::nanoseconds after) {
    last_pause_ = std::chrono::nanoseconds(rt::retake(began_ + after.count()).pause);
  }
  // True: it has taken the P.
  bool takes_p(std::chrono::nanoseconds after) {
    const std::uint64_t before = robberies();
    look(after);
    return robberies() != before;
  }
  // When it would look again.
  std::chrono::nanoseconds last_pause() const { return last_pause_; }

 private:
  std::int64_t began_ = rt::nanotime();
  std::chrono::nanoseconds last_pause_{};
};

// does(subject) on the only P, while looks(subject) says whether all is right. The status of the process.
inline int judged(
    const std::function<void(subject&)>& does, const std::function<bool(subject&)>& looks,
    const std::function<void(subject&)>& other_does = [](subject&) {}) {
  rt::os::test_hooks.no_sysmon.set(1);
  subject s;
  if (pipe(s.fd) != 0) return 77;
  bool right = false;
  std::thread judge([&] {
    right = looks(s);
    s.over = true;
    right &= s.wakes();
  });
  run([&] {
    wait_group ended;
    ended.go([&] {
      s.other_ran = true;
      other_does(s);
    });
    does(s);
    ended.wait();
  });
  judge.join();
  return right && s.other_ran ? kRight : 1;
}

}  // namespace weft::test
