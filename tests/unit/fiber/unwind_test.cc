// goexit by forced unwinding, on a context of its own: destructors, handlers that swallow, handlers
// that throw, nesting, exception state. Uncaught exceptions are tested by child processes.
#include "fiber/unwind.h"

#include <cxxabi.h>
#include <exception>
#include <gtest/gtest.h>
#include <stdexcept>
#include <string>

#include "support/test_fiber.h"

namespace weft::rt {
namespace {

test::fiber* running = nullptr;
std::string trail;

void leave(void* fiber) { static_cast<test::fiber*>(fiber)->yield(nullptr); }

void exit_fiber() { unwind_goroutine(leave, running); }
void (*volatile exit_function)() = exit_fiber;  // compilers need not know that it never returns

// Runs body on a new stack; returns what it left in `trail`, with "!" behind it if body returned.
std::string run(void (*body)()) {
  test::fiber f([body](void*) { body(); });
  trail.clear();
  running = &f;
  f.resume(nullptr);
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  EXPECT_EQ(std::current_exception(), nullptr);
  return f.finished() ? trail + "!" : trail;
}

struct mark {
  explicit mark(const char* t) : text(t) {}
  ~mark() { trail += text; }
  const char* text;
};

[[gnu::noinline]] void deep(int n) {
  mark m("d");
  if (n > 0) {
    deep(n - 1);
  } else {
    exit_function();
  }
  trail += "x";
}

TEST(Unwind, RunsDestructorsInnermostFirst) {
  EXPECT_EQ(run([] {
              mark a("a");
              {
                mark b("b");
                deep(3);
              }
              trail += "x";
            }),
            "ddddba");
}

TEST(Unwind, NothingRunsAfterAHandlerThatSwallows) {
  EXPECT_EQ(run([] {
              mark a("a");
              try {
                mark b("b");
                deep(0);
              } catch (...) {
                trail += "h";
              }
              trail += "x";
            }),
            "dbha");
}

TEST(Unwind, HandlersOnDifferentLevelsAllRun) {
  EXPECT_EQ(run([] {
              mark a("a");
              try {
                try {
                  deep(0);
                } catch (...) {
                  mark m("1");
                  trail += "h";
                }
                trail += "x";
              } catch (...) {
                trail += "2";
              }
              trail += "x";
            }),
            "dh12a");
}

TEST(Unwind, RethrowGoesOn) {
  EXPECT_EQ(run([] {
              mark a("a");
              try {
                deep(0);
              } catch (...) {
                trail += "h";
                throw;
              }
            }),
            "dha");
}

TEST(Unwind, TypedHandlersDoNotMatch) {
  EXPECT_EQ(run([] {
              mark a("a");
              try {
                deep(0);
              } catch (const std::exception&) {
                trail += "x";
              } catch (int) {
                trail += "x";
              } catch (abi::__forced_unwind&) {
                trail += "f";
                throw;
              }
            }),
            "dfa");
}

TEST(Unwind, GoexitInsideAHandlerEndsThatException) {
  EXPECT_EQ(run([] {
              mark a("a");
              try {
                throw std::runtime_error("first");
              } catch (const std::exception&) {
                mark b("b");
                deep(0);
              }
            }),
            "dba");
}

TEST(Unwind, SwallowedInsideTheHandlerOfAnotherException) {
  EXPECT_EQ(run([] {
              mark a("a");
              try {
                throw std::runtime_error("first");
              } catch (...) {
                mark b("b");
                try {
                  deep(0);
                } catch (...) {
                  trail += "h";
                }
                trail += "x";
              }
              trail += "x";
            }),
            "dhba");
}

[[gnu::noinline]] void handler_throws() {
  mark c("c");
  try {
    deep(0);
  } catch (...) {
    mark h("h");
    throw std::runtime_error("overtaker");
  }
}

TEST(Unwind, AnExceptionThatLeavesAHandlerCarriesTheGoexitOn) {
  EXPECT_EQ(run([] {
              mark a("a");
              try {
                mark b("b");
                handler_throws();
              } catch (const std::runtime_error& e) {
                trail += e.what();
              }
              trail += "x";
            }),
            "dhcba");
}

TEST(Unwind, OvertakenInOneFunctionByWhatItCatchesByType) {
  EXPECT_EQ(run([] {
              mark a("a");
              try {
                try {
                  deep(0);
                } catch (...) {
                  mark h("h");
                  throw 7;
                }
                trail += "x";
              } catch (int i) {
                trail += std::to_string(i);
              }
              trail += "-";
            }),
            "dh7-a!")
      << "cannot unwind from here: the goexit is lost";
}

TEST(Unwind, OvertakenInOneFunctionByWhatItCatches) {
  EXPECT_EQ(run([] {
              mark a("a");
              try {
                try {
                  deep(0);
                } catch (...) {
                  mark h("h");
                  throw 7;
                }
                trail += "x";
              } catch (const std::exception&) {
                trail += "x";
              } catch (...) {
                trail += "7";
              }
              trail += "x";
            }),
            "dh7a");
}

[[gnu::noinline]] void handler_throws_again() {
  try {
    handler_throws();
  } catch (...) {
    mark h("i");
    throw 7;
  }
}

TEST(Unwind, OvertakenTwice) {
  EXPECT_EQ(run([] {
              mark a("a");
              try {
                handler_throws_again();
              } catch (int) {
                trail += "x";
              }
              trail += "x";
            }),
            "dhcia");
}

TEST(Unwind, OvertakerRethrownStillCarries) {
  EXPECT_EQ(run([] {
              mark a("a");
              try {
                try {
                  handler_throws();
                } catch (...) {
                  EXPECT_FALSE(handling_goexit());
                  trail += "r";
                  throw;
                }
                trail += "x";
              } catch (const std::runtime_error&) {
                trail += "x";
              }
              trail += "x";
            }),
            "dhcra");
}

TEST(Unwind, OvertakerSwallowedStillCarries) {
  EXPECT_EQ(run([] {
              mark a("a");
              try {
                handler_throws();
              } catch (...) {
                trail += "s";
              }
              trail += "x";
            }),
            "dhcsa");
}

TEST(Unwind, OvertakenByAnExceptionPointerToItself) {
  EXPECT_EQ(run([] {
              mark a("a");
              try {
                try {
                  deep(0);
                } catch (...) {
                  EXPECT_TRUE(handling_goexit());
                  std::rethrow_exception(std::current_exception());
                }
                trail += "x";
              } catch (...) {
                trail += "p";
              }
              trail += "x";
            }),
            "dpa");
}

TEST(Unwind, OvertakenInsideTheHandlerOfAnotherException) {
  EXPECT_EQ(run([] {
              mark a("a");
              try {
                try {
                  throw std::runtime_error("first");
                } catch (...) {
                  mark b("b");
                  handler_throws();
                }
              } catch (const std::runtime_error& e) {
                trail += e.what();
                EXPECT_FALSE(handling_goexit());
              }
              trail += "x";
            }),
            "dhcba");
}

TEST(Unwind, GoexitInTheHandlerOfAGoexit) {
  EXPECT_EQ(run([] {
              mark a("a");
              try {
                deep(0);
              } catch (...) {
                mark h("h");
                deep(1);
              }
              trail += "x";
            }),
            "dddha");
}

TEST(Unwind, ExceptionsInsideAHandlerAreTheHandlersOwnBusiness) {
  EXPECT_EQ(run([] {
              mark a("a");
              try {
                deep(0);
              } catch (...) {
                try {
                  throw 1;
                } catch (int) {
                  trail += "i";
                }
                trail += "h";
              }
              trail += "x";
            }),
            "diha");
}

TEST(Unwind, AStoredExceptionPointerOutlivesTheGoroutine) {
  static std::exception_ptr kept;
  EXPECT_EQ(run([] {
              try {
                deep(0);
              } catch (...) {
                kept = std::current_exception();
              }
              trail += "x";
            }),
            "d");
  ASSERT_NE(kept, nullptr);
  try {
    std::rethrow_exception(kept);
  } catch (const std::exception&) {
    ADD_FAILURE() << "no handler may name its type";
  } catch (...) {
    EXPECT_TRUE(handling_goexit());
  }
  kept = nullptr;
}

TEST(Unwind, UncaughtExceptionsCountsTheGoexit) {
  EXPECT_EQ(run([] {
              struct look {
                ~look() { trail += std::to_string(std::uncaught_exceptions()); }
              } l;
              try {
                look m;
                deep(0);
              } catch (...) {
                trail += std::to_string(std::uncaught_exceptions());
              }
            }),
            "d101");
}

TEST(Unwind, ManyTimesWithoutLeak) {
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(run([] {
                mark a("a");
                try {
                  handler_throws();
                } catch (const std::runtime_error&) {
                }
              }),
              "dhca");
  }
}

TEST(Unwind, NormalReturn) {
  EXPECT_EQ(run([] { mark a("a"); }), "a!");
}

}  // namespace
}  // namespace weft::rt
