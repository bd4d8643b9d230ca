// A random graph of parkers and wakers: tokens wander from node to node, a node without a token
// parks. Every wake-up arrives exactly once: tokens are neither lost nor doubled. Nodes are
// goroutines and plain threads.
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <weft/go.h>
#include <weft/wait_group.h>

#include "sched/park.h"
#include "support/storm.h"

namespace weft::rt {
namespace {

using weft::test::random_source;

// Counts tokens, or holds the one who waits for one.
class mailbox {
 public:
  void send() {
    std::uintptr_t now = word_.load(std::memory_order_relaxed);
    for (;;) {
      if (is_waiter(now)) {
        if (word_.compare_exchange_weak(now, kNone, std::memory_order_acq_rel)) {
          auto* l = reinterpret_cast<letter*>(now);
          l->delivered = true;
          wake(&l->w);
          return;
        }
      } else if (word_.compare_exchange_weak(now, now + kOne, std::memory_order_acq_rel)) {
        return;
      }
    }
  }

  void receive() {
    for (;;) {
      std::uintptr_t now = word_.load(std::memory_order_relaxed);
      while (now != kNone) {
        if (word_.compare_exchange_weak(now, now - kOne, std::memory_order_acq_rel)) return;
      }
      letter l;
      l.box = this;
      block(l.w, publish, &l, &word_, wait_reason::semacquire);
      if (l.delivered) return;
    }
  }

  std::uint64_t tokens() const { return (word_.load() - kNone) / kOne; }

 private:
  struct letter {
    waiter w;
    mailbox* box = nullptr;
    bool delivered = false;
  };
  static constexpr std::uintptr_t kNone = 1;  // odd: a number of tokens; even: a letter
  static constexpr std::uintptr_t kOne = 2;
  static bool is_waiter(std::uintptr_t v) { return v % 2 == 0; }
  static bool publish(waiter*, void* arg) {
    auto* l = static_cast<letter*>(arg);
    std::uintptr_t none = kNone;
    return l->box->word_.compare_exchange_strong(none, reinterpret_cast<std::uintptr_t>(l),
                                                 std::memory_order_acq_rel);
  }

  std::atomic<std::uintptr_t> word_{kNone};
};

class WakeGraph : public weft::test::storm {
 protected:
  void build(int nodes) {
    boxes_ = std::make_unique<mailbox[]>(static_cast<std::size_t>(nodes));
    nodes_ = nodes;
  }
  mailbox& box(int i) { return boxes_[static_cast<std::size_t>(i)]; }

  void live(int i) {
    random_source random(static_cast<std::uint64_t>(i));
    while (true) {
      box(i).receive();
      ++received_;
      if (!blowing()) {
        return;
      }
      const int to = random.below(nodes_);
      ++sent_;
      box(to).send();
      if (random.one_in(16)) weft::gosched();
    }
  }

  // Lets `goroutines` and `threads` nodes live with so many tokens, and looks at the books.
  void play(int goroutines, int threads, int tokens) {
    build(goroutines + threads);
    std::vector<std::thread> plain;
    for (int i = 0; i < threads; ++i) {
      plain.emplace_back([this, i, goroutines] { live(goroutines + i); });
    }
    run([&] {
      weft::wait_group wg;
      for (int i = 0; i < goroutines; ++i) wg.go([this, i] { live(i); });
      random_source random(7777);
      for (int i = 0; i < tokens; ++i) {
        ++sent_;
        box(random.below(nodes_)).send();
      }
      while (blowing()) weft::gosched();
      for (int i = 0; i < nodes_; ++i) {  // one for everybody: the end
        ++sent_;
        box(i).send();
      }
      wg.wait();
    });
    for (auto& t : plain) t.join();
    std::uint64_t left = 0;
    for (int i = 0; i < nodes_; ++i) left += box(i).tokens();
    EXPECT_EQ(sent_, received_ + static_cast<long>(left)) << "a token was lost or doubled";
    RecordProperty("tokens", static_cast<int>(sent_));
  }

  std::unique_ptr<mailbox[]> boxes_;
  int nodes_ = 0;
  std::atomic<long> sent_{0}, received_{0};
};

// Many nodes, few tokens: nearly everybody is parked.
TEST_P(WakeGraph, FewTokens) { play(200, 0, 3); }
// As many tokens as nodes: receive and send race at every mailbox.
TEST_P(WakeGraph, ManyTokens) { play(50, 0, 50); }
TEST_P(WakeGraph, PlainThreadsToo) { play(20, 6, 10); }

WEFT_OVER_PROCS(WakeGraph);

}  // namespace
}  // namespace weft::rt
