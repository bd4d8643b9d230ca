// fiber/eh_globals.h: goroutines that park while they handle exceptions do not see each other's.
#include "fiber/eh_globals.h"

#include <exception>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/test_fiber.h"

namespace weft::rt {
namespace {

/// A fiber that takes its exception state along, as a goroutine does.
class eh_fiber {
 public:
  explicit eh_fiber(std::function<void()> body)
      : fiber_([this, body = std::move(body)](void*) {
          body();
          eh_leave(block_, state_);
        }) {}

  void resume() {
    block_ = thread_eh_state();
    eh_enter(block_, state_);
    fiber_.resume(nullptr);
  }
  void yield() {
    eh_leave(block_, state_);
    fiber_.yield(nullptr);
  }
  const eh_state& state() const { return state_; }

 private:
  eh_state* block_ = nullptr;  // of the thread that resumed it last
  eh_state state_;
  test::fiber fiber_;
};

TEST(EhGlobalsTest, TheBlockIsTheOneTheRuntimeUses) {
  eh_state* block = thread_eh_state();
  EXPECT_FALSE(block->any());
  try {
    throw 1;
  } catch (int) {
    EXPECT_NE(block->caught, nullptr);
    EXPECT_EQ(block->uncaught, 0u);
  }
  EXPECT_FALSE(block->any());
  struct looker {
    eh_state* block;
    unsigned seen;
    ~looker() { seen_in_flight = block->uncaught; }
    unsigned& seen_in_flight;
  };
  unsigned seen = 0;
  try {
    looker look{block, 0, seen};
    throw 2;
  } catch (int) {
  }
  EXPECT_EQ(seen, 1u);
}

TEST(EhGlobalsTest, ThreadsHaveBlocksOfTheirOwn) {
  eh_state* mine = thread_eh_state();
  EXPECT_EQ(thread_eh_state(), mine);
  std::thread([&] { EXPECT_NE(thread_eh_state(), mine); }).join();
}

TEST(EhGlobalsTest, RethrowFindsTheOwnException) {
  constexpr int kFibers = 5;
  std::vector<std::unique_ptr<eh_fiber>> fibers;
  std::vector<std::string> results(kFibers);
  for (std::size_t i = 0; i < kFibers; ++i) {
    fibers.push_back(std::make_unique<eh_fiber>([&, i] {
      try {
        try {
          throw "fiber " + std::to_string(i);
        } catch (...) {
          fibers[i]->yield();  // everybody is inside a handler now
          throw;
        }
      } catch (const std::string& text) {
        fibers[i]->yield();  // … and handles again what was rethrown
        results[i] = text;
      }
    }));
  }
  for (auto& each : fibers) each->resume();
  EXPECT_FALSE(thread_eh_state()->any()) << "the thread itself handles nothing";
  EXPECT_TRUE(fibers[0]->state().any());
  for (std::size_t i = kFibers; i-- > 0;) fibers[i]->resume();  // another order than before
  for (auto& each : fibers) each->resume();
  for (std::size_t i = 0; i < kFibers; ++i) EXPECT_EQ(results[i], "fiber " + std::to_string(i));
  EXPECT_FALSE(thread_eh_state()->any());
  EXPECT_FALSE(fibers[0]->state().any());
}

TEST(EhGlobalsTest, NestedHandlersKeepTheirOrder) {
  std::unique_ptr<eh_fiber> outer;
  std::unique_ptr<eh_fiber> other;
  std::vector<int> seen;
  outer = std::make_unique<eh_fiber>([&] {
    try {
      throw 1;
    } catch (int) {
      try {
        throw 2;
      } catch (int) {
        outer->yield();
        try {
          throw;
        } catch (int inner) {
          seen.push_back(inner);
        }
      }
      outer->yield();
      try {
        throw;
      } catch (int first) {
        seen.push_back(first);
      }
    }
  });
  other = std::make_unique<eh_fiber>([&] {
    try {
      throw 100;
    } catch (int) {
      other->yield();
      other->yield();
    }
  });
  for (int i = 0; i < 3; ++i) {
    outer->resume();
    other->resume();
  }
  EXPECT_EQ(seen, (std::vector<int>{2, 1}));
}

TEST(EhGlobalsTest, UncaughtCountBelongsToTheOneThatUnwinds) {
  std::unique_ptr<eh_fiber> unwinding;
  int inside_before = -1;
  int inside_after = -1;
  struct parks_in_destructor {
    eh_fiber* self;
    int* before;
    int* after;
    ~parks_in_destructor() {
      *before = std::uncaught_exceptions();
      self->yield();
      *after = std::uncaught_exceptions();
    }
  };
  unwinding = std::make_unique<eh_fiber>([&] {
    try {
      parks_in_destructor local{unwinding.get(), &inside_before, &inside_after};
      throw 1;
    } catch (int) {
    }
  });
  unwinding->resume();
  EXPECT_EQ(std::uncaught_exceptions(), 0) << "the resumer throws nothing";
  unwinding->resume();
  EXPECT_EQ(inside_before, 1);
  EXPECT_EQ(inside_after, 1);
  EXPECT_EQ(std::uncaught_exceptions(), 0);
}

TEST(EhGlobalsTest, AHandlerMayFinishOnAnotherThread) {
  std::unique_ptr<eh_fiber> moving;
  std::string result;
  moving = std::make_unique<eh_fiber>([&] {
    try {
      throw std::string("from the first thread");
    } catch (const std::string&) {
      moving->yield();
      try {
        throw;
      } catch (const std::string& again) {
        result = again;
      }
    }
  });
  moving->resume();
  EXPECT_FALSE(thread_eh_state()->any());
  std::thread([&] {
    moving->resume();
    EXPECT_FALSE(thread_eh_state()->any());
  }).join();
  EXPECT_EQ(result, "from the first thread");
  EXPECT_FALSE(thread_eh_state()->any());
}

}  // namespace
}  // namespace weft::rt
