// Exhaustive model of io/fd_lock.h: who uses a descriptor while somebody closes it, and destroys it then.
#include <gtest/gtest.h>
#include <new>

#include "io/fd_lock.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

int arrivals = 0;  // at any gate, in this execution

// Counts, and lets one go for each release(): what sync/sema_core.h has been shown to do.
class gate {
 public:
  void acquire() {
    ++arrivals;
    engine::get().block(any, this, "the gate");
    lock_.lock();
    --units_;
    lock_.unlock();
  }
  void release() {
    lock_.lock();
    here_.get();
    ++units_;
    lock_.unlock();
  }

 private:
  static bool any(const void* self) { return static_cast<const gate*>(self)->units_ > 0; }
  mutex lock_;
  rt::cell<int> here_;  // read by who opens it: its end is a write
  int units_ = 0;
};

using lock = rt::fd_lock<gate>;
constexpr auto kRead = rt::direction::read;
constexpr auto kWrite = rt::direction::write;

// What is destroyed when close() has returned.
struct object {
  lock l;
  rt::cell<int> about;       // what is said of it in messages
  rt::cell<int> buffer[2];   // what readers, and writers, leave to the next
  rt::cell<int> descriptor;  // used by whoever has a reference, closed by the last one
};

struct state {
  alignas(object) unsigned char room[sizeof(object)];
  object* const o = new (room) object;
  gate gone;
  int closed = 0, refused = 0, used = 0;

  state() { arrivals = 0; }
  void finish(bool last) {
    if (!last) return;
    check(++closed == 1, "closed twice");
    o->descriptor.set(1);
    gone.release();
  }
  bool enter(lock::outcome how) {
    if (how == lock::outcome::held) return true;
    ++refused;
    if (how == lock::outcome::sent_away) {
      o->about.get();
      finish(o->l.leave());
    }
    return false;
  }
  // fails: it says what about, without the direction.
  void leave(rt::direction d, bool fails) {
    finish(o->l.unlock(d, fails));
    if (fails) {
      o->about.get();
      finish(o->l.leave());
    }
  }
  void use(rt::direction d) {
    if (!enter(o->l.lock(d))) return;
    check(o->descriptor.get() == 0, "used after it was closed");
    rt::cell<int>& mine = o->buffer[static_cast<int>(d)];
    mine.set(mine.get() + 1);
    ++used;
    leave(d, false);
  }
  void look() {
    if (!enter(o->l.enter())) return;
    check(o->descriptor.get() == 0, "looked at after it was closed");
    finish(o->l.leave());
  }
  void close() {
    if (!o->l.close()) return;
    finish(o->l.leave());
    gone.acquire();
  }
  static bool second_is_inside(const void* self) {
    const auto* s = static_cast<const state*>(self);
    return arrivals > 0 || s->used > 0 || s->refused > 0;
  }
  void close_and_destroy() {
    close();
    o->~object();
  }
};

void two_readers(world& w) {
  auto* s = w.make<state>();
  w.thread("reader 1", [=] { s->use(kRead); });
  w.thread("reader 2", [=] { s->use(kRead); });
  w.finally([=] { check(s->used == 2 && s->closed == 0, "a reader was refused"); });
}

void reader_and_writer_and_close(world& w) {
  auto* s = w.make<state>();
  w.thread("reader", [=] { s->use(kRead); });
  w.thread("writer", [=] { s->use(kWrite); });
  w.thread("closer", [=] { s->close(); });
  w.finally([=] { check(s->closed == 1 && s->used + s->refused == 2, "not closed"); });
}

void waiting_reader_and_close(world& w) {
  auto* s = w.make<state>();
  w.thread("reader 1", [=] { s->use(kRead); });
  w.thread("reader 2", [=] { s->use(kRead); });
  w.thread("closer", [=] { s->close(); });
  w.finally([=] { check(s->closed == 1 && s->used + s->refused == 2, "not closed"); });
}

// close() returns when whoever was inside is out: then it may be destroyed. The reader was.
void destroyed_after_close(world& w, bool fails) {
  auto* s = w.make<state>();
  check(s->enter(s->o->l.lock(kRead)), "it was free");
  w.thread("reader", [=] { s->leave(kRead, fails); });
  w.thread("closer", [=] { s->close_and_destroy(); });
  w.finally([=] { check(s->closed == 1, "not closed"); });
}

// … and a second one has come as far as the gate, at least.
void destroyed_behind_a_waiter(world& w) {
  auto* s = w.make<state>();
  check(s->enter(s->o->l.lock(kRead)), "it was free");
  w.thread("reader 1", [=] { s->leave(kRead, false); });
  w.thread("reader 2", [=] { s->use(kRead); });
  w.thread("closer", [=] {
    engine::get().block(state::second_is_inside, s, "reader 2");
    s->close_and_destroy();
  });
  w.finally([=] { check(s->closed == 1, "not closed"); });
}

void two_closers(world& w) {
  auto* s = w.make<state>();
  w.thread("closer 1", [=] { s->close(); });
  w.thread("closer 2", [=] { s->close(); });
  w.thread("guest", [=] { s->look(); });
  w.finally([=] { check(s->closed == 1, "not closed, or twice"); });
}

const protocol kProtocol{
    "fd_lock",
    {"io/fd_lock.h"},
    {},
    {
        {"two readers", {.preemptions = 3}, two_readers},
        {"reader, writer, close", {.preemptions = 2}, reader_and_writer_and_close},
        {"waiting reader, close", {.preemptions = 2}, waiting_reader_and_close},
        {"destroyed", {.preemptions = 3}, [](world& w) { destroyed_after_close(w, false); }},
        {"failed, destroyed", {.preemptions = 3}, [](world& w) { destroyed_after_close(w, true); }},
        {"waiting reader, destroyed", {.preemptions = 2}, destroyed_behind_a_waiter},
        {"two closers", {.preemptions = 3}, two_closers},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, FdLock) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
