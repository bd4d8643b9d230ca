// Modelled atomics: variables with a history of writes, and fences.
//
// An atomic keeps all its writes in modification order. A load may return any write that is not
// older than what the thread's view demands; the engine tries them all, newest first. Each write
// carries the knowledge that an acquiring reader gains: the writer's own if it is a release, that
// of its last release fence otherwise, and always that of the write before it if it is a
// read-modify-write (so release sequences of C++20 come out right: they continue through
// read-modify-writes of any thread and end at a plain store).
//
// Objects reset themselves to their initial value at their first use in an execution, so even a
// constant-initialised global can be modelled.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <type_traits>

#include "model/engine.h"
#include "model/mutants.h"
#include "model/plain.h"

namespace weft::model {

inline bool acquires(std::memory_order o) {
  return o == std::memory_order_acquire || o == std::memory_order_acq_rel ||
         o == std::memory_order_seq_cst || o == std::memory_order_consume;
}
inline bool releases(std::memory_order o) {
  return o == std::memory_order_release || o == std::memory_order_acq_rel ||
         o == std::memory_order_seq_cst;
}

template <class T>
std::string show(T value) {
  if constexpr (std::is_pointer_v<T>) {
    return engine::get().name_of(value);
  } else if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<long long>(value));
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else {
    return "?";
  }
}

template <class T>
class atomic {
 public:
  constexpr atomic() noexcept : initial_(T{}) {}
  constexpr explicit atomic(T value) noexcept : initial_(value) {}
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;
  ~atomic() {  // by a modelled thread: whoever comes later comes too late
    if (engine::get().in_thread()) ended_ = true;
  }

  T load(std::memory_order order) const {
    engine& e = enter(false);
    const int i = pick(e);
    const T value = take(e, i, order);
    if (e.tracing()) tell(e, "load", order, "-> " + show(value) + age(i));
    return value;
  }
  void store(T value, std::memory_order order) {
    engine& e = enter(true);
    put(e, value, order, nullptr);
    if (e.tracing()) tell(e, "store", order, show(value));
  }
  T exchange(T value, std::memory_order order) {
    return modify("exchange", order, [&](T) { return value; });
  }
  T fetch_add(auto delta, std::memory_order order) {
    return modify("fetch_add", order, [&](T old) { return static_cast<T>(old + delta); });
  }
  T fetch_sub(auto delta, std::memory_order order) {
    return modify("fetch_sub", order, [&](T old) { return static_cast<T>(old - delta); });
  }
  T fetch_or(T bits, std::memory_order order) {
    return modify("fetch_or", order, [&](T old) { return static_cast<T>(old | bits); });
  }
  T fetch_and(T bits, std::memory_order order) {
    return modify("fetch_and", order, [&](T old) { return static_cast<T>(old & bits); });
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order success,
                               std::memory_order failure) {
    return compare(expected, desired, success, failure, false);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order success,
                             std::memory_order failure) {
    return compare(expected, desired, success, failure, true);
  }
  static constexpr bool is_always_lock_free = true;

  // For futexes: this location, and a relaxed load that is no schedule point.
  int location() const { return renew(engine::get()).location_; }
  T load_here() const {
    engine& e = engine::get();
    renew(e);
    return take(e, pick(e), std::memory_order_relaxed);
  }

 private:
  struct write {
    T value;
    knowledge carries;
  };

  engine& enter(bool writes) const {
    engine& e = engine::get();
    renew(e);
    e.point(*usage_, writes);
    e.check(!ended_, "an atomic is used after its end");
    if (e.in_thread()) e.tick();
    return e;
  }
  const atomic& renew(engine& e) const {
    if (execution_ == e.execution()) return *this;
    execution_ = e.execution();
    location_ = e.new_location();
    usage_ = &e.usage_of(this);
    size_ = capacity_ = 0;
    append(e)->value = initial_;
    return *this;
  }
  write* append(engine& e) const {
    if (size_ == capacity_) {
      const int capacity = capacity_ == 0 ? 4 : 2 * capacity_;
      auto* room = static_cast<write*>(
          e.allocate(static_cast<std::size_t>(capacity) * sizeof(write), alignof(write)));
      for (int i = 0; i < size_; ++i) room[i] = history_[i];
      history_ = room;
      capacity_ = capacity;
    }
    return new (&history_[size_++]) write{};
  }
  std::size_t at() const { return static_cast<std::size_t>(location_); }

