// How a select is written, and what that means: what is evaluated and when, who blocks for how long, what callables
// are given. Go: test/chan/select*.go, test/fixedbugs
#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <vector>

#include <weft/chan.h>
#include <weft/condition_variable.h>
#include <weft/go.h>
#include <weft/mutex.h>
#include <weft/select.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/waiting.h"

namespace {

using weft::chan;
using weft::otherwise;
using weft::recv;
using weft::select;
using weft::send;
using weft::test::eventually;

class SelectForms : public weft::test::over_procs {};

// 241: a nil case is never chosen, but its value is made every time.
TEST_P(SelectForms, ValuesOfAllCasesAreMade) {
  run([] {
    int made = 0;
    const auto value = [&made] { return ++made; };
    const chan<int> a(10), b(10);
    const std::array<chan<int>, 3> choices{a, b, chan<int>(nullptr)};
    int sends = 0, rounds = 0;
    for (const auto& x : choices) {
      for (const auto& y : choices) {
        ++rounds;
        const std::size_t k = select(send(x, value()), send(y, value()), otherwise());
        if (k < 2) ++sends;
        EXPECT_EQ(k == 2, !x && !y);
        EXPECT_EQ(made, 2 * rounds);
      }
    }
    EXPECT_EQ(a.size() + b.size(), static_cast<std::size_t>(sends));
    EXPECT_EQ(sends, 8);
  });
}

// 245, 267: all channels and values are evaluated, each once, before anything is sent or received. In which order is C++'s
// to say.
TEST_P(SelectForms, EvaluatedOnceAndBefore) {
  run([] {
    const chan<int> c(1), d(1);
    c.send(7);
    std::array<int, 5> evaluated{};
    const auto once = [&](std::size_t i, auto what) {
      EXPECT_EQ(c.size(), 1u) << "something has happened already";
      EXPECT_EQ(d.size(), 0u);
      ++evaluated[i];
      return what;
    };
    for (int round = 1; round <= 20; ++round) {
      const std::size_t k = select(recv(once(0, c)), send(once(1, d), once(2, 3)),
                                   send(once(3, chan<int>(nullptr)), once(4, 4)));
      ASSERT_LT(k, 2u);
      for (const int n : evaluated) EXPECT_EQ(n, round);
      if (k == 0) {
        c.send(7);
      } else {
        EXPECT_EQ(d.recv(), 3);
      }
    }
  });
}

// 243: whoever can neither proceed nor do otherwise waits, in every form, until a partner comes.
TEST_P(SelectForms, BlocksUntilAPartnerComes) {
  run([] {
    const auto blocks = [](std::function<void()> operation, std::function<void()> partner) {
      std::atomic<bool> done{false};
      weft::thread waits([&] {
        operation();
        done = true;
      });
      EXPECT_TRUE(eventually([] { return weft::test::waiting_goroutines() != 0; }));
      for (int i = 0; i < 10; ++i) weft::gosched();
      EXPECT_FALSE(done);
      partner();
      waits.join();
      EXPECT_TRUE(done);
    };
    const chan<int> nil(nullptr), unbuffered, full(1);
    blocks([&] { unbuffered.recv(); }, [&] { unbuffered.send(1); });
    blocks([&] { unbuffered.send(1); }, [&] { unbuffered.recv(); });
    blocks([&] { unbuffered.recv(); }, [&] { select(send(unbuffered, 1)); });
    blocks([&] { select(recv(unbuffered)); }, [&] { unbuffered.send(1); });
    blocks([&] { select(send(unbuffered, 1)); }, [&] { unbuffered.recv(); });
    blocks([&] { select(recv(nil), send(nil, 1), recv(unbuffered)); }, [&] { unbuffered.send(1); });
    blocks([&] { select(send(nil, 1), send(unbuffered, 1)); }, [&] { select(recv(unbuffered)); });
    full.send(0);
    blocks([&] { full.send(1); }, [&] { full.recv(); });
    blocks([&] { select(send(full, 1)); }, [&] { full.recv(); });
    full.recv();
    blocks([&] { full.recv(); }, [&] { full.send(1); });
    blocks([&] { select(recv(full), recv(nil)); }, [&] { full.send(1); });
    const chan<int> closes;
    blocks([&] { EXPECT_FALSE(closes.recv()); }, [&] { closes.close(); });
  });
}

// 243: both ends of one channel in one select, alone: it does not meet itself.
TEST_P(SelectForms, NotWithItself) {
  run([] {
    for (const bool partner_sends : {false, true}) {
      const chan<int> c;
      std::atomic<int> chosen{-1};
      weft::thread alone([&] { chosen = static_cast<int>(select(send(c, 1), recv(c))); });
      EXPECT_TRUE(eventually([] { return weft::test::waiting_goroutines() != 0; }));
      for (int i = 0; i < 10; ++i) weft::gosched();
      EXPECT_EQ(chosen, -1);
      if (partner_sends) {
        c.send(2);
      } else {
        EXPECT_EQ(c.recv(), 1);
      }
      alone.join();
      EXPECT_EQ(chosen, partner_sends ? 1 : 0);
    }
  });
}

// 244: a value that nobody looks at is received all the same, whoever sends it and how.
TEST_P(SelectForms, DiscardedValues) {
  run([] {
    const chan<int> c, other;
    const std::array<std::function<void()>, 3> receivers{
        [=] { c.recv(); }, [=] { select(recv(c)); }, [=] { select(recv(c), recv(other)); }};
    const std::array<std::function<void()>, 3> senders{
        [=] { c.send(1); }, [=] { select(send(c, 1)); }, [=] { select(send(c, 1), recv(other)); }};
    int met = 0;
    for (const auto& receive : receivers) {
      for (const auto& send_it : senders) {
        for (const bool sender_first : {false, true}) {
          weft::thread first(sender_first ? send_it : receive);
          weft::gosched();
          (sender_first ? receive : send_it)();
          first.join();
          ++met;
        }
      }
    }
    EXPECT_EQ(met, 18);
    EXPECT_FALSE(c.try_recv());
  });
}

// 267: what a callable is given is its own, and says whether the channel was open; a zero is a value.
TEST_P(SelectForms, FreshValuesAndOpenOrNot) {
  run([] {
    const chan<int> c(3), nothing;
    for (int i = 0; i < 3; ++i) c.send(i);
    c.close();
    std::vector<std::function<std::optional<int>()>> later;
    for (int i = 0; i < 4; ++i) {
      select(recv(nothing),
             recv(c, [&](std::optional<int> v) { later.push_back([v] { return v; }); }));
    }
    ASSERT_EQ(later.size(), 4u);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(later[i](), static_cast<int>(i));
    EXPECT_EQ(later[3](), std::nullopt);
  });
}

// 262: nothing of a select is left where it has waited, when it waits for something else.
TEST_P(SelectForms, LeavesNothingForAConditionVariable) {
  run([] {
    const chan<int> a, b;
    weft::mutex m;
    weft::condition_variable cv;
    int turn = 0;
    weft::thread waits([&] {
      for (int i = 0; i < weft::test::scaled(200, 20); ++i) {
        EXPECT_EQ(select(recv(b), recv(a), send(b, 1)), 1u);
        weft::unique_lock<weft::mutex> l(m);
        cv.wait(l, [&] { return turn > i; });
      }
    });
    for (int i = 0; i < weft::test::scaled(200, 20); ++i) {
      a.send(i);
      EXPECT_FALSE(b.try_send(1));
      EXPECT_FALSE(b.try_recv());
      const weft::unique_lock<weft::mutex> l(m);
      ++turn;
      cv.notify_one();
    }
    waits.join();
  });
}

WEFT_OVER_PROCS(SelectForms);

}  // namespace
