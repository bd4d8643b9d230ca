// Exhaustive models of goroutines that lose their P: sched/preempt.cc, sched/robbed.cc and sched/blocking.cc, on the
// scheduler itself. Signals come between any two operations of the thread that they are sent to.
//
// A request is put off while the goroutine is in the runtime, is not lost, and is never acted on there
// (PE1, BD-c). Who is frozen, robbed, or blocks goes on later, once, on its own thread; no P is used by two, and none
// is lost, whoever comes first. A call that is announced loses its P at sysmon's second look, and not for an earlier one.
// What was asked of an M that leaves does not concern the next thread that has its record.
#include <gtest/gtest.h>

#include "model/preempted.h"
#include "model/protocol.h"
#include "sched/sysmon.h"

namespace weft::model {
namespace {

using namespace preempt;  // NOLINT: its whole vocabulary

// -- requests ------------------------------------------------------------------------------------

// A goroutine calls the runtime, and computes until another one has run, which waits for its P. sysmon asks once.
void asked(world& w, int calls) {
  auto* s = w.make<state>(w, 1, 3);
  auto* ran = w.make<bool>(false);
  s->runs_alone(w, s->hog(w, "h", 0, calls, *ran));
  job* other = s->plain(w, "a", *ran);
  s->sysmon(w, [=] {
    state::comes(other);
    s->ask_once(0);
  });
  s->all_run(w, 1);
}

// In a no_preempt scope the request waits for its end.
void asked_in_scope(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  auto* ran = w.make<bool>(false);
  job* h = s->add(w, "h");
  h->steps = {[=] {
    user_code([&] {
      {
        const no_preempt scope;
        s->computes[0] = true;
        s->call();
        check(!*ran, "its P was taken in a no_preempt scope");
      }
      compute(*ran);
    });
  }};
  s->runs_alone(w, h);
  job* other = s->plain(w, "a", *ran);
  s->sysmon(w, [=] {
    state::comes(other);
    s->ask_once(0);
  });
  s->all_run(w, 1);
}

// Two compute, and take turns: each is frozen once, and goes on where it was.
void turns(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  s->runs_alone(w, s->hog(w, "h", 0, 0, s->over));
  job* second = s->hog(w, "i", 1, 0, s->over);
  s->sysmon(w, [=] {
    state::comes(second);
    s->ask_once(0);
    state::wait_for(s->computes[1]);
    s->ask_once(1);
    s->over = true;
  });
  s->all_run(w, 1);
}

// -- who blocks ----------------------------------------------------------------------------------

// sysmon takes the P of one that is in its own code, while that calls the runtime; somebody waits.
void robbed(world& w, int calls, bool asked_too) {
  auto* s = w.make<state>(w, 1, 3);
  auto* ran = w.make<bool>(false);
  s->runs_alone(w, s->hog(w, "h", 0, calls, s->over));
  job* other = s->plain(w, "a", *ran);
  s->sysmon(w, [=] {
    state::comes(other);
    if (asked_too) s->ask_once(0);
    rt::rob(s->p(0), s->m(0), 1, 1, either());
    s->over = true;
  });
  s->all_run(w, 1);
}

// One that computes is frozen; the one for which it was frozen blocks, and loses the P to it. With a third one, which any
// M may run, that may go first, or the frozen one, which may have waited for long.
void robbed_for_the_frozen(world& w, bool third_too) {
  auto* s = w.make<state>(w, 1, 4);
  auto* ran = w.make<bool>(false);
  s->runs_alone(w, s->hog(w, "h", 0, 0, s->over));
  job* second = s->hog(w, "i", 1, 1, s->over);
  job* third = third_too ? s->plain(w, "a", *ran) : nullptr;
  s->sysmon(w, [=] {
    state::comes(second);
    s->ask_once(0);
    state::wait_for(s->computes[1]);
    if (third_too) {
      state::comes(third);
      if (either()) now += 20'000'000;
    }
    rt::rob(s->p(0), s->m(1), 1, third_too ? 1 : 0, either());
    s->over = true;
  });
  s->all_run(w, 1);
}

// Both Ps compute until one has run that waits in the ring of the second. The first is asked, once.
void frozen_for_one_elsewhere(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  auto* ran = w.make<bool>(false);
  s->runs(0, 0, s->hog(w, "h", 0, 0, *ran));
  s->runs(1, 1, s->hog(w, "i", 1, 0, *ran));
  s->queued(1, s->plain(w, "a", *ran));
  s->idles(2);
  s->serve(w, "M0", 0);
  s->serve(w, "M1", 1);
  s->sleeper(w, "M2", 2);
  s->spares(w, 3);
  s->sysmon(w, [=] {
    state::wait_for(s->computes[1]);
    s->ask_once(0);
  });
  s->all_run(w, 2);
}

// Somebody waits for the P of one that says that it will block.
void blocks(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  auto* ran = w.make<bool>(false);
  s->runs_alone(w, blocking_job(w, s, "b"));
  job* other = s->plain(w, "a", *ran);
  w.thread("T", [=] { state::comes(other); });
  s->all_run(w, 1);
}

// … and was asked to make room just before, or is meanwhile: it has done so, and waits for no P before its call.
void asked_before_it_blocks(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  job* b = s->add(w, "b");
  b->steps = {[s] {
    user_code([s] {
      rt::current_m()->border.ask();
      {
        const weft::detail::blocking_call call(true);
        check(rt::current_m()->p == nullptr, "it has given its P away, and has one");
      }
      s->call();
    });
  }};
  s->runs_alone(w, b);
  job* other = s->plain(w, "a", *w.make<bool>(false));
  w.thread("T", [=] {
    state::comes(other);
    s->m(0)->border.ask();
  });
  s->all_run(w, 1);
}

// It gives its P away for a call.
void calls(const std::function<void()>& body) {
  const weft::detail::blocking_call call(true);
  body();
}

// Somebody is woken for the P of one that blocks, and there is no M: before the spawner's comes the P is its own again, and
// when it blocks once more there is somebody to look. "a" waits behind one that computes.
void comes_too_late(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  auto* ran = w.make<bool>(false);
  job* other = s->plain(w, "a", *ran);
  job* h = s->add(w, "h");
  h->steps = {[=] {
    s->submit(0, other);
    user_code([=] { compute(*ran); });
  }};
  job* b = s->add(w, "b");
  b->steps = {[=] {
    user_code([=] {
      calls([] { engine::get().point(); });
      calls([=] { state::wait_for(*ran); });
    });
  }};
  s->runs(0, 0, h);
  s->runs(1, 1, b);
  s->serve(w, "M0", 0);
  s->serve(w, "M1", 1);
  s->spares(w, 2);
  s->all_run(w, 2);
}

// … or computes from then on, as h does: sysmon is told that "a" waits.
void comes_and_stays(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  auto* ran = w.make<bool>(false);
  rt::sysmon_told = rt::sysmon_told_of_work = false;
  job* other = s->plain(w, "a", *ran);
  job* h = s->make_job(w, "h");
  h->steps = {[=] { s->submit(0, other); }};
  h->endless = true;
  job* b = s->make_job(w, "b");
  b->steps = {[=] { user_code([=] { calls([] { engine::get().point(); }); }); }};
  b->endless = true;
  s->runs(0, 0, h);
  s->runs(1, 1, b);
  s->serve(w, "M0", 0);
  s->serve(w, "M1", 1);
  s->spares(w, 2);
  w.finally([=] {
    check(*ran || rt::sysmon_told || rt::sysmon_told_of_work,
          "it waits beside goroutines that compute, and sysmon was not told");
  });
}

// … with its queue, in which "a" waits; and computes. The other P is let go meanwhile.
void comes_back_to_a_queue(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  auto* ran = w.make<bool>(false);
  job* b = s->add(w, "b");
  b->steps = {[=] {
    user_code([=] {
      calls([] { engine::get().point(); });
      s->call();
      compute(*ran);
    });
  }};
  job* h = s->add(w, "h");
  h->steps = {[=] { user_code([=] { calls([=] { state::wait_for(*ran); }); }); }};
  s->runs(0, 0, h);
  s->runs(1, 1, b);
  s->queued(1, s->plain(w, "a", *ran));
  s->serve(w, "M0", 0);
  s->serve(w, "M1", 1);
  s->spares(w, 2);
  s->all_run(w, 2);
}

// It says that it may block, as others have done for long: it gives its P away itself, if it sees somebody who waits.
void expected_to_block(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  auto* ran = w.make<bool>(false);
  job* b = s->add(w, "b");
  b->steps = {[=] {
    // order: a hint
    rt::sched.calls_last.store(true, std::memory_order_relaxed);
    user_code([=] {
      {
        const weft::detail::blocking_call call(false);
        engine::get().point();
      }
      s->call();
    });
  }};
  s->runs_alone(w, b);
  job* other = s->plain(w, "a", *ran);
  w.thread("T", [=] { state::comes(other); });
  s->all_run(w, 1);
}

// It says that it may block, and sysmon looks twice, 20 us apart: two looks at one call take its P, if somebody waits. The
// call lasts until that one has run; or it is over at any moment, and then the P is its own, or it gets another one.
void announces(world& w, bool lasts) {
  auto* s = w.make<state>(w, 1, 3);
  auto* ran = w.make<bool>(false);
  job* b = s->add(w, "b");
  b->steps = {[=] {
    user_code([=] {
      {
        const weft::detail::blocking_call call(false);
        s->computes[0] = true;
        if (lasts) state::wait_for(*ran);
      }
      s->call();
    });
  }};
  s->runs_alone(w, b);
  job* other = s->plain(w, "a", *ran);
  s->sysmon(w, [=] {
    state::comes(other);
    rt::retake(now);
    rt::retake(now + 20'000);
  });
  s->all_run(w, 1);
}

// Two calls, each of which is looked at once: neither takes long.
WEFT_NO_THREAD_SAFETY_ANALYSIS void announces_twice(world& w) {
  auto* s = w.make<state>(w, 1, 3, /*anywhere=*/false);
  auto* ran = w.make<bool>(false);
  auto* looked = w.make<bool>(false);
  job* b = s->add(w, "b");
  b->steps = {[=] {
    user_code([=] {
      {
        const weft::detail::blocking_call call(false);
        s->computes[0] = true;
        state::wait_for(*looked);
      }
      const weft::detail::blocking_call call(false);
      s->computes[1] = true;
      state::wait_for(s->over);
    });
  }};
  s->runs_alone(w, b);
  job* other = s->plain(w, "a", *ran);
  s->sysmon(w, [=]() WEFT_NO_THREAD_SAFETY_ANALYSIS {
    state::comes(other);
    rt::retake(now);
    *looked = true;
    state::wait_for(s->computes[1]);
    rt::retake(now + 20'000);
    check(rt::sched.robberies == 0, "a call lost its P for an earlier one");
    s->over = true;
  });
  s->all_run(w, 1);
}

// -- who is lent a P -----------------------------------------------------------------------------

// A timer is due while the only P computes. An M that stands in borrows it for whom the timer wakes, and gives it back,
// unless the goroutine has come for it meanwhile. sysmon may ask for the P, too.
void lends(world& w, state* s, job* lender, bool& ran, bool asked) {
  state::alarm* a = s->may_be_lent(w, lender, ran);
  s->sysmon(w, [=] {
    rt::arm_timer(nullptr, *a);
    if (asked) s->ask_once(0);
    s->over = true;
  });
  s->all_run(w, 1);
}

void borrowed(world& w, int calls, bool asked) {
  auto* s = w.make<state>(w, 1, 3);
  lends(w, s, s->hog(w, "h", 0, calls, s->over), *w.make<bool>(false), asked);
}

// The stand-in sleeps until a later timer when this one is started. Whoever pokes it may be slow: it has gone by then, with a
// borrowed P, and whom it runs there is frozen.
void borrowed_and_poked(world& w) {
  auto* s = w.make<state>(w, 1, 4, /*anywhere=*/false);
  state::alarm* a = s->may_be_lent(w, s->hog(w, "h", 0, 0, s->over), *w.make<bool>(false));
  a->wakes->steps = {[=] { user_code([=] { compute(s->over); }); }};
  auto* later = w.make<state::alarm>();
  later->wakes = s->plain(w, "l", *w.make<bool>(false));
  later->fire = a->fire;
  later->when = now + 50;
  s->sysmon(w, [=] {
    rt::arm_timer(nullptr, *later);
    engine::get().block([](const void*) { return rt::sched.timer_watcher != nullptr; }, nullptr,
                        "a watcher");
    rt::arm_timer(nullptr, *a);
    s->ask_once(1);
    now += 100;
    s->over = true;
  });
  s->all_run(w, 1);
}

// … or begins a no_preempt scope: in that it has its P, and nobody else, though it is asked just when the stand-in tries to
// borrow it.
void borrowed_before_scope(world& w, bool asked) {
  auto* s = w.make<state>(w, 1, 3);
  auto* ran = w.make<bool>(false);
  job* h = s->add(w, "h");
  h->steps = {[=] {
    user_code([&] {
      s->computes[0] = true;
      if (!asked) engine::get().point();
      {
        const no_preempt scope;
        const bool before = *ran;
        s->call();
        check(*ran == before, "others had its P in a no_preempt scope");
      }
      compute(s->over);
    });
  }};
  lends(w, s, h, *ran, asked);
}

// -- Ms that leave -------------------------------------------------------------------------------

// A goroutine that is asked ends, and takes its thread with it. A new thread takes the record over, and its goroutine is
// asked once: what the last thread did not come to do is forgotten.
void leaves(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  auto* ran = w.make<bool>(false);
  auto* left = w.make<bool>(false);
  job* first = s->add(w, "h");
  first->steps = {[=] {
    user_code([=] { s->computes[0] = true; });
    rt::current_m()->leaves_loop = true;
  }};
  s->runs(0, 0, first);
  s->leaver(w, "M0", 0, *left);
  s->idles(1);
  s->sleeper(w, "M1", 1);
  s->spares(w, 2);
  s->next_thread(w, "N", 0, *left, s->hog(w, "i", 1, 0, *ran));
  job* other = s->plain(w, "a", *ran);
  s->sysmon(w, [=] {
    s->ask_if_there(0, 0);
    state::wait_for(s->computes[1]);
    state::comes(other);
    s->ask_if_there(0, 0);
  });
  s->all_run(w, 1);
}

const protocol kPreempt{
    "preempt",
    {"sched/preempt.cc", "sched/borrow.cc", "sched/blocking.cc", "sched/retake.cc", "sched/idle.cc",
     "gmp/border.h", "gmp/m.h"},
    {"leaves-poked",
     "announced-in-vain",
     "another-call",
     "signal-of-the-last",
     "frozen-inside",
     "request-dropped",
     "scope-forgets-request",
     "leave-ignores-request",
     "frozen-for-nothing",
     "back-but-robbed",
     "back-without-looking",
     "repaid-in-vain",
     "scope-without-p",
     "scope-ends-early",
     "rob-inside",
     "asked-too-late",
     "later-without-request",
     "unmanned-without-request",
     "unmanned-without-sysmon",
     "BD2"},
    {
        {"asked", {.preemptions = 2, .old_loads = 1}, [](world& w) { asked(w, 1); }},
        {"asked in a scope", {.preemptions = 2, .old_loads = 1}, asked_in_scope},
        {"turns", {.preemptions = 4, .old_loads = 0}, turns},
        {"robbed", {.preemptions = 2, .old_loads = 1}, [](world& w) { robbed(w, 2, false); }},
        {"robbed and asked",
         {.preemptions = 2, .old_loads = 0},
         [](world& w) { robbed(w, 1, true); }},
        {"robbed for the frozen",
         {.preemptions = 2, .old_loads = 0},
         [](world& w) { robbed_for_the_frozen(w, false); }},
        {"frozen for one elsewhere", {.preemptions = 1, .old_loads = 0}, frozen_for_one_elsewhere},
        {"robbed beside a fresh one",
         {.preemptions = 1, .old_loads = 0},
         [](world& w) { robbed_for_the_frozen(w, true); }},
        {"borrowed", {.preemptions = 3, .old_loads = 0}, [](world& w) { borrowed(w, 1, false); }},
        {"borrowed and asked",
         {.preemptions = 2, .old_loads = 0},
         [](world& w) { borrowed(w, 1, true); }},
        {"borrowed and poked", {.preemptions = 2, .old_loads = 0}, borrowed_and_poked},
        {"borrowed before a scope",
         {.preemptions = 2, .old_loads = 0},
         [](world& w) { borrowed_before_scope(w, false); }},
        {"borrowed before a scope, and asked",
         {.preemptions = 2, .old_loads = 0},
         [](world& w) { borrowed_before_scope(w, true); }},
        {"blocks", {.preemptions = 2, .old_loads = 1}, blocks},
        {"asked before it blocks", {.preemptions = 2, .old_loads = 0}, asked_before_it_blocks},
        {"comes too late", {.preemptions = 2, .old_loads = 0}, comes_too_late},
        {"comes and stays", {.preemptions = 2, .old_loads = 0}, comes_and_stays},
        {"comes back to a queue", {.preemptions = 2, .old_loads = 0}, comes_back_to_a_queue},
        {"expected to block", {.preemptions = 2, .old_loads = 1}, expected_to_block},
        {"announces",
         {.preemptions = 2, .old_loads = 0},
         [](world& w) { announces(w, /*lasts=*/true); }},
        {"announces in passing",
         {.preemptions = 2, .old_loads = 0},
         [](world& w) { announces(w, /*lasts=*/false); }},
        {"announces twice", {.preemptions = 1, .old_loads = 0}, announces_twice},
        {"leaves", {.preemptions = 2, .old_loads = 0}, leaves},
    },
};
const enrol_protocol kEnrolledPreempt(kPreempt);

TEST(Model, Preempt) { expect_all_mutants_caught(kPreempt); }

}  // namespace
}  // namespace weft::model
