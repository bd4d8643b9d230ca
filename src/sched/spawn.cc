// The birth of a goroutine: a record, an identity, a place in the queue. No stack yet.
//
// Records are kept per P and spill to a shared list in batches, so that spawning and ending on one P
// takes no lock. [L-6]
//
// Ids come in blocks per P that double at each refill (Go: 16 at a time). A million spawns then write
// the shared counter about sixteen times, and small programs still see small ids.
//
// Go: runtime/proc.go newproc1, gfget, gfput
#include "sched/spawn.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <weft/detail/spawn.h>

#include "base/debug_vars.h"
#include "base/fatal.h"
#include "base/print.h"
#include "gmp/arena.h"
#include "sched/chaos.h"
#include "sched/diagnostics.h"
#include "sched/sched_api.h"
#include "sched/thread_exit.h"

namespace weft::rt {

namespace {

constexpr std::uint64_t kMaxGoidBlock = std::uint64_t{1} << 20;

// Runtime code, the loader's lazy binding and a signal frame have to fit, whatever was asked for.
constexpr std::size_t kSmallestStack = 32 * 1024;

std::uint64_t next_goid(P* pp) {
  if (pp->goid_next == pp->goid_end) [[unlikely]] {
    // order: relaxed, ids only have to be unique
    pp->goid_next = sched.goid_next.fetch_add(pp->goid_block, WEFT_ORDER(GI0, relaxed));
    pp->goid_end = pp->goid_next + pp->goid_block;
    if (pp->goid_block < kMaxGoidBlock) {
      pp->goid_block *= 2;
    }
  }
  return pp->goid_next++;
}

void count_goroutine(P* pp, std::int64_t n) {
  // order: relaxed; the owner is the only writer, readers sum up approximately
  pp->goroutines.store(pp->goroutines.load(WEFT_ORDER(PC0, relaxed)) + n,  // order: PC0 as above
                       WEFT_ORDER(PC0, relaxed));                          // order: PC0 as above
}

// The shared list is a list of chains: what one P spilled is what another takes, and nobody walks
// over records that are in somebody else's cache while holding the lock.
void push_chain_locked(G* first, std::uint32_t n) WEFT_REQUIRES(sched.gfree_lock) {
  first->chain_next = sched.free_gs;
  first->chain_length = n;
  sched.free_gs = first;
  sched.free_g_count += n;
}

void refill_from_shared(P* pp) {
  const scoped_lock held(sched.gfree_lock);
  if (G* first = sched.free_gs) {
    sched.free_gs = first->chain_next;
    sched.free_g_count -= first->chain_length;
    pp->free_gs = first;
    pp->free_count = first->chain_length;
  }
}

void refill_with_new(P* pp) {
  pp->free_gs = new_gs(P::kFreeRefill);
  for (G* gp = pp->free_gs; gp != nullptr; gp = gp->schedlink) {
    ++pp->free_count;
  }
}

void spill(P* pp) {
  G* const first = pp->free_gs;
  G* last = first;
  std::uint32_t n = 1;
  while (pp->free_count - n > P::kFreeLow) {
    last = last->schedlink;
    ++n;
  }
  pp->free_gs = last->schedlink;
  pp->free_count -= n;
  last->schedlink = nullptr;
  const scoped_lock held(sched.gfree_lock);
  push_chain_locked(first, n);
}

// A plain thread has no M whose section it could be in. TSan looks at the lock, but not at the records,
// as everywhere else (section.h): what an M has written into one on its g0 is known to precede the end
// of the goroutine, but TSan has seen the goroutine change Ms without an edge between the two.
class record_section {
 public:
  record_section() { tsan_ignore_begin(); }
  ~record_section() { tsan_ignore_end(); }
  record_section(const record_section&) = delete;
  record_section& operator=(const record_section&) = delete;
};

// For threads without a P.
G* shared_g_get() {
  {
    const record_section here;
    const scoped_lock held(sched.gfree_lock);
    if (G* gp = sched.free_gs) {
      sched.free_gs = gp->chain_next;
      --sched.free_g_count;
      if (G* rest = gp->schedlink) {
        sched.free_g_count -= gp->chain_length - 1;
        push_chain_locked(rest, gp->chain_length - 1);
      }
      gp->schedlink = nullptr;
      return gp;
    }
  }
  return new_gs(1);
}

void shared_g_put(G* gp) {
  const record_section here;
  gp->schedlink = nullptr;
  const scoped_lock held(sched.gfree_lock);
  push_chain_locked(gp, 1);
}

[[noreturn]] void no_stack() {
  const int error = errno;
  {
    printer out;
    out.str("runtime: cannot allocate a goroutine stack (errno=").dec(error).str(")\n");
    if (error == ENOMEM) {
      out.str("runtime: may need to increase the address-space limit (ulimit -v)\n");
    }
  }
  fatal("out of memory (goroutine stack)");
}

}  // namespace

G* g_free_get(P* pp) {
  if (pp->free_gs == nullptr) [[unlikely]] {
    refill_from_shared(pp);
    if (pp->free_gs == nullptr) {
      refill_with_new(pp);
    }
  }
  G* gp = pp->free_gs;
  pp->free_gs = gp->schedlink;
  --pp->free_count;
  gp->schedlink = nullptr;
  // The next one may come from another P's cache; the next spawn will want the three lines that a
  // birth writes. As numbers: there may be no next one, and null may not be added to.
  const auto lines = reinterpret_cast<std::uintptr_t>(pp->free_gs);
  __builtin_prefetch(reinterpret_cast<const void*>(lines), 1);
  __builtin_prefetch(reinterpret_cast<const void*>(lines + 64), 1);
  __builtin_prefetch(reinterpret_cast<const void*>(lines + 128), 1);
  return gp;
}

void g_free_put(P* pp, G* gp) {
  WEFT_DCHECK(gp->in(g_status::dead), "free of a goroutine that is not dead");
  gp->schedlink = pp->free_gs;
  pp->free_gs = gp;
  if (++pp->free_count >= P::kFreeHigh) [[unlikely]] {
    spill(pp);
  }
}

namespace {

// The warmest. Under TSan the coldest: to it, frames of two goroutines on one stack look like a race
// unless the first one's end precedes the second one's start, and an edge that says so hides users'
// races between them. So there the edge exists, but between goroutines that lie far apart.
stack cached_stack(P* pp) {
  if constexpr (WEFT_TSAN) {
    const stack s = pp->stacks[0];
    std::memmove(pp->stacks, pp->stacks + 1, --pp->stack_count * sizeof(stack));
    return s;
  }
  return pp->stacks[--pp->stack_count];
}

}  // namespace

void stack_give(P* pp, const stack& s, bool standard) {
  asan_unpoison(s.lo, s.size());  // a goexit, or a panic, leaves frames that never returned
  if (!standard) {
    the_stacks.give_sized(s);
    return;
  }
  if (pp->stack_count == P::kStackCache) {
    constexpr std::uint32_t kHalf = P::kStackCache / 2;
    the_stacks.give(pp->stacks, kHalf);  // the coldest
    std::memmove(pp->stacks, pp->stacks + kHalf, kHalf * sizeof(stack));
    pp->stack_count = kHalf;
  }
  pp->stacks[pp->stack_count++] = s;
}

// Runs on: the stack of whoever switches to gp.
[[gnu::noinline]] void bind_stack(P* pp, G* gp) {
  if (gp->custom_stack) {
    gp->stk = the_stacks.take_sized(std::max(gp->stack_size, kSmallestStack));
  } else {
    if (pp->stack_count == 0) {
      pp->stack_count = static_cast<std::uint32_t>(the_stacks.take(pp->stacks, P::kStackCache / 2));
    }
    if (pp->stack_count != 0) {
      gp->stk = cached_stack(pp);
    }
  }
  if (!gp->stk) {
    no_stack();
  }
  gp->ctx = new_context(coloured_top(gp->stk));
  gp->tools.attach(gp->stk.lo, gp->stk.hi);
}

namespace {

G* take_g() {
  M* mp = enter_runtime();
  const bool local = mp != nullptr && mp->p != nullptr;
  if (!local) {
    ensure_started();
    watch_thread_exit();
  }
  G* gp = local ? g_free_get(mp->p) : shared_g_get();
  leave_runtime(mp);
  return gp;
}

}  // namespace

void g_recycle(G* gp) {
  M* mp = enter_runtime();
  tsan_acquire(&gp->schedlink);  // the M on which it ended has released it
  if (mp == nullptr || mp->p == nullptr) {
    shared_g_put(gp);
  } else {
    g_free_put(mp->p, gp);
  }
  leave_runtime(mp);
}

namespace {

struct birth {
  void* closure;
  std::size_t closure_align;
  void (*body)(void*);
  const void* created_pc;
  std::uint64_t goid = 0;  // 0: the next one
  const char* name = nullptr;
  std::size_t stack_size = 0;
  bool joinable = false;
};

void fill(G* gp, const birth& b, const G* parent) {
  gp->body = b.body;
  gp->closure = b.closure;
  gp->closure_align = static_cast<std::uint32_t>(b.closure_align);
  gp->created_pc = b.created_pc;
  gp->parent_goid = parent == nullptr ? 0 : parent->goid;
  gp->name = b.name;
  gp->joinable = b.joinable;
  gp->custom_stack = b.stack_size != 0;
  gp->helper = false;
  if (gp->custom_stack) {
    gp->stack_size = b.stack_size;
  }
  if (gp->joinable) {
    gp->ended.reset();
  }
  gp->saved_errno = 0;
  gp->transition<g_status::dead, g_status::runnable>();
}

[[gnu::always_inline]] inline void enter_in_register(P* pp, G* gp, std::uint64_t goid) {
  gp->goid = goid != 0 ? goid : next_goid(pp);
  if (debug_vars.tracebackancestors != 0) [[unlikely]] {
    note_ancestors(gp->goid, gp->parent_goid);
  }
  count_goroutine(pp, 1);
  sample_runnable(pp, gp);
}

// Makes gp runnable on the current P, or through the global queue from a plain thread. [L-1]
void start(G* gp, const birth& b) {
  tsan_release(gp, "GO");
  M* mp = enter_runtime();
  fill(gp, b, mp == nullptr ? nullptr : mp->curg);
  P* pp = mp == nullptr ? nullptr : mp->p;
  if (pp == nullptr) {
    // order: relaxed, ids only have to be unique; the count is a statistic
    gp->goid = b.goid != 0 ? b.goid : sched.goid_next.fetch_add(1, WEFT_ORDER(GI0, relaxed));
    sched.foreign_goroutines.fetch_add(1, WEFT_ORDER(PC0, relaxed));  // order: relaxed, statistic
    inject(gp);
    leave_runtime(mp);
    return;
  }
  enter_in_register(pp, gp, b.goid);
  chaos_pause(mp);
  queue_put(mp, pp, gp, /*next=*/true);
  wake_p(pp);
  leave_runtime(mp);
}

const char* copy_name(std::string_view name) {
  if (name.empty()) {
    return nullptr;
  }
  auto* copy = static_cast<char*>(std::malloc(name.size() + 1));
  if (copy != nullptr) {
    std::memcpy(copy, name.data(), name.size());
    copy[name.size()] = '\0';
  }
  return copy;
}

}  // namespace

void free_belongings(const belongings& b) {
  if (b.closure_align != 0) {
    ::operator delete (b.closure, std::align_val_t{b.closure_align});
  }
  std::free(const_cast<char*>(b.name));
}

void count_ended(P* pp) { count_goroutine(pp, -1); }

namespace {

// Users do not see it among their goroutines [CN-2]: reports leave it out (debug/dump.cc) unless it is the users_turn(),
// and it is counted only when it ends, where all are counted off.
void helper_main(void* body) {
  reinterpret_cast<void (*)(void*)>(body)(nullptr);
  sched.foreign_goroutines.fetch_add(1, WEFT_ORDER(PC0, relaxed));  // order: relaxed, statistic
  sched.helpers.fetch_sub(1, WEFT_ORDER(PC0, relaxed));             // order: relaxed, statistic
}

}  // namespace

users_turn::users_turn() noexcept : helper_(current_goroutine()) {
  if (helper_ != nullptr && !helper_->helper) {
    helper_ = nullptr;
  }
  if (helper_ != nullptr) {
    helper_->helper = false;
  }
}

users_turn::~users_turn() {
  if (helper_ != nullptr) {
    helper_->helper = true;
  }
}

bool start_helper(void (*body)(void*)) {
  sched.lock.lock();
  if (sched.m_count == 0) {
    sched.lock.unlock();
    return false;
  }
  G* gp = shared_g_get();
  tsan_release(gp);
  fill(gp, birth{reinterpret_cast<void*>(body), 0, helper_main, nullptr}, nullptr);
  gp->helper = true;
  // order: relaxed, as in start()
  gp->goid = sched.goid_next.fetch_add(1, WEFT_ORDER(GI0, relaxed));
  sched.helpers.fetch_add(1, WEFT_ORDER(PC0, relaxed));  // order: relaxed, statistic
  inject_unlock(gp);
  return true;
}

namespace {

birth birth_of_main(detail::spawn_slot slot, const main_start& how) {
  birth b{slot.memory, slot.heap_align, how.body, how.created_pc};
  b.goid = how.goid;
  return b;
}

}  // namespace

void start_main(detail::spawn_slot slot, const main_start& how) {
  start(static_cast<G*>(slot.goroutine), birth_of_main(slot, how));
}

void preselect_main(detail::spawn_slot slot, const main_start& how) {
  auto* gp = static_cast<G*>(slot.goroutine);
  tsan_release(gp, "GO");
  M* mp = enter_runtime();
  fill(gp, birth_of_main(slot, how), nullptr);
  enter_in_register(mp->p, gp, how.goid);
  mp->preselected = gp;
  leave_runtime(mp);
}

}  // namespace weft::rt

