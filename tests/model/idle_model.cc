// Exhaustive model of the idle protocol: gmp/idle_state.h, and what idle.cc and find_runnable.cc do
// with it.
//
// I1, seen from outside: when everybody has come to rest, no goroutine waits beside an idle P. The
// submitters keep their Ps and never come back for what they queued, as goroutines that compute; so
// somebody else must run it, and the end of an execution shows whether he was woken.
#include <gtest/gtest.h>

#include "model/protocol.h"
#include "model/scheduler.h"

namespace weft::model {
namespace {

void all_run(world& w, runtime* r, std::initializer_list<job*> jobs, int idle_ps) {
  std::vector<job*> all(jobs);
  w.finally([=] {
    for (job* j : all) check(j->ran == 1, "lost wake-up: a goroutine waits beside an idle P");
    r->check_quiet(idle_ps);
  });
}

// A spinner gives up while something is submitted.
void spinner_gives_up(world& w) {
  auto* r = w.make<runtime>(w, 2, 3);
  job* a = r->make_job(w, "a");
  r->holds(0, 0);
  r->holds(1, 1, /*spinning=*/true);
  r->thread(w, "M0", 0, [=] { r->submit(0, a); });
  r->serve(w, "M1", 1);
  r->spares(w, 2);
  all_run(w, r, {a}, 1);
}

// An M that may not spin lets its P go while a submitter finds no idle P. [SP-7]
void non_spinner_gives_up(world& w) {
  auto* r = w.make<runtime>(w, 2, 3);
  job* a = r->make_job(w, "a");
  r->holds(0, 0);
  r->holds(1, 1);
  r->thread(w, "M0", 0, [=] { r->submit(0, a); });
  r->dry(w, "M1", 1);
  r->spares(w, 2);
  all_run(w, r, {a}, 1);
}

// The same with two submitters: the second one relies on the request that the first one has left.
void request_stands(world& w) {
  auto* r = w.make<runtime>(w, 3, 5);
  job* a = r->make_job(w, "a");
  job* b = r->make_job(w, "b");
  r->holds(0, 0);
  r->holds(1, 1);
  r->holds(2, 2);
  r->thread(w, "M0", 0, [=] { r->submit(0, a); });
  r->thread(w, "M1", 1, [=] { r->submit(1, b); });
  r->dry(w, "M2", 2);
  r->spares(w, 3);
  all_run(w, r, {a, b}, 1);
}

// A P is handed off by an M that leaves it. [MS-3]
void handed_off(world& w) {
  auto* r = w.make<runtime>(w, 2, 4);
  job* a = r->make_job(w, "a");
  r->holds(0, 0);
  r->holds(1, 1);
  r->thread(w, "M0", 0, [=] { r->submit(0, a); });
  r->thread(w, "M1", 1, [=] { rt::hand_off_p(rt::release_p(r->m(1), rt::p_status::idle)); });
  r->spares(w, 2);
  all_run(w, r, {a}, 1);
}

// A spinner finds work and computes: those who relied on it need another one. [SP-6]
void spinner_finds_work(world& w) {
  auto* r = w.make<runtime>(w, 3, 5);
  job* a = r->make_job(w, "a");
  job* b = r->make_job(w, "b");
  a->endless = b->endless = true;
  r->holds(0, 0);
  r->holds(1, 1, /*spinning=*/true);
  r->idles(2);
  r->thread(w, "M0", 0, [=] {
    r->submit(0, a);
    r->submit(0, b);
  });
  r->serve(w, "M1", 1);
  r->sleeper(w, "M2", 2);
  r->spares(w, 3);
  all_run(w, r, {a, b}, 0);
}

// A waker with a token finds that the idle P is gone; a submitter has relied on the token.
void token_without_p(world& w, bool spins) {
  auto* r = w.make<runtime>(w, 3, 5);
  job* a = r->make_job(w, "a");
  job* b = r->make_job(w, "b");
  job* c = r->make_job(w, "c");
  r->holds(0, 0);
  r->holds(1, 1);
  r->idles(2);
  r->thread(w, "M0", 0, [=] { r->submit(0, a); });
  r->thread(w, "M1", 1, [=] { r->submit(1, b); });
  r->sleeper(w, "M2", 2);
  r->spares(w, 3);
  if (!spins) {
    c->steps = {[c] {  // its M lets its P go without spinning, and may sleep here for ever
      c->ran = 1;
      rt::M* mp = rt::current_m();
      if (mp->p->runq.empty()) mp->preselected = rt::go_idle(mp);
    }};
  }
  w.thread("T", [=] {
    c->prepare();
    rt::inject(c);
  });
  all_run(w, r, {a, b, c}, 1);
}

const protocol kProtocol{
    "idle",
    {"gmp/idle_state.h", "sched/idle.cc"},
    {"ID1", "ID2", "ID3", "look-ignores-request", "no-request", "no-request-for-work",
     "found-work-wakes-nobody", "look-before-drop", "token-dropped-unlocked"},
    {
        {"spinner gives up", {.preemptions = 3}, spinner_gives_up},
        {"non-spinner gives up", {.preemptions = 3}, non_spinner_gives_up},
        {"request stands", {.preemptions = 2, .old_loads = 2}, request_stands},
        {"handed off", {.preemptions = 3}, handed_off},
        {"spinner finds work", {.preemptions = 2, .old_loads = 2}, spinner_finds_work},
        {"token without P",
         {.preemptions = 2, .old_loads = 1},
         [](world& w) { token_without_p(w, true); }},
        {"token without P, dry",
         {.preemptions = 2, .old_loads = 1},
         [](world& w) { token_without_p(w, false); }},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, Idle) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
