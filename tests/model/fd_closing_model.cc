// Exhaustive model of io/fd_closing.h: who may return from close(), and destroy, while others are on their way out; and who
// gives up waiting at a gate.
//
// The gates are the real ones, over sync/sema_core.h, and lie in the object; those who wait at them do so with a node that
// is gone when they go on.
#include <gtest/gtest.h>
#include <new>

#include "io/fd_closing.h"
#include "model/sleepers.h"

namespace weft::model {
namespace {

int asleep = 0;  // at any gate, in this execution

struct hurry {};

class gate {
 public:
  void acquire() {
    auto* n = new (engine::get().allocate(sizeof(sleeper), alignof(sleeper))) sleeper;
    rt::pass_gate(units_, *n, [](sleeper& s) {
      ++asleep;
      s.event.sleep();
    });
    n->~sleeper();
  }
  template <class Leave>
  bool acquire(const hurry&, Leave&& may_leave) {
    struct env {
      bool sleep(sleeper& s) {
        ++asleep;
        return s.event.sleep_for(1);
      }
      bool leave() { return may(); }
      void settle(sleeper& s) { s.event.sleep(); }
      void rouse(sleeper* s) { s->event.wake(); }
      Leave& may;
    };
    auto* n = new (engine::get().allocate(sizeof(sleeper), alignof(sleeper))) sleeper;
    env e{may_leave};
    const bool through = rt::pass_gate_until(units_, *n, e);
    n->~sleeper();
    return through;
  }
  void release(std::uint32_t units = 1) {
    rt::open_gate(units_, units, [](sleeper* n) { n->event.wake(); });
  }

 private:
  rt::sema_core<sleeper> units_{0};
};

using closing = rt::fd_closing<gate>;
using outcome = rt::fd_lock<gate>::outcome;
constexpr auto kRead = rt::direction::read;

// What is destroyed.
struct object {
  closing c;
  rt::cell<int> about;       // what is said of it in messages
  rt::cell<int> descriptor;  // 1: closed
  rt::cell<int> wish;        // the first closer's, for whoever shuts it
  rt::cell<int> answer;      // … and what that one says
};

struct state {
  alignas(object) unsigned char room[sizeof(object)];
  object* const o = new (room) object;
  int shut = 0, first = 0, second = 0;
  int used = 0, gave_up = 0, refused = 0;
  bool destroyed = false;

  state() { asleep = 0; }

