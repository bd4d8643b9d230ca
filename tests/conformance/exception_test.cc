// X1: what C++ keeps per thread about exceptions belongs to the goroutine (D6): yields and parks in
// catch blocks and in destructors during unwinding, on whatever thread it goes on.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <weft/chan.h>
#include <weft/future.h>
#include <weft/mutex.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/select.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

using namespace std::chrono_literals;  // NOLINT

class Exceptions : public weft::test::over_procs {};

// Ways to leave the thread and to come back, perhaps on another one.
void switch_somehow(int how) {
  switch (how % 10) {
    case 0: weft::gosched(); return;
    case 1: weft::thread([] { weft::gosched(); }).join(); return;
    case 2: {
      weft::wait_group wg;
      wg.go([] {});
      wg.wait();
      return;
    }
    case 3: weft::run([] { weft::gosched(); }); return;
    case 4: {
      const weft::chan<int> c;
      weft::go([c] { c.send(1); });
      c.recv();
      return;
    }
    case 5: {
      const weft::chan<int> a, b;
      weft::go([b] { b.recv(); });
      weft::select(weft::recv(a), weft::send(b, 1));
      return;
    }
    case 6: weft::this_thread::sleep_for(10us); return;  // sleep-ok: a way to park
    case 7: {
      weft::timed_mutex m;
      const std::lock_guard held(m);
      EXPECT_FALSE(m.try_lock_for(10us));
      return;
    }
    case 8: weft::async(weft::launch::async, [] { weft::gosched(); }).get(); return;
    default: weft::runtime::stop_the_world([] {}); return;
  }
}

// Runs body(i) in many goroutines at once.
template <class F>
void in_many(int goroutines, F body) {
  weft::wait_group wg;
  for (int i = 0; i < goroutines; ++i) wg.go([body, i] { body(i); });
  wg.wait();
}

TEST_P(Exceptions, RethrowAfterASwitch) {
  run([] {
    in_many(40, [](int i) {
      for (int k = 0; k < 20; ++k) {
        const std::string mine = std::to_string(i) + "/" + std::to_string(k);
        try {
          try {
            throw std::runtime_error(mine);
          } catch (...) {
            switch_somehow(i + k);
            throw;
          }
        } catch (const std::runtime_error& e) {
          EXPECT_EQ(e.what(), mine);
        }
        EXPECT_EQ(std::current_exception(), nullptr);
      }
    });
  });
}

TEST_P(Exceptions, CurrentExceptionAfterASwitch) {
  run([] {
    in_many(40, [](int i) {
      try {
        throw i;
      } catch (int n) {
        for (int k = 0; k < 10; ++k) {
          const std::exception_ptr before = std::current_exception();
          switch_somehow(i + k);
          EXPECT_EQ(std::current_exception(), before);
          EXPECT_EQ(n, i);
        }
      }
    });
  });
}

TEST_P(Exceptions, NestedCatchBlocks) {
  run([] {
    in_many(40, [](int i) {
      try {
        throw i;
      } catch (int) {
        switch_somehow(i);
        try {
          throw std::to_string(i);
        } catch (const std::string&) {
          switch_somehow(i + 1);
          try {
            throw;
          } catch (const std::string& s) {
            switch_somehow(i + 2);
            EXPECT_EQ(s, std::to_string(i));
          }
          switch_somehow(i + 3);
        }
        try {
          throw;
        } catch (int n) {
          EXPECT_EQ(n, i);
        }
      }
    });
  });
}

// Switches while an exception is on its way, and looks at the count of those that are.
struct switches_when_destroyed {
  int how;
  int expected;
  ~switches_when_destroyed() {
    EXPECT_EQ(std::uncaught_exceptions(), expected);
    switch_somehow(how);
    EXPECT_EQ(std::uncaught_exceptions(), expected);
    try {
      const switches_when_destroyed* none = nullptr;
      (void)none;
      throw std::string("inner");
    } catch (const std::string& s) {
      switch_somehow(how + 1);
      EXPECT_EQ(s, "inner");
    }
    EXPECT_EQ(std::uncaught_exceptions(), expected);
  }
};

