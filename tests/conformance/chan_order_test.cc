// What channels order, and nothing else. [MM] 3 to 6
//
// Each edge has two programs that differ in one step. In the first the edge orders two accesses to a
// plain variable: under ThreadSanitizer it must be silent. In its racy twin the edge is missing: there
// must be a report, or the runtime orders more than it promises and hides the users' races. In other
// builds the first ones just run.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <string>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/select.h>
#include <weft/wait_group.h>

#include "support/edges.h"
#include "support/in_turn.h"

extern int chan_order_shared;
int chan_order_shared = 0;  // visible elsewhere, or the compiler would know its values

namespace {

using weft::chan;
using weft::recv;
using weft::select;
using weft::send;
using weft::test::both;
using weft::test::edge_case;
using weft::test::edge_name;
using weft::test::expect_needed;
using weft::test::expect_ordered;
using weft::test::expect_race;

void set() { chan_order_shared = 1; }
void use() {
  if (chan_order_shared > 1) std::abort();
}

}  // namespace

// (3) A send happens before the completion of its receive.
template <class Send, class Receive>
static int sends(std::size_t capacity, bool in_time, Send sends, Receive receives) {
  const chan<int> c(capacity);
  return both(
      [=] {
        if (in_time) set();
        sends(c);
        if (!in_time) set();
      },
      [=] {
        receives(c);
        use();
      });
}
constexpr auto kSend = [](const chan<int>& c) { c.send(1); };
constexpr auto kReceive = [](const chan<int>& c) { c.recv(); };
constexpr auto kTryReceive = [](const chan<int>& c) { static_cast<void>(c.try_recv()); };
constexpr auto kSelectSend = [](const chan<int>& c) {
  select(send(c, 1), recv(chan<int>(nullptr)));
};
constexpr auto kSelectReceive = [](const chan<int>& c) {
  select(recv(c), send(chan<int>(nullptr), 1));
};

WEFT_CHILD(send_ordered) { return sends(0, true, kSend, kReceive); }
WEFT_CHILD(send_racy) { return sends(0, false, kSend, kReceive); }
WEFT_CHILD(buffered_send_ordered) { return sends(1, true, kSend, kReceive); }
WEFT_CHILD(buffered_send_racy) { return sends(1, false, kSend, kReceive); }
WEFT_CHILD(select_send_ordered) { return sends(0, true, kSelectSend, kSelectReceive); }
WEFT_CHILD(select_send_racy) { return sends(0, false, kSelectSend, kSelectReceive); }
static int to_waiting_receiver(bool in_time) {  // the receiver is there first
  const chan<int> c(1);
  return both(
      [=] {
        c.recv();
        use();
      },
      [=] {
        if (in_time) set();
        c.send(1);
        if (!in_time) set();
      });
}
WEFT_CHILD(waiting_receiver_ordered) { return to_waiting_receiver(true); }
WEFT_CHILD(waiting_receiver_racy) { return to_waiting_receiver(false); }

// (4) A close happens before a receive that returns because of it.
template <class Receive>
static int closes(bool in_time, bool waits, Receive receives) {
  const chan<int> c;
  const auto closer = [=] {
    if (in_time) set();
    c.close();
    if (!in_time) set();
  };
  const auto receiver = [=] {
    receives(c);
    use();
  };
  return waits ? both(receiver, closer) : both(closer, receiver);
}
WEFT_CHILD(close_ordered) { return closes(true, false, kReceive); }
WEFT_CHILD(close_racy) { return closes(false, false, kReceive); }
WEFT_CHILD(close_waiting_ordered) { return closes(true, true, kReceive); }
WEFT_CHILD(close_waiting_racy) { return closes(false, true, kReceive); }
WEFT_CHILD(select_close_ordered) { return closes(true, false, kSelectReceive); }
WEFT_CHILD(select_close_racy) { return closes(false, false, kSelectReceive); }
WEFT_CHILD(try_close_ordered) { return closes(true, false, kTryReceive); }
WEFT_CHILD(try_close_racy) { return closes(false, false, kTryReceive); }

