// Signals into channels. See include/weft/signal.h.
//
// A handler may do next to nothing. It sets a bit and writes to an eventfd; a thread of its own reads that and does the
// rest. A plain thread and not a goroutine: while signals are awaited somebody may still act, so that there is no deadlock
// [DD-4]; and nobody else pays for it. It masks all signals but those that are wanted: these arrive though the program
// blocks them everywhere, until nobody wants them any more (io/signal_mask.h).
//
// SG1: once stop() has returned nothing is sent: sending and changing who wants what exclude each other.
// SG2: a signal that arrives again before it was looked at counts once, as in the kernel.
// SG3: a signal that arrived before stop() is sent before stop() returns: it would be lost otherwise, since it no longer
//      does what it did before either. So the thread lets it in no longer, and has taken by then what was sent to
//      it; the action is changed; those are awaited who are in the handler (io/signal_gate.h); what has arrived is sent,
//      and then the channel forgotten. Who comes too late for that sends the signal to itself again, to the action that
//      it has now.
//
// Rejected: signalfd (wants the signals masked in all threads, also those that weft did not make); sending
// from the handler (a channel's lock may be held by whom the signal interrupted).
//
// Go: os/signal/signal.go, runtime/sigqueue.go
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <vector>

#include <weft/runtime.h>
#include <weft/signal.h>

#include "base/tsan_signals.h"
#include "io/own_thread.h"
#include "io/signal_gate.h"
#include "io/signal_mask.h"
#include "os/test_hooks.h"
#include "sched/preempt.h"
#include "sched/sched_api.h"

namespace weft::signal {

namespace {

constexpr int kSignals = 65;  // 1 … 64

constinit rt::signal_gate gate;
constinit int bell = -1;  // constant once there is a handler

struct wish {
  chan<int> to;
  int signal;
};

// Never destroyed: handlers and the thread outlive main().
struct registry {
  std::mutex changing;     // one at a time changes who wants what, and waits for the thread
  std::mutex lock;         // … which takes this one to send; inside of the other
  rt::signal_mask let_in;  // by the thread
  std::vector<wish> wishes;
  struct sigaction before[kSignals] = {};
  bool changed[kSignals] = {};
};

registry& the_registry() {
  static registry& r = *new registry;  // NOLINT: see above
  return r;
}

std::uint64_t bit_of(int s) { return std::uint64_t{1} << (s - 1); }

// Tests stop a thread here, as the kernel may.
void descheduled(std::int64_t place) {
  rt::os::test_hooks_t& hooks = rt::os::test_hooks;
  while (hooks.hold_signals.get() == place) {
    hooks.signals_held.set(place);
    ::sched_yield();
  }
}

// When the handler has returned. As it was sent, so that who gets it now sees by whom.
void send_again(int s, siginfo_t* info) {
  const auto self = ::syscall(SYS_gettid);
  if (::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), self, s, info) != 0) {
    ::syscall(SYS_tgkill, ::getpid(), self, s);
  }
}

// Wakes the thread. Async-signal-safe.
WEFT_NO_TSAN void ring() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto ignored = ::write(bell, &one, sizeof one);
}

WEFT_NO_TSAN void handler(int s, siginfo_t* info, void*) {
  const int saved = errno;
  descheduled(1);
  if (gate.enter(bit_of(s))) {
    descheduled(2);
    gate.arrive(bit_of(s));
    ring();
  } else {
    send_again(s, info);
  }
  errno = saved;
}

bool can_be_caught(int s) {
  rt::ensure_started();  // which chooses the runtime's own
  switch (s) {
    case SIGKILL:
    case SIGSTOP:
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL: return false;
    default: return s != rt::runtime_signal() && s > 0 && s < kSignals && (s < 32 || s >= SIGRTMIN);
  }
}

void deliver(const registry& r, int s) {
  for (const wish& w : r.wishes) {
    if (w.signal == s) {
      int value = s;
      try {
        w.to.try_send(value);
      } catch (const closed_channel&) {  // its owner's affair
      }
    }
  }
}

// Locks: the registry's is held. What has arrived goes to those who want it now. keeps SG3
void deliver_all(const registry& r) {
  for (std::uint64_t bits = gate.take(); bits != 0; bits &= bits - 1) {
    deliver(r, __builtin_ctzll(bits) + 1);
  }
}

// Until somebody has rung, or a signal has come here. Not by read(), which TSan does not know to block, and which the kernel
// repeats: the handler would never run (base/tsan_signals.h).
void await_bell() {
  pollfd p{bell, POLLIN, 0};
  std::uint64_t count = 0;
  if (::poll(&p, 1, -1) < 0) {
    rt::run_delayed_handlers();
  } else if (::read(bell, &count, sizeof count) < 0) {
    ::pause();
  }
}

[[noreturn]] void serve() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  for (;;) {
    await_bell();
    registry& r = the_registry();
    r.let_in.follow();
    const std::lock_guard held(r.lock);
    deliver_all(r);
  }
}

// Locks: held, as below.
std::error_code start_once() {
  if (bell >= 0) {
    return {};
  }
  bell = eventfd(0, EFD_CLOEXEC);
  if (bell < 0) {
    return {errno, std::system_category()};
  }
  const std::error_code none = rt::on_own_thread(serve);
  if (none) {
    ::close(bell);
    bell = -1;
  }
  return none;
}

