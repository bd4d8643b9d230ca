// goexit: what it runs, what cannot stop it, and what is left of a program whose main did it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <thread>

#include <weft/weft.h>

#include "crash/programs/program.h"

namespace {

// In order on standard error, whatever thread prints.
void say(const char* text) { std::fprintf(stderr, "%s\n", text); }

struct says {
  const char* text;
  ~says() { say(text); }
};

[[gnu::noinline]] void inner() {
  says s{"inner"};
  weft::goexit();
}

[[gnu::noinline]] void exits_through_noexcept() noexcept { inner(); }

// What a handler of a goexit throws is caught by a function that called it, and so is what that handler throws.
[[gnu::noinline]] void throws_first() {
  try {
    inner();
  } catch (...) {
    throw std::runtime_error("first");
  }
}
[[gnu::noinline]] void recovers_first() {
  try {
    throws_first();
  } catch (...) {
    say("recovered first");
    throw std::logic_error("second");
  }
}
[[gnu::noinline]] void recovers_second() {
  try {
    recovers_first();
  } catch (...) {
    say("recovered second");
  }
  say("not reached");
}

template <class F>
int in_goroutine_then(F f, int status) {
  return weft::run([&] {
    weft::thread t(f);
    t.join();
    say("joined");
    return status;
  });
}

}  // namespace

CRASH_PROGRAM(goexit_main) {
  return weft::run([] { weft::goexit(); });
}
CRASH_PROGRAM(goexit_main_others_finish) {
  return weft::run([] {
    for (int i = 0; i < 2; ++i) {
      weft::go([] {
        for (int j = 0; j < 100; ++j) weft::gosched();
        say("done");
      });
    }
    weft::goexit();
  });
}
CRASH_PROGRAM(goexit_main_beside_a_sleeper) {
  return weft::run([] {
    weft::go([] {
      while (weft::runtime::num_goroutine() > 1) weft::gosched();   // main is gone
      weft::this_thread::sleep_for(std::chrono::milliseconds(20));  // sleep-ok: the subject
      say("slept");
    });
    weft::goexit();
  });
}
CRASH_PROGRAM(goexit_main_in_a_handler) {
  return weft::run([] {
    says s{"outer"};
    try {
      throw std::runtime_error("first");
    } catch (const std::exception&) {
      inner();
    }
    say("not reached");
  });
}
CRASH_PROGRAM(goexit_main_through_recovered_panics) {
  return weft::run([] {
    says s{"outer"};
    recovers_second();
    say("not reached");
  });
}
CRASH_PROGRAM(goexit_main_another_exits) {
  return weft::run([] {
    weft::go([] { std::exit(7); });
    weft::goexit();
  });
}
CRASH_PROGRAM(goexit_destructors) {
  return in_goroutine_then(
      [] {
        says s{"outer"};
        inner();
        say("not reached");
      },
      3);
}
CRASH_PROGRAM(goexit_catch_all) {
  return in_goroutine_then(
      [] {
        says s{"outer"};
        try {
          inner();
        } catch (const std::exception&) {
          say("not reached");
        } catch (...) {
          say("handler");
        }
        say("not reached");
      },
      3);
}
CRASH_PROGRAM(goexit_handler_parks) {
  return in_goroutine_then(
      [] {
        try {
          inner();
        } catch (...) {
          for (int i = 0; i < 100; ++i) weft::gosched();
          say("handler");
        }
        say("not reached");
      },
      3);
}
CRASH_PROGRAM(goexit_handler_panics) {
  return in_goroutine_then(
      [] {
        try {
          inner();
        } catch (...) {
          throw std::runtime_error("from the handler");
        }
      },
      3);
}
CRASH_PROGRAM(goexit_recovered_panic_resumes) {
  return in_goroutine_then(
      [] {
        says s{"outer"};
        try {
          []() __attribute__((noinline)) {
            try {
              inner();
            } catch (...) {
              throw std::runtime_error("from the handler");
            }
          }
          ();
        } catch (...) {
          say("recovered");
        }
        say("not reached");
      },
      3);
}
CRASH_PROGRAM(goexit_in_handler_ends_the_panic) {
  return in_goroutine_then(
      [] {
        try {
          throw std::runtime_error("first");
        } catch (const std::exception&) {
          inner();
        }
        say("not reached");
      },
      3);
}
CRASH_PROGRAM(goexit_through_noexcept) {
  return in_goroutine_then([] { exits_through_noexcept(); }, 3);
}
CRASH_PROGRAM(goexit_by_exception_ptr) {
  return in_goroutine_then(
      [] {
        says s{"outer"};
        std::exception_ptr kept;
        try {
          inner();
        } catch (...) {
          kept = std::current_exception();
          std::rethrow_exception(kept);
        }
        say("not reached");
      },
      3);
}
CRASH_PROGRAM(goexit_on_a_plain_thread) {
  return weft::run([] {
    std::thread([] { weft::goexit(); }).join();
    say("not reached");
  });
}
