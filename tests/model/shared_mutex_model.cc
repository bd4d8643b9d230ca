// Exhaustive model of sync/shared_mutex_core.h.
//
// A writer is alone; nobody sleeps for ever, whoever gives up; each sees what the writers, and each
// writer what the readers before it did; and the last one may destroy it.
#include <gtest/gtest.h>
#include <memory>

#include "model/sleepers.h"
#include "sync/shared_mutex_core.h"

namespace weft::model {
namespace {

using core = rt::shared_mutex_core<sleeper>;

struct state {
  core m;
  sleeper nodes[4];
  rt::cell<int> data;     // race-checked: written by writers, read by readers
  rt::cell<int> seen[3];  // written by readers, read by writers
  int writers = 0, readers = 0;

  state() {
    for (std::uint32_t i = 0; i < 4; ++i) nodes[i].who = i + 1;
  }
  static void rouse(sleeper* next) {
    while (sleeper* p = next) {
      next = p->next;
      p->event.wake();
    }
  }
  bool lock(int i, bool hurry = false) {
    sleeper& n = nodes[i];
    if (m.try_lock() || !m.enlist(n)) return true;
    if (!hurry) {
      n.event.sleep();
      return was_let_in(n);
    }
    if (n.event.sleep_for(1)) return was_let_in(n);
    const core::gave_up out = m.give_up(n);
    rouse(out.rouse);
    if (!out.mine) n.event.sleep();
    return !out.mine;
  }
  bool was_let_in(const sleeper& n) const {
    check(m.inside_now().writer == n.who, "let in, but noted as somebody else");
    return true;
  }
  bool lock_shared(int i, bool hurry = false) {
    sleeper& n = nodes[i];
    if (m.try_lock_shared() || !m.enlist_shared(n)) return true;
    if (!hurry) {
      n.event.sleep();
      return true;
    }
    if (n.event.sleep_for(1)) return true;
    if (m.give_up_shared(n)) return false;
    n.event.sleep();
    return true;
  }
  void unlock() {
    const core::outcome out = m.unlock();
    check(!out.misuse, "unlock says that it was not locked");
    rouse(out.rouse);
  }
  void unlock_shared() {
    const core::outcome out = m.unlock_shared();
    check(!out.misuse, "unlock_shared says that it was not locked");
    rouse(out.rouse);
  }
  void write_inside() {
    data.set(data.get() + 1);
    for (auto& s : seen) s.get();
  }
  void read_inside(int i) {
    data.get();
    seen[i].set(1);
  }
  void write(int i) {
    lock(i);
    write_inside();
    unlock();
  }
  void read(int i) {
    lock_shared(i);
    read_inside(i);
    unlock_shared();
  }
};

void quiet(state* s) {
  check(s->m.try_lock(), "left locked");
  check(!s->m.unlock().misuse, "…");
}

void reader_writer(world& w) {
  auto* s = w.make<state>();
  w.thread("reader", [=] { s->read(0); });
  w.thread("writer", [=] { s->write(1); });
  w.finally([=] { quiet(s); });
}

void two_readers(world& w) {
  auto* s = w.make<state>();
  w.thread("reader 0", [=] { s->read(0); });
  w.thread("reader 1", [=] { s->read(1); });
  w.thread("writer", [=] { s->write(2); });
  w.finally([=] { quiet(s); });
}

void two_writers(world& w) {
  auto* s = w.make<state>();
  w.thread("writer 0", [=] { s->write(0); });
  w.thread("writer 1", [=] { s->write(1); });
  w.thread("reader", [=] { s->read(2); });
  w.finally([=] {
    check(s->data.get() == 2, "a writer is missing");
    quiet(s);
  });
}

// A writer that gives up lets those in who waited because of it.
void writer_gives_up(world& w) {
  auto* s = w.make<state>();
  check(s->m.try_lock_shared(), "not free");
  w.thread("inside", [=] {
    s->read_inside(2);
    s->unlock_shared();
  });
  w.thread("hurried", [=] {
    if (!s->lock(1, true)) return;
    s->write_inside();
    s->unlock();
  });
  w.thread("reader", [=] { s->read(0); });
  w.finally([=] { quiet(s); });
}

// The reader inside leaves only when the new one is in: if the writer gives up, both are readers.
void readers_meet(world& w) {
  auto* s = w.make<state>();
  auto* met = w.make<rt::note>();
  check(s->m.try_lock_shared(), "not free");
  w.thread("inside", [=] {
    met->sleep();
    s->unlock_shared();
  });
  w.thread("hurried", [=] {
    if (s->lock(1, true)) s->unlock();
  });
  w.thread("reader", [=] {
    s->lock_shared(0);
    met->wake();
    s->unlock_shared();
  });
  w.finally([=] { quiet(s); });
}

// Of two writers that wait one gives up.
void one_writer_gives_up(world& w) {
  auto* s = w.make<state>();
  check(s->m.try_lock_shared(), "not free");
  w.thread("inside", [=] { s->unlock_shared(); });
  w.thread("hurried", [=] {
    if (!s->lock(1, true)) return;
    s->write_inside();
    s->unlock();
  });
  w.thread("patient", [=] { s->write(2); });
  w.finally([=] { quiet(s); });
}

// One is about to leave as the last reader when the writer gives up: a reader comes in, the writer
// queues again, and the reader leaves first.
void last_but_one(world& w) {
  auto* s = w.make<state>();
  check(s->m.try_lock_shared() && s->m.enlist(s->nodes[3]), "not free");
  w.thread("inside", [=] { s->unlock_shared(); });
  w.thread("hurried", [=] {
    const core::gave_up out = s->m.give_up(s->nodes[3]);
    state::rouse(out.rouse);
    if (!out.mine) {
      s->nodes[3].event.sleep();
      s->unlock();
    }
    s->write(2);
  });
  w.thread("reader", [=] { s->read(0); });
  w.finally([=] { quiet(s); });
}

void reader_gives_up(world& w) {
  auto* s = w.make<state>();
  check(s->m.try_lock(), "not free");
  w.thread("inside", [=] {
    s->write_inside();
    s->unlock();
  });
  w.thread("hurried", [=] {
    if (!s->lock_shared(0, true)) return;
    s->read_inside(0);
    s->unlock_shared();
  });
  w.thread("reader", [=] { s->read(1); });
  w.finally([=] { quiet(s); });
}

void destroyed(world& w) {
  auto* s = w.make<state>();
  check(s->m.try_lock(), "not free");
  w.thread("writer", [=] {
    s->write_inside();
    s->unlock();
  });
  w.thread("heir", [=] {
    s->lock_shared(0);
    s->read_inside(0);
    s->unlock_shared();
    std::destroy_at(&s->m);
  });
}

const protocol kProtocol{
    "shared_mutex",
    {"sync/shared_mutex_core.h"},
    {},
    {
        {"reader and writer", {.preemptions = 4}, reader_writer},
        {"two readers", {.preemptions = 2, .old_loads = 1}, two_readers},
        {"two writers", {.preemptions = 2, .old_loads = 1}, two_writers},
        {"writer gives up", {.preemptions = 2, .old_loads = 1}, writer_gives_up},
        {"readers meet", {.preemptions = 2, .old_loads = 1}, readers_meet},
        {"one writer gives up", {.preemptions = 2, .old_loads = 1}, one_writer_gives_up},
        {"last but one", {.preemptions = 3, .old_loads = 0}, last_but_one},
        {"reader gives up", {.preemptions = 2, .old_loads = 1}, reader_gives_up},
        {"destroyed", {.preemptions = 4}, destroyed},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, SharedMutex) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
