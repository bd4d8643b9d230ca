// after_func(): one allocation holds the event and the callable. [T-13]
//
// References are held by the handle, by the pending event, and by each goroutine that runs the callable.
// fire() turns the event's into the goroutine's. Stop and reset may be called by anybody at any
// time: they go by the event's own state (timer_stop, timer_restart) and need no lock.
//
// Go: time/sleep.go AfterFunc, goFunc
#include "time/after_func.h"

#include <algorithm>
#include <new>

#include <weft/time.h>

#include "sched/section.h"
#include "sched/timers.h"

namespace weft::rt {

struct func_timer : timer_event {
  atomic<std::uint32_t> references{2};  // the handle's and the event's
  std::uint32_t align = 0;
  void* closure = nullptr;
  void (*call)(void*) = nullptr;
  void (*destroy)(void*) noexcept = nullptr;
};

namespace {

void free_memory(func_timer* t) noexcept {
  const std::size_t align = t->align;
  t->~func_timer();
  ::operator delete(t, std::align_val_t(align));
}

void release(func_timer* t) noexcept {
  // order: AF1 acq_rel: whoever destroys the callable sees what was done with it
  if (t->references.fetch_sub(1, WEFT_ORDER(AF1, acq_rel)) == 1) {
    t->destroy(t->closure);
    free_memory(t);
  }
}

void call_and_release(void* memory) {
  func_timer* t = *static_cast<func_timer**>(memory);
  struct guard {  // also if the callable calls goexit()
    func_timer* held;
    ~guard() { release(held); }
  } const g{t};
  t->call(t->closure);
}

void fires(timer_event* e, std::int64_t) {
  auto* t = static_cast<func_timer*>(e);
  const detail::spawn_slot slot = detail::spawn_begin(sizeof(func_timer*), alignof(func_timer*));
  *static_cast<func_timer**>(slot.memory) = t;
  detail::spawn_commit(slot, call_and_release, nullptr);
}

}  // namespace

bool stop_func_timer(func_timer* t) {
  if (!timer_stop(*t)) {
    return false;
  }
  release(t);
  return true;
}

bool reset_func_timer(func_timer* t, std::int64_t due) {
  const timer_restart again(*t);
  if (!again.was_pending()) {
    // order: relaxed, the caller's handle keeps it alive
    t->references.fetch_add(1, WEFT_ORDER(AF0, relaxed));
  }
  t->when = due;
  return again.was_pending();
}

void drop_func_timer(func_timer* t) noexcept { release(t); }

}  // namespace weft::rt

namespace weft::detail {

after_func_slot after_func_begin(std::size_t size, std::size_t align) {
  align = std::max(align, alignof(rt::func_timer));
  const std::size_t offset = (sizeof(rt::func_timer) + align - 1) / align * align;
  void* memory = ::operator new(offset + size, std::align_val_t(align));
  auto* t = ::new (memory) rt::func_timer;
  t->align = static_cast<std::uint32_t>(align);
  t->closure = static_cast<std::byte*>(memory) + offset;
  return {t, t->closure};
}

void after_func_abort(after_func_slot slot) noexcept {
  rt::free_memory(static_cast<rt::func_timer*>(slot.timer));
}

timer_word after_func_commit(after_func_slot slot, void (*call)(void*),
                             void (*destroy)(void*) noexcept, std::int64_t ns) noexcept {
  auto* t = static_cast<rt::func_timer*>(slot.timer);
  t->call = call;
  t->destroy = destroy;
  t->fire = rt::fires;
  t->when = rt::time_after(rt::nanotime(), ns);
  rt::timer_start(*t);
  return reinterpret_cast<timer_word>(t) + 2;
}

}  // namespace weft::detail
