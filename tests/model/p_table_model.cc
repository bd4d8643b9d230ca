// Exhaustive model of gmp/p_table.h: readers that look while a P is being added see whole Ps.
#include <gtest/gtest.h>

#include "gmp/p_table.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

struct part {
  rt::cell<int> made;
};

struct state {
  rt::p_table<part> table;
  rt::p_table<part>::entry entries[3];
  part parts[2];

  state() {
    for (auto& e : entries) e.store(nullptr, std::memory_order_relaxed);  // order: no threads yet
    table.adopt(entries, 2);
    add(0);
  }
  void add(int i) {
    parts[i].made.set(1);
    table.put(i, &parts[i]);
    table.set_count(i + 1);
  }
};

void grows(world& w) {
  auto* s = w.make<state>();
  w.thread("stopper", [s] { s->add(1); });
  w.thread("idle M", [s] {
    const int n = s->table.count();
    for (int i = 0; i < n; ++i) {
      check(s->table.at(i) != nullptr, "a P is missing");
      check(s->table.at(i)->made.get() == 1, "a P is half made");
    }
  });
  w.thread("num_goroutine", [s] {
    for (int i = 0; part* p = s->table.ever(i); ++i) check(p->made.get() == 1, "a P is half made");
  });
}

const protocol kProtocol{"p_table", {"gmp/p_table.h"}, {}, {{"grows", {}, grows}}};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, PTable) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
