// Exhaustive model of runnext in gmp/run_queue.h: owner against thieves, and empty() against both.
//
// Two promises. A goroutine in runnext is taken exactly once, complete. And empty() never says true
// of a queue that its owner keeps non-empty throughout, wherever the goroutines move meanwhile: a
// thread that believed it would go to sleep beside work.
#include <gtest/gtest.h>

#include "gmp/run_queue.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

struct G {
  rt::cell<int> payload;
  int taken = 0;
};

constexpr int kGs = 8;
using queue = rt::run_queue<G, 4>;

struct state {
  queue q;
  G g[kGs];

  state() {
    for (int i = 0; i < kGs; ++i) name(&g[i], "g", i);
  }
  G* fresh(int i) {
    g[i].payload.set(100 + i);
    return &g[i];
  }
  void use(G* gp) {
    check(gp->payload.get() == 100 + (gp - g), "taken: a goroutine that is half written");
    check(++gp->taken == 1, "taken twice");
  }
  void put(G* gp) {  // as the scheduler does: the displaced one goes to the ring
    G* old = q.put_next(gp);
    if (old != nullptr) check(q.push(old), "full");
  }
};

void steal_next(world& w) {
  auto* s = w.make<state>();
  w.thread("owner", [s] {
    s->put(s->fresh(0));
    s->put(s->fresh(1));
    if (G* gp = s->q.pop_next()) s->use(gp);
    while (G* gp = s->q.pop()) s->use(gp);
  });
  for (const char* thief : {"thief 1", "thief 2"}) {
    w.thread(thief, [s] {
      if (G* gp = s->q.steal_next(s->q.peek_next())) s->use(gp);
    });
  }
  w.finally([s] {
    if (G* gp = s->q.pop_next()) s->use(gp);
    check(s->g[0].taken == 1 && s->g[1].taken == 1, "lost");
  });
}

// The same goroutine may come back to runnext while a thief still holds the pointer it peeked.
void comes_back(world& w) {
  auto* s = w.make<state>();
  w.thread("owner", [s] {
    G* gp = s->fresh(0);
    s->put(gp);
    if (s->q.pop_next() != nullptr) {
      gp->payload.set(100);
      s->put(gp);
    }
  });
  w.thread("thief", [s] {
    if (G* gp = s->q.steal_next(s->q.peek_next())) s->use(gp);
  });
  w.finally([s] {
    if (G* gp = s->q.pop_next()) s->use(gp);
    check(s->g[0].taken == 1, "lost");
  });
}

void never_empty(world& w, state* s, std::function<void()> owner) {
  w.thread("owner", std::move(owner));
  w.thread("observer", [s] { check(!s->q.empty(), "empty() says true of a queue that never is"); });
}

// A goroutine moves from runnext to the ring, then the newer one leaves runnext.
void eviction(world& w, bool lone) {
  auto* s = w.make<state>();
  s->q.set_lone(lone);
  s->put(s->fresh(0));
  never_empty(w, s, [s] {
    s->put(s->fresh(1));
    static_cast<void>(s->q.pop_next());
  });
}

// The ring runs empty after something was put into runnext.
void ring_runs_empty(world& w, bool lone) {
  auto* s = w.make<state>();
  s->q.set_lone(lone);
  check(s->q.push(s->fresh(0)), "full");
  never_empty(w, s, [s] {
    s->put(s->fresh(1));
    static_cast<void>(s->q.pop());
  });
}

// The newest of the ring is taken back after something was put into runnext.
void taken_back(world& w, bool lone) {
  auto* s = w.make<state>();
  s->q.set_lone(lone);
  check(s->q.push(s->fresh(0)), "full");
  never_empty(w, s, [s] {
    s->put(s->fresh(1));
    check(s->q.take(&s->g[0]), "nobody interferes");
  });
}

// The one in runnext is taken back, by its owner or by a thief.
void next_taken_back(world& w) {
  auto* s = w.make<state>();
  w.thread("owner", [s] {
    s->put(s->fresh(0));
    if (s->q.take(&s->g[0])) s->use(&s->g[0]);
  });
  w.thread("thief", [s] {
    if (G* gp = s->q.steal_next(s->q.peek_next())) s->use(gp);
  });
  w.finally([s] { check(s->g[0].taken == 1, "lost"); });
}

// Half of a full ring leaves it.
void overflow(world& w) {
  auto* s = w.make<state>();
  check(s->q.push(s->fresh(0)), "full");
  never_empty(w, s, [s] {
    for (int i = 1; i < 4; ++i) check(s->q.push(s->fresh(i)), "full");
    G* half[queue::kHalf];
    check(s->q.take_half(half) == queue::kHalf, "nobody interferes");
  });
}

// A thief moves head: whoever sees that sees the tail that the thief saw.
void robbed(world& w) {
  auto* s = w.make<state>();
  check(s->q.push(s->fresh(0)), "full");
  check(s->q.push(s->fresh(1)), "full");
  never_empty(w, s, [s] {
    check(s->q.push(s->fresh(2)), "full");
    check(s->q.push(s->fresh(3)), "full");
  });
  w.thread("thief", [s] {
    G* batch[queue::kHalf];
    const std::uint32_t n = s->q.grab(batch);
    for (std::uint32_t i = 0; i < n; ++i) s->use(batch[i]);
  });
}

const protocol kProtocol{
    "runnext",
    {"gmp/run_queue.h"},
    {"RQ3", "RQ7", "NX1", "NX2", "empty-reads-tail-once"},
    {
        {"steal_next", {.preemptions = 3}, steal_next},
        {"comes back", {.preemptions = 4}, comes_back},
        {"eviction", {.preemptions = 4}, [](world& w) { eviction(w, false); }},
        {"eviction, lone", {.preemptions = 4}, [](world& w) { eviction(w, true); }},
        {"ring runs empty", {.preemptions = 4}, [](world& w) { ring_runs_empty(w, false); }},
        {"ring runs empty, lone", {.preemptions = 4}, [](world& w) { ring_runs_empty(w, true); }},
        {"taken back", {.preemptions = 4}, [](world& w) { taken_back(w, false); }},
        {"taken back, lone", {.preemptions = 4}, [](world& w) { taken_back(w, true); }},
        {"next taken back", {.preemptions = 4}, next_taken_back},
        {"overflow", {.preemptions = 4}, overflow},
        {"robbed", {.preemptions = 3}, robbed},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, Runnext) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
