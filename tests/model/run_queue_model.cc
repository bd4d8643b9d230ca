// Exhaustive model of gmp/run_queue.h: the owner's ring against thieves, capacity 4.
//
// What must hold in every execution: a goroutine is taken exactly once, by somebody who sees what
// was written into it before it was queued, and in the order of the queue.
#include <gtest/gtest.h>

#include "gmp/run_queue.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

struct G {
  rt::cell<int> payload;  // written before it is queued, read by whoever takes it
  int taken = 0;
};

constexpr int kGs = 10;
using queue = rt::run_queue<G, 4>;

struct state {
  queue q, other;
  G g[kGs];

  state() {
    for (int i = 0; i < kGs; ++i) name(&g[i], "g", i);
  }
  G* fresh(int i) {
    g[i].payload.set(100 + i);
    return &g[i];
  }
  void use(G* gp) {
    check(gp >= g && gp < g + kGs, "taken: something that was never queued");
    check(gp->payload.get() == 100 + (gp - g), "taken: a goroutine that is half written");
    check(++gp->taken == 1, "taken twice");
  }
  void use_all(G* const* gs, std::uint32_t n) {
    for (std::uint32_t i = 0; i < n; ++i) {
      use(gs[i]);
      if (i > 0) check(gs[i] > gs[i - 1], "taken out of order");
    }
  }
  void grab() {
    G* batch[queue::kHalf];
    use_all(batch, q.grab(batch));
  }
  void drain(queue& from) {
    while (G* gp = from.pop()) use(gp);
  }
  // Everything that was queued must have been taken by now.
  void all_taken(int first, int last) {
    drain(q);
    drain(other);
    for (int i = first; i < last; ++i) check(g[i].taken == 1, "lost");
  }
};

void owner_and_thief(world& w) {
  auto* s = w.make<state>();
  w.thread("owner", [s] {
    for (int i = 0; i < 3; ++i) check(s->q.push(s->fresh(i)), "full");
    s->drain(s->q);
  });
  w.thread("thief", [s] { s->grab(); });
  w.finally([s] { s->all_taken(0, 3); });
}

void two_thieves(world& w) {
  auto* s = w.make<state>();
  w.thread("owner", [s] {
    check(s->q.push(s->fresh(0)), "full");
    check(s->q.push(s->fresh(1)), "full");
    s->drain(s->q);
  });
  w.thread("thief 1", [s] { s->grab(); });
  w.thread("thief 2", [s] { s->grab(); });
  w.finally([s] { s->all_taken(0, 2); });
}

// The owner refills slots that a thief has just read.
void next_lap(world& w) {
  auto* s = w.make<state>();
  for (int i = 0; i < 4; ++i) s->q.push(s->fresh(i));
  w.thread("owner", [s] {
    for (int i = 4; i < 7; ++i) {
      G* gp = s->fresh(i);
      while (!s->q.push(gp)) {
        G* oldest = s->q.pop();
        if (oldest != nullptr) s->use(oldest);
      }
    }
  });
  w.thread("thief", [s] { s->grab(); });
  w.finally([s] { s->all_taken(0, 7); });
}

void batch(world& w) {
  auto* s = w.make<state>();
  check(s->q.push(s->fresh(0)), "full");
  check(s->q.push(s->fresh(1)), "full");
  w.thread("owner", [s] {
    G* gs[4] = {s->fresh(2), s->fresh(3), s->fresh(4), s->fresh(5)};
    std::uint32_t n = s->q.push_batch(gs, 4);
    check(n >= 2, "there is room for two");
    for (; n < 4; ++n) {
      while (!s->q.push(gs[n])) {
        if (G* gp = s->q.pop()) s->use(gp);
      }
    }
  });
  w.thread("thief", [s] { s->grab(); });
  w.finally([s] { s->all_taken(0, 6); });
}

// A full ring moves its older half out; thieves interfere.
void overflow(world& w) {
  auto* s = w.make<state>();
  for (int i = 0; i < 4; ++i) s->q.push(s->fresh(i));
  w.thread("owner", [s] {
    G* gp = s->fresh(4);
    for (int tries = 0; !s->q.push(gp); ++tries) {
      check(tries < 3, "overflow makes no progress");
      G* half[queue::kHalf];
      const std::uint32_t n = s->q.take_half(half);
      check(n == 0 || n == queue::kHalf, "a part of the half");
      s->use_all(half, n);
    }
  });
  w.thread("thief", [s] { s->grab(); });
  w.finally([s] { s->all_taken(0, 5); });
}

// Stealing into one's own ring, which others steal from in turn.
void steal_into(world& w) {
  auto* s = w.make<state>();
  for (int i = 0; i < 3; ++i) check(s->other.push(s->fresh(i)), "full");
  w.thread("victim", [s] {
    check(s->other.push(s->fresh(3)), "full");
    s->drain(s->other);
  });
  w.thread("thief", [s] {
    if (G* gp = s->other.steal_into(s->q)) s->use(gp);
    s->drain(s->q);
  });
  w.thread("second thief", [s] { s->grab(); });
  w.finally([s] { s->all_taken(0, 4); });
}

// The slots that steal_into overwrites may just have been read by another thief.
void steal_into_next_lap(world& w) {
  auto* s = w.make<state>();
  for (int i = 0; i < 4; ++i) s->q.push(s->fresh(i));
  for (int i = 4; i < 6; ++i) s->other.push(s->fresh(i));
  w.thread("thief", [s] {
    s->drain(s->q);
    if (G* gp = s->other.steal_into(s->q)) s->use(gp);
  });
  w.thread("second thief", [s] { s->grab(); });
  w.finally([s] { s->all_taken(0, 6); });
}

// The owner takes back what it has queued last; the place is used again while a thief holds an old
// view of it.
void taken_back(world& w) {
  auto* s = w.make<state>();
  check(s->q.push(s->fresh(0)), "full");
  w.thread("owner", [s] {
    if (s->q.take(&s->g[0])) s->use(&s->g[0]);
    check(s->q.push(s->fresh(1)), "full");
    check(!s->q.take(&s->g[0]), "taken back: somebody else");
    s->drain(s->q);
  });
  w.thread("thief", [s] { s->grab(); });
  w.finally([s] { s->all_taken(0, 2); });
}

void taken_back_of_many(world& w) {
  auto* s = w.make<state>();
  for (int i = 0; i < 4; ++i) check(s->q.push(s->fresh(i)), "full");
  w.thread("owner", [s] {
    for (int i = 3; i >= 1; --i) {
      if (s->q.take(&s->g[i])) s->use(&s->g[i]);
    }
    check(s->q.push(s->fresh(4)), "full");
    s->drain(s->q);
  });
  w.thread("thief 1", [s] { s->grab(); });
  w.thread("thief 2", [s] { s->grab(); });
  w.finally([s] { s->all_taken(0, 5); });
}

const protocol kProtocol{
    "run_queue",
    {"gmp/run_queue.h"},
    {"RQ1", "RQ2", "RQ6", "take-without-version"},
    {
        {"owner and thief", {.preemptions = 3}, owner_and_thief},
        {"two thieves", {.preemptions = 2}, two_thieves},
        {"next lap", {.preemptions = 3}, next_lap},
        {"batch", {.preemptions = 3}, batch},
        {"overflow", {.preemptions = 3}, overflow},
        {"taken back", {.preemptions = 4}, taken_back},
        {"taken back of many", {.preemptions = 2, .old_loads = 1}, taken_back_of_many},
        {"steal into", {.preemptions = 2}, steal_into},
        {"steal into, next lap", {.preemptions = 3}, steal_into_next_lap},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, RunQueue) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
