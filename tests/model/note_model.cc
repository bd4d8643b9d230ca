// Exhaustive model of base/note.h on the modelled futex: never asleep for good, data published.
#include <gtest/gtest.h>

#include "base/note.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

struct state {
  rt::futex_note note;
  rt::cell<int> data;
  rt::cell<int> reply;
  rt::futex_note back;
};

void sleep_and_wake(world& w) {
  auto* s = w.make<state>();
  w.thread("sleeper", [s] {
    s->note.sleep();
    check(s->data.get() == 1, "woken without the data");
  });
  w.thread("waker", [s] {
    s->data.set(1);
    s->note.wake();
  });
}

// A timed sleep ends in time or is woken; if woken, with the data. The wake-up is never lost.
void timed(world& w) {
  auto* s = w.make<state>();
  w.thread("sleeper", [s] {
    if (!s->note.sleep_for(1)) s->note.sleep();
    check(s->data.get() == 1, "woken without the data");
  });
  w.thread("waker", [s] {
    s->data.set(1);
    s->note.wake();
  });
}

// The note is used again: cleared by its owner, who then tells the waker by another note.
void reuse(world& w) {
  auto* s = w.make<state>();
  w.thread("sleeper", [s] {
    s->note.sleep();
    check(s->data.get() == 1, "first round");
    s->note.clear();
    s->back.wake();
    s->note.sleep();
    check(s->data.get() == 2, "second round");
  });
  w.thread("waker", [s] {
    s->data.set(1);
    s->note.wake();
    s->back.sleep();
    s->data.set(2);
    s->note.wake();
  });
}

const protocol kProtocol{
    "note",
    {"base/note.h"},
    {},
    {
        {"sleep and wake", {.preemptions = 4, .spurious = 1}, sleep_and_wake},
        {"timed", {.preemptions = 4, .spurious = 1, .timeouts = 2}, timed},
        {"reuse", {.preemptions = 3, .spurious = 1}, reuse},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, Note) { expect_all_mutants_caught(kProtocol); }

TEST(Model, NoteWokenTwiceIsFatal) {
  const report r = expect_fails({"double wake", {}, [](world& w) {
                                   auto* s = w.make<state>();
                                   w.thread("waker 1", [s] { s->note.wake(); });
                                   w.thread("waker 2", [s] { s->note.wake(); });
                                 }});
  EXPECT_EQ(r.failure, "fatal error: notewakeup - double wakeup");
}

}  // namespace
}  // namespace weft::model
