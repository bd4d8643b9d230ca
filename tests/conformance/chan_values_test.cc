// Channels of all kinds of values: what can be moved can be sent. Throwing moves, lifetimes.
#include <any>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include <weft/chan.h>
#include <weft/context.h>
#include <weft/go.h>
#include <weft/select.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/waiting.h"

namespace {

using weft::chan;
using weft::test::eventually;

class ChanValues : public weft::test::over_procs {};

// Sends n values through every way: waiting receiver, waiting sender, buffer, full buffer, select; and without waiting, on
// one side at a time, or without a buffer the two would never meet.
template <class T, class Make, class Check>
void through_all_ways(Make make, Check check) {
  for (const std::size_t capacity : {0, 1, 3}) {
    const chan<T> c(capacity);
    weft::wait_group wg;
    wg.go([&] {
      for (int i = 0; i < 60; ++i) {
        switch (i % 6) {
          case 0: weft::select(weft::send(c, make(i))); break;
          case 1: {
            T v = make(i);
            while (!c.try_send(v)) weft::gosched();  // moved from only if it is sent
            break;
          }
          case 2:
            while (weft::select(weft::send(c, make(i)), weft::otherwise()) != 0) weft::gosched();
            break;
          default: c.send(make(i)); break;
        }
        if (i % 7 == 0) weft::gosched();
      }
      c.close();
    });
    for (int i = 0;; ++i) {
      std::optional<T> v;
      const auto take = [&v](std::optional<T> got) {
        if (got) v.emplace(std::move(*got));
      };
      switch (i % 6) {
        case 0: weft::select(weft::recv(c, take)); break;
        case 4:
          while (!v) {
            if (auto got = c.try_recv()) {
              v.emplace(std::move(*got));
            } else {
              weft::gosched();
            }
          }
          break;
        case 5:
          while (weft::select(weft::recv(c, take), weft::otherwise()) != 0) weft::gosched();
          break;
        default: take(c.recv()); break;
      }
      if (!v) {
        EXPECT_EQ(i, 60);
        break;
      }
      check(*v, i);
      if (i % 5 == 0) weft::gosched();
    }
    wg.wait();
  }
}

// Go: test/chan/nonblock.go, several types and sizes; test/chan/zerosize.go
TEST_P(ChanValues, PlainBytesOfAllSizes) {
  run([] {
    through_all_ways<char>([](int i) { return static_cast<char>(i); },
                           [](char v, int i) { ASSERT_EQ(v, i); });
    through_all_ways<std::uint16_t>([](int i) { return static_cast<std::uint16_t>(i * 1000); },
                                    [](std::uint16_t v, int i) { ASSERT_EQ(v, i * 1000); });
    through_all_ways<double>([](int i) { return i * 0.5; },
                             [](double v, int i) { ASSERT_EQ(v, i * 0.5); });
    through_all_ways<std::array<int, 3>>(
        [](int i) {
          return std::array<int, 3>{i, i + 1, i + 2};
        },
        [](auto& v, int i) { ASSERT_EQ(v[2], i + 2); });
    through_all_ways<std::array<char, 5000>>(
        [](int i) {
          std::array<char, 5000> a{};
          a.back() = static_cast<char>(i);
          return a;
        },
        [](auto& v, int i) { ASSERT_EQ(v.back(), i); });
    struct nothing {};
    through_all_ways<nothing>([](int) { return nothing{}; }, [](nothing, int) {});
  });
}

TEST_P(ChanValues, MoveOnly) {
  run([] {
    through_all_ways<std::unique_ptr<int>>([](int i) { return std::make_unique<int>(i); },
                                           [](auto& v, int i) { ASSERT_EQ(*v, i); });
  });
}

// Plain bytes to the channel, but the language lets nobody copy or assign them.
struct handle {
  explicit handle(int n) : number(n) {}
  handle(handle&&) = default;
  handle& operator=(handle&&) = delete;
  const int number;
};
static_assert(std::is_trivially_copyable_v<handle> && !std::is_copy_constructible_v<handle>);

TEST_P(ChanValues, MoveOnlyBytes) {
  run([] {
    through_all_ways<handle>([](int i) { return handle(i); },
                             [](const handle& h, int i) { EXPECT_EQ(h.number, i); });
    const chan<handle> c(2);
    EXPECT_TRUE(c.try_send(handle(1)));
    EXPECT_TRUE(c.send_for(handle(2), std::chrono::hours(1)));
    EXPECT_EQ(c.try_recv()->number, 1);
    EXPECT_EQ(c.recv_for(std::chrono::hours(1))->number, 2);
    c.close();
    for (const handle& h : c) ADD_FAILURE() << h.number;
  });
}

TEST_P(ChanValues, Strings) {
  run([] {
    through_all_ways<std::string>(
        [](int i) { return std::string(100, static_cast<char>(i)); },
        [](auto& v, int i) { ASSERT_EQ(v, std::string(100, static_cast<char>(i))); });
  });
}

// Whose addresses are none of its users' business: plain bytes, and with something to move.
struct aloof {
  int n;
  aloof* operator&() const { return nullptr; }
};
struct aloof_owner {
  std::string text;
  aloof_owner* operator&() const { return nullptr; }
};
static_assert(std::is_trivially_copyable_v<aloof> && !std::is_trivially_copyable_v<aloof_owner>);

TEST_P(ChanValues, TakesNobodysOperatorForAnAddress) {
  run([] {
    through_all_ways<aloof>([](int i) { return aloof{i}; },
                            [](const aloof& v, int i) { ASSERT_EQ(v.n, i); });
    const auto text_of = [](int i) { return std::string(100, static_cast<char>(i)); };
    through_all_ways<aloof_owner>(
        [&](int i) { return aloof_owner{text_of(i)}; },
        [&](const aloof_owner& v, int i) { ASSERT_EQ(v.text, text_of(i)); });
    const chan<aloof> c(3);
    weft::selector sends;  // with copies
    sends.add(weft::send(c, aloof{1}));
    sends.select();
    EXPECT_TRUE(c.send_for(aloof{2}, std::chrono::hours(1)));
    EXPECT_TRUE(c.send(aloof{3}, weft::context()));
    c.close();
    EXPECT_EQ(c.try_recv()->n, 1);
    auto all = c.begin();
    EXPECT_EQ(all->n, 2);
    EXPECT_EQ((++all)->n, 3);
  });
}

struct alignas(256) wide {
  long value = 0;
  bool aligned() const { return reinterpret_cast<std::uintptr_t>(this) % 256 == 0; }
};
struct alignas(128) wide_owner {
  explicit wide_owner(int i) : value(std::make_unique<int>(i)) {}
  std::unique_ptr<int> value;
};

TEST_P(ChanValues, OverAligned) {
  run([] {
    through_all_ways<wide>([](int i) { return wide{i}; },
                           [](wide& v, int i) {
                             ASSERT_TRUE(v.aligned());
                             ASSERT_EQ(v.value, i);
                           });
    through_all_ways<wide_owner>([](int i) { return wide_owner(i); },
                                 [](wide_owner& v, int i) { ASSERT_EQ(*v.value, i); });
  });
}

// Go: TestChanSendInterface; fixedbugs/issue13169
TEST_P(ChanValues, AnyAndVariant) {
  run([] {
    through_all_ways<std::any>(
        [](int i) { return i % 2 == 0 ? std::any(i) : std::any(std::to_string(i)); },
        [](std::any& v, int i) {
          if (i % 2 == 0) {
            ASSERT_EQ(std::any_cast<int>(v), i);
          } else {
            ASSERT_EQ(std::any_cast<std::string>(v), std::to_string(i));
          }
        });
    through_all_ways<std::variant<int, std::string>>(
        [](int i) { return std::variant<int, std::string>(std::to_string(i)); },
        [](auto& v, int i) { ASSERT_EQ(std::get<1>(v), std::to_string(i)); });
  });
}

TEST_P(ChanValues, ChannelsOfChannels) {
  run([] {
    const chan<chan<int>> requests;
    weft::go([requests] {
      for (auto& answer : requests) answer.send(42);
    });
    for (int i = 0; i < 20; ++i) {
      const chan<int> answer;
      requests.send(answer);
      EXPECT_EQ(answer.recv(), 42);
    }
    requests.close();
  });
}

// Counts how often it was moved.
struct counted {
  static inline std::atomic<int> moves{0};
  explicit counted(int v) : value(v) {}
  counted(counted&& other) noexcept : value(other.value) { ++moves; }
  counted& operator=(counted&&) = delete;
  int value;
};

// A value goes straight to the partner who waits for it, with a buffer, too; only who finds nobody puts it there.
TEST_P(ChanValues, IsMovedStraightToWhoeverWaits) {
  run([] {
    const auto somebody_waits_to = [](const char* reason) {
      return eventually([=] { return weft::test::somebody_waits_in(reason); });
    };
    const auto receive = [](const chan<counted>& c) {
      const auto v = c.recv();
      EXPECT_TRUE(v && v->value == 1);
    };
    for (const std::size_t capacity : {0, 1}) {
      const chan<counted> c(capacity);
      weft::wait_group receiver;
      receiver.go([&] { receive(c); });
      ASSERT_TRUE(somebody_waits_to("chan receive"));
      counted::moves = 0;
      c.send(counted(1));
      receiver.wait();
      EXPECT_EQ(counted::moves, 1) << "capacity " << capacity;
    }
    const chan<counted> unbuffered;
    counted::moves = 0;
    weft::wait_group sender;
    sender.go([&] { unbuffered.send(counted(1)); });
    ASSERT_TRUE(somebody_waits_to("chan send"));
    receive(unbuffered);
    sender.wait();
    EXPECT_EQ(counted::moves, 1);

    const chan<counted> buffered(1);
    counted::moves = 0;
    buffered.send(counted(1));
    receive(buffered);
    EXPECT_EQ(counted::moves, 2);
  });
}

// Counts its lives; throws when it is moved for the n-th time from now.
struct fragile {
  static inline std::atomic<int> alive{0};
  static inline std::atomic<int> fuse{-1};  // < 0: never

