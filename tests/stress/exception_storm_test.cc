// Exceptions in flight and being handled while goroutines yield, park, migrate and exit.
#include <atomic>
#include <exception>
#include <string>
#include <vector>

#include <weft/go.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/storm.h"

namespace {

using weft::test::random_source;

class ExceptionStorm : public weft::test::storm {
 protected:
  struct yields_when_destroyed {
    ExceptionStorm& storm;
    random_source& random;
    ~yields_when_destroyed() {
      const int before = std::uncaught_exceptions();
      storm.move(random);
      if (std::uncaught_exceptions() != before) ++storm.wrong_;
    }
  };

  void move(random_source& random) {
    switch (random.below(8)) {
      case 0: weft::thread([] {}).join(); return;
      case 1: {
        weft::wait_group wg;
        wg.go([] { weft::gosched(); });
        wg.wait();
        return;
      }
      case 2:
      case 3: return;
      default: weft::gosched();
    }
  }

  // Throws and catches at random depth, everything tagged with the thrower's own number.
  void play(random_source& random, const std::string& tag, int depth) {
    const yields_when_destroyed y{*this, random};
    try {
      const yields_when_destroyed z{*this, random};
      if (depth > 0) play(random, tag + "x", depth - 1);
      move(random);
      throw tag;
    } catch (const std::string& s) {
      if (!s.starts_with(tag)) ++wrong_;  // our own, or one that came up from below
      const std::string caught = s;
      move(random);
      if (depth > 1 && random.one_in(2)) {
        try {
          play(random, tag + "y", depth - 2);
        } catch (const std::string& from_below) {
          if (!from_below.starts_with(tag + "y")) ++wrong_;
        }
      }
      const std::exception_ptr current = std::current_exception();
      move(random);
      if (std::current_exception() != current) ++wrong_;
      try {
        throw;
      } catch (const std::string& again) {
        if (again != caught) ++wrong_;
        if (random.one_in(50)) throw;
      }
    }
    ++rounds_;
  }

  void live(std::uint64_t number) {
    random_source random(number);
    while (blowing()) {
      try {
        play(random, std::to_string(number), random.below(4));
      } catch (const std::string&) {
      }
      if (std::current_exception() != nullptr || std::uncaught_exceptions() != 0) ++wrong_;
      if (random.one_in(20)) {
        weft::thread([this] {
          try {
            throw 1;
          } catch (int) {
            weft::gosched();
            ++exits_;
            weft::goexit();
          }
        }).join();
      }
    }
  }

  std::atomic<long> rounds_{0}, wrong_{0}, exits_{0};
};

TEST_P(ExceptionStorm, EverybodyCatchesTheirOwn) {
  run([this] {
    weft::wait_group wg;
    for (std::uint64_t i = 0; i < 50; ++i) wg.go([this, i] { live(i); });
    wg.wait();
  });
  EXPECT_EQ(wrong_, 0);
  EXPECT_GT(rounds_, 0);
  RecordProperty("rounds", static_cast<int>(rounds_));
}

WEFT_OVER_PROCS(ExceptionStorm);

}  // namespace
