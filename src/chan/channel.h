// The channel of products: the core's protocol over real waiters and values of any type.
//
// Values. Those that are plain bytes (trivially copyable) are copied by size; a receiver's frame has
// room for the bytes. All others are moved by functions of their type; a receiver's frame has an
// empty std::optional. They know the type, the rest of this folder does not.
//
// What a channel orders, as TSan is told ([MM] 3 to 6; nothing else, so that users' races show):
//   a slot of the ring   released and acquired by whoever puts a value there and by whoever takes it:
//                        a send precedes its receive, and the k-th receive the (k + capacity)-th send
//   a waiter             released when it parks, acquired by its partner, who also releases it by
//                        waking it: both directions, for a rendezvous
//   closed               released by close(), acquired by whoever receives nothing because of it
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <weft/detail/channel.h>
#include <weft/detail/select.h>

#include "base/atomic.h"
#include "chan/chan_core.h"
#include "fiber/sanitizer.h"
#include "gmp/inside.h"
#include "sched/park.h"

namespace weft::rt {

// In a scope: TSan does not look at plain accesses, and nobody is frozen (gmp/inside.h). All of a channel
// is accessed so.
class unseen {
 public:
  unseen() { tsan_ignore_begin(); }
  ~unseen() { tsan_ignore_end(); }
  unseen(const unseen&) = delete;
  unseen& operator=(const unseen&) = delete;

 private:
  inside here_;
};

// … but for the user's code in between.
class seen {
 public:
  seen() { tsan_ignore_end(); }
  ~seen() { tsan_ignore_begin(); }
  seen(const seen&) = delete;
  seen& operator=(const seen&) = delete;

 private:
  outside here_;
};

class chan_elements {
 public:
  chan_elements(const detail::element_type& type, std::byte* ring) noexcept
      : ring_(ring), size_(type.size), type_(type.receive != nullptr ? &type : nullptr) {}

  bool plain() const { return type_ == nullptr; }
  void* slot(std::size_t i) const { return ring_ + i * size_; }

  void receive(void* to, void* from) const {
    if (type_ == nullptr) [[likely]] {
      copy(to, from);
      return;
    }
    const seen user;
    type_->receive(to, from);
  }

  void store(void* slot, void* from) const {
    passed(slot);
    if (type_ == nullptr) [[likely]] {
      copy(slot, from);
    } else {
      const seen user;
      type_->store(slot, from);
    }
    passed(slot);
  }

  // False: the move threw. The exception ends here, in the user's part: its destructor is his, too.
  bool try_store(void* slot, void* from) const {
    if (type_ == nullptr) [[likely]] {
      store(slot, from);
      return true;
    }
    passed(slot);
    bool stored = true;
    {
      const seen user;
      try {
        type_->store(slot, from);
      } catch (...) {
        stored = false;
      }
    }
    passed(slot);
    return stored;
  }

  void take(void* to, void* slot) const {
    passed(slot);
    if (type_ == nullptr) [[likely]] {
      copy(to, slot);
    } else {
      const seen user;
      type_->receive(to, slot);
      type_->destroy(slot);
    }
    passed(slot);
  }

  void destroy(void* slot) const {
    if (type_ != nullptr) {
      const seen user;
      type_->destroy(slot);
    }
  }

  static void passed(void* slot) {
    tsan_acquire(slot);
    tsan_release(slot, "SLOT");
  }

 private:
  void copy(void* to, const void* from) const {
    if (size_ == sizeof(std::uint64_t)) [[likely]] {
      std::memcpy(to, from, sizeof(std::uint64_t));
    } else if (size_ != 0) {
      std::memcpy(to, from, size_);
    }
  }

  std::byte* ring_;
  std::size_t size_;
  const detail::element_type* type_;  // null: plain bytes
};

struct chan_env {
  using waiter = rt::waiter;
  using elements = chan_elements;
  static constexpr bool kTracksRing = WEFT_TSAN != 0;

  static void wake(waiter* w) { rt::wake(w); }
  static void met(waiter* w) { tsan_acquire(w); }
  static void passed(void* slot) { chan_elements::passed(slot); }
};

using chan_waiter = chan_node<waiter>;

// A channel behind which there is something else: the channel of a timer, which is due when somebody
// looks, and which is in the timers' structure only while somebody is blocked on it. [T-14]
// size() and capacity() of such a channel are 0.
struct chan_hook {
  // Before every look for a value: recv, try_recv, select. No lock held. May offer().
  void (*before_receive)(chan_hook*) = nullptr;
  // A receiver is about to block (+1, the channel's lock is held) or has come back (-1, no lock held).
  void (*blocked)(chan_hook*, int change) = nullptr;
  // The last handle is gone; the hook may go, too.
  void (*released)(chan_hook*) noexcept = nullptr;
};

}  // namespace weft::rt

namespace weft::detail {

struct channel : rt::chan_core<rt::chan_env> {
  channel(const element_type& type, std::size_t capacity, std::byte* ring, rt::chan_hook* h)
      : chan_core(capacity, rt::chan_elements(type, ring)), hook(h), align(type.align) {}

  // constant after construction
  rt::chan_hook* const hook;
  const std::size_t align;
  const void* made_by = nullptr;  // a return address, for reports
  rt::atomic<std::size_t> handles{1};
};

}  // namespace weft::detail

namespace weft::rt {

using detail::channel;

// A channel with a hook, which may be null. Throws panic_error and std::bad_alloc.
channel* chan_make(const detail::element_type& type, std::size_t capacity, chan_hook* hook);

// Puts a value into the ring, or hands it to somebody who waits, if that is possible at once. For
// plain bytes. Runs on: G, g0, plain thread. Blocks: nothing.
bool chan_offer(channel* c, void* value);

// Throws away what is in the ring; true if there was something. For plain bytes.
bool chan_drain(channel* c);

// Blocks for ever: there is no channel.
[[noreturn]] void block_for_ever(wait_reason reason);

// The cases of a select, given what its goroutine awaits (G::awaited). For reports.
struct awaited_cases {
  const detail::select_case* cases;
  std::size_t count;
};
awaited_cases cases_of_select(const void* awaited) noexcept;

// Operations that end at a limit, too. `blocked` then means that the limit came first. (sched/timed.h)
struct wait_limit;
chan_status chan_send_until(channel* c, void* value, const wait_limit& limit);
chan_status chan_recv_until(channel* c, void* to, const wait_limit& limit);

}  // namespace weft::rt
