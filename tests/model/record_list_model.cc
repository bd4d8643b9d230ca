// Exhaustive model of gmp/record_list.h: who looks at all records while some are made sees whole ones.
#include <gtest/gtest.h>

#include "gmp/record_list.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

struct record {
  rt::cell<int> made;
};

struct state {
  using list = rt::record_list<record, 2>;
  list records;
  list::chunk chunks[2];
  int added = 0;

  void make(std::uint32_t n) {
    while (n != 0) {
      auto part = records.free();
      if (part.room() == 0) {
        records.add(&chunks[added++]);
        continue;
      }
      const std::uint32_t some = n < part.room() ? n : part.room();
      if (mutant("published-before-made")) records.publish(some);
      for (std::uint32_t i = 0; i < some; ++i) part.at->records[part.used + i].made.set(1);
      if (!mutant("published-before-made")) records.publish(some);
      n -= some;
    }
  }
  int count() {
    int n = 0;
    records.for_each([&n](record& r) {
      check(r.made.get() == 1, "a record is half made");
      ++n;
    });
    return n;
  }
};

void grows(world& w) {
  auto* s = w.make<state>();
  s->make(1);
  w.thread("maker", [s] {
    s->make(1);
    s->make(1);
    check(s->count() == 3, "a maker misses his own");
  });
  w.thread("report", [s] { check(s->count() >= 1, "an old record is missing"); });
  w.finally([s] { check(s->count() == 3, "lost"); });
}

const protocol kProtocol{"record_list", {"gmp/record_list.h"}, {}, {{"grows", {}, grows}}};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, RecordList) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
