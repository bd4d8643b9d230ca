// Locks that are misused, and goroutines that wait for them for ever.
#include <cstdio>
#include <thread>

#include <weft/condition_variable.h>
#include <weft/latch.h>
#include <weft/mutex.h>
#include <weft/semaphore.h>
#include <weft/shared_mutex.h>
#include <weft/weft.h>

#include "crash/programs/program.h"
#include "io/fd.h"
#include "io/fd_lock.h"

namespace {

// Go: TestMutexMisuse. It cannot be recovered from.
template <class F>
int misuse(F f) {
  return weft::run([f] {
    try {
      f();
    } catch (...) {
      std::puts("recovered");
    }
    std::puts("went on");
  });
}

}  // namespace

CRASH_PROGRAM(mutex_unlock) {
  return misuse([] {
    weft::mutex m;
    m.unlock();
  });
}
CRASH_PROGRAM(mutex_unlock_twice) {
  return misuse([] {
    weft::mutex m;
    m.lock();
    m.unlock();
    m.unlock();
  });
}
CRASH_PROGRAM(recursive_mutex_unlock) {
  return misuse([] {
    weft::recursive_mutex m;
    m.unlock();
  });
}
CRASH_PROGRAM(recursive_mutex_unlock_once_more) {
  return misuse([] {
    weft::recursive_timed_mutex m;
    m.lock();
    m.lock();
    m.unlock();
    m.unlock();
    m.unlock();
  });
}
CRASH_PROGRAM(recursive_mutex_unlock_by_another) {
  return misuse([] {
    weft::recursive_mutex m;
    m.lock();
    weft::thread([&m] { m.unlock(); }).join();
  });
}
CRASH_PROGRAM(recursive_mutex_unlock_by_a_thread) {
  return misuse([] {
    weft::recursive_timed_mutex m;
    m.lock();
    std::thread([&m] { m.unlock(); }).join();
  });
}
CRASH_PROGRAM(shared_mutex_unlock) {
  return misuse([] {
    weft::shared_mutex m;
    m.unlock();
  });
}
CRASH_PROGRAM(shared_mutex_unlock_read) {
  return misuse([] {
    weft::shared_mutex m;
    m.lock_shared();
    m.unlock();
  });
}
CRASH_PROGRAM(shared_mutex_unlock_twice) {
  return misuse([] {
    weft::shared_mutex m;
    m.lock();
    m.unlock();
    m.unlock();
  });
}
CRASH_PROGRAM(shared_mutex_unlock_shared) {
  return misuse([] {
    weft::shared_mutex m;
    m.unlock_shared();
  });
}
CRASH_PROGRAM(shared_mutex_unlock_shared_written) {
  return misuse([] {
    weft::shared_mutex m;
    m.lock();
    m.unlock_shared();
  });
}
CRASH_PROGRAM(shared_mutex_unlock_shared_twice) {
  return misuse([] {
    weft::shared_mutex m;
    m.lock_shared();
    m.unlock_shared();
    m.unlock_shared();
  });
}
CRASH_PROGRAM(latch_below_zero) {
  return misuse([] {
    weft::latch l(1);
    l.count_down(2);
  });
}

CRASH_PROGRAM(deadlock_mutex) {
  return weft::run([] {
    weft::mutex m;
    m.lock();
    m.lock();
  });
}
CRASH_PROGRAM(deadlock_read) {
  return weft::run([] {
    weft::shared_mutex m;
    m.lock();
    m.lock_shared();
  });
}
CRASH_PROGRAM(deadlock_write) {
  return weft::run([] {
    weft::shared_mutex m;
    m.lock_shared();
    m.lock();
  });
}
CRASH_PROGRAM(deadlock_cond) {
  return weft::run([] {
    weft::mutex m;
    weft::condition_variable cv;
    weft::unique_lock<weft::mutex> l(m);
    cv.wait(l);
  });
}
CRASH_PROGRAM(deadlock_semaphore) {
  return weft::run([] {
    weft::binary_semaphore s(0);
    s.acquire();
  });
}

// The runtime's own lock of a descriptor: whoever gives up what it does not have would close the number under others.
using descriptor_lock = weft::rt::fd_lock<weft::rt::fd_gate>;

CRASH_PROGRAM(fd_lock_unlock_read) {
  return misuse([] { static_cast<void>(descriptor_lock().unlock(weft::rt::direction::read)); });
}
CRASH_PROGRAM(fd_lock_unlock_write) {
  return misuse([] { static_cast<void>(descriptor_lock().unlock(weft::rt::direction::write)); });
}
CRASH_PROGRAM(fd_lock_unlock_the_other) {
  return misuse([] {
    descriptor_lock l;
    static_cast<void>(l.lock(weft::rt::direction::read));
    static_cast<void>(l.unlock(weft::rt::direction::write));
  });
}
CRASH_PROGRAM(fd_lock_unlock_without_a_direction) {
  return misuse([] {
    descriptor_lock l;
    static_cast<void>(l.enter());
    static_cast<void>(l.unlock(weft::rt::direction::read));
  });
}
CRASH_PROGRAM(fd_lock_leave) {
  return misuse([] { static_cast<void>(descriptor_lock().leave()); });
}
CRASH_PROGRAM(fd_lock_leave_twice) {
  return misuse([] {
    descriptor_lock l;
    static_cast<void>(l.enter());
    static_cast<void>(l.close());
    for (int i = 0; i < 3; ++i) static_cast<void>(l.leave());
  });
}

// Writes to 244 KiB of the stack, from the top downwards: more than it has, less than its guard holds.
[[gnu::noinline]] void overflow() {
  constexpr std::size_t kBytes = 244 * 1024;
  auto* bytes = static_cast<volatile char*>(__builtin_alloca(kBytes));
  for (std::size_t i = 0; i < kBytes; i += 8) bytes[kBytes - 1 - i] = 1;
}
CRASH_PROGRAM(overflow_of_its_own) {
  return misuse([] { weft::thread({.stack_size = 240 * 1024}, overflow).join(); });
}
CRASH_PROGRAM(overflow_in_place) {
  return misuse([] { weft::thread(overflow).join(); });
}

// A child that runs on its joiner's stack panics: the joiner's handler is not its own.
CRASH_PROGRAM(panic_in_place) {
  return misuse([] {
    weft::thread u([] { throw 42; });
    u.join();
  });
}
