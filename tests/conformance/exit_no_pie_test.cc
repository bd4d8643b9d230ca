// exit() on a thread of a program that is not position-independent and takes the address of exit: there
// &exit is a stub of the program, and not what the C library calls. design.md 2.1 "Process exit".
#include <cstdlib>
#include <thread>

#include <weft/go.h>

#include "support/child_suite.h"
#include "support/witness.h"

namespace {

using weft::test::child_result;
using weft::test::start_counting;

// By code, and not in an initialiser, which the loader would correct.
void (*volatile leave)(int) = nullptr;

WEFT_CHILD(exit_on_thread) {
  leave = &std::exit;
  std::thread([] {
    start_counting();
    WITNESS(meanwhile);
    leave(3);
  }).join();
  return 1;
}

class ExitNoPie : public weft::test::children_over_procs {};

TEST_P(ExitNoPie, OnAThread) {
  const child_result r = run("exit_on_thread");
  EXPECT_EQ(r.status, 3);
  EXPECT_EQ(r.output, "meanwhile: frozen\n");
}

WEFT_OVER_PROCS(ExitNoPie);

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
