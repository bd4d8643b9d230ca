// See spawner.h.
#include "sched/spawner.h"

#include <algorithm>

#include "os/thread.h"
#include "sched/freeze.h"
#include "sched/sched_api.h"

namespace weft::rt {

namespace {

struct requests {
  M* first WEFT_GUARDED_BY(sched.lock) = nullptr;  // by idle_next; these are not idle
  M* last WEFT_GUARDED_BY(sched.lock) = nullptr;
  bool roused WEFT_GUARDED_BY(sched.lock) = false;
  note
      wanted;  // wakes the spawner, which clears it under sched.lock: so it is set once for each time it was roused
};
constinit requests asked;

void rouse_locked() WEFT_REQUIRES(sched.lock) {
  if (!asked.roused) {
    asked.roused = true;
    sched.lock.wake_afterwards(asked.wanted);
  }
}

// Those first that have a P.
M* next_request() {
  const scoped_lock held(sched.lock);
  M* mp = asked.first;
  if (mp != nullptr) {
    asked.first = mp->idle_next;
    mp->idle_next = nullptr;
  } else if (sched.spares_to_make > 0) {
    --sched.spares_to_make;
    mp = reserve_m(/*beyond=*/1);  // somebody is to be frozen for it, and will not count
    mp->spinning = false;
    mp->nextp = nullptr;
  } else {
    asked.wanted.clear();
    asked.roused = false;
  }
  return mp;
}

void* spawn_for_others(void*) {
  ask_for_short_slices(true, /*inherited=*/false);  // others have a P each, and wait for an M
  for (;;) {
    asked.wanted.sleep();
    guard_exit_if_asked();
    while (M* mp = next_request()) {
      create_m_thread(mp);
    }
    guard_exit_if_asked();  // while it was at that nobody could rouse it
  }
}

// It may have a state that is nobody else's business.
bool is_special(const M* mp) {
  return mp == nullptr || mp->lent || mp->locked_by_user != 0 || mp->short_slices;
}

}  // namespace

void rouse_spawner() {
  const inside here;
  const scoped_lock held(sched.lock);
  rouse_locked();
}

void start_spawner() { create_or_die(spawn_for_others, nullptr); }

void request_spare_ms_locked(std::int32_t n) {
  const std::int32_t there = sched.idle_m_count + sched.spares_coming;
  const std::int32_t room =
      sched.max_threads - (sched.m_count - sched.frozen_ms) - sched.spares_to_make;
  // Those who may never be needed must not use up what is left of the limit, nor the room of one who is leaving: that is for
  // its successor.
  const std::int32_t missing = std::min(n - there, std::max(room, 1 - there));
  if (missing <= 0) {
    return;
  }
  sched.spares_to_make += missing;
  sched.spares_coming += missing;
  rouse_locked();
}

bool created_by_spawner(M* mp) {
  if (!is_special(current_m())) {
    return false;
  }
  const scoped_lock held(sched.lock);
  mp->idle_next = nullptr;
  (asked.first != nullptr ? asked.last->idle_next : asked.first) = mp;
  asked.last = mp;
  rouse_locked();
  return true;
}

}  // namespace weft::rt
