// What a cancellation reaches: a list of hooks, each called once. Contexts and the std::stop_token
// bridge are sources; a wait with a context adds a hook that lives on the waiter's stack.
//
//   canceller                                   remover
//   lock; cancelled; hook h off the list,       lock; h listed: unlink, unlock: true
//     current = h; unlock                       h called, current == h: unlock, wait
//   h.fire()     may let h go                   otherwise unlock: false
//   lock; current = the next one …
//
// CS1: after fire() was called the canceller does not touch the hook any more.
// CS2: remove() returns false only if nobody is inside that hook's fire(), save the caller itself.
// CS3: every hook that was added and not removed is called once.
// Hooks are few and short, so there is one lock and no attempt to call them in parallel.
// Rejected: std::stop_source (allocates its state and each callback's semaphore, blocks the thread in
// the destructor of a callback, and is not ours to model).
#pragma once

#include <cstdint>

#include "base/annotations.h"
#include "base/atomic.h"
#include "base/lock.h"
#include "gmp/inside.h"

namespace weft::rt {

struct cancel_hook {
  // Called once, by the thread that cancels, without any lock of the source. May wake() and add or
  // remove other hooks; must not park, so it runs no user code, destructors included. The hook may be
  // gone once it returns.
  void (*fire)(cancel_hook*) = nullptr;

  // -- the source's
  cancel_hook* next = nullptr;
  cancel_hook* prev = nullptr;
  enum class state : std::uint8_t { idle, listed, called } at = state::idle;
};

class cancel_source {
 public:
  constexpr cancel_source() noexcept = default;
  cancel_source(const cancel_source&) = delete;
  cancel_source& operator=(const cancel_source&) = delete;

  // False: already cancelled; the hook was not added and will not be called.
  bool add(cancel_hook& hook) {
    const inside here;
    const scoped_lock held(lock_);
    if (cancelled() && !WEFT_MUTANT("add-after-cancel")) {
      return false;
    }
    hook.prev = nullptr;
    hook.next = first_;
    if (first_ != nullptr) {
      first_->prev = &hook;
    }
    first_ = &hook;
    hook.at = cancel_hook::state::listed;
    return true;
  }

  // True: it will not be called. False: it has been called, or was never added; returns only when
  // fire() has returned, unless the caller is fire() itself.
  bool remove(cancel_hook& hook) {
    for (;; let_others_go_on()) {
      const inside here;
      const scoped_lock held(lock_);
      if (hook.at == cancel_hook::state::listed) {
        unlink(hook);
        hook.at = cancel_hook::state::idle;
        return true;
      }
      if (current_ != &hook || canceller_ == this_thread() || WEFT_MUTANT("remove-waits-not")) {
        return false;
      }
    }
  }

  // Calls every hook. Once: true for the first caller only. The others do not wait for it.
  bool cancel() {
    if (!begin([] {})) {
      return false;
    }
    fire_all();
    return true;
  }

  // The same in two steps: first() runs once, before anybody can see the cancellation, under the lock;
  // then the caller for whom this was true calls the hooks.
  template <class F>
  bool begin(F&& first) {
    const inside here;
    const scoped_lock held(lock_);
    if (cancelled()) {
      return false;
    }
    first();
    // order: CN1 release: what the canceller did before; pairs with cancelled()
    cancelled_.store(1, WEFT_ORDER(CN1, release));
    return true;
  }
  void fire_all() {
    while (cancel_hook* hook = next_to_call()) {
      hook->fire(hook);
    }
  }

  bool cancelled() const {
    // order: CN1 acquire: whoever sees it sees what preceded the cancellation [MM] 16
    return cancelled_.load(WEFT_ORDER(CN1, acquire)) != 0;
  }

 private:
  // fire() does not park, so that it stays on its thread, which runs nobody else meanwhile (ST1 in
  // sched/staying.cc, if it has to wait): the thread stands for the caller.
  static const void* this_thread() {
#ifdef WEFT_MODEL
    return reinterpret_cast<const void*>(
        static_cast<std::uintptr_t>(model::engine::get().current() + 1));
#else
    return __builtin_thread_pointer();
#endif
  }

  cancel_hook* next_to_call() {
    const inside here;
    const scoped_lock held(lock_);
    canceller_ = this_thread();
    current_ = first_;
    if (current_ != nullptr) {
      unlink(*current_);
      current_->at = cancel_hook::state::called;
    }
    return current_;
  }

  // Whoever is awaited may have been frozen in a hook; and a goroutine that keeps its P (no_preempt) would never lose
  // it here.
  static void let_others_go_on() {
    const outside here;
    yield_staying();
  }

  void unlink(cancel_hook& hook) {
    (hook.prev != nullptr ? hook.prev->next : first_) = hook.next;
    if (hook.next != nullptr) {
      hook.next->prev = hook.prev;
    }
    hook.next = hook.prev = nullptr;
  }

  ranked_lock lock_{lock_rank::leaf};
  atomic<std::uint32_t> cancelled_{0};
  cancel_hook* first_ = nullptr;
  cancel_hook* current_ = nullptr;  // being called
  const void* canceller_ = nullptr;
};

}  // namespace weft::rt
