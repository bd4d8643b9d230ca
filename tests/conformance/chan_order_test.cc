// What channels order, and nothing else. [MM] 3 to 6
//
// Each edge has two programs that differ in one step. In the first the edge orders two accesses to a
// plain variable: under ThreadSanitizer it must be silent. In its racy twin the edge is missing: there
// must be a report, or the runtime orders more than it promises and hides the users' races. In other
// builds the first ones just run.
#include <cstddef>
#include <cstdlib>
#include <string>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/run.h>
#include <weft/select.h>
#include <weft/wait_group.h>

#include "support/child.h"
#include "support/fixture.h"
#include "support/in_turn.h"

extern int chan_order_shared;
int chan_order_shared = 0;  // visible elsewhere, or the compiler would know its values

namespace {

using weft::chan;
using weft::recv;
using weft::select;
using weft::send;
using weft::test::both;
using weft::test::run_child;

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
WEFT_CHILD(waiting_receiver_ordered) {  // the receiver is there first
  const chan<int> c(1);
  return both(
      [=] {
        c.recv();
        use();
      },
      [=] {
        set();
        c.send(1);
      });
}

// (4) A close happens before a receive that returns because of it.
static int closes(bool in_time, bool waits) {
  const chan<int> c;
  const auto closer = [=] {
    if (in_time) set();
    c.close();
    if (!in_time) set();
  };
  const auto receiver = [=] {
    c.recv();
    use();
  };
  return waits ? both(receiver, closer) : both(closer, receiver);
}
WEFT_CHILD(close_ordered) { return closes(true, false); }
WEFT_CHILD(close_racy) { return closes(false, false); }
WEFT_CHILD(close_waiting_ordered) { return closes(true, true); }
WEFT_CHILD(close_waiting_racy) { return closes(false, true); }

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
WEFT_CHILD(receive_waiting_ordered) {  // the receiver is there first
  const chan<int> c;
  return both(
      [=] {
        set();
        c.recv();
      },
      [=] {
        c.send(1);
        use();
      });
}
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
// The receiver waited, so that the first value never was in the buffer; it counts all the same.
WEFT_CHILD(fill_past_a_waiting_receiver_ordered) {
  const chan<int> c(1);
  return weft::run(
      [c] {
        weft::wait_group wg;
        wg.go([c] {
          set();
          c.recv();
        });
        weft::gosched();
        wg.go([c] { c.send(1); });
        weft::gosched();
        wg.go([c] {
          c.send(2);
          use();
        });
        wg.wait();
      },
      {.max_procs = 1});
}

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

constexpr const char* kReport = "WARNING: ThreadSanitizer: data race";

class ChanOrder : public testing::TestWithParam<const char*> {};

TEST_P(ChanOrder, IsWhatWasPromised) {
  const std::string name = GetParam();
  const auto ordered = run_child(name + "_ordered");
  EXPECT_EQ(ordered.output.find(kReport), std::string::npos) << ordered.output;
  EXPECT_EQ(ordered.status, 0) << ordered.output;
}

class ChanRace : public testing::TestWithParam<const char*> {};

TEST_P(ChanRace, IsReported) {
  if (!WEFT_TEST_TSAN) GTEST_SKIP() << "needs ThreadSanitizer";
  const auto racy = run_child(std::string(GetParam()) + "_racy");
  EXPECT_NE(racy.output.find(kReport), std::string::npos) << "the twin has a race that is hidden\n"
                                                          << racy.output;
}

std::string plain_name(const testing::TestParamInfo<const char*>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(, ChanOrder,
                         testing::Values("send", "buffered_send", "select_send", "waiting_receiver",
                                         "close", "close_waiting", "receive", "receive_waiting",
                                         "select_receive", "fill", "fill_past_a_waiting_receiver"),
                         plain_name);
INSTANTIATE_TEST_SUITE_P(, ChanRace,
                         testing::Values("send", "buffered_send", "select_send", "close",
                                         "close_waiting", "receive", "select_receive", "fill",
                                         "senders"),
                         plain_name);

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
