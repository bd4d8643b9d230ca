// gmp/status.h and G::transition: the states and their legal edges.
#include "gmp/status.h"

#include <gtest/gtest.h>
#include <set>
#include <string>
#include <utility>

#include "gmp/g.h"

namespace weft::rt {
namespace {

constexpr g_status kAll[] = {g_status::idle,    g_status::runnable, g_status::running,
                             g_status::syscall, g_status::waiting,  g_status::dead};

// The diagram in status.h, written down a second time.
bool drawn(g_status from, g_status to) {
  using enum g_status;
  switch (from) {
    case idle: return to == dead;
    case dead: return to == runnable;
    case runnable: return to == running;
    case running: return to == runnable || to == waiting || to == dead || to == syscall;
    case syscall: return to == running || to == runnable;
    case waiting: return to == runnable;
  }
  return false;
}

TEST(Status, EdgesAreThoseOfTheDiagram) {
  for (const g_status from : kAll) {
    for (const g_status to : kAll) {
      EXPECT_EQ(legal_edge(from, to), drawn(from, to))
          << to_string(from) << " to " << to_string(to);
    }
  }
}

TEST(Status, NamesAndNumbersAreGos) {
  std::set<std::string> names;
  for (const g_status s : kAll) names.insert(to_string(s));
  EXPECT_EQ(names.size(), std::size(kAll));
  EXPECT_EQ(static_cast<int>(g_status::runnable), 1);
  EXPECT_EQ(static_cast<int>(g_status::running), 2);
  EXPECT_EQ(static_cast<int>(g_status::syscall), 3);
  EXPECT_EQ(static_cast<int>(g_status::waiting), 4);
  EXPECT_EQ(static_cast<int>(g_status::dead), 6);
}

void put_into(G& g, g_status s) {
  using enum g_status;
  if (s == idle) return;
  g.transition<idle, dead>();
  if (s == dead) return;
  g.transition<dead, runnable>();
  if (s == runnable) return;
  g.transition<runnable, running>();
  if (s == running) return;
  if (s == syscall) {
    g.transition<running, syscall>();
    return;
  }
  g.transition<running, waiting>();
}

template <g_status From, g_status To>
void expect_transition() {
  G g;
  put_into(g, From);
  EXPECT_TRUE(g.in(From));
  g.transition<From, To>();
  EXPECT_TRUE(g.in(To));
}

// Edges that do not exist do not compile.
TEST(Status, LegalTransitions) {
  using enum g_status;
  for (const g_status s : kAll) {
    G g;
    put_into(g, s);
    EXPECT_TRUE(g.in(s));
  }
  expect_transition<running, runnable>();
  expect_transition<running, dead>();
  expect_transition<waiting, runnable>();
}

// An edge from a state in which the goroutine is not.
TEST(StatusDeathTest, WrongTransitionsAreFatal) {
  G g;
  put_into(g, g_status::waiting);
  EXPECT_EXIT((g.transition<g_status::runnable, g_status::running>()), testing::ExitedWithCode(2),
              "is waiting, not runnable, and should become running");
  EXPECT_EXIT((g.transition<g_status::dead, g_status::runnable>()), testing::ExitedWithCode(2),
              "is waiting, not dead, and should become runnable");
}

}  // namespace
}  // namespace weft::rt
