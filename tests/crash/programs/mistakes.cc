// Mistakes that users make. What each must be told is in crash/mistakes_test.cc.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include <weft/weft.h>

#include "crash/programs/program.h"
#include "support/waiting.h"

namespace mistake {

weft::mutex accounts, journal;
weft::shared_mutex prices;
std::mutex plain;

// Calls before it are no tail calls, and have their frames.
[[gnu::always_inline]] inline void stay() { asm volatile(""); }

// The others get where they are going.
void let_park(std::uint64_t others) {
  while (weft::test::waiting_goroutines() < others) weft::gosched();
}

[[gnu::noinline]] void lock_both(weft::mutex& first, weft::mutex& second, weft::latch& in_between) {
  const weft::lock_guard a(first);
  in_between.arrive_and_wait();
  const weft::lock_guard b(second);
}

[[gnu::noinline]] void park_at(int depth) {
  if (depth > 0) {
    park_at(depth - 1);
  } else {
    weft::this_thread::sleep_for(std::chrono::microseconds(1));  // sleep-ok: to park
  }
  stay();
}

}  // namespace mistake

using namespace mistake;  // NOLINT: programs, one after the other

CRASH_PROGRAM(mistake_send_without_receiver) {
  return weft::run([] {
    weft::chan<int> c;
    c.send(1);
  });
}
CRASH_PROGRAM(mistake_buffer_full) {
  return weft::run([] {
    weft::chan<int> c(2);
    for (int i = 0; i < 3; ++i) c.send(i);
  });
}
CRASH_PROGRAM(mistake_range_over_unclosed) {
  return weft::run([] {
    weft::chan<int> jobs;
    weft::wait_group done;
    done.go([&] {
      for (auto v : jobs) static_cast<void>(v);
    });
    jobs.send(1);
    done.wait();  // nobody has closed it
  });
}
CRASH_PROGRAM(mistake_forgotten_done) {
  return weft::run([] {
    weft::wait_group done;
    done.add(2);
    weft::go([&] { done.done(); });
    done.wait();
  });
}
CRASH_PROGRAM(mistake_done_twice) {
  return weft::run([] {
    weft::wait_group done;
    done.add();
    done.done();
    done.done();
  });
}
CRASH_PROGRAM(mistake_locked_twice) {
  return weft::run([] {
    const weft::lock_guard once(accounts);
    const weft::lock_guard twice(accounts);
  });
}
CRASH_PROGRAM(mistake_locked_twice_with_a_context) {
  return weft::run([] {
    const weft::lock_guard once(accounts);
    return accounts.lock(weft::context::background()) ? 1 : 2;
  });
}
CRASH_PROGRAM(mistake_locks_crossed) {
  weft::runtime::gomaxprocs(1);  // in turn
  return weft::run([] {
    weft::latch both(2);
    weft::thread other([&] { lock_both(journal, accounts, both); });
    lock_both(accounts, journal, both);
    other.join();
  });
}
// It never hangs here, and is reported all the same.
CRASH_PROGRAM(mistake_locks_in_two_orders) {
  return weft::run([] {
    weft::latch one(1), another(1);
    lock_both(accounts, journal, one);
    lock_both(journal, accounts, another);
  });
}
CRASH_PROGRAM(mistake_unlock_forgotten) {
  return weft::run([] {
    weft::thread([] { accounts.lock(); }).join();
    accounts.lock();
  });
}
CRASH_PROGRAM(mistake_joins_each_other) {
  return weft::run([] {
    std::optional<weft::thread> a, b;
    weft::latch both(1);
    a.emplace([&] {
      both.wait();
      b->join();
    });
    b.emplace([&] {
      both.wait();
      a->join();
    });
    both.count_down();
    weft::chan<int>().recv();
  });
}
CRASH_PROGRAM(mistake_leaked_receiver) {
  weft::runtime::gomaxprocs(1);  // in turn
  return weft::run([] {
    {
      weft::chan<int> results;
      weft::go(weft::attrs{.name = "orphan"}, [results] { static_cast<void>(results.recv()); });
    }
    weft::chan<int> reachable;
    weft::go([reachable] { static_cast<void>(reachable.recv()); });
    let_park(2);
    std::fputs(weft::runtime::stack(true).c_str(), stderr);
    reachable.send(1);
  });
}
// Two goroutines that only look as if nobody could wake them.
CRASH_PROGRAM(mistake_only_seems_leaked) {
  weft::runtime::gomaxprocs(1);  // in turn
  return weft::run([] {
    weft::chan<int> done;
    weft::chan<int> proceed;
    weft::go([own = weft::chan<int>(), done, proceed] {
      weft::go([&] {
        static_cast<void>(proceed.recv());
        own.send(1);
      });
      done.send(own.recv().value_or(0));
    });
    weft::go([own = weft::chan<int>()] { static_cast<void>(own.recv_for(std::chrono::hours(1))); });
    let_park(3);
    std::fputs(weft::runtime::stack(true).c_str(), stderr);
    proceed.send(1);
    static_cast<void>(done.recv());
  });
}
CRASH_PROGRAM(mistake_leaked_in_select) {
  weft::runtime::gomaxprocs(1);  // in turn
  return weft::run([] {
    weft::go(weft::attrs{.name = "orphan"}, [a = weft::chan<int>(), b = weft::chan<int>()] {
      weft::select(weft::recv(a, [](auto) {}), weft::send(b, 1, [] {}));
    });
    weft::go(weft::attrs{.name = "patient"}, [c = weft::chan<int>()] {
      weft::select(weft::recv(c, [](auto) {}), weft::timeout(std::chrono::hours(1), [] {}));
    });
    let_park(2);
    std::fputs(weft::runtime::stack(true).c_str(), stderr);
  });
}
CRASH_PROGRAM(mistake_select_for_ever) {
  return weft::run([] {
    weft::chan<int> questions, answers;
    weft::select(weft::recv(answers, [](auto) {}), weft::send(questions, 1, [] {}));
  });
}
// The rest of the program goes on.
CRASH_PROGRAM(mistake_partial_deadlock) {
  return weft::run([] {
    weft::latch both(2);
    for (int i = 0; i < 2; ++i) {
      weft::go([&both, i] {
        weft::mutex& first = i == 0 ? accounts : journal;
        weft::mutex& second = i == 0 ? journal : accounts;
        first.lock();
        both.arrive_and_wait();
        second.lock();
      });
    }
    both.wait();
    std::string all;
    while (all.find("\ncycle: ") == std::string::npos) {  // until both are asleep
      weft::gosched();
      all = weft::runtime::stack(true);
    }
    std::fputs(all.c_str(), stderr);
  });
}
// Right: a wait for a condition gives its mutex up.
CRASH_PROGRAM(condition_under_check) {
  return weft::run([] {
    weft::condition_variable ready;
    bool is_ready = false;
    weft::jthread other([&] {
      weft::unique_lock held(accounts);
      ready.wait(held, [&] { return is_ready; });
    });
    {
      const weft::lock_guard held(accounts);
      is_ready = true;
      ready.notify_one();
    }
    other.join();
    {
      weft::unique_lock held(accounts);
      static_cast<void>(ready.wait_for(held, std::chrono::milliseconds(1)));
    }
    const weft::lock_guard held(accounts);
  });
}
// … and takes it again: in the wrong order.
CRASH_PROGRAM(mistake_waits_with_another_lock) {
  return weft::run([] {
    weft::condition_variable ready;
    weft::unique_lock outer(accounts);
    const weft::lock_guard inner(journal);
    static_cast<void>(ready.wait_for(outer, std::chrono::milliseconds(1)));
  });
}
// Right: all stripes of a table, then others before one of them. There are 2^60 ways from the first to the last.
CRASH_PROGRAM(all_stripes_under_check) {
  return weft::run([] {
    std::vector<weft::mutex> stripes(60);
    for (weft::mutex& m : stripes) m.lock();
    for (weft::mutex& m : stripes) m.unlock();
    for (weft::mutex* first : {&accounts, &journal}) {
      const weft::lock_guard held(*first);
      const weft::lock_guard stripe(stripes.front());
    }
    const weft::lock_guard stripe(stripes.back());  // … and the wrong way round
    const weft::lock_guard held(accounts);
  });
}
CRASH_PROGRAM(mistake_lock_on_the_heap) {
  return weft::run([] {
    const auto m = std::make_unique<weft::mutex>();
    m->lock();
    m->lock();
    stay();
  });
}
// A variable of a thread has no symbol at its address, and nobody made it.
CRASH_PROGRAM(mistake_lock_of_a_thread) {
  static constinit thread_local weft::mutex its_own;
  weft::mutex* const m = &its_own;
  return weft::run([m] {
    m->lock();
    m->lock();
    stay();
  });
}
// What one waits for is on the heap: reports say who has made it.
CRASH_PROGRAM(mistake_group_on_the_heap) {
  return weft::run([] {
    const auto all = std::make_unique<weft::wait_group>();
    all->add();
    all->wait();
  });
}
CRASH_PROGRAM(mistake_condition_on_the_heap) {
  struct queue {
    weft::mutex m;
    weft::condition_variable not_empty;
  };
  return weft::run([] {
    const auto q = std::make_shared<queue>();
    weft::unique_lock held(q->m);
    q->not_empty.wait(held);
  });
}
CRASH_PROGRAM(mistake_latch_on_the_heap) {
  return weft::run([] { std::make_unique<weft::latch>(1)->wait(); });
}
CRASH_PROGRAM(mistake_barrier_on_the_heap) {
  return weft::run([] { std::make_unique<weft::barrier<>>(2)->arrive_and_wait(); });
}
CRASH_PROGRAM(mistake_semaphore_on_the_heap) {
  return weft::run(
      [] { std::vector<weft::binary_semaphore*>{new weft::binary_semaphore(0)}[0]->acquire(); });
}
CRASH_PROGRAM(mistake_shared_on_the_heap) {
  return weft::run([] {
    const auto m = std::make_unique<weft::shared_mutex>();
    weft::thread([&m] {
      m->lock_shared();
      stay();
    }).join();
    m->lock();
    stay();
  });
}
// Right: what was at an address before says nothing of the locks that are there now.
CRASH_PROGRAM(locks_at_one_address_under_check) {
  return weft::run([] {
    alignas(weft::mutex) std::byte room[sizeof(weft::mutex)];
    for (const bool accounts_first : {false, true}) {
      auto* const m = new (room) weft::mutex;
      weft::mutex& first = accounts_first ? accounts : *m;
      weft::mutex& second = accounts_first ? *m : accounts;
      weft::latch one(1);
      lock_both(first, second, one);
      m->lock();  // … and is destroyed so
    }
    auto* const last = new (room) weft::mutex;
    last->lock();
    last->unlock();
  });
}
// Two goroutines that hold what the other wants; the main one has prices, for writing or for reading.
template <class Lock, class OtherLock>
int shared_crossed() {
  weft::runtime::gomaxprocs(1);  // in turn
  return weft::run([] {
    weft::latch both(2);
    weft::thread other([&] {
      const weft::lock_guard held(accounts);
      both.arrive_and_wait();
      const OtherLock wanted(prices);
    });
    const Lock held(prices);
    both.arrive_and_wait();
    const weft::lock_guard wanted(accounts);
  });
}
CRASH_PROGRAM(mistake_writer_crossed) {
  return shared_crossed<weft::unique_lock<weft::shared_mutex>,
                        weft::shared_lock<weft::shared_mutex>>();
}
CRASH_PROGRAM(mistake_reader_crossed) {
  return shared_crossed<weft::shared_lock<weft::shared_mutex>,
                        weft::unique_lock<weft::shared_mutex>>();
}
// A writer waits for both readers, one of whom waits for it.
CRASH_PROGRAM(mistake_one_of_many_readers) {
  weft::runtime::gomaxprocs(1);  // in turn
  return weft::run([] {
    weft::latch all(7);
    for (int i = 0; i < 5; ++i) {
      weft::go([&all] {
        prices.lock_shared();
        all.arrive_and_wait();
        weft::chan<int>().recv();
      });
    }
    weft::go([&all] {
      prices.lock_shared();
      all.arrive_and_wait();
      accounts.lock();
      stay();
    });
    accounts.lock();
    all.arrive_and_wait();
    prices.lock();
    stay();
  });
}
// A writer comes between a reader and the same reader once more.
CRASH_PROGRAM(mistake_reads_again_behind_a_writer) {
  weft::runtime::gomaxprocs(1);  // in turn
  return weft::run([] {
    prices.lock_shared();
    weft::go([] {
      prices.lock();
      stay();
    });
    let_park(1);
    prices.lock_shared();
    stay();
  });
}
CRASH_PROGRAM(mistake_reads_twice) {
  return weft::run([] {
    for (int i = 0; i < 2; ++i) {
      const weft::shared_lock once(prices);
      const weft::shared_lock twice(prices);
    }
  });
}
// A reader waits for the mutex of another, whom a writer keeps out, who waits for the first. The rest goes on.
template <class Write>
int partial_deadlock_of(Write write) {
  return weft::run([write] {
    weft::latch both(2), written(1);
    weft::go([&] {
      prices.lock_shared();
      both.arrive_and_wait();
      written.wait();
      accounts.lock();
      stay();
    });
    weft::go([&] {
      accounts.lock();
      both.arrive_and_wait();
      written.wait();
      prices.lock_shared();
      stay();
    });
    both.wait();
    weft::go(write);
    while (!weft::test::somebody_waits_in("sync.RWMutex.Lock]")) weft::gosched();
    written.count_down();
    while (!weft::test::somebody_waits_in("sync.Mutex.Lock]")) weft::gosched();
    while (!weft::test::somebody_waits_in("sync.RWMutex.RLock]")) weft::gosched();
    std::fputs(weft::runtime::stack(true).c_str(), stderr);
  });
}
CRASH_PROGRAM(mistake_partial_deadlock_of_readers) {
  return partial_deadlock_of([] {
    prices.lock();
    stay();
  });
}
// Nobody hangs for ever: the writer may give up.
CRASH_PROGRAM(readers_behind_a_writer_with_a_limit) {
  const auto [ctx, cancel] = weft::with_cancel(weft::context::background());
  return partial_deadlock_of([ctx = ctx] { static_cast<void>(prices.lock(ctx)); });
}
CRASH_PROGRAM(mistake_shared_in_two_orders) {
  return weft::run([] {
    {
      const weft::lock_guard a(accounts);
      const weft::shared_lock b(prices);
    }
    const weft::lock_guard b(prices);
    const weft::lock_guard a(accounts);
  });
}
// Right: readers beside each other, upgrades by trying, one who locks and another who unlocks, limits.
CRASH_PROGRAM(shared_under_check) {
  return weft::run([] {
    weft::latch all(3);
    weft::wait_group done;
    for (int i = 0; i < 3; ++i) {
      done.go([&all] {
        const weft::shared_lock held(prices);
        all.arrive_and_wait();
        const weft::lock_guard inner(accounts);
      });
    }
    done.wait();
    prices.lock_shared();
    if (prices.try_lock()) std::fputs("written while it is read\n", stderr);
    weft::thread([] { prices.unlock_shared(); }).join();
    prices.lock();
    weft::thread([] { prices.unlock(); }).join();
    weft::shared_timed_mutex rates;
    rates.lock_shared();
    static_cast<void>(rates.try_lock_for(std::chrono::microseconds(1)));
    static_cast<void>(rates.try_lock_shared());
    rates.unlock_shared();
    rates.unlock_shared();
    const weft::lock_guard inner(accounts);
    static_cast<void>(prices.try_lock());
    prices.unlock();
  });
}
CRASH_PROGRAM(mistake_parks_with_std_mutex_often) {
  return weft::run([] {
    for (int i = 0; i < 30; ++i) {
      const std::lock_guard held(plain);
      weft::this_thread::sleep_for(std::chrono::milliseconds(5));  // sleep-ok: the subject
    }
    std::mutex another;
    const std::lock_guard held(another);
    weft::this_thread::sleep_for(std::chrono::milliseconds(100));  // sleep-ok: the subject
  });
}
CRASH_PROGRAM(mistake_parks_with_std_mutex) {
  return weft::run([] {
    const std::lock_guard held(plain);
    weft::this_thread::sleep_for(std::chrono::milliseconds(100));  // sleep-ok: the subject
  });
}
CRASH_PROGRAM(mistake_parks_with_member_mutex) {
  struct account {
    long balance[5] = {};
    std::mutex m;
  };
  return weft::run([] {
    auto mine = std::make_unique<account>();
    mine->m.lock();
    weft::this_thread::sleep_for(std::chrono::milliseconds(100));  // sleep-ok: the subject
    mine->m.unlock();
  });
}
// Statics that cannot be read, and some that go away meanwhile.
CRASH_PROGRAM(parks_beside_a_closed_page) {
  constexpr std::size_t kPage = 65536;  // at most
  // Not aligned by the compiler: perf takes such statics for functions.
  static char room[3 * kPage];
  static char* const closed = room + kPage - reinterpret_cast<std::uintptr_t>(room) % kPage;
  if (mprotect(closed, kPage, PROT_NONE) != 0) return 1;
  weft::run([] {
    weft::this_thread::sleep_for(std::chrono::microseconds(1));  // sleep-ok: to park
    const std::lock_guard held(plain);
    weft::this_thread::sleep_for(std::chrono::milliseconds(100));  // sleep-ok: the subject
  });
  return mprotect(closed, kPage, PROT_READ | PROT_WRITE);  // LSan looks there, too
}
CRASH_PROGRAM(parks_beside_dlclose) {
  return weft::run([] {
    std::atomic<bool> over{false};
    std::thread loads([&over] {
      while (!over.load()) {
        if (void* library = dlopen(STRANGER, RTLD_NOW)) dlclose(library);
      }
    });
    for (int i = 0; i < 8; ++i) {
      for (int depth = 0; depth < 16; ++depth) park_at(depth);  // each a place of its own
    }
    over.store(true);
    loads.join();
  });
}
// Its thread goes on owning it: the second goroutine that parks there holds nothing.
CRASH_PROGRAM(mistake_parks_beside_std_mutex) {
  return weft::run(
      [] {
        weft::chan<int> there, back;
        weft::go([&] {
          there.recv();
          back.send(1);
        });
        const std::lock_guard held(plain);
        there.send(1);
        back.recv();
      },
      {.max_procs = 1});
}
CRASH_PROGRAM(mistake_wait_without_notify) {
  return weft::run([] {
    weft::condition_variable ready;
    weft::mutex m;
    weft::unique_lock held(m);
    ready.wait(held);
  });
}
CRASH_PROGRAM(mistake_latch_one_short) {
  return weft::run([] {
    weft::latch all(3);
    for (int i = 0; i < 2; ++i) weft::go([&] { all.count_down(); });
    all.wait();
  });
}
CRASH_PROGRAM(mistake_barrier_one_short) {
  return weft::run([] {
    weft::barrier all(2);
    all.arrive_and_wait();
  });
}
CRASH_PROGRAM(mistake_promise_not_kept) {
  return weft::run([] {
    weft::promise<int> p;
    p.get_future().get();
  });
}
CRASH_PROGRAM(mistake_semaphore_not_released) {
  return weft::run([] {
    weft::counting_semaphore<4> slots(1);
    slots.acquire();
    slots.acquire();
  });
}
CRASH_PROGRAM(mistake_reader_becomes_writer) {
  return weft::run([] {
    prices.lock_shared();
    prices.lock();
    stay();
  });
}
CRASH_PROGRAM(mistake_ring_of_channels) {
  return weft::run([] {
    weft::chan<int> c[3];
    for (int i = 0; i < 3; ++i) {
      weft::go([from = c[i], to = c[(i + 1) % 3]] {
        const auto v = from.recv();
        to.send(*v + 1);
      });
    }
    static_cast<void>(c[0].recv());
  });
}
CRASH_PROGRAM(mistake_large_array_on_the_stack) {
  return weft::run([] {
    weft::thread([] {
      volatile char buffer[400'000];
      for (std::size_t i = 0; i < sizeof buffer; i += 512) buffer[sizeof buffer - 1 - i] = 1;
    }).join();
  });
}
CRASH_PROGRAM(mistake_group_waits_for_itself) {
  return weft::run([] {
    weft::wait_group all;
    all.go([&] { all.wait(); });
    all.wait();
  });
}
CRASH_PROGRAM(mistake_nested_panic_text) {
  return weft::run([] { throw weft::panic_error("first line\nsecond line"); });
}
