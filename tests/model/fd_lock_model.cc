// Exhaustive model of io/fd_lock.h: who uses a descriptor while somebody closes it, and destroys it then; and who gives up
// waiting for his turn.
#include <gtest/gtest.h>
#include <new>

#include "io/fd_lock.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

int arrivals = 0;  // at any gate, in this execution

struct hurry {};

// Counts, and lets one go for each release(), in order: what sync/sema_core.h has been shown to do, and who gives up as
// fd_closing_model.cc shows.
class gate {
 public:
  void acquire() {
    static_cast<void>(pass(/*timed=*/false, [] { return false; }));
  }
  template <class Leave>
  bool acquire(const hurry&, Leave&& leave) {
    return pass(/*timed=*/true, leave);
  }
  void release() {
    lock_.lock();
    here_.get();
    if (places_ == 0) {
      ++units_;
    } else {
      queue_[0]->through = true;
      take_out(0);
    }
    lock_.unlock();
  }

 private:
  struct place {
    bool through = false;
  };
  static bool is_through(const void* p) { return static_cast<const place*>(p)->through; }

  template <class Leave>
  bool pass(bool timed, Leave&& leave) {
    place me;
    lock_.lock();
    ++arrivals;
    if (units_ > 0) {
      --units_;
      lock_.unlock();
      return true;
    }
    check(places_ < kMost, "the model is too small for this many at a gate");
    queue_[places_++] = &me;
    lock_.unlock();
    if (engine::get().block(is_through, &me, "the gate", timed) == wake_reason::timeout) {
      if (leave()) {
        give_up(me);
        return false;
      }
      engine::get().block(is_through, &me, "the gate, sent for");
    }
    lock_.lock();  // sees what who let it through had done
    lock_.unlock();
    return true;
  }
  void give_up(place& me) {
    lock_.lock();
    here_.get();
    int at = 0;
    while (at < places_ && queue_[at] != &me) ++at;
    const bool listed = at < places_;
    if (listed) take_out(at);
    lock_.unlock();
    if (!listed) release();
  }
  void take_out(int at) {
    for (--places_; at < places_; ++at) queue_[at] = queue_[at + 1];
  }

  static constexpr int kMost = 3;
  mutex lock_;
  rt::cell<int> here_;  // read by who opens it: its end is a write
  int units_ = 0;
  int places_ = 0;
  place* queue_[kMost] = {};
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
  int closed = 0, refused = 0, used = 0, gave_up = 0;

  state() { arrivals = 0; }
  void finish(bool last) {
    if (!last) return;
    check(++closed == 1, "closed twice");
    o->descriptor.set(1);
    gone.release();
  }
  bool enter(lock::outcome how) {
    if (how == lock::outcome::held) return true;
    ++(how == lock::outcome::gave_up ? gave_up : refused);
    if (how == lock::outcome::sent_away || how == lock::outcome::gave_up) {
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
  void use(rt::direction d) { use(d, o->l.lock(d)); }
  void use_soon(rt::direction d) { use(d, o->l.lock(d, hurry{})); }
  void use(rt::direction d, lock::outcome how) {
    if (!enter(how)) return;
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
    return arrivals > 0 || s->used + s->refused + s->gave_up > 0;
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

// One is inside, a second one's limit comes, a third one stays: it gets its turn, from whomever.
void hurried_beside_patient(world& w) {
  auto* s = w.make<state>();
  check(s->enter(s->o->l.lock(kRead)), "it was free");
  w.thread("reader 1", [=] { s->leave(kRead, false); });
  w.thread("hurried", [=] { s->use_soon(kRead); });
  w.thread("patient", [=] { s->use(kRead); });
  w.finally([=] {
    check(s->used + s->gave_up == 2 && s->refused == 0, "the patient one was refused");
    check(s->o->l.references() == 0, "a reference is left");
    check(s->enter(s->o->l.lock(kRead)), "it is free");
    s->leave(kRead, false);
  });
}

// Whoever gives up is not counted: it would be sent for.
void hurried_beside_hurried(world& w) {
  auto* s = w.make<state>();
  check(s->enter(s->o->l.lock(kRead)), "it was free");
  w.thread("reader 1", [=] { s->leave(kRead, false); });
  w.thread("hurried 1", [=] { s->use_soon(kRead); });
  w.thread("hurried 2", [=] { s->use_soon(kRead); });
  w.finally([=] {
    check(s->used + s->gave_up == 2 && s->o->l.references() == 0, "a reference is left");
  });
}

// … while it is closed, and destroyed then: whoever has been inside, or has given up, leaves nothing behind.
void hurried_destroyed(world& w) {
  auto* s = w.make<state>();
  check(s->enter(s->o->l.lock(kRead)), "it was free");
  w.thread("reader", [=] { s->leave(kRead, false); });
  w.thread("hurried", [=] { s->use_soon(kRead); });
  w.thread("closer", [=] {
    engine::get().block(state::second_is_inside, s, "the hurried one");
    s->close_and_destroy();
  });
  w.finally([=] { check(s->closed == 1, "not closed"); });
}

void hurried_and_patient_closed(world& w) {
  auto* s = w.make<state>();
  check(s->enter(s->o->l.lock(kRead)), "it was free");
  w.thread("hurried", [=] { s->use_soon(kRead); });
  w.thread("patient", [=] { s->use(kRead); });
  w.thread("closer", [=] {
    s->leave(kRead, false);
    s->close();
  });
  w.finally([=] { check(s->closed == 1 && s->used + s->gave_up + s->refused == 2, "not closed"); });
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
        {"hurried beside patient", {.preemptions = 2, .old_loads = 1}, hurried_beside_patient},
        {"hurried beside hurried",
         {.preemptions = 2, .old_loads = 1, .timeouts = 2},
         hurried_beside_hurried},
        {"hurried, destroyed", {.preemptions = 2, .old_loads = 1}, hurried_destroyed},
        {"hurried, patient, closed",
         {.preemptions = 2, .old_loads = 1},
         hurried_and_patient_closed},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, FdLock) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
