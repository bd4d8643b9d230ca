// weft::pool: a shelf for each P, and one for plain threads and for Ps that came later. [PO-1]
//
// All pools are on a list, so that runtime::gc() can let a generation pass in each.
#include <cstdint>
#include <mutex>
#include <vector>

#include <weft/mutex.h>
#include <weft/pool.h>

#include "base/lock.h"
#include "gmp/inside.h"
#include "sched/sched_api.h"
#include "sync/pool_shelf.h"

namespace weft::detail {

namespace {

using shelf = rt::pool_shelf<pool_box>;

// Where to look first: a hint, the shelf's own bit does the rest.
std::size_t own_index() {
  rt::M* mp = rt::enter_runtime();
  const std::size_t i =
      mp == nullptr || mp->p == nullptr ? SIZE_MAX : static_cast<std::size_t>(mp->p->id);
  rt::leave_runtime(mp);
  return i;
}

}  // namespace

struct pool_shelves {
  explicit pool_shelves(std::size_t procs) : by_p(procs) {}

  shelf& at(std::size_t i) { return i < by_p.size() ? by_p[i] : common; }

  mutex trimming;  // held while values are destroyed that a trimmer has taken out
  void (*drop)(pool_box*) noexcept = nullptr;
  void (*discard)(pool_box*) noexcept = nullptr;
  std::vector<shelf> by_p;
  shelf common;

  // -- guarded by the registry
  pool_shelves* prev = nullptr;
  pool_shelves* next = nullptr;
  std::uint64_t trimmed = 0;  // the last round that was here
  int users = 1;              // the pool, and whoever trims it
};

namespace {

struct registry {
  rt::ranked_lock lock{rt::lock_rank::leaf};
  pool_shelves* first WEFT_GUARDED_BY(lock) = nullptr;
  std::uint64_t round WEFT_GUARDED_BY(lock) = 0;
};
constinit registry all;

// Own shelf first, then the others beginning with the next P; what is left of the older generation
// of others comes last.
pool_box* find_full(pool_shelves& s) {
  const std::size_t own = own_index();
  if (pool_box* b = s.at(own).get()) {
    return b;
  }
  const std::size_t n = s.by_p.size();
  const std::size_t start = own < n ? own : 0;
  for (const bool victims : {false, true}) {
    for (std::size_t i = 1; i <= n; ++i) {
      if (pool_box* b = s.by_p[(start + i) % n].steal(victims)) {
        return b;
      }
    }
    if (pool_box* b = s.common.steal(victims)) {
      return b;
    }
  }
  return nullptr;
}

void rotate(shelf& one, const pool_shelves& s) {
  const shelf::dropped gone = one.rotate();
  if (gone.full == nullptr && gone.empty == nullptr) {
    return;
  }
  const rt::users_turn destructors;
  for (pool_box* next = gone.full; pool_box* b = next;) {
    next = b->next;
    s.drop(b);
  }
  for (pool_box* next = gone.empty; pool_box* b = next;) {
    next = b->next;
    s.discard(b);
  }
}

void rotate(pool_shelves& s) {
  for (shelf& p : s.by_p) {
    rotate(p, s);
  }
  rotate(s.common, s);
}

void leave(pool_shelves* s) {
  bool last;
  {
    const rt::inside here;
    const rt::scoped_lock held(all.lock);
    last = --s->users == 0;
  }
  if (last) {
    rotate(*s);
    rotate(*s);
    delete s;
  }
}

// The next pool that this round has not seen, in use until leave(). Null: all seen.
pool_shelves* next_to_trim(std::uint64_t round) {
  const rt::inside here;
  const rt::scoped_lock held(all.lock);
  for (pool_shelves* s = all.first; s != nullptr; s = s->next) {
    if (s->trimmed < round) {
      s->trimmed = round;
      ++s->users;
      return s;
    }
  }
  return nullptr;
}

}  // namespace

pool_core::pool_core(void (*drop)(pool_box*) noexcept, void (*discard)(pool_box*) noexcept) {
  rt::ensure_started();
  shelves_ = new pool_shelves(static_cast<std::size_t>(rt::sched.proc_count()));
  shelves_->drop = drop;
  shelves_->discard = discard;
  const rt::inside here;
  const rt::scoped_lock held(all.lock);
  shelves_->next = all.first;
  if (all.first != nullptr) {
    all.first->prev = shelves_;
  }
  all.first = shelves_;
}

pool_core::~pool_core() {
  {
    const rt::inside here;
    const rt::scoped_lock held(all.lock);
    pool_shelves* before = shelves_->prev;
    pool_shelves* after = shelves_->next;
    (before == nullptr ? all.first : before->next) = after;
    if (after != nullptr) {
      after->prev = before;
    }
  }
  {
    // Whoever destroys the pool may destroy next what its values refer to.
    const std::scoped_lock all_gone(shelves_->trimming);
    rotate(*shelves_);
    rotate(*shelves_);
  }
  leave(shelves_);
}

pool_box* pool_core::get_full() { return find_full(*shelves_); }

pool_box* pool_core::get_empty() { return shelves_->at(own_index()).get_empty(); }

void pool_core::put_full(pool_box* b) { shelves_->at(own_index()).put(b); }

void pool_core::put_empty(pool_box* b) {
  if (!shelves_->at(own_index()).put_empty(b)) {
    shelves_->discard(b);
  }
}

// Values' destructors run here, so without the registry's lock.
void trim_pools() {
  std::uint64_t round;
  {
    const rt::inside here;
    const rt::scoped_lock held(all.lock);
    round = ++all.round;
  }
  while (pool_shelves* s = next_to_trim(round)) {
    // Somebody is at it: another one, or this goroutine, further up, whose value's destructor came here.
    if (const std::unique_lock held(s->trimming, std::try_to_lock); held) {
      rotate(*s);
    }
    leave(s);
  }
}

}  // namespace weft::detail
