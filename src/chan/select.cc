// select over the protocol in selection.h, for goroutines and plain threads.
#include <weft/detail/select.h>
#include <weft/go.h>

#include "base/rng.h"
#include "base/tls.h"
#include "chan/channel.h"
#include "chan/selection.h"
#include "gmp/m.h"
#include "sched/staying.h"
#include "sched/timed.h"
#include "sched/timers.h"

namespace weft::rt {

namespace {

struct select_env {
  using channel = detail::channel;
  using room = detail::select_node;
  using select_case = detail::select_case;

  static bool block(waiter& w, commit_fn commit, void* arg, std::int64_t deadline) {
    w.on = arg;  // the selection: cases_of_select()
    if (deadline == kNever) [[likely]] {
      rt::block(w, commit, arg, &w, wait_reason::select);
      return true;
    }
    const wait_limit limit{deadline, nullptr};
    return block_until(w, commit, arg, &w, wait_reason::select, limit) == wait_end::woken;
  }

  // Uniform in [0, n).
  static std::uint32_t random_below(std::uint32_t n) {
    if (M* mp = current_m()) [[likely]] {
      return mp->random.below(n);
    }
    static atomic<std::uint64_t> draws{0};  // plain threads share one sequence
    // order: relaxed, only the numbers must differ
    rng r(draws.fetch_add(0x9e3779b97f4a7c15u, WEFT_ORDER(RN0, relaxed)));
    return r.below(n);
  }

  // One that has an `otherwise` does not block, so that it may not change its thread either. D2
  static void yield(bool staying) {
    const seen user;
    if (staying) {
      yield_staying();
    } else {
      gosched();
    }
  }

  static void before_receive(channel* c) {
    if (c->hook != nullptr) [[unlikely]] {
      c->hook->before_receive(c->hook);
    }
  }

  static void blocked(channel* c, int change) {
    if (c->hook != nullptr) [[unlikely]] {
      c->hook->blocked(c->hook, change);
    }
  }
};

}  // namespace

WEFT_NO_TSAN awaited_cases cases_of_select(const void* awaited) noexcept {
  const auto* s = static_cast<const selection<select_env>*>(awaited);
  return {s->cases(), s->size()};
}

}  // namespace weft::rt

namespace weft::detail {

namespace {

// What select_run() returns, but for sends on closed channels.
select_result select_here(const select_case* cases, std::size_t n, select_node* nodes,
                          std::uint32_t* order, bool sorted, bool* send_on_closed) {
  const rt::unseen here;
  using selection = rt::selection<rt::select_env>;
  selection s(cases, n, nodes, order);
  s.gather();
  const bool timed = s.timeout() != selection::kNone && s.otherwise() == selection::kNone;
  const std::int64_t deadline =
      timed ? rt::time_after(rt::nanotime(), cases[s.timeout()].timeout) : rt::kNever;
  if (s.live() == 0) {
    if (s.otherwise() != selection::kNone) {
      return {s.otherwise(), false};
    }
    if (!timed) {
      rt::block_for_ever(n == 0 ? rt::wait_reason::select_no_cases : rt::wait_reason::select);
    }
    rt::sleep_until(deadline);
    return {s.timeout(), false};
  }
  if (!sorted) {
    s.sort();
  }
  const rt::selected chosen = s.run(deadline);
  if (chosen.status == rt::chan_status::closed) {
    const select_case& c = cases[chosen.index];
    if (c.kind == case_kind::send) {
      *send_on_closed = true;
    } else {
      rt::tsan_acquire(c.ch->closed_address());
    }
  }
  return {chosen.index, chosen.status == rt::chan_status::done};
}

}  // namespace

select_result select_run(const select_case* cases, std::size_t n, select_node* nodes,
                         std::uint32_t* order, bool sorted) {
  bool send_on_closed = false;
  const select_result r = select_here(cases, n, nodes, order, sorted, &send_on_closed);
  if (send_on_closed) [[unlikely]] {
    throw_send_on_closed();
  }
  return r;
}

}  // namespace weft::detail
