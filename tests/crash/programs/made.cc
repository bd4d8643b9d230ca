// Deadlocks on what somebody has made. Each says first, on standard output, at which line that is.
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <sys/mman.h>
#include <vector>

#include <weft/weft.h>

#include "crash/programs/program.h"
#include "support/waiting.h"

namespace made {

void at(unsigned line) {
  std::printf("made.cc:%u\n", line);
  std::fflush(stdout);
}

template <class Mutex>
void lock_twice(Mutex& m) {
  m.lock();
  m.lock();
}

// A page that the report may find in any state.
void* page() {
  return ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// One waits for a mutex there, and then that goes.
void wait_for_what_goes(void (*take_away)(void* page)) {
  void* const place = page();
  auto* const m = ::new (place) weft::mutex;
  m->lock();
  weft::thread waits([m] { m->lock(); });
  while (!weft::test::somebody_waits_in("sync.Mutex.Lock")) weft::gosched();
  take_away(place);
  waits.join();
}

}  // namespace made

CRASH_PROGRAM(made_mutex) {
  return weft::run([] {
    made::at(__LINE__ + 1);
    const auto m = std::make_unique<weft::mutex>();
    made::lock_twice(*m);
  });
}
CRASH_PROGRAM(made_mutex_by_new) {
  return weft::run([] {
    const std::unique_ptr<weft::mutex> before(new weft::mutex);
    made::at(__LINE__ + 1);
    const std::unique_ptr<weft::mutex> m(new weft::mutex);
    const std::unique_ptr<weft::mutex> after(new weft::mutex);
    before->lock();
    made::lock_twice(*m);
  });
}
CRASH_PROGRAM(made_mutex_before_the_runtime) {
  made::at(__LINE__ + 1);
  const auto m = std::make_unique<weft::timed_mutex>();
  return weft::run([&m] { made::lock_twice(*m); });
}
CRASH_PROGRAM(made_recursive_mutex) {
  return weft::run([] {
    made::at(__LINE__ + 1);
    const auto m = std::make_unique<weft::recursive_mutex>();
    weft::thread([&m] { m->lock(); }).join();
    m->lock();
  });
}
CRASH_PROGRAM(made_shared_mutex) {
  return weft::run([] {
    made::at(__LINE__ + 1);
    const auto m = std::make_shared<weft::shared_timed_mutex>();
    made::lock_twice(*m);
  });
}
CRASH_PROGRAM(made_condition) {
  return weft::run([] {
    weft::mutex m;
    made::at(__LINE__ + 1);
    const auto changed = std::make_unique<weft::condition_variable>();
    weft::unique_lock held(m);
    changed->wait(held);
  });
}
CRASH_PROGRAM(made_member) {
  struct queue {
    queue() {
      made::at(__LINE__ + 1);
      not_empty = std::make_unique<weft::condition_variable_any>();
    }
    weft::mutex m;
    std::unique_ptr<weft::condition_variable_any> not_empty;
  };
  return weft::run([] {
    const auto q = std::make_shared<queue>();
    weft::unique_lock held(q->m);
    q->not_empty->wait(held);
  });
}
CRASH_PROGRAM(made_wait_group) {
  return weft::run([] {
    std::vector<std::unique_ptr<weft::wait_group>> all;
    made::at(__LINE__ + 1);
    all.push_back(std::make_unique<weft::wait_group>());
    all[0]->add();
    all[0]->wait();
  });
}
CRASH_PROGRAM(made_task_group) {
  return weft::run([] {
    made::at(__LINE__ + 1);
    const std::unique_ptr<weft::task_group> tasks(new weft::task_group);
    tasks->run([] { weft::chan<int>().recv(); });
    tasks->wait();
  });
}
CRASH_PROGRAM(made_task_group_on_the_stack) {
  return weft::run([] {
    made::at(__LINE__ + 1);
    weft::task_group tasks;
    tasks.run([] { weft::chan<int>().recv(); });
    tasks.wait();
  });
}
CRASH_PROGRAM(made_semaphore) {
  return weft::run([] {
    made::at(__LINE__ + 1);
    std::make_shared<weft::counting_semaphore<>>(0)->acquire();
  });
}
CRASH_PROGRAM(made_latch) {
  return weft::run([] {
    made::at(__LINE__ + 1);
    std::make_unique<weft::latch>(1)->wait();
  });
}
CRASH_PROGRAM(made_barrier) {
  return weft::run([] {
    made::at(__LINE__ + 1);
    std::make_unique<weft::barrier<>>(2)->arrive_and_wait();
  });
}
CRASH_PROGRAM(made_promise) {
  return weft::run([] {
    made::at(__LINE__ + 1);
    weft::promise<int> answer;
    answer.get_future().wait();
  });
}
CRASH_PROGRAM(made_packaged_task) {
  return weft::run([] {
    made::at(__LINE__ + 1);
    weft::packaged_task<int(int)> twice([](int n) { return 2 * n; });
    twice.get_future().wait();
  });
}
CRASH_PROGRAM(made_async) {
  return weft::run([] {
    made::at(__LINE__ + 1);
    auto answer = weft::async([] { std::make_unique<weft::latch>(1)->wait(); });
    answer.wait();
  });
}
// What is there when the report is written is not a mutex any more, or nothing at all.
CRASH_PROGRAM(made_and_overwritten) {
  return weft::run([] { made::wait_for_what_goes([](void* at) { std::memset(at, 0x5a, 4096); }); });
}
CRASH_PROGRAM(made_and_unmapped) {
  return weft::run([] { made::wait_for_what_goes([](void* at) { ::munmap(at, 4096); }); });
}