void set_action(registry& r, int s, struct sigaction a) {
  a.sa_flags |= SA_RESTART | SA_ONSTACK;
  sigfillset(&a.sa_mask);
  struct sigaction old = {};
  if (sigaction(s, &a, &old) == 0 && !r.changed[s]) {
    r.before[s] = old;
    r.changed[s] = true;
  }
}

void catch_signal(registry& r, int s) {
  struct sigaction a = {};
  a.sa_sigaction = handler;
  a.sa_flags = SA_SIGINFO;
  gate.want(bit_of(s));
  set_action(r, s, a);
}

void ignore_signal(registry& r, int s) {
  struct sigaction a = {};
  a.sa_handler = SIG_IGN;
  set_action(r, s, a);
  gate.unwant(bit_of(s));
}

void restore(registry& r, int s) {
  if (r.changed[s]) {
    sigaction(s, &r.before[s], nullptr);
    r.changed[s] = false;
  }
  gate.unwant(bit_of(s));
}

// Locks: `changing` is held, and not the registry's, for which the thread may wait. keeps SG3
void let_in_no_longer(registry& r, const std::vector<int>& list) {
  std::uint64_t bits = r.let_in.wanted();
  for (const int s : list) {
    bits &= ~bit_of(s);
  }
  r.let_in.set(bits, ring);
}

// Locks: the registry's is held, which handlers do not need. keeps SG3
void await_handlers() {
  while (!gate.idle()) {
    const timespec pause{0, 50'000};  // they need a processor, too
    ::nanosleep(&pause, nullptr);
  }
}

std::vector<int> list_of(std::initializer_list<int> signals) {
  std::vector<int> list(signals);
  for (int s = 1; signals.size() == 0 && s < kSignals; ++s) {
    if (can_be_caught(s)) {
      list.push_back(s);
    }
  }
  return list;
}

}  // namespace

void notify(const chan<int>& c, std::initializer_list<int> signals, std::error_code& ec) {
  if (!c || !std::all_of(signals.begin(), signals.end(), can_be_caught)) {
    ec = std::make_error_code(std::errc::invalid_argument);
    return;
  }
  registry& r = the_registry();
  const std::lock_guard changing(r.changing);
  ec = start_once();
  if (ec) {
    return;
  }
  std::uint64_t let_in = r.let_in.wanted();
  std::unique_lock held(r.lock);
  for (const int s : list_of(signals)) {
    const bool has = std::any_of(r.wishes.begin(), r.wishes.end(),
                                 [&](const wish& w) { return w.signal == s && w.to == c; });
    if (!has) {
      r.wishes.push_back({c, s});
    }
    catch_signal(r, s);
    let_in |= bit_of(s);
  }
  held.unlock();
  r.let_in.set(let_in, ring);  // not before there is a handler
}

void notify(const chan<int>& c, std::initializer_list<int> signals) {
  std::error_code ec;
  notify(c, signals, ec);
  if (ec) {
    throw std::system_error(ec, "signal::notify");
  }
}

void notify(const chan<int>& c, std::error_code& ec) { notify(c, {}, ec); }

void stop(const chan<int>& c) {
  const no_preempt stays;  // sending may give way to others, and the lock is the thread's
  registry& r = the_registry();
  const std::lock_guard changing(r.changing);
  std::vector<int> list;
  for (int s = 1; s < kSignals; ++s) {
    const auto of_others = [&](const wish& w) { return w.signal == s && !(w.to == c); };
    const auto wanted = [&](const wish& w) { return w.signal == s; };
    if (std::any_of(r.wishes.begin(), r.wishes.end(), wanted) &&
        std::none_of(r.wishes.begin(), r.wishes.end(), of_others)) {
      list.push_back(s);
    }
  }
  let_in_no_longer(r, list);
  const std::lock_guard held(r.lock);
  for (const int s : list) {
    restore(r, s);
  }
  await_handlers();
  deliver_all(r);
  std::erase_if(r.wishes, [&](const wish& w) { return w.to == c; });
}

void stop(const chan<int>& c, std::error_code& ec) {
  ec.clear();  // nothing to fail; the form that everything has
  stop(c);
}

namespace {

// Changes the action of each, and forgets who wanted it.
template <class Change>
void take_away(std::initializer_list<int> signals, Change change) {
  const no_preempt stays;  // as in stop()
  registry& r = the_registry();
  const std::lock_guard changing(r.changing);
  std::vector<int> list = list_of(signals);
  std::erase_if(list, [](int s) { return !can_be_caught(s); });
  let_in_no_longer(r, list);
  const std::lock_guard held(r.lock);
  for (const int s : list) {
    change(r, s);
  }
  await_handlers();
  deliver_all(r);
  for (const int s : list) {
    std::erase_if(r.wishes, [s](const wish& w) { return w.signal == s; });
  }
}

}  // namespace

void ignore(std::initializer_list<int> signals) {
  take_away(signals, [](registry& r, int s) { ignore_signal(r, s); });
}

void ignore(std::initializer_list<int> signals, std::error_code& ec) {
  ec.clear();
  ignore(signals);
}
void ignore(std::error_code& ec) { ignore({}, ec); }

void reset(std::initializer_list<int> signals) {
  take_away(signals, [](registry& r, int s) { restore(r, s); });
}
void reset(std::initializer_list<int> signals, std::error_code& ec) {
  ec.clear();
  reset(signals);
}
void reset(std::error_code& ec) { reset({}, ec); }

}  // namespace weft::signal
