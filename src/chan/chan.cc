// Operations on one channel, for goroutines and plain threads.
//
// Blocking is Go's: the lock is taken once, and if the operation cannot be done the waiter is queued
// and the lock is kept while the goroutine leaves its stack; its successor unlocks in the commit.
// Until then nobody can find the waiter, so nobody can make a goroutine runnable that still runs.
//
// Go: runtime/chan.go chansend, chanrecv, closechan
#include <new>

#include <weft/chan.h>
#include <weft/go.h>

#include "base/fatal.h"
#include "chan/channel.h"
#include "sched/staying.h"
#include "sched/timed.h"
#include "sched/timers.h"

namespace weft::rt {

namespace {

// Pauses double from the first to the last. The first is about a microsecond: whoever looks more often
// takes the line away from those who work with it, and slows them down by a factor of ten.
constexpr unsigned kFirstPause = 32;
constexpr unsigned kLastPause = 128;

bool unlock_channel(waiter*, void* c) {
  static_cast<channel*>(c)->unlock();
  return true;
}

bool commit_nothing(waiter*, void*) { return true; }

void about_to_look(channel* c) {
  if (c->hook != nullptr) [[unlikely]] {
    c->hook->before_receive(c->hook);
  }
}

void blocked_changes(channel* c, int change) {
  if (c->hook != nullptr) [[unlikely]] {
    c->hook->blocked(c->hook, change);
  }
}

constexpr bool over_aligned(std::size_t align) { return align > __STDCPP_DEFAULT_NEW_ALIGNMENT__; }

chan_status closed_seen(channel* c) {
  tsan_acquire(c->closed_address());
  return chan_status::closed;
}

}  // namespace

bool chan_lock::spin() {
  for (unsigned pauses = kFirstPause; pauses <= kLastPause; pauses *= 2) {
    for (unsigned i = 0; i < pauses; ++i) {
      cpu_pause();
    }
    // order: CL0 relaxed: only saves a failing compare-exchange on a shared line
    if (word_.load(WEFT_ORDER(CL0, relaxed)) == kFree && take()) {
      return true;
    }
  }
  return false;
}

[[gnu::noinline, gnu::cold]] void chan_lock::lock_slow() {
  while (!spin()) {
    const seen user;
    gosched();  // its holder may be a goroutine that waits for this processor
  }
}

[[gnu::noinline, gnu::cold]] void chan_lock::lock_slow_staying() {
  while (!spin()) {
    const seen user;
    yield_staying();  // as above
  }
}

void block_for_ever(wait_reason reason) {
  for (;;) {
    waiter w;
    block(w, commit_nothing, nullptr, &w, reason);
    fatal("a wait without a channel has ended");
  }
}

namespace {

// With the lock, having found that the value cannot be sent at once.
[[gnu::noinline]] chan_status wait_to_send(channel* c, void* value, const wait_limit& limit) {
  for (;;) {
    wait_claim claim;  // while n is listed
    waiter w;
    w.claim = limit.none() ? nullptr : &claim;
    w.on = c;
    chan_waiter n(&w, value);
    c->enqueue_sender(&n);
    if (limit.none()) [[likely]] {
      block(w, unlock_channel, c, &w, wait_reason::chan_send);
    } else if (block_until(w, unlock_channel, c, &w, wait_reason::chan_send, limit) !=
               wait_end::woken) {
      c->lock();
      c->dequeue_sender(&n);
      c->unlock();
      return chan_status::blocked;
    }
    switch (n.outcome.get()) {
      case chan_outcome::done: return chan_status::done;
      case chan_outcome::closed: return chan_status::closed;
      case chan_outcome::retry: break;
      case chan_outcome::waiting: fatal("a sender was woken by nobody");
    }
    c->lock();
    const chan_status s = c->send(value);
    if (s != chan_status::blocked) {
      return s;
    }
  }
}

// The same for a receiver.
[[gnu::noinline]] chan_status wait_to_recv(channel* c, void* to, const wait_limit& limit) {
  for (;;) {
    wait_claim claim;  // while n is listed
    waiter w;
    w.claim = limit.none() ? nullptr : &claim;
    w.on = c;
    chan_waiter n(&w, to);
    c->enqueue_receiver(&n);
    blocked_changes(c, 1);
    wait_end end = wait_end::woken;
    if (limit.none()) [[likely]] {
      block(w, unlock_channel, c, &w, wait_reason::chan_receive);
    } else {
      end = block_until(w, unlock_channel, c, &w, wait_reason::chan_receive, limit);
    }
    if (end != wait_end::woken) {
      c->lock();
      c->dequeue_receiver(&n);
      c->unlock();
    }
    blocked_changes(c, -1);
    if (end != wait_end::woken) {
      return chan_status::blocked;
    }
    switch (n.outcome.get()) {
      case chan_outcome::done: return chan_status::done;
      case chan_outcome::closed: return chan_status::closed;
      case chan_outcome::retry: break;
      case chan_outcome::waiting: fatal("a receiver was woken by nobody");
    }
    about_to_look(c);
    c->lock();
    const chan_status s = c->recv(to);
    if (s != chan_status::blocked) {
      return s == chan_status::closed ? closed_seen(c) : s;
    }
  }
}

}  // namespace

namespace {

// Inlined into the forms with and without a limit: a channel with room, or with values, is as fast as its lock, and that
// waits for every store before it, those of a call included.
[[gnu::always_inline]] inline chan_status send(channel* c, void* value, const wait_limit& limit) {
  const unseen here;
  c->lock();
  const chan_status s = c->send(value);
  return s != chan_status::blocked ? s : wait_to_send(c, value, limit);
}

[[gnu::always_inline]] inline chan_status recv(channel* c, void* to, const wait_limit& limit) {
  const unseen here;
  about_to_look(c);
  c->lock();
  const chan_status s = c->recv(to);
  if (s == chan_status::done) [[likely]] {
    return s;
  }
  return s == chan_status::closed ? closed_seen(c) : wait_to_recv(c, to, limit);
}

}  // namespace

chan_status chan_send_until(channel* c, void* value, const wait_limit& limit) {
  return send(c, value, limit);
}

chan_status chan_recv_until(channel* c, void* to, const wait_limit& limit) {
  return recv(c, to, limit);
}

channel* chan_make(const detail::element_type& type, std::size_t capacity, chan_hook* hook) {
  constexpr std::size_t kMost = std::size_t{1} << 47;  // Go: maxAlloc
  if (capacity > PTRDIFF_MAX || (type.size != 0 && capacity > kMost / type.size)) {
    throw panic_error("makechan: size out of range");
  }
  const std::size_t offset = (sizeof(channel) + type.align - 1) / type.align * type.align;
  const std::size_t bytes = offset + capacity * type.size;
  void* memory = over_aligned(type.align) ? ::operator new(bytes, std::align_val_t(type.align))
                                          : ::operator new(bytes);
  return ::new (memory) channel(type, capacity, static_cast<std::byte*>(memory) + offset, hook);
}

bool chan_offer(channel* c, void* value) {
  const unseen here;
  c->lock_staying();
  const chan_status s = c->send(value);
  if (s == chan_status::blocked) {
    c->unlock();
  }
  return s == chan_status::done;
}

bool chan_drain(channel* c) {
  const unseen here;
  c->lock_staying();
  const bool any = c->drain([](void*) {});
  c->unlock();
  return any;
}

}  // namespace weft::rt