  auto shutting() {
    return [this] {
      check(++shut == 1, "shut twice");
      o->descriptor.set(1);
      o->answer.set(o->wish.get() + 1);
    };
  }
  // What operations do at their end (fd.h). fails: with a guest, who says what about.
  void enter() { check(o->c.lock().lock(kRead) == outcome::held, "it was free"); }
  void leave(bool fails) {
    check(o->descriptor.get() == 0, "closed under somebody inside");
    if (o->c.lock().unlock(kRead, fails)) o->c.end(shutting());
    if (!fails) return;
    o->about.get();
    if (o->c.lock().leave()) o->c.end(shutting());
  }
  // Others have it, perhaps until later than he would wait.
  void use(outcome how) {
    if (how == outcome::held) {
      ++used;
      leave(false);
      return;
    }
    ++(how == outcome::gave_up ? gave_up : refused);
    if (how == outcome::closed) return;
    o->about.get();
    if (o->c.lock().leave()) o->c.end(shutting());
  }
  void use_patiently() { use(o->c.lock().lock(kRead)); }
  void use_soon() { use(o->c.lock().lock(kRead, hurry{})); }
  // As the first does that has something to say.
  void finish_close() {
    o->c.finish_close(shutting(), [this] {
      check(o->answer.get() == 2, "nobody has shut it yet");
      o->about.get();
    });
  }
  // True: it was the first.
  bool close() {
    if (!o->c.begin_close()) {
      ++second;
      return false;
    }
    o->wish.set(1);
    ++first;
    finish_close();
    return true;
  }
  void close_and_destroy() {
    if (close()) check(o->answer.get() == 2, "returned before it was shut");
    destroy();
  }
  // As the destructor does: it closes, too.
  void destroy() {
    static_cast<void>(close());
    check(o->descriptor.get() == 1, "destroyed before it was shut");
    check(!destroyed, "destroyed twice");
    destroyed = true;
    o->~object();
  }
  static bool somebody_sleeps(const void*) { return asleep > 0; }
  static bool somebody_has_come(const void* self) {
    const auto* s = static_cast<const state*>(self);
    return asleep > 0 || s->used + s->gave_up + s->refused > 0;
  }
  static bool is_closed(const void* self) { return static_cast<const state*>(self)->first > 0; }
};

// One is inside, and on its way out.
void one_inside(world& w, bool fails) {
  auto* s = w.make<state>();
  s->enter();
  w.thread("user", [=] { s->leave(fails); });
  w.thread("closer", [=] { s->close_and_destroy(); });
  w.finally([=] { check(s->shut == 1 && s->first == 1 && s->destroyed, "not closed"); });
}

// The second one to close it destroys it: the first has only just begun.
void second_destroys(world& w) {
  auto* s = w.make<state>();
  w.thread("first", [=] { s->close(); });
  w.thread("second", [=] {
    engine::get().block(state::is_closed, s, "the first");
    s->close_and_destroy();
  });
  w.finally([=] { check(s->shut == 1 && s->first == 1 && s->second == 2, "who was first?"); });
}

// … and somebody is inside.
void second_destroys_behind_a_user(world& w) {
  auto* s = w.make<state>();
  s->enter();
  w.thread("user", [=] { s->leave(false); });
  w.thread("first", [=] { s->close(); });
  w.thread("second", [=] {
    engine::get().block(state::is_closed, s, "the first");
    s->close_and_destroy();
  });
  w.finally([=] { check(s->shut == 1 && s->first == 1 && s->second == 2, "who was first?"); });
}

// Who waits for the first is let go by him, and does not look back: so the first may destroy it, if he knows that nobody
// else comes.
void first_destroys(world& w) {
  auto* s = w.make<state>();
  s->enter();
  check(s->o->c.lock().close(), "it was open");  // the first has come so far, before anybody
  s->o->wish.set(1);
  w.thread("second", [=] { check(!s->close(), "first"); });
  w.thread("first", [=] {
    engine::get().block(state::somebody_sleeps, s, "the second");
    s->leave(false);
    s->finish_close();
    s->o->~object();
  });
  w.finally([=] { check(s->shut == 1 && s->second == 1, "not closed"); });
}

// Nobody is left behind, and nobody looks at whom it has let go.
void three_closers(world& w) {
  auto* s = w.make<state>();
  w.thread("closer 1", [=] { s->close(); });
  w.thread("closer 2", [=] { s->close(); });
  w.thread("closer 3", [=] { s->close(); });
  w.finally([=] {
    check(s->shut == 1 && s->first == 1 && s->second == 2, "who was first?");
    check(!s->close(), "open again");
  });
}

// One is inside, a second one waits for his turn with a limit: who lets him through, though he leaves, is done with the gate
// before it is destroyed.
void gives_up(world& w) {
  auto* s = w.make<state>();
  s->enter();
  w.thread("user", [=] { s->leave(false); });
  w.thread("hurried", [=] { s->use_soon(); });
  w.thread("closer", [=] {
    engine::get().block(state::somebody_has_come, s, "the hurried one");
    s->close_and_destroy();
  });
  w.finally([=] { check(s->shut == 1 && s->destroyed, "not closed"); });
}

// Whom the gate has let through in the place of somebody else lets that one through.
void gives_up_before_another(world& w) {
  auto* s = w.make<state>();
  s->enter();
  w.thread("user", [=] { s->leave(false); });
  w.thread("hurried", [=] { s->use_soon(); });
  w.thread("patient", [=] {
    engine::get().block(state::somebody_has_come, s, "the hurried one");
    s->use_patiently();
  });
  w.finally([=] {
    check(s->used + s->gave_up == 2 && s->refused == 0, "it was not closed");
    check(s->o->c.lock().references() == 0, "a reference is left");
  });
}

const protocol kProtocol{
    "fd_closing",
    {"io/fd_closing.h"},
    {},
    {
        {"one inside", {.preemptions = 3}, [](world& w) { one_inside(w, false); }},
        {"one inside, fails", {.preemptions = 3}, [](world& w) { one_inside(w, true); }},
        {"second destroys", {.preemptions = 3}, second_destroys},
        {"second destroys behind a user",
         {.preemptions = 2, .old_loads = 1},
         second_destroys_behind_a_user},
        {"first destroys", {.preemptions = 2}, first_destroys},
        {"three closers", {.preemptions = 2, .old_loads = 1}, three_closers},
        {"gives up", {.preemptions = 2, .old_loads = 1}, gives_up},
        {"gives up before another", {.preemptions = 2, .old_loads = 1}, gives_up_before_another},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, FdClosing) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
