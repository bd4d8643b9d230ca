// Exhaustive model of io/fd_lock.h: who uses a descriptor while somebody closes it.
#include <gtest/gtest.h>

#include "io/fd_lock.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

// Counts, and lets one go for each release(): what sync/sema_core.h has been shown to do.
class gate {
 public:
  void acquire() {
    engine::get().block(any, this, "the gate");
    lock_.lock();
    --units_;
    lock_.unlock();
  }
  void release() {
    lock_.lock();
    ++units_;
    lock_.unlock();
  }

 private:
  static bool any(const void* self) { return static_cast<const gate*>(self)->units_ > 0; }
  mutex lock_;
  int units_ = 0;
};

using lock = rt::fd_lock<gate>;
constexpr auto kRead = rt::direction::read;
constexpr auto kWrite = rt::direction::write;

struct state {
  lock l;
  rt::cell<int> buffer[2];   // what readers, and writers, leave to the next
  rt::cell<int> descriptor;  // used by whoever has a reference, destroyed by the last one
  int closed = 0, refused = 0, used = 0;

  void finish(bool last) {
    if (!last) return;
    check(++closed == 1, "closed twice");
    descriptor.set(1);
  }
  void use(rt::direction d) {
    if (l.lock(d) != lock::outcome::held) {
      ++refused;
      return;
    }
    check(descriptor.get() == 0, "used after it was closed");
    rt::cell<int>& mine = buffer[static_cast<int>(d)];
    mine.set(mine.get() + 1);
    ++used;
    finish(l.unlock(d));
  }
  void look() {
    if (l.enter() != lock::outcome::held) {
      ++refused;
      return;
    }
    check(descriptor.get() == 0, "looked at after it was closed");
    finish(l.leave());
  }
  void close() {
    if (l.close()) finish(l.leave());
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
        {"two closers", {.preemptions = 3}, two_closers},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, FdLock) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