  explicit fragile(int v) : value(v) { ++alive; }
  fragile(fragile&& other) : value(other.value) {
    if (fuse >= 0 && fuse-- == 0) throw std::runtime_error("the move throws");
    ++alive;
    other.value = -1;
  }
  fragile& operator=(fragile&&) = delete;
  ~fragile() { --alive; }
  int value;
};

// What a throwing move does to one channel of this capacity, at every point at which it can happen.
void throws_at(std::size_t capacity, int fuse, bool receiver_first) {
  {
    const chan<fragile> c(capacity);
    std::atomic<int> sender_saw{0}, receiver_saw{0}, received{0};
    weft::wait_group wg;
    fragile::fuse = -1;
    const auto receive = [&] {
      for (;;) {
        try {
          auto v = c.recv();
          if (!v) return;
          if (v->value >= 0) ++received;
        } catch (const std::runtime_error&) {
          ++receiver_saw;
        }
      }
    };
    if (receiver_first) {
      wg.go(receive);
      for (int i = 0; i < 20; ++i) weft::gosched();
    }
    fragile::fuse = fuse;
    int sent = 0;
    const auto send_some = [&] {
      for (int i = 0; i < 4; ++i) {
        try {
          c.send(fragile(i));
          ++sent;
        } catch (const std::runtime_error&) {
          ++sender_saw;
        }
      }
    };
    if (receiver_first) {
      send_some();
    } else {
      weft::wait_group senders;
      senders.go(send_some);
      for (int i = 0; i < 20; ++i) weft::gosched();
      wg.go(receive);
      senders.wait();
    }
    fragile::fuse = -1;
    // Still usable.
    c.send(fragile(100));
    c.close();
    wg.wait();
    // No SCOPED_TRACE here: it belongs to the thread, and this goroutine changes threads.
    const std::string where =
        "capacity " + std::to_string(capacity) + " fuse " + std::to_string(fuse);
    EXPECT_LE(sender_saw + receiver_saw, 1) << where;
    // Each value that was sent comes once, but the one that broke between two frames.
    EXPECT_EQ(received, sent + 1 - (capacity == 0 ? receiver_saw.load() : 0)) << where;
    EXPECT_GE(sender_saw + sent, 4) << where;
  }
  EXPECT_EQ(fragile::alive, 0) << "something leaks";
}

TEST_P(ChanValues, ThrowingMoves) {
  run([] {
    for (const std::size_t capacity : {0, 1, 2}) {
      for (int fuse = 0; fuse < 12; ++fuse) {
        throws_at(capacity, fuse, true);
        throws_at(capacity, fuse, false);
      }
    }
  });
}

// A send that throws leaves the channel as it was; a receive that throws leaves the value.
TEST_P(ChanValues, ThrowingMovesLeaveTheBuffer) {
  run([] {
    const chan<fragile> c(2);
    fragile v(5);
    fragile::fuse = 0;
    EXPECT_THROW(c.try_send(v), std::runtime_error);
    EXPECT_EQ(c.size(), 0u);
    EXPECT_TRUE(c.try_send(v));
    EXPECT_EQ(c.size(), 1u);
    fragile::fuse = 0;
    EXPECT_THROW(c.try_recv(), std::runtime_error);
    EXPECT_EQ(c.size(), 1u);
    const auto r = c.try_recv();
    ASSERT_TRUE(r);
    EXPECT_EQ(r->value, 5);
  });
  EXPECT_EQ(fragile::alive, 0);
}

// Ends the goroutine that moves it, if that is a receiver who lets it in.
struct parting {
  static inline std::atomic<bool> armed{false};
  explicit parting(int v) : value(v) {}
  parting(parting&& other) noexcept(false) : value(other.value) {
    if (value == 2 && armed.exchange(false)) weft::goexit();
  }
  parting& operator=(parting&&) = delete;
  int value;
};

TEST_P(ChanValues, AMoveThatEndsTheReceiver) {
  run([] {
    const chan<parting> c(1);
    c.send(parting(1));
    weft::wait_group sender, receiver;
    sender.go([&] {
      parting second(2);
      c.send(std::move(second));
    });
    ASSERT_TRUE(weft::test::eventually([] { return weft::test::somebody_waits_in("chan send"); }));
    parting::armed = true;
    receiver.go([&] { static_cast<void>(c.recv()); });
    receiver.wait();
    EXPECT_FALSE(parting::armed);
    const auto v = c.recv();
    ASSERT_TRUE(v.has_value());
    EXPECT_EQ(v->value, 2);
    sender.wait();
    c.close();
  });
}

void selects_throw_at(std::size_t capacity, int fuse) {
  const chan<fragile> c(capacity), other;
  std::atomic<int> saw{0}, received{0};
  weft::wait_group wg;
  wg.go([&] {
    bool open = true;
    while (open) {
      try {
        weft::select(weft::recv(other), weft::recv(c, [&](std::optional<fragile> v) {
                       open = v.has_value();
                       if (open) ++received;
                     }));
      } catch (const std::runtime_error&) {
        ++saw;
      }
    }
  });
  for (int i = 0; i < 20; ++i) weft::gosched();
  fragile::fuse = fuse;
  int sent = 0;
  for (int i = 0; i < 3; ++i) {
    try {
      weft::select(weft::send(c, fragile(i)), weft::recv(other));
      ++sent;
    } catch (const std::runtime_error&) {
      ++saw;
    }
  }
  fragile::fuse = -1;
  c.close();
  wg.wait();
  EXPECT_LE(saw, 1);
  EXPECT_GE(sent, 2);
  EXPECT_LE(received, sent);
  EXPECT_GE(received + saw, sent) << "one got lost";
}

TEST_P(ChanValues, ThrowingMovesInSelect) {
  run([] {
    for (const std::size_t capacity : {0, 1, 2}) {
      for (int fuse = 0; fuse < 8; ++fuse) selects_throw_at(capacity, fuse);
    }
  });
  EXPECT_EQ(fragile::alive, 0);
}

// Throws so many times when 2 is moved.
struct reluctant {
  static inline std::atomic<int> times{0};
  explicit reluctant(int v) : value(v) {}
  reluctant(reluctant&& other) noexcept(false) : value(other.value) {
    if (value == 2 && times > 0) {
      --times;
      throw std::runtime_error("the move throws");
    }
  }
  reluctant& operator=(reluctant&&) = delete;
  int value;
};

// A sender waits in a select, and moving its value into the buffer fails when a receiver makes room: the receiver has what it
// came for, and the sender starts over. If its own move fails, too, the exception is its own.
TEST_P(ChanValues, AThrowingMoveOfASelectThatWaits) {
  run([] {
    for (const int times : {1, 2}) {
      const chan<reluctant> c(1), other;
      c.send(reluctant(1));
      weft::wait_group wg;
      bool threw = false;
      wg.go([&] {
        try {
          weft::select(weft::send(c, reluctant(2)), weft::recv(other));
        } catch (const std::runtime_error&) {
          threw = true;
        }
      });
      ASSERT_TRUE(weft::test::eventually([] { return weft::test::somebody_waits_in("select"); }));
      reluctant::times = times;
      const auto first = c.recv();
      ASSERT_TRUE(first);
      EXPECT_EQ(first->value, 1);
      wg.wait();
      EXPECT_EQ(reluctant::times, 0);
      EXPECT_EQ(threw, times == 2);
      EXPECT_EQ(c.size(), times == 2 ? 0u : 1u);
    }
  });
}

// A move that gives way, or blocks, with the channel's lock held.
struct hesitant {
  static inline weft::chan<int>* gate = nullptr;
  explicit hesitant(int v) : value(v) {}
  hesitant(hesitant&& other) : value(other.value) {
    weft::gosched();
    if (gate != nullptr) {
      gate->send(1);
      gate->recv();
    }
  }
  int value;
};

TEST_P(ChanValues, MovesMayBlock) {
  run([] {
    chan<int> gate(1);
    for (const std::size_t capacity : {0, 2}) {
      for (weft::chan<int>* g : {static_cast<weft::chan<int>*>(nullptr), &gate}) {
        hesitant::gate = g;
        const chan<hesitant> c(capacity);
        std::atomic<long> sum{0};
        weft::wait_group senders, receivers;
        for (int p = 0; p < 3; ++p) {
          senders.go([&] {
            for (int i = 1; i <= 20; ++i) c.send(hesitant(i));
          });
          receivers.go([&] {
            for (const auto& v : c) sum += v.value;
          });
        }
        senders.wait();
        c.close();
        receivers.wait();
        EXPECT_EQ(sum, 3 * 210);
      }
    }
    hesitant::gate = nullptr;
  });
}

WEFT_OVER_PROCS(ChanValues);

}  // namespace