  // Which write the current thread's load returns.
  int pick(engine& e) const {
    const int newest = size_ - 1;
    if (!e.may_be_old()) return newest;
    auto& t = e.me();
    int oldest = t.cur.sees.at[at()];
    auto& again = t.rereads[at()];
    if (oldest < newest && again.write == oldest && again.times >= e.bounds().rereads) ++oldest;
    const int i = newest - e.choose(newest - oldest + 1);
    if (i < newest) {
      remember(again, i);
      ++e.old_loads;
    }
    return i;
  }
  static void remember(modelled_thread::reread& again, int i) {
    again.times = static_cast<std::int16_t>(again.write == i ? again.times + 1 : 0);
    again.write = static_cast<std::int16_t>(i);
  }
  T take(engine& e, int i, std::memory_order order) const {
    auto& t = e.me();
    const write& w = history_[i];
    t.cur.sees.at[at()] = std::max(t.cur.sees.at[at()], static_cast<std::int16_t>(i));
    auto& last = t.joined[at()][acquires(order)];
    if (last != i) {  // joining the same write again would change nothing
      (acquires(order) ? t.cur : t.unfenced).join(w.carries);
      last = static_cast<std::int16_t>(i);
    }
    forget_reads(e);
    return w.value;
  }
  void put(engine& e, T value, std::memory_order order, const knowledge* sequence) {
    auto& t = e.me();
    const auto i = static_cast<std::int16_t>(size_);
    t.cur.sees.at[at()] = i;
    knowledge carries = releases(order) ? t.cur : t.released;
    carries.sees.at[at()] = i;
    if (sequence != nullptr) carries.join(*sequence);
    write* w = append(e);
    w->value = value;
    w->carries = carries;
    forget_reads(e);
  }
  template <class F>
  T modify(const char* what, std::memory_order order, F f) {
    engine& e = enter(true);
    const int i = size_ - 1;
    const T old = take(e, i, order);
    const knowledge sequence = history_[i].carries;
    put(e, f(old), order, &sequence);
    if (e.tracing()) tell(e, what, order, show(old) + " => " + show(history_[size_ - 1].value));
    return old;
  }
  bool compare(T& expected, T desired, std::memory_order success, std::memory_order failure,
               bool weak);
  int pick_failure(engine& e, T expected) const;

  std::string age(int i) const {
    return i == size_ - 1 ? "" : " (old; newest is " + show(history_[size_ - 1].value) + ")";
  }
  void tell(engine& e, const char* what, std::memory_order order, const std::string& result) const {
    e.trace(std::string(what) + " @" + std::to_string(location_) + " " + order_name(order) + "  " +
            result + "   [" + labels_used() + "]");
  }

  T initial_;
  mutable std::uint64_t execution_ = 0;
  mutable int location_ = 0, size_ = 0, capacity_ = 0;
  mutable write* history_ = nullptr;
  mutable usage* usage_ = nullptr;
  bool ended_ = false;
};

// A compare-exchange that succeeds reads the newest write, as every read-modify-write. One that
// fails is a load and may return an old write, if that differs from what is expected.
template <class T>
int atomic<T>::pick_failure(engine& e, T expected) const {
  const int newest = size_ - 1;
  if (!e.may_be_old()) return newest;
  auto& t = e.me();
  auto& again = t.rereads[at()];
  int old[32];
  int n = 0;
  for (int i = newest - 1; i >= t.cur.sees.at[at()] && n < 32; --i) {
    if (history_[i].value == expected) continue;
    if (again.write == i && again.times >= e.bounds().rereads) continue;
    old[n++] = i;
  }
  const int c = e.choose(n + 1);
  if (c == 0) return newest;
  remember(again, old[c - 1]);
  ++e.old_loads;
  return old[c - 1];
}

template <class T>
bool atomic<T>::compare(T& expected, T desired, std::memory_order success,
                        std::memory_order failure, bool weak) {
  engine& e = enter(true);
  int i = pick_failure(e, expected);
  bool equal = history_[i].value == expected;
  if (equal && weak && e.in_thread() && e.weak_failures == 0 && e.choose(2) == 1) {
    ++e.weak_failures;
    equal = false;
  }
  if (!equal) {
    expected = take(e, i, failure);
    if (e.tracing()) tell(e, "compare_exchange", failure, "fails, " + show(expected) + age(i));
    return false;
  }
  confirm_reads(e);
  take(e, i, success);
  const knowledge sequence = history_[i].carries;
  put(e, desired, success, &sequence);
  if (e.tracing()) tell(e, "compare_exchange", success, show(expected) + " => " + show(desired));
  return true;
}

// --- fences ----------------------------------------------------------------------------------

void fence(std::memory_order order);
// The pair of base/asymmetric_fence.h: one light and one heavy fence order like two seq_cst ones,
// two light ones order nothing.
void light_fence(std::memory_order order);
void heavy_fence(std::memory_order order);

}  // namespace weft::model
