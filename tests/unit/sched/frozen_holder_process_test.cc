// A goroutine that is frozen may hold a lock of libc's, for which whoever creates a thread waits. Nobody who could let it go on
// may be that one, and nobody may wait for such a thread in its place (preempt.cc: PE2, PE4).
//
// The lock is played by a hook of the function that creates threads: it can be held for as long as a test wants.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <weft/weft.h>

#include "gmp/inside.h"
#include "gmp/m.h"
#include "gmp/p.h"
#include "gmp/sched.h"
#include "os/process.h"
#include "os/test_hooks.h"
#include "support/child_suite.h"
#include "support/preemptions.h"

namespace {

using namespace std::chrono_literals;
using weft::rt::os::test_hooks;
using weft::test::eventually_hogging;

constexpr int kRight = 3;

void lock_libc() { test_hooks.hold_threads.set(1); }
void unlock_libc() { test_hooks.hold_threads.set(0); }
bool somebody_waits() { return test_hooks.threads_held.get() != 0; }

void compute(std::chrono::milliseconds d) {
  const auto until = weft::test::test_clock::now() + d;
  while (weft::test::test_clock::now() < until) {
  }
}

// Without unlocking it for a while in which sysmon looks at it again and again.
void compute_then_unlock() {
  compute(30ms);
  unlock_libc();
}

// Of the process, ns.
long long processor_time() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

// Of one that hangs, or is slow: then its threads have had little of a processor, and some of them are waiting for one.
WEFT_NO_TSAN void print_state() {
  using weft::rt::sched;
  const weft::rt::inside here;
  const weft::rt::scoped_lock held(sched.lock);
  const int creators = static_cast<int>(sched.creators.load(std::memory_order_relaxed));
  std::fprintf(stderr, "held %d, creators %d, gate closed %d, busy %d\n",
               static_cast<int>(test_hooks.hold_threads.get()), creators, sched.gate.closed(),
               static_cast<int>(sched.gate.busy()));
  std::fprintf(stderr, "Ms %d, idle %d, frozen %d, robbed %d, to make %d, coming %d, system %d\n",
               static_cast<int>(sched.m_count), static_cast<int>(sched.idle_m_count),
               static_cast<int>(sched.frozen_ms), static_cast<int>(sched.robbed_count),
               static_cast<int>(sched.spares_to_make), static_cast<int>(sched.spares_coming),
               static_cast<int>(sched.system_threads));
  std::fprintf(stderr, "idle Ps %d, unmanned %d; processor time %lld ms\n",
               static_cast<int>(sched.idle.idle()), sched.unmanned_ps != nullptr,
               processor_time() / 1'000'000);
  for (const weft::rt::M* mp = sched.all_ms; mp != nullptr; mp = mp->all_next) {
    if (mp->tid == 0) continue;
    std::fprintf(
        stderr,
        "thread %d %c %lld us, P %d, next P %d, frozen %d, returned %d, outside %d, robbed %d, "
        "signalled %d\n",
        mp->tid, weft::rt::task_state(mp->tid), weft::rt::task_cpu_time(mp->tid) / 1000,
        mp->p != nullptr ? mp->p->id : -1, mp->nextp != nullptr ? mp->nextp->id : -1,
        mp->frozen_outside, mp->returned, mp->border.outside(), mp->border.robbed(),
        static_cast<int>(mp->signalled.load(std::memory_order_relaxed)));
  }
}

// The plain thread judges, whatever becomes of the goroutines.
[[noreturn]] void judge(std::function<void()> program) {
  static std::atomic<bool> over{false};
  std::thread([program] {
    program();
    over = true;
  }).detach();
  if (eventually_hogging([] { return over.load(); })) _exit(kRight);
  print_state();
  _exit(1);
}

int idle_ps() {
  const weft::rt::inside here;
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  return weft::rt::sched.idle.idle();
}

// It is created last, and by whom goroutines do not wait.
bool sysmon_is_there() {
  const weft::rt::inside here;
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  return weft::rt::sched.system_threads == 2;
}

class FrozenHolder : public testing::Test {
 protected:
  static void expect(const char* child, const char* procs) {
    for (int i = 0; i < 2; ++i) {
      const auto r = weft::test::run_child(child, {std::string("WEFTMAXPROCS=") + procs});
      ASSERT_EQ(r.status, kRight) << r.output;
    }
  }
};

// It computes with the lock while an M creates a thread, and the world is to stop: for the thread's P, too.
WEFT_CHILD(stop_beside_creation) {
  static std::atomic<bool> begun{false}, over{false};
  std::thread([] {
    while (!somebody_waits()) std::this_thread::yield();
    weft::runtime::stop_the_world([] {});
    over = true;
  }).detach();
  judge([] {
    weft::run([] {
      weft::wait_group ended;
      ended.go([] {
        lock_libc();
        begun = true;
        while (!somebody_waits()) {
        }
        compute_then_unlock();
        while (!over) {
        }
      });
      while (!begun) weft::gosched();
      // Until one of them needs a thread. More than these find no P anyway; each would have to be frozen for all the others.
      constexpr int kSpinners = 12;
      for (int n = 0; !somebody_waits() && !over; ++n) {
        if (n < kSpinners) {
          ended.go([] {
            while (!over) {
            }
          });
        }
        compute(1ms);
      }
      ended.wait();
    });
  });
}
TEST_F(FrozenHolder, WorldStopsBesideCreation) { expect("stop_beside_creation", "8"); }

// It blocks with the lock and loses its P, which goes to a thread that is to be created: by an M, or by the spawner.
int fd[2];
void read_a_byte() {
  char byte;
  static_cast<void>(!read(fd[0], &byte, 1));
}
void read_with_lock() {
  lock_libc();
  read_a_byte();
  compute_then_unlock();
}
std::atomic<bool> let_go{false};
void let_it_go() {
  while (!somebody_waits()) std::this_thread::yield();
  let_go = true;
  close(fd[1]);
}

WEFT_CHILD(back_beside_creation) {
  if (pipe(fd) != 0) return 77;
  std::thread(let_it_go).detach();
  judge([] {
    weft::run([] {
      weft::wait_group ended;
      ended.go(read_with_lock);
      // Unless somebody needs a thread before.
      while (!let_go && (weft::test::handoffs() == 0 || idle_ps() == 0)) {
      }
      while (!let_go) {  // until one of them needs a thread: others may be idle
        ended.go(read_a_byte);
        compute(1ms);
      }
      ended.wait();
    });
  });
}
TEST_F(FrozenHolder, ComesBackBesideCreation) { expect("back_beside_creation", "2"); }

WEFT_CHILD(back_beside_spawner) {
  if (pipe(fd) != 0) return 77;
  std::thread(let_it_go).detach();
  judge([] {
    weft::run([] {
      weft::wait_group ended;
      ended.go(read_with_lock);
      while (!let_go) {  // as above
        weft::gosched();
        ended.go(read_a_byte);
      }
      ended.wait();
    });
  });
}
TEST_F(FrozenHolder, ComesBackBesideTheSpawner) { expect("back_beside_spawner", "1"); }

// It is frozen, a timer is due, and there is no M that could run it: the spawner waits for the lock. Whoever computes makes
// room all the same, for those who are frozen.
WEFT_CHILD(timer_beside_spawner) {
  static std::atomic<bool> over{false};
  if (pipe(fd) != 0) return 77;
  judge([] {
    weft::run([] {
      constexpr int kSpare = 3;
      const auto blocked = weft::test::handoffs();
      weft::wait_group ended;
      for (int i = 0; i < kSpare; ++i) ended.go(read_a_byte);
      while (weft::test::handoffs() < blocked + kSpare) weft::gosched();
      close(fd[1]);
      ended.wait();  // as many Ms are idle soon
      ended.go([] {
        lock_libc();
        while (!somebody_waits() && !over) {
        }
        compute_then_unlock();
        while (!over) {
        }
      });
      for (int i = 0; i < 2 * kSpare; ++i) {
        ended.go([] {
          while (!over) {
          }
        });
      }
      weft::this_thread::sleep_for(8ms);  // sleep-ok: its timer is the subject
      over = true;
      ended.wait();
    });
  });
}
TEST_F(FrozenHolder, GoesOnThoughATimerIsDue) { expect("timer_beside_spawner", "1"); }

// Everybody who was frozen for a stop goes on after it, though there are no threads to be had.
WEFT_CHILD(all_go_on) {
  constexpr int kHogs = 3;
  static std::atomic<long> rounds[kHogs];
  static std::atomic<bool> over{false};
  std::thread([] {
    const auto all_advance = [] {
      long before[kHogs];
      for (int i = 0; i < kHogs; ++i) before[i] = rounds[i];
      return eventually_hogging([&] {
        int moved = 0;
        for (int i = 0; i < kHogs; ++i) moved += rounds[i] > before[i] ? 1 : 0;
        return moved == kHogs;
      });
    };
    bool right = all_advance() && eventually_hogging(sysmon_is_there);
    lock_libc();
    for (int i = 0; i < 5 && right; ++i) {
      weft::runtime::stop_the_world([] {});
      right = all_advance();
    }
    if (!right) _exit(1);
    unlock_libc();
    over = true;
  }).detach();
  judge([] {
    weft::run([] {
      weft::wait_group ended;
      for (auto& r : rounds) {
        ended.go([&r] {
          while (!over) r.fetch_add(1, std::memory_order_relaxed);
        });
      }
      ended.wait();
    });
  });
}
TEST_F(FrozenHolder, AllGoOnAfterAStop) { expect("all_go_on", "3"); }

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
