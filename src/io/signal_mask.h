// Which signals the thread lets in that sends them into channels (io/signal.cc).
//
// A program may block a signal in all of its threads, and want it nevertheless. Then somebody has to let it in, and that is
// this thread: whatever else it masks, what is wanted it takes. Only what is wanted: who waits for other signals by
// sigwait() or signalfd() gets them, and no handler runs here but ours (unless the program sets one for a wanted signal
// behind our back, by sigaction(2)).
//
//   set()                                          follow(), whenever the thread has been rung
//   1. wanted := the signals                       a. makes a system call
//   2. rings                                       b. its mask := all but those that are wanted
//   3. waits until in force == wanted              c. in force := wanted
//
// SM-a: what is taken away is blocked again when set() returns. Only then its action may be the program's, or the
//       default again: the one would run on a thread of ours, the other perhaps end the process.
// SM-b: a signal that was sent before set() takes it away has been in the handler by then. The kernel has chosen this thread for
//       it, but it gets there only at the end of a system call; so there is one between the request and the new mask.
//
// The thread holds no lock while it waits to be rung, and none that those hold who call set(). The handler takes none
// at all, so that it may run anywhere in this.
//
// Go: runtime/signal_unix.go ensureSigM
#pragma once

#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <sched.h>

namespace weft::rt {

class signal_mask {
 public:
  // By one at a time. `ring` makes the thread call follow().
  // Blocks: until it has done so.
  template <class Ring>
  void set(std::uint64_t wanted, Ring ring) {
    std::unique_lock held(lock_);
    if (wanted == wanted_) {
      return;
    }
    wanted_ = wanted;
    ring();
    followed_.wait(held, [this] { return in_force_ == wanted_; });
  }
  std::uint64_t wanted() {
    const std::lock_guard held(lock_);
    return wanted_;
  }

  // By the thread, which masks everything to begin with.
  void follow() {
    const std::lock_guard held(lock_);
    if (in_force_ == wanted_) {
      return;
    }
    ::sched_yield();  // keeps SM-b
    sigset_t mask;
    sigfillset(&mask);
    for (std::uint64_t bits = wanted_; bits != 0; bits &= bits - 1) {
      sigdelset(&mask, __builtin_ctzll(bits) + 1);
    }
    pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    in_force_ = wanted_;
    followed_.notify_one();
  }

 private:
  std::mutex lock_;
  std::condition_variable followed_;
  std::uint64_t wanted_ = 0;
  std::uint64_t in_force_ = 0;
};

}  // namespace weft::rt
