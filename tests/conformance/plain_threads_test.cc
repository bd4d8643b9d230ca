// Threads that weft did not make: they come and go, call back from libraries that never heard of weft, end
// whenever they like. Go: runtime/crash_cgo_test.go; spec [EX-1] … [EX-7]
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <ucontext.h>
#include <vector>

#include <weft/chan.h>
#include <weft/future.h>
#include <weft/go.h>
#include <weft/mutex.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/semaphore.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "support/child_suite.h"
#include "support/resident.h"
#include "support/tasks.h"
#include "support/thread_state.h"

namespace {

using weft::test::anonymous_kib;
using weft::test::eventually;
using weft::test::scaled;
using weft::test::task_count;

class PlainThreads : public weft::test::over_procs {};

int open_files() { return weft::test::count_entries("/proc/self/fd"); }

// What a thread does with weft, in one of several ways.
void use_weft(int how, std::atomic<int>& done) {
  switch (how % 7) {
    case 0: weft::go([&done] { ++done; }); return;  // and ends at once
    case 1: weft::thread([] { weft::gosched(); }).join(); break;
    case 2: weft::run([] { weft::gosched(); }); break;
    case 3: weft::run([] { weft::gosched(); }, {.lock_main_thread = true}); break;
    case 4: {
      const weft::chan<int> c;
      weft::go([c] { c.send(1); });
      c.recv();
      break;
    }
    case 5: {
      weft::wait_group wg;
      wg.add(1);
      EXPECT_FALSE(wg.wait_for(std::chrono::microseconds(1)));
      wg.done();
      break;
    }
    default: {
      weft::mutex m;
      const std::lock_guard held(m);
      weft::runtime::lock_os_thread();
      break;
    }
  }
  ++done;
}

// Nothing is left of ten thousand threads, one after the other. What they need but once, such as one M more on a busy
// machine, comes in some tenth of them; what is left of every seventh comes in each.
TEST_P(PlainThreads, ThousandsInSequence) {
  const int n = scaled(2500, 50) * 4;
  run([] { weft::gosched(); });
  const int files = open_files(), tasks = task_count();
  std::atomic<int> done{0};
  long before = 0, least = std::numeric_limits<long>::max();  // what a later tenth of them adds
  for (int i = 1; i <= n; ++i) {
    std::thread([&done, i] { use_weft(i, done); }).join();
    if (i % (n / 10) != 0) continue;
    const long now = anonymous_kib();
    ASSERT_GT(now, 0) << "the kernel does not say";
    if (i > n / 10) least = std::min(least, now - before);
    before = now;
  }
  EXPECT_TRUE(eventually([&] { return done == n; })) << done;
  if (weft::test::kMemoryIsOurs) {
    const long most = weft::test::emulated() ? 56 : 16;  // KiB; some of it is the emulator's
    EXPECT_LT(least, most) << "a record of every seventh would be more";
  }
  EXPECT_LT(open_files(), files + 20)
      << "the runtime may have opened some, to watch memory and limits";
  EXPECT_TRUE(eventually([&] { return task_count() <= tasks + procs() + 4; })) << task_count();
}

// Two hundred at once, all blocked, woken by one goroutine; several times over.
TEST_P(PlainThreads, HundredsAtOnce) {
  const int n = 200, rounds = scaled(5, 1);
  const int tasks = task_count();
  for (int round = 0; round < rounds; ++round) {
    const weft::chan<int> in, out;
    std::vector<std::thread> threads;
    for (int i = 0; i < n; ++i) {
      threads.emplace_back([in, out] { out.send(in.recv().value() + 1); });
    }
    const long sum = run([=] {
      weft::go([=] {
        for (int i = 0; i < n; ++i) in.send(i);
      });
      int total = 0;
      for (int i = 0; i < n; ++i) total += out.recv().value();
      return total;
    });
    EXPECT_EQ(sum, n * (n + 1) / 2);
    for (auto& t : threads) t.join();
  }
  EXPECT_TRUE(eventually([&] { return task_count() <= tasks + procs() + 4; })) << task_count();
}

// The same, each of them lent to a goroutine of its own.
TEST_P(PlainThreads, HundredsLentAtOnce) {
  const int n = scaled(200, 20);
  std::atomic<int> sum{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) {
    threads.emplace_back([&sum] {
      const long mine = weft::test::thread_now();
      sum += weft::run(
          [mine] {
            for (int k = 0; k < 3; ++k) weft::gosched();
            weft::thread([] {}).join();
            return weft::test::thread_now() == mine ? 1 : 0;
          },
          {.lock_main_thread = true});
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(sum, n);
}

// --- a library with threads of its own --------------------------------------------------------

// A thread pool as a C library would have it: jobs are a function and a pointer.
class c_pool {
 public:
  using job = void (*)(void*);

  explicit c_pool(int threads) : threads_(static_cast<std::size_t>(threads)) {
    pthread_mutex_init(&mutex_, nullptr);
    pthread_cond_init(&changed_, nullptr);
    for (pthread_t& t : threads_) pthread_create(&t, nullptr, serve, this);
  }
  ~c_pool() {
    pthread_mutex_lock(&mutex_);
    over_ = true;
    pthread_cond_broadcast(&changed_);
    pthread_mutex_unlock(&mutex_);
    for (const pthread_t t : threads_) pthread_join(t, nullptr);
    pthread_cond_destroy(&changed_);
    pthread_mutex_destroy(&mutex_);
  }
  c_pool(const c_pool&) = delete;
  c_pool& operator=(const c_pool&) = delete;

  void submit(job fn, void* arg) {
    pthread_mutex_lock(&mutex_);
    jobs_.push_back({fn, arg});
    pthread_cond_signal(&changed_);
    pthread_mutex_unlock(&mutex_);
  }

 private:
  struct entry {
    job fn;
    void* arg;
  };

  static void* serve(void* self) {
    auto& pool = *static_cast<c_pool*>(self);
    pthread_mutex_lock(&pool.mutex_);
    for (;;) {
      if (!pool.jobs_.empty()) {
        const entry next = pool.jobs_.front();
        pool.jobs_.pop_front();
        pthread_mutex_unlock(&pool.mutex_);
        next.fn(next.arg);
        pthread_mutex_lock(&pool.mutex_);
      } else if (pool.over_) {
        break;
      } else {
        pthread_cond_wait(&pool.changed_, &pool.mutex_);
      }
    }
    pthread_mutex_unlock(&pool.mutex_);
    return nullptr;
  }

  pthread_mutex_t mutex_;
  pthread_cond_t changed_;
  std::deque<entry> jobs_;
  bool over_ = false;
  std::vector<pthread_t> threads_;
};

// One request to the library; its callback answers on one of the pool's threads.
struct request {
  weft::chan<int> answer;  // unbuffered: the callback blocks until somebody listens
  weft::promise<int> promised;
  weft::binary_semaphore called{0};
  std::atomic<int>* nested = nullptr;

  static void on_done(void* self) {
    auto& r = *static_cast<request*>(self);
    r.promised.set_value(2);
    *r.nested += weft::run([] {
      weft::gosched();
      return 1;
    });
    const weft::chan<int> answer = r.answer;
    r.called.release();
    answer.send(1);  // r may be gone from here on
  }
};

// Goroutines wait for callbacks; callbacks wait for goroutines; meanwhile the world stops (TestCgoCallbackGC).
TEST_P(PlainThreads, CallbacksFromAPool) {
  std::atomic<int> nested{0};
  const int requests = scaled(200, 10);
  {
    c_pool pool(4);
    run([&] {
      std::atomic<bool> over{false};
      weft::wait_group stopper, clients;
      stopper.go([&] {
        while (!over) {
          weft::runtime::stop_the_world([] {});
          weft::gosched();
        }
      });
      for (int c = 0; c < 8; ++c) {
        clients.go([&] {
          for (int i = 0; i < requests / 8 + 1; ++i) {
            request r;
            r.nested = &nested;
            weft::future<int> promised = r.promised.get_future();
            pool.submit(request::on_done, &r);
            EXPECT_EQ(promised.get(), 2);
            r.called.acquire();
            EXPECT_EQ(r.answer.recv().value(), 1);
          }
        });
      }
      clients.wait();
      over = true;
      stopper.wait();
    });
  }
  EXPECT_EQ(nested, 8 * (requests / 8 + 1));
}

// --- the end of a thread ----------------------------------------------------------------------

std::atomic<int> late_uses{0};

struct uses_weft_late {
  ~uses_weft_late() {
    weft::thread([] { ++late_uses; }).join();
    late_uses += weft::run([] { return 1; }, {.lock_main_thread = true});
  }
};

WEFT_TEST_OF_THE_THREAD void arrange_late_use() {
  static thread_local uses_weft_late at_end;
  static_cast<void>(&at_end);
}

pthread_key_t late_key() {
  static const pthread_key_t made = [] {
    pthread_key_t k;
    pthread_key_create(&k, [](void*) {
      const weft::chan<int> c;
      weft::go([c] { c.send(1); });
      late_uses += c.recv().value();
    });
    return k;
  }();
  return made;
}

// Go: TestDestructorCallback: from the destructors of thread_locals and of pthread keys, also where the
// thread has never used weft before.
TEST_P(PlainThreads, UsesWeftWhileItEnds) {
  const int n = scaled(50, 5);
  late_uses = 0;
  for (int i = 0; i < n; ++i) {
    std::thread([i] {
      if (i % 2 == 0) weft::go([] {});
      arrange_late_use();
      static int something;
      pthread_setspecific(late_key(), &something);
    }).join();
  }
  EXPECT_EQ(late_uses, 3 * n);
}

// It ends by pthread_exit, below frames that hold handles of weft's.
TEST_P(PlainThreads, EndsByPthreadExit) {
  const weft::chan<int> c(1);
  weft::wait_group ended;
  for (int i = 0; i < scaled(50, 5); ++i) {
    ended.add(1);
    pthread_t t;
    struct arguments {
      weft::chan<int> c;
      weft::wait_group& ended;
    } a{c, ended};
    pthread_create(
        &t, nullptr,
        [](void* p) -> void* {
          auto& args = *static_cast<arguments*>(p);
          struct done {
            weft::wait_group& wg;
            ~done() { wg.done(); }
          } const at_end{args.ended};
          const weft::chan<int> held = args.c;
          held.send(1);
          held.recv();
          pthread_exit(nullptr);
        },
        &a);
    ended.wait();
    pthread_join(t, nullptr);
  }
}

// [EX-4] A plain thread inside weft is no goroutine; the one that it runs is.
TEST_P(PlainThreads, CountsAsNoGoroutine) {
  weft::wait_group gate;
  gate.add(1);
  std::atomic<bool> waits{false};
  std::thread plain([&] {
    waits = true;
    gate.wait();
  });
  EXPECT_TRUE(eventually([&] { return waits.load(); }));
  EXPECT_EQ(weft::runtime::num_goroutine(), 0);
  EXPECT_EQ(weft::run([] { return weft::runtime::num_goroutine(); }, {.lock_main_thread = true}),
            1);
  gate.done();
  plain.join();
}

WEFT_OVER_PROCS(PlainThreads);

// --- processes of their own -------------------------------------------------------------------

class PlainThreadProcess : public weft::test::children_over_procs {};

// Go: TestNeedmDeadlock: signals rain while threads use weft for the first time.
WEFT_CHILD(signals_rain) {
  static std::atomic<int> caught{0};
  struct sigaction action {};
  action.sa_handler = [](int) { ++caught; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGCHLD, &action, nullptr);
  std::atomic<bool> over{false};
  std::thread rain([&over] {
    while (!over) {
      kill(getpid(), SIGCHLD);
      std::this_thread::yield();
    }
  });
  std::atomic<int> done{0};
  for (int i = 0; i < 140; ++i) {
    std::thread([&done, i] { use_weft(i, done); }).join();
  }
  while (done < 140) std::this_thread::yield();
  over = true;
  rain.join();
  return caught > 0 ? 3 : 1;
}
TEST_P(PlainThreadProcess, SignalsRain) { expect("signals_rain", 3, ""); }

#if !WEFT_TEST_TSAN && !WEFT_TEST_ASAN  // they would have to be told of such stacks by the program
// Go: TestStackSwitchCallback: from a stack that the thread has made itself.
ucontext_t back, inside;
std::atomic<int> on_own_stack{0};
void call_in() {
  std::atomic<int> done{0};
  for (int how = 0; how < 7; ++how) use_weft(how, done);
  while (done < 7) std::this_thread::yield();
  on_own_stack = done.load();
  swapcontext(&inside, &back);
}
WEFT_CHILD(own_stack) {
  std::vector<char> memory(256 * 1024);
  std::thread([&memory] {
    getcontext(&inside);
    inside.uc_stack.ss_sp = memory.data();
    inside.uc_stack.ss_size = memory.size();
    inside.uc_link = nullptr;
    makecontext(&inside, call_in, 0);
    swapcontext(&back, &inside);
  }).join();
  return on_own_stack == 7 ? 3 : 1;
}
TEST_P(PlainThreadProcess, FromAStackOfItsOwn) { expect("own_stack", 3, ""); }
#endif

WEFT_OVER_PROCS(PlainThreadProcess);

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