namespace weft::detail {

using rt::chan_status;

namespace {

constexpr rt::wait_limit kNoLimit{};

chan_end end_of(chan_status s) { return static_cast<chan_end>(s); }
static_assert(chan_end::done == static_cast<chan_end>(chan_status::done) &&
              chan_end::closed == static_cast<chan_end>(chan_status::closed) &&
              chan_end::blocked == static_cast<chan_end>(chan_status::blocked));

void destroy_channel(channel* c) noexcept {
  {
    const rt::unseen here;
    c->drain([c](void* slot) { c->values().destroy(slot); });
  }
  if (c->hook != nullptr && c->hook->released != nullptr) {
    c->hook->released(c->hook);
  }
  const std::size_t align = c->align;
  c->~channel();
  if (rt::over_aligned(align)) {
    ::operator delete(c, std::align_val_t(align));
  } else {
    ::operator delete(c);
  }
}

}  // namespace

channel* chan_make(const element_type& type, std::size_t capacity) {
  channel* c = rt::chan_make(type, capacity, nullptr);
  c->made_by = __builtin_return_address(0);
  return c;
}

void chan_retain(channel* c) noexcept {
  c->handles.fetch_add(1, WEFT_ORDER(CR0, relaxed));  // order: relaxed, the caller has a handle
}

void chan_release(channel* c) noexcept {
  // order: CR1 acquire: the last handle, so all others have been released; pairs with the release
  // below. Most channels have a single owner at the end, and this spares a read-modify-write
  if (c->handles.load(WEFT_ORDER(CR1, acquire)) == 1 ||
      // order: CR1 release: what was done through this handle precedes the destruction; acquire: and
      // if this one is the last, what was done through the others does, too
      c->handles.fetch_sub(1, WEFT_ORDER(CR1, acq_rel)) == 1) {
    destroy_channel(c);
  }
}

bool chan_send(channel* c, void* value) {
  if (c == nullptr) [[unlikely]] {
    rt::block_for_ever(rt::wait_reason::chan_send_nil);
  }
  return rt::send(c, value, kNoLimit) == chan_status::done;
}

bool chan_recv(channel* c, void* to) {
  if (c == nullptr) [[unlikely]] {
    rt::block_for_ever(rt::wait_reason::chan_receive_nil);
  }
  return rt::recv(c, to, kNoLimit) == chan_status::done;
}

chan_end chan_try_send(channel* c, void* value) {
  if (c == nullptr) {
    return chan_end::blocked;
  }
  const rt::unseen here;
  c->lock_staying();
  const chan_status s = c->send(value);
  if (s == chan_status::blocked) {
    c->unlock();
  }
  return end_of(s);
}

chan_end chan_try_recv(channel* c, void* to) {
  if (c == nullptr) {
    return chan_end::blocked;
  }
  const rt::unseen here;
  rt::about_to_look(c);
  c->lock_staying();
  const chan_status s = c->recv(to);
  if (s == chan_status::blocked) {
    c->unlock();
  } else if (s == chan_status::closed) {
    rt::closed_seen(c);
  }
  return end_of(s);
}

chan_end chan_send_until(channel* c, void* value, std::int64_t deadline) {
  if (c == nullptr) {
    rt::sleep_until(deadline);
    return chan_end::blocked;
  }
  return end_of(rt::chan_send_until(c, value, {deadline, nullptr}));
}

chan_end chan_recv_until(channel* c, void* to, std::int64_t deadline) {
  if (c == nullptr) {
    rt::sleep_until(deadline);
    return chan_end::blocked;
  }
  return end_of(rt::chan_recv_until(c, to, {deadline, nullptr}));
}

void chan_close(channel* c) {
  if (c == nullptr) {
    throw nil_channel("close of nil channel");
  }
  bool open = false;
  {
    const rt::unseen here;
    rt::tsan_release(c->closed_address(), "CLOSE");
    open = c->close();
  }
  if (!open) {
    throw closed_channel("close of closed channel");
  }
}

std::size_t chan_size(const channel* c) noexcept {
  return c == nullptr || c->hook != nullptr ? 0 : c->size();
}

std::size_t chan_capacity(const channel* c) noexcept {
  return c == nullptr || c->hook != nullptr ? 0 : c->capacity();
}

void throw_send_on_closed() { throw closed_channel("send on closed channel"); }

}  // namespace weft::detail

namespace weft {

closed_channel::~closed_channel() = default;
nil_channel::~nil_channel() = default;

}  // namespace weft
