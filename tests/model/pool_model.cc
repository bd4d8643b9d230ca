// Exhaustive model of sync/pool_shelf.h: an owner, a thief, and a generation that passes.
//
// Every box is somewhere exactly once, and who gets it sees what was put into it.
#include <gtest/gtest.h>

#include "model/sleepers.h"
#include "sync/pool_shelf.h"

namespace weft::model {
namespace {

struct box {
  plain<box*> next;
  rt::cell<int> value;
  int had = 0;
};

struct state {
  rt::pool_shelf<box> shelf;
  box b[2];

  void put(int i) {
    b[i].value.set(1);
    shelf.put(&b[i]);
  }
  void have(box* p) {
    if (p == nullptr) return;
    check(p->value.get() == 1, "half written");
    p->value.set(2);
    check(++p->had == 1, "two have it");
  }
  void drop(rt::pool_shelf<box>::dropped d) {
    for (box* p = d.full; p != nullptr;) {
      box* next = p->next;
      have(p);
      p = next;
    }
  }
};

void owner_and_thief(world& w) {
  auto* s = w.make<state>();
  w.thread("owner", [=] {
    s->put(0);
    s->put(1);
    s->have(s->shelf.get());
  });
  w.thread("thief", [=] { s->have(s->shelf.steal(false)); });
  w.finally([=] {
    s->have(s->shelf.get());
    check(s->b[0].had <= 1 && s->b[1].had <= 1, "two have it");
    check(s->b[0].had + s->b[1].had == 2, "lost");
  });
}

void generations(world& w) {
  auto* s = w.make<state>();
  s->put(0);
  w.thread("owner", [=] {
    s->put(1);
    s->have(s->shelf.get());
  });
  w.thread("trim", [=] {
    s->drop(s->shelf.rotate());
    s->drop(s->shelf.rotate());
  });
  w.finally([=] {
    s->have(s->shelf.get());
    s->have(s->shelf.get());
    check(s->b[0].had == 1 && s->b[1].had == 1, "lost");
  });
}

const protocol kProtocol{
    "pool",
    {"sync/pool_shelf.h"},
    {},
    {
        {"owner and thief", {.preemptions = 3}, owner_and_thief},
        {"generations", {.preemptions = 3}, generations},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, Pool) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
