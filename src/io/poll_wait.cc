// See poll_wait.h. The states are poll_core.h's; here are the park, the timers of deadlines, and who is
// woken.
//
// A wait may have a limit of its own, a time or a context: each interrupts the direction as a deadline
// would, having left a mark that the waiter looks at where it looks for faults. So both race with the park
// in the same way as deadlines do (PD-a).
//
// Go: runtime/netpoll.go poll_runtime_pollWait, pollSetDeadline, pollUnblock, netpolldeadlineimpl
#include "io/poll_wait.h"

#include "base/fatal.h"
#include "gmp/inside.h"
#include "os/clock.h"
#include "sched/netpoll.h"
#include "sched/park.h"
#include "sched/timers.h"

namespace weft::rt {

namespace {

// Holds a record's lock.
class WEFT_SCOPED_CAPABILITY locked_desc {
 public:
  explicit locked_desc(poll_desc& pd) WEFT_ACQUIRE(pd.lock) : lock_(pd.lock) { lock_.lock(); }
  ~locked_desc() WEFT_RELEASE() { lock_.unlock(); }
  locked_desc(const locked_desc&) = delete;
  locked_desc& operator=(const locked_desc&) = delete;

 private:
  const inside
      here_;  // who wants the lock in the runtime does not give way to who is frozen with it
  ranked_lock& lock_;
};

void wake_if(waiter* w) {
  if (w != nullptr) {
    wake_io_waiter(w);
  }
}

// What ends one wait before its time. In the waiter's frame, and gone from everywhere before that is.
struct own_limit : timer_event, cancel_hook {
  poll_desc* pd = nullptr;
  direction d = direction::read;
  bool has_timer = false;
  bool has_hook = false;
  atomic<std::uint32_t> over{0};  // a readiness

  void interrupt(readiness why) {
    wake_if(pd->end_wait(d, [this, why] {
      // order: PW0 relaxed; end_wait() orders it before the look at the word
      over.store(static_cast<std::uint32_t>(why), WEFT_ORDER(PW0, relaxed));
      // Who sees the mark before it is woken takes its frame back once this has returned, which TSan cannot see.
      tsan_release(static_cast<timer_event*>(this));  // acquired in disarm(), by timer_cancel()
    }));
  }
  readiness reason() const {
    // order: PW0 relaxed; the fence in begin_wait() orders it after the word
    return static_cast<readiness>(over.load(WEFT_ORDER(PW0, relaxed)));
  }

  void arm(const wait_limit& limit) {
    if (limit.source != nullptr) {
      cancel_hook::fire = [](cancel_hook* h) {
        static_cast<own_limit*>(h)->interrupt(readiness::cancelled);
      };
      has_hook = limit.source->add(*this);
      if (!has_hook) {
        interrupt(readiness::cancelled);
      }
    }
    if (limit.deadline != kNever) {
      has_timer = true;
      when = limit.deadline;
      timer_event::fire = [](timer_event* e, std::int64_t) {
        static_cast<own_limit*>(e)->interrupt(readiness::timed_out);
      };
      timer_start(*this);
    }
  }
  void disarm(const wait_limit& limit) {
    if (has_timer) {
      timer_cancel(*this);
    }
    if (has_hook) {
      limit.source->remove(*this);
    }
  }
};

struct park_args {
  poll_desc* pd;
  direction d;
};

// In the commit: once it is published, the frame with the arguments may be gone.
bool publish(waiter* w, void* arg) {
  const park_args a = *static_cast<park_args*>(arg);
  const bool plain_thread = w->gp == nullptr;
  io_wait_begins();
  if (!a.pd->commit(a.d, w)) {
    io_wait_over();
    return false;
  }
  if (plain_thread) {
    somebody_must_poll();
  }
  return true;
}

readiness fault_of(const poll_desc& pd, direction d, const own_limit* own) {
  switch (pd.fault(d)) {
    case poll_fault::closing: return readiness::closing;
    case poll_fault::timed_out: return readiness::timed_out;
    case poll_fault::none: break;
  }
  return own != nullptr ? own->reason() : readiness::ready;
}

readiness wait(poll_desc& pd, direction d, const own_limit* own) {
  for (;;) {
    readiness fault = fault_of(pd, d, own);
    if (fault != readiness::ready) {
      return fault;
    }
    if (pd.begin_wait(d)) {
      return readiness::ready;
    }
    if (fault_of(pd, d, own) == readiness::ready) {
      waiter w;
      park_args args{&pd, d};
      block(w, publish, &args, pd.address(d), wait_reason::io_wait);
    }
    if (pd.finish(d)) {
      return readiness::ready;
    }
  }
}

void deadline_over(timer_event* e, std::int64_t now) {
  auto* t = static_cast<deadline_timer*>(e);
  poll_desc& pd = *t->desc;
  const direction d = t->what;
  waiter* w = nullptr;
  {
    const locked_desc held(pd);
    // It may have been moved, or be another user's by now: the time tells.
    if (!pd.closing() && pd.deadline[static_cast<int>(d)] <= now) {
      pd.raise(poll_desc::expired(d));
      w = pd.interrupt(d);
    }
  }
  wake_if(w);
}

// Locks: pd.lock is held. Returns whom to wake.
waiter* change_deadline(poll_desc& pd, direction d, std::int64_t when) WEFT_REQUIRES(pd.lock) {
  std::int64_t& deadline = pd.deadline[static_cast<int>(d)];
  deadline_timer& timer = pd.timers[static_cast<int>(d)];
  const bool over = when != kNever && when <= nanotime();
  if (deadline != kNever && (when == kNever || over)) {
    timer_stop(timer);
  }
  deadline = when;
  if (over) {
    pd.raise(poll_desc::expired(d));
    return pd.interrupt(d);
  }
  pd.lower(poll_desc::expired(d));
  if (when != kNever) {
    const timer_restart again(timer);
    timer.when = when;
    if (timer.fire == nullptr) {  // constant from then on: an earlier firing may be on its way
      timer.fire = deadline_over;
    }
  }
  return nullptr;
}

}  // namespace

readiness wait_ready(poll_desc& pd, direction d, const wait_limit& limit) {
  if (limit.none()) [[likely]] {
    return wait(pd, d, nullptr);
  }
  own_limit own;
  own.pd = &pd;
  own.d = d;
  own.arm(limit);
  const readiness r = wait(pd, d, &own);
  own.disarm(limit);
  return r;
}

void set_deadline(poll_desc& pd, direction d, std::int64_t when) {
  waiter* w = nullptr;
  {
    const locked_desc held(pd);
    if (!pd.closing() && pd.deadline[static_cast<int>(d)] != when) {
      w = change_deadline(pd, d, when);
    }
  }
  wake_if(w);
}

void evict(poll_desc& pd) {
  waiter* woken[2];
  {
    const locked_desc held(pd);
    WEFT_CHECK(!pd.closing(), "a poll descriptor is evicted twice");
    pd.raise(poll_desc::kClosing);
    for (auto d : {direction::read, direction::write}) {
      const auto i = static_cast<int>(d);
      woken[i] = pd.interrupt(d);
      if (pd.deadline[i] != kNever) {
        timer_stop(pd.timers[i]);
        pd.deadline[i] = kNever;
      }
    }
  }
  wake_if(woken[0]);
  wake_if(woken[1]);
}

}  // namespace weft::rt