TEST_P(Exceptions, DestructorsDuringUnwinding) {
  run([] {
    in_many(40, [](int i) {
      for (int k = 0; k < 10; ++k) {
        try {
          const switches_when_destroyed a{i + k, 1}, b{i + k + 2, 1};
          throw i;
        } catch (int n) {
          EXPECT_EQ(n, i);
          EXPECT_EQ(std::uncaught_exceptions(), 0);
        }
        const switches_when_destroyed normal{i, 0};
      }
    });
  });
}

// Parks until it is on another thread. That it comes to one only WEFTDEBUG=migrate=1 promises, which is how
// conformance.exception.migrate runs all of these; without it, one park is as good as any.
void change_threads() {
  static const bool promised = [] {
    const char* keys = std::getenv("WEFTDEBUG");
    return keys != nullptr && std::string_view(keys) == "migrate=1";
  }();
  const pid_t before = gettid();
  int tries = promised ? 100 : 1;  // whose time is over when it begins to sleep does not park
  do weft::this_thread::sleep_for(10us);  // sleep-ok: a way to park
  while (gettid() == before && --tries > 0);
  if (promised) {
    EXPECT_NE(gettid(), before);
  }
}

struct changes_threads_when_destroyed {
  ~changes_threads_when_destroyed() {
    EXPECT_EQ(std::uncaught_exceptions(), 1);
    change_threads();
    EXPECT_EQ(std::uncaught_exceptions(), 1);
  }
};

// Thrown on one thread, unwound on a second one, handled on a third, thrown on from there, …
TEST_P(Exceptions, OnOtherThreads) {
  run([] {
    in_many(20, [](int i) {
      const std::string mine = std::to_string(i);
      try {
        const changes_threads_when_destroyed by_rethrow;
        try {
          const changes_threads_when_destroyed by_throw;
          throw std::runtime_error(mine);
        } catch (const std::runtime_error& e) {
          const std::exception_ptr handled = std::current_exception();
          change_threads();
          EXPECT_EQ(std::current_exception(), handled);
          EXPECT_EQ(std::uncaught_exceptions(), 0);
          EXPECT_EQ(e.what(), mine);
          throw;
        }
      } catch (const std::runtime_error& e) {
        change_threads();
        EXPECT_EQ(e.what(), mine);
      }
      EXPECT_EQ(std::uncaught_exceptions(), 0);
      EXPECT_EQ(std::current_exception(), nullptr);
    });
  });
}

// One unwinds while others on the same thread start, throw, catch and end.
TEST_P(Exceptions, OthersSeeNothing) {
  run([] {
    in_many(40, [](int i) {
      EXPECT_EQ(std::uncaught_exceptions(), 0);
      EXPECT_EQ(std::current_exception(), nullptr);
      try {
        struct spawns {
          ~spawns() {
            weft::thread t([] {
              EXPECT_EQ(std::uncaught_exceptions(), 0);
              EXPECT_EQ(std::current_exception(), nullptr);
              weft::gosched();
              EXPECT_EQ(std::uncaught_exceptions(), 0);
              EXPECT_EQ(std::current_exception(), nullptr);
            });
            t.join();
          }
        };
        const spawns s;
        throw i;
      } catch (int) {
        weft::thread([] { EXPECT_EQ(std::current_exception(), nullptr); }).join();
      }
    });
  });
}

// An exception travels to another goroutine and back.
TEST_P(Exceptions, HandedOver) {
  run([] {
    std::exception_ptr p;
    weft::thread([&p] {
      try {
        throw std::runtime_error("travels");
      } catch (...) {
        weft::gosched();
        p = std::current_exception();
      }
    }).join();
    try {
      std::rethrow_exception(p);
    } catch (const std::runtime_error& e) {
      weft::gosched();
      EXPECT_STREQ(e.what(), "travels");
    }
  });
}

WEFT_OVER_PROCS(Exceptions);

}  // namespace
