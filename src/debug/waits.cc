// See debug/waits.h.
#include "debug/waits.h"

#include <weft/mutex.h>

#include "base/debug_vars.h"
#include "base/fatal.h"
#include "chan/channel.h"
#include "debug/demangle.h"
#include "debug/frame.h"
#include "debug/loaded_file.h"
#include "debug/lock_owners.h"
#include "debug/traceback.h"
#include "fiber/sanitizer.h"
#include "gmp/arena.h"
#include "gmp/g.h"
#include "os/clock.h"
#include "sync/lockcheck.h"

namespace weft::rt {

namespace {

constexpr int kShown = 50;
constexpr int kLongestCycle = 64;

std::uintptr_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

struct search {
  std::uintptr_t at = 0;
  const G* found = nullptr;
};

WEFT_NO_TSAN void match_stack(G& gp, void* arg) {
  auto* s = static_cast<search*>(arg);
  if (gp.stk && !gp.in(g_status::dead) && s->at >= address(gp.stk.lo) &&
      s->at < address(gp.stk.hi)) {
    s->found = &gp;
  }
}

void print_duration(printer& out, std::int64_t ns) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  if (ns >= 120 * kSecond) {
    out.dec(ns / (60 * kSecond)).str(" minutes");
  } else {
    out.dec(ns / kSecond).chr('.').dec(ns / (kSecond / 10) % 10).chr('s');
  }
}

WEFT_NO_TSAN bool awaits_made_object(const G& gp) {
  switch (gp.reason) {
    case wait_reason::semacquire:
    case wait_reason::mutex_lock:
    case wait_reason::shared_mutex_lock_shared:
    case wait_reason::shared_mutex_lock:
    case wait_reason::wait_group_wait:
    case wait_reason::cond_wait:
    case wait_reason::latch_wait:
    case wait_reason::barrier_wait:
    case wait_reason::future_wait: return true;
    default: return false;
  }
}

// Where an object lies on somebody's stack: who made it, or else in whose frame.
WEFT_NO_TSAN void print_on_stack(printer& out, const G& owner, std::uintptr_t object,
                                 const void* made_by) {
  constexpr int kDeepest = 1000;
  out.str(" (on the stack of goroutine ").udec(owner.goid);
  if (made_by != nullptr) {
    out.str(", made by ");
    print_place(out, made_by);
  } else if (owner.in(g_status::waiting) && owner.ctx.started()) {
    frame f = frame_of(owner.ctx);
    for (int i = 0; i < kDeepest && f.sp() <= object; ++i) {
      frame caller = f;
      if (step(caller) != frame_step::ok) break;
      if (object < caller.sp()) {
        out.str(", in ");
        print_place(out, reinterpret_cast<const void*>(f.call_site() + 1));
        break;
      }
      f = caller;
    }
  }
  out.chr(')');
}

WEFT_NO_TSAN void print_channel(printer& out, const channel* c) {
  print_object(out, c);
  const void* made_by = is_readable(c) ? c->made_by : nullptr;
  if (made_by != nullptr) {
    out.str(", made by ");
    print_place(out, made_by);
  }
}

WEFT_NO_TSAN void print_awaited(printer& out, const G& gp) {
  const void* const awaited = gp.awaited();
  if (awaited == nullptr || gp.reason == wait_reason::select) return;
  out.str(" of ");
  if (gp.reason == wait_reason::thread_join) {
    out.str("goroutine ").udec(static_cast<const G*>(awaited)->goid);
  } else if (waits_for_channel(gp)) {
    print_channel(out, static_cast<const channel*>(awaited));
  } else {
    print_object(out, awaited, awaits_made_object(gp) ? origin_of(awaited) : object_origin{});
  }
}

void print_cases(printer& out, const G& gp) {
  const channels_of_select all(gp);
  for (std::size_t i = 0; i < all.count(); ++i) {
    if (all.at(i) == nullptr) continue;
    out.str(all.is_send(i) ? "\t\tchan send of " : "\t\tchan receive of ");
    print_channel(out, all.at(i));
    out.chr('\n');
  }
}

WEFT_NO_TSAN void print_wait(printer& out, const G& gp) {
  out.str("\tgoroutine ").udec(gp.goid).str(": ").str(to_string(gp.reason));
  print_awaited(out, gp);
  if (is_leaked(gp)) out.str(", which nobody else can reach");
  if (gp.waiting_since > 0) {
    out.str(", for ");
    print_duration(out, nanotime() - gp.waiting_since);
  }
  if (waits_for_lock(gp)) print_owners(out, gp);
  out.chr('\n');
  print_cases(out, gp);
  out.flush();
}

struct wait_listing {
  printer* out;
  int count;
};
void visit_wait(G& gp, void* arg) {
  auto* l = static_cast<wait_listing*>(arg);
  if (!gp.in(g_status::waiting)) return;
  if (++l->count <= kShown) print_wait(*l->out, gp);
}

struct cycle_listing {
  printer* out;
  bool with_waits;  // of its members
  int count = 0;
};

// Goroutines that wait for each other in a circle, of whom the first has the smallest id. Depth first, since one
// that wants to write waits for many; not for long, since there may be more ways than can be walked.
class cycle_search {
 public:
  // How many they are; 0: gp is the smallest of none.
  int run(const G& gp) {
    constexpr int kSteps = 2000;
    int depth = 0;
    enter(gp, depth);
    for (int step = 0; step < kSteps && depth > 0; ++step) {
      const G* next = next_awaited(*path_[depth - 1], at_[depth - 1]);
      if (next == &gp) return depth;
      if (next == nullptr) {
        --depth;
      } else if (next->goid > gp.goid && depth < kLongestCycle && !contains(next, depth)) {
        enter(*next, depth);
      }
    }
    return 0;
  }
  const G& member(int i) const { return *path_[i]; }