namespace weft::detail {

using rt::G;

spawn_slot spawn_begin(std::size_t size, std::size_t align) {
  // Under TSan always from the heap: freeing it resets TSan's memory of the previous user.
  if (!WEFT_TSAN && size <= G::kInlineClosure && align <= alignof(G)) [[likely]] {
    G* gp = rt::take_g();
    return {gp, gp->inline_closure, 0};
  }
  void* memory = ::operator new (size, std::align_val_t{align});
  return {rt::take_g(), memory, align};
}

[[gnu::noinline]] void spawn_commit(spawn_slot slot, void (*body)(void*),
                                    const spawn_options* options) noexcept {
  rt::birth b{slot.memory, slot.heap_align, body, __builtin_return_address(0)};
  if (options != nullptr) {
    b.name = rt::copy_name(options->name);
    b.stack_size = options->stack_size;
    b.joinable = options->joinable;
  }
  rt::start(static_cast<G*>(slot.goroutine), b);
}

void spawn_abort(spawn_slot slot) noexcept {
  rt::free_belongings({slot.memory, slot.heap_align, nullptr});
  rt::g_recycle(static_cast<G*>(slot.goroutine));
}

void go_of_nil_func() { rt::fatal("go of nil func value", rt::user_fault); }

}  // namespace weft::detail
