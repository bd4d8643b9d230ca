// See poll_wait.h. The states are poll_core.h's, the rules poll_rules.h's; here are the park, the timers of deadlines, and
// who is woken.
//
// A wait may have a limit of its own, a time or a context: each interrupts the direction as a deadline
// would, having left a mark that the waiter looks at where it looks for faults. So both race with the park
// in the same way as deadlines do (PD-a).
//
// Go: runtime/netpoll.go poll_runtime_pollWait, pollSetDeadline, pollUnblock, netpolldeadlineimpl
#include "io/poll_wait.h"

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
  limit_mark over;

  void interrupt(readiness why) {
    wake_if(pd->end_wait(d, [this, why] {
      over.set(why);
      // Who sees the mark before it is woken takes its frame back once this has returned, which TSan cannot see.
      tsan_release(static_cast<timer_event*>(this));  // acquired in disarm(), by timer_cancel()
    }));
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

readiness wait(poll_desc& pd, direction d, const limit_mark* own) {
  return await_news(pd, d, own, [&pd, d] {
    waiter w;
    park_args args{&pd, d};
    block(w, publish, &args, pd.address(d), wait_reason::io_wait);
  });
}

void deadline_over(timer_event* e, std::int64_t now) {
  auto* t = static_cast<deadline_timer*>(e);
  poll_desc& pd = *t->desc;
  waiter* w = nullptr;
  {
    const locked_desc held(pd);
    w = deadline_comes(pd, t->what, now);
  }
  wake_if(w);
}

struct desc_timers {
  static void stop(poll_desc& pd, direction d) WEFT_REQUIRES(pd.lock) {
    timer_stop(pd.timers[static_cast<int>(d)]);
  }
  static void start(poll_desc& pd, direction d, std::int64_t when) WEFT_REQUIRES(pd.lock) {
    deadline_timer& timer = pd.timers[static_cast<int>(d)];
    const timer_restart again(timer);
    timer.when = when;
    if (timer.fire == nullptr) {  // constant from then on: an earlier firing may be on its way
      timer.fire = deadline_over;
    }
  }
  static std::int64_t now(const poll_desc&) { return nanotime(); }
};

}  // namespace

readiness wait_ready(poll_desc& pd, direction d, const wait_limit& limit) {
  if (limit.none()) [[likely]] {
    return wait(pd, d, nullptr);
  }
  own_limit own;
  own.pd = &pd;
  own.d = d;
  own.arm(limit);
  const readiness r = wait(pd, d, &own.over);
  own.disarm(limit);
  return r;
}

void set_deadline(poll_desc& pd, direction d, std::int64_t when) {
  waiter* w = nullptr;
  {
    const locked_desc held(pd);
    w = change_deadline<desc_timers>(pd, d, when);
  }
  wake_if(w);
}

void evict(poll_desc& pd) {
  waiter* woken[2];
  {
    const locked_desc held(pd);
    end_waits<desc_timers>(pd, woken);
  }
  wake_if(woken[0]);
  wake_if(woken[1]);
}

}  // namespace weft::rt
