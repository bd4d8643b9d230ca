// Joining goroutines: weft::thread.
//
// The handle is the goroutine's record itself, kept from reuse until it is joined or detached. Its
// completion has one waiter: std::thread is joined once, too.
#include <cerrno>
#include <system_error>

#include <weft/stop_token.h>
#include <weft/thread.h>

#include "base/fatal.h"
#include "gmp/limited_waiter.h"
#include "os/process.h"
#include "sched/park.h"
#include "sched/sched_api.h"
#include "sched/staying.h"
#include "sync/context_node.h"

namespace weft::rt {

namespace {

bool enlist(waiter* w, void* gp) { return static_cast<G*>(gp)->ended.enlist(w); }

using joiner = limited_waiter<waiter>;

bool enlist_dropped(waiter* w, void* j) { return static_cast<joiner*>(j)->dropped.enlist(w); }

// False: the limit came first. Never in place: a child that runs on this stack cannot be left behind.
bool wait_for_end(G* gp, const wait_limit& limit) {
  while (!gp->ended.done()) {
    wait_claim claim;
    joiner j;
    j.claim = &claim;
    j.on = gp;
    const wait_end end =
        block_until(j, enlist, gp, gp->ended.address(), wait_reason::thread_join, limit);
    if (end == wait_end::woken) {
      continue;
    }
    if (gp->ended.retract(&j)) {
      return false;
    }
    while (!j.dropped.done()) {
      waiter w;
      block(w, enlist_dropped, &j, j.dropped.address(), wait_reason::thread_join);
    }
  }
  return true;
}

}  // namespace

}  // namespace weft::rt

namespace weft::detail {

using rt::G;

namespace {

G* joinable(void* goroutine) {
  auto* gp = static_cast<G*>(goroutine);
  if (gp == nullptr) {
    throw_thread_error(EINVAL);
  }
  if (gp == rt::current_goroutine()) {
    throw_thread_error(EDEADLK);
  }
  return gp;
}

}  // namespace

bool join_goroutine(void* goroutine, limit l) {
  G* gp = joinable(goroutine);
  if (!rt::wait_for_end(gp, rt::limit_of(l))) {
    return false;
  }
  rt::g_recycle(gp);
  return true;
}

void join_goroutine(void* goroutine) {
  G* gp = joinable(goroutine);
  while (!gp->ended.done() && !rt::run_in_place(gp)) {
    rt::waiter w;
    w.on = gp;
    rt::block(w, rt::enlist, gp, gp->ended.address(), rt::wait_reason::thread_join);
  }
  rt::g_recycle(gp);
}

void detach_goroutine(void* goroutine) noexcept {
  auto* gp = static_cast<G*>(goroutine);
  if (!gp->ended.abandon()) {
    rt::g_recycle(gp);
  }
}

void throw_thread_error(int code) {
  throw std::system_error(code, std::generic_category(), "weft::thread");
}

bool lock_to_thread() noexcept { return rt::pin_to_thread(); }
void unlock_from_thread() noexcept { rt::unpin_from_thread(); }
void take_off(void (*reset)(void*), void* callback) noexcept {
  rt::follow_pinned();
  // std::stop_callback waits for one that runs on another thread, and believes that there is nothing to wait for on
  // its own. There it is right: whoever runs it keeps its thread to itself until it has returned. But to TSan, who
  // has seen another goroutine there, it looks like a race.
  rt::tsan_ignore_begin();
  reset(callback);
  rt::tsan_ignore_end();
}

unsigned hardware_concurrency() noexcept {
  rt::ensure_started();
  return static_cast<unsigned>(rt::sched.cpu_count());
}

// Not instrumented: the id was written by the spawner's M, and does not change while a handle exists.
WEFT_NO_TSAN std::uint64_t goroutine_id(void* goroutine) noexcept {
  return static_cast<G*>(goroutine)->goid;
}

std::uint64_t this_thread_id() noexcept {
  rt::M* mp = rt::enter_runtime();
  const std::uint64_t id = mp == nullptr || mp->curg == nullptr ? 0 : mp->curg->goid;
  rt::leave_runtime(mp);
  // Goroutine ids never come near the top bit.
  return id != 0 ? id : (std::uint64_t{1} << 63) | static_cast<std::uint64_t>(rt::gettid());
}

}  // namespace weft::detail