// (5) A receive from an unbuffered channel happens before the completion of its send. Not so with a
// buffer.
template <class Send, class Receive>
static int receives(std::size_t capacity, Send sends, Receive receives) {
  const chan<int> c(capacity);
  return both(
      [=] {
        sends(c);
        use();
      },
      [=] {
        set();
        receives(c);
      });
}
static int receive_waits(bool in_time) {  // the receiver is there first
  const chan<int> c;
  return both(
      [=] {
        if (in_time) set();
        c.recv();
        if (!in_time) set();
      },
      [=] {
        c.send(1);
        use();
      });
}
WEFT_CHILD(receive_waiting_ordered) { return receive_waits(true); }
WEFT_CHILD(receive_waiting_racy) { return receive_waits(false); }
WEFT_CHILD(receive_ordered) { return receives(0, kSend, kReceive); }
WEFT_CHILD(receive_racy) { return receives(1, kSend, kReceive); }
WEFT_CHILD(select_receive_ordered) { return receives(0, kSelectSend, kSelectReceive); }
WEFT_CHILD(select_receive_racy) { return receives(1, kSelectSend, kSelectReceive); }

// (6) The k-th receive happens before the completion of the (k + capacity)-th send.
static int fills(std::size_t capacity, std::size_t sends) {
  const chan<int> c(capacity);
  return both(
      [=] {
        for (std::size_t i = 0; i < sends; ++i) c.send(1);
        use();
      },
      [=] {
        set();
        c.recv();
      });
}
WEFT_CHILD(fill_ordered) { return fills(2, 3); }
WEFT_CHILD(fill_racy) { return fills(2, 2); }
// The slot is free again when the next one is sent: nobody waits.
static int reuses(bool in_time) {
  const chan<int> c(1);
  return both(
      [=] {
        c.send(1);
        weft::gosched();
        c.send(2);
        use();
      },
      [=] {
        if (in_time) set();
        c.recv();
        if (!in_time) set();
      });
}
WEFT_CHILD(reuse_ordered) { return reuses(true); }
WEFT_CHILD(reuse_racy) { return reuses(false); }
// The receiver waited, so that the first value never was in the buffer; it counts all the same.
static int fills_past(bool in_time) {
  const chan<int> c(1);
  const chan<int> over;
  return weft::run(
      [=] {
        const weft::no_preempt whole_turn;  // as in in_turn.h
        std::atomic<int> begun{0};          // relaxed: it orders nothing
        const auto let_begin = [&begun](int n) {
          while (begun.load(std::memory_order_relaxed) < n) weft::gosched();
        };
        const auto begins = [&begun] { begun.fetch_add(1, std::memory_order_relaxed); };
        weft::wait_group wg;
        wg.go([=] {
          const weft::no_preempt turn;
          begins();
          if (in_time) set();
          c.recv();
          if (!in_time) set();
          over.recv();  // or another one might get its stack, and that is an edge, too
        });
        let_begin(1);
        wg.go([=] {
          const weft::no_preempt turn;
          begins();
          c.send(1);
          over.recv();  // likewise
        });
        let_begin(2);
        wg.go([=] {
          const weft::no_preempt turn;
          c.send(2);
          use();
          over.close();
        });
        wg.wait();
      },
      {.max_procs = 1});
}
WEFT_CHILD(fill_past_a_waiting_receiver_ordered) { return fills_past(true); }
WEFT_CHILD(fill_past_a_waiting_receiver_racy) { return fills_past(false); }

// Two senders to one buffered channel are not ordered by it.
WEFT_CHILD(senders_racy) {
  const chan<long> c(2);  // TSan's grain is eight bytes
  return both(
      [=] {
        set();
        c.send(1);
      },
      [=] {
        c.send(1);
        use();
      });
}

namespace {

constexpr edge_case kEdges[] = {
    {"send", "PARK"},           {"buffered_send", "SLOT"},
    {"select_send", "PARK"},    {"waiting_receiver", "WAKE"},
    {"close", "CLOSE"},         {"close_waiting", "WAKE"},
    {"select_close", "CLOSE"},  {"try_close", "CLOSE"},
    {"receive", "WAKE"},        {"receive_waiting", "PARK"},
    {"select_receive", "WAKE"}, {"fill", "WAKE"},
    {"reuse", "SLOT"},          {"fill_past_a_waiting_receiver", "SLOT"},
};

class ChanOrder : public testing::TestWithParam<edge_case> {};
TEST_P(ChanOrder, IsWhatWasPromised) { expect_ordered(GetParam().name); }
TEST_P(ChanOrder, IsNeeded) { expect_needed(GetParam(), "chan_order_shared"); }
TEST_P(ChanOrder, ItsAbsenceIsReported) { expect_race(GetParam().name); }
TEST(ChanRace, BetweenSenders) { expect_race("senders"); }

INSTANTIATE_TEST_SUITE_P(, ChanOrder, testing::ValuesIn(kEdges), edge_name);

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