 private:
  void enter(const G& gp, int& depth) {
    path_[depth] = &gp;
    at_[depth++] = 0;
  }
  bool contains(const G* gp, int depth) const {
    for (int i = 0; i < depth; ++i) {
      if (path_[i] == gp) return true;
    }
    return false;
  }

  const G* path_[kLongestCycle];
  std::size_t at_[kLongestCycle];
};

void visit_cycle(G& gp, void* arg) {
  auto& listing = *static_cast<cycle_listing*>(arg);
  printer& out = *listing.out;
  cycle_search cycle;
  const int length = listing.count < kShown ? cycle.run(gp) : 0;
  if (length == 0) return;
  ++listing.count;
  if (listing.with_waits) {
    if (listing.count == 1) out.str("\npartial deadlock:\n");
    for (int i = 0; i < length; ++i) print_wait(out, cycle.member(i));
  }
  out.str("cycle: goroutine ").udec(gp.goid);
  for (int i = 1; i <= length; ++i) {
    out.str(" waits for goroutine ").udec(cycle.member(i % length).goid);
  }
  out.chr('\n');
}

void print_locked_again(printer& out, const lock_reports::inversion& i) {
  const auto as = [](lock_mode mode) { return mode == lock_mode::shared ? " for reading" : ""; };
  const bool both_read = i.held_as == lock_mode::shared && i.locks_as == lock_mode::shared;
  out.str("WARNING: weft: ");
  print_owner(out, i.who);
  out.str(" locks mutex ");
  print_object(out, i.locks, origin_of(i.locks));
  out.str(as(i.locks_as))
      .str(both_read ? ", which it reads already: a writer who comes in between stops both"
                     : ", which it holds already");
  out.str("\n\tlocked").str(as(i.held_as)).str(" at ");
  print_place(out, i.held_site);
  out.str("\n\tagain at ");
  print_place(out, i.site);
  out.chr('\n');
}

void print_inversion(const lock_reports::inversion& i) {
  printer out;
  if (i.held == i.locks) return print_locked_again(out, i);
  out.str("WARNING: weft: lock order inversion\n\t");
  print_owner(out, i.who);
  out.str(" locks ");
  print_object(out, i.locks, origin_of(i.locks));
  out.str(" at ");
  print_place(out, i.site);
  out.str("\n\twhile it holds ");
  print_object(out, i.held, origin_of(i.held));
  out.str(", locked at ");
  print_place(out, i.held_site);
  out.str("\n\tthe other way round, by ");
  print_owner(out, i.other_who);
  out.str(" at ");
  print_place(out, i.other_site);
  out.chr('\n');
}

}  // namespace

void print_object(printer& out, const void* object, const object_origin& from) noexcept {
  out.hex(address(object));
  loaded_file file;
  if (find_loaded_file(address(object), file)) {
    if (const char* name = find_data_symbol(file, address(object)).name) {
      out.str(" (");
      print_data_name(out, name);
      out.chr(')');
      return;
    }
  }
  search s{address(object), nullptr};
  for_each_g(match_stack, &s);
  if (s.found != nullptr) return print_on_stack(out, *s.found, address(object), from.made_by);
  if (from.made_by == nullptr && from.first_lock == nullptr) return;
  out.str(from.made_by != nullptr ? " (made by " : " (first locked at ");
  print_place(out, from.made_by != nullptr ? from.made_by : from.first_lock);
  out.chr(')');
}

void print_waits(printer& out) noexcept {
  find_lock_owners();
  out.str("\nwaits:\n");
  wait_listing listing{&out, 0};
  for_each_g(visit_wait, &listing);
  if (listing.count > kShown) out.str("\t...and ").dec(listing.count - kShown).str(" more\n");
  cycle_listing cycles{&out, false};
  for_each_g(visit_cycle, &cycles);
}

void print_partial_deadlocks(printer& out) noexcept {
  find_lock_owners();
  cycle_listing cycles{&out, true};
  for_each_g(visit_cycle, &cycles);
}

void install_lock_reports() noexcept {
  if (debug_vars.lockcheck != 0) {
    set_lock_reports({.inverted = print_inversion, .user_call = user_call_site});
    detail::lock_checks = true;
  }
}

}  // namespace weft::rt
