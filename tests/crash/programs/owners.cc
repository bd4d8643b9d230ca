// Who holds the mutex, in many ways. What reports must say of it is in crash/mistakes_test.cc.
#include <chrono>
#include <thread>

#include <weft/weft.h>

#include "crash/programs/program.h"

namespace owners {

weft::mutex till, ledger, vault;
weft::timed_mutex timed, timed_until;
weft::recursive_mutex nested;
weft::shared_mutex written, tried, asked;
weft::shared_timed_mutex timed_shared;

constexpr auto kLong = std::chrono::hours(1);

void wait_for_ever() { weft::chan<int>().recv(); }

template <class Lock>
void pass_through(Lock& lock) {
  const weft::lock_guard held(lock);
}

// Calls f for all of them but the vault.
template <class F>
void for_each_lock(F&& f) {
  f(till);
  f(ledger);
  f(timed);
  f(timed_until);
  f(nested);
  f(written);
  f(tried);
  f(asked);
  f(timed_shared);
}

}  // namespace owners

using namespace owners;  // NOLINT: programs, one after the other

// The one that waits has the stack, and perhaps the record, of the one that has locked it.
CRASH_PROGRAM(owner_whose_stack_lives_on) {
  weft::runtime::gomaxprocs(1);
  return weft::run([] {
    weft::wait_group ended;
    ended.go([] { till.lock(); });
    ended.wait();
    weft::go([] { till.lock(); });
    wait_for_ever();
  });
}

CRASH_PROGRAM(owner_is_a_plain_thread) {
  std::thread([] { till.lock(); }).join();
  return weft::run([] { till.lock(); });
}
CRASH_PROGRAM(owner_is_a_thread_that_ran_goroutines) {
  weft::run([] { pass_through(till); }, {.lock_main_thread = true});
  till.lock();
  return weft::run([] { till.lock(); });
}

CRASH_PROGRAM(owner_waits_in_place) {
  weft::runtime::gomaxprocs(1);
  return weft::run([] {
    till.lock();
    weft::thread child([] {
      ledger.lock();
      weft::go([] { ledger.lock(); });
      till.lock();
    });
    child.join();
  });
}

CRASH_PROGRAM(owner_after_other_ways_to_lock) {
  weft::runtime::gomaxprocs(1);
  return weft::run([] {
    weft::thread([] { for_each_lock([](auto& lock) { pass_through(lock); }); }).join();  // in place
    bool all = till.try_lock();
    all = ledger.lock(weft::context::background()) && all;
    all = timed.try_lock_for(kLong) && all;
    all = timed_until.try_lock_until(std::chrono::steady_clock::now() + kLong) && all;
    nested.lock();
    written.lock();
    all = tried.try_lock() && all;
    all = asked.lock(weft::context::background()) && all;
    all = timed_shared.try_lock_for(kLong) && all;
    for_each_lock([](auto& lock) { weft::go([&lock] { lock.lock(); }); });
    if (all) wait_for_ever();
  });
}

// Goroutine 1 waits for a condition, and others lock and unlock meanwhile.
CRASH_PROGRAM(owner_after_a_condition) {
  weft::runtime::gomaxprocs(1);
  return weft::run([] {
    weft::condition_variable changed;
    bool passed = false;
    const auto pass = [&](weft::mutex& m, bool notify) {
      weft::go([&passed, &changed, &m, notify] {
        const weft::lock_guard held(m);
        passed = true;
        if (notify) changed.notify_one();
      });
    };
    weft::unique_lock a(till), b(ledger), c(vault);
    pass(till, true);
    changed.wait(a, [&] { return passed; });
    passed = false;
    pass(ledger, true);
    while (!passed) static_cast<void>(changed.wait_for(b, kLong));
    passed = false;
    pass(vault, false);
    while (!passed) static_cast<void>(changed.wait_for(c, std::chrono::milliseconds(1)));
    for (weft::mutex* m : {&till, &ledger, &vault}) weft::go([m] { m->lock(); });
    wait_for_ever();
  });
}
