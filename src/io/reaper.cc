// Programs that still run though nobody waits for them any more. Somebody has to reap them when they end, or they stay as
// zombies.
//
// One thread does it for all that have pidfds. They are watched by an epoll descriptor, which is the list as well: who adds to
// it while the thread sleeps need not wake it, and allocates nothing. Thread and descriptor go with the last program: as long
// as there is a thread that is not the scheduler's, and does not sleep inside weft, there are no deadlock reports.
//
// RE1: `programs` counts those that have been added, and that the thread has not taken off. Adding, taking off, and the
//      decision to end are steps under the lock: otherwise a program would be given to a thread that is about to leave.
//
// A program without a pidfd, or one that cannot be watched, has a thread for itself.
//
// Rejected: a goroutine (there would be one more that nobody started, and none is left when run() has returned).
#include "io/reaper.h"

#include <cerrno>
#include <cstdint>
#include <mutex>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/runtime.h>

#include "base/fatal.h"
#include "io/calls.h"
#include "io/own_thread.h"
#include "os/test_hooks.h"

namespace weft::process {

namespace {

// Never destroyed: the thread outlives main().
struct dropped_programs {
  std::mutex lock;
  int watched = -1;  // the epoll descriptor, constant while there is a thread; -1: there is none
  int programs = 0;
};
constinit dropped_programs dropped;

// One that has ended, by its pidfd: the number may be another one's by now, if the program reaps its children itself. False:
// not yet, or not for us: whoever traces it comes first.
bool reap_ended(int pidfd) {
  siginfo_t whose{};
  constexpr auto kByPidfd = static_cast<idtype_t>(3);  // P_PIDFD
  return waitid(kByPidfd, static_cast<id_t>(pidfd), &whose, WEXITED | WNOHANG) == 0
             ? whose.si_pid != 0
             : rt::calls::last_errno() == ECHILD;
}

// Waits for its end.
void reap_dropped(int pid) {
  siginfo_t ignored{};
  while (waitid(P_PID, static_cast<id_t>(pid), &ignored, WEXITED) != 0 &&
         rt::calls::last_errno() == EINTR) {
  }
}

// RE1: false: that was the last one, and the thread ends.
bool others_are_left(int watched) {
  const std::lock_guard held(dropped.lock);
  if (--dropped.programs > 0) {
    return true;
  }
  ::close(watched);
  dropped.watched = -1;
  return false;
}

// Runs on: the thread.
void reap_all(int watched) {
  for (bool more = true; more;) {
    epoll_event ended{};
    const int n = epoll_wait(watched, &ended, 1, -1);
    WEFT_CHECK(n == 1 || rt::calls::last_errno() == EINTR, "programs cannot be waited for");
    if (n != 1) {
      continue;
    }
    const int pidfd = static_cast<int>(ended.data.u64 >> 32);
    if (!reap_ended(pidfd)) {  // Linux before 5.4 does not wait by pidfds, either
      const int pid = static_cast<int>(ended.data.u64 & UINT32_MAX);
      static_cast<void>(rt::on_own_thread([pid] { reap_dropped(pid); }));
    }
    // Not only by the close: the program's descriptor may have been inherited by a fork().
    epoll_ctl(watched, EPOLL_CTL_DEL, pidfd, nullptr);
    ::close(pidfd);
    more = others_are_left(watched);
  }
}

bool add(int watched, int pid, int pidfd) {
  epoll_event end{};
  end.events = EPOLLIN;
  end.data.u64 = static_cast<std::uint64_t>(pidfd) << 32 | static_cast<std::uint32_t>(pid);
  return rt::os::test_hooks.poller_add_error.get() == 0 &&
         epoll_ctl(watched, EPOLL_CTL_ADD, pidfd, &end) == 0;
}

// False: it cannot be watched, but a thread of its own may wait for it. Otherwise the pidfd is taken.
bool give_to_thread(int pid, int pidfd) {
  const no_preempt stays;  // the lock is the thread's
  const std::lock_guard held(dropped.lock);
  const bool first = dropped.watched < 0;
  const int watched = first ? epoll_create1(EPOLL_CLOEXEC) : dropped.watched;
  if (watched < 0) {
    return false;
  }
  if (!add(watched, pid, pidfd)) {
    if (first) {
      ::close(watched);
    }
    return false;
  }
  if (first && rt::on_own_thread([watched] { reap_all(watched); })) {
    ::close(watched);
    ::close(pidfd);
    return true;  // nobody else would find a thread, either
  }
  dropped.watched = watched;
  ++dropped.programs;
  return true;
}

}  // namespace

void leave_to_reaper(int pid, int pidfd) noexcept {
  if (pidfd >= 0) {
    if (give_to_thread(pid, pidfd)) {
      return;
    }
    ::close(pidfd);
  }
  static_cast<void>(rt::on_own_thread([pid] { reap_dropped(pid); }));
}

}  // namespace weft::process
