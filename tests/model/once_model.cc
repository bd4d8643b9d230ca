// Exhaustive model of detail/once_core.h, call_once's protocol, which users compile.
//
// f is called until it has returned once, never by two at a time; and whoever comes back has seen what it did, also without
// ever having held the mutex.
#include <gtest/gtest.h>

#include "base/lock.h"
#include "model/protocol.h"
// clang-format off
#include <weft/detail/once_core.h>  // by the atomics of the seam, which are included above
// clang-format on

namespace weft::model {
namespace {

struct state {
  detail::once_core<rt::futex_lock> once;
  rt::cell<int> made;  // race-checked
  int calls = 0, failures = 0;

  // As call_once(); the first `fails` calls of f throw.
  void call(int fails = 0) {
    if (once.done()) return;
    once.mutex().lock();
    try {
      once.call_locked([&] {
        if (++calls <= fails) throw 1;
        made.set(made.get() + 1);
      });
    } catch (int) {
      ++failures;
    }
    once.mutex().unlock();
  }
  void use() { check(made.get() == 1, "returned, and it has not been called, or twice"); }
};

void three(world& w) {
  auto* s = w.make<state>();
  static const char* const kNames[] = {"A", "B", "C"};
  for (const char* name : kNames) {
    w.thread(name, [s] {
      s->call();
      s->use();
    });
  }
  w.finally([s] { check(s->calls == 1, "called twice"); });
}

// The first call throws; the next one tries again, and nobody a third time.
void throws(world& w) {
  auto* s = w.make<state>();
  for (const char* name : {"A", "B"}) {
    w.thread(name, [s] {
      s->call(1);
      s->call(1);
      s->use();
    });
  }
  w.finally([s] { check(s->calls == 2 && s->failures == 1, "once, and once in vain"); });
}

const protocol kProtocol{
    "once",
    {"weft/detail/once_core.h"},
    {},
    {
        {"three", {.preemptions = 3}, three},
        {"throws", {.preemptions = 3}, throws},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, Once) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
