// Values of which every goroutine has its own.
//
// A goroutine that uses any has a table, found by its own word (sched/at_exit.h): open addressing by
// the key, an ever-growing number, so that neighbouring keys lie in neighbouring places. A key that has
// gone leaves its values where they are until their goroutines end: nobody else may touch the table.
//
// GL1: a value is in the table from its making until its destructor has returned. So a destructor finds
//      itself and those values that were made before it and live longer, as with thread_local, and never
//      one that is destroyed. What it brings to life goes to the same table, and is destroyed next.
#include <cstddef>
#include <vector>

#include <weft/goroutine_local.h>

#include "base/atomic.h"
#include "sched/at_exit.h"

namespace weft::detail {

namespace {

struct value {
  std::uint64_t key = 0;
  void* p = nullptr;
  void (*destroy)(void*) noexcept = nullptr;
};

class table : public rt::exit_hook {
 public:
  table() : places_(kSmallest) {
    run = end;
    own_values = true;
  }

  void* find(std::uint64_t key) const {
    const value& v = places_[place_of(key)];
    return v.key == key ? v.p : nullptr;
  }

  void insert(const value& v) {
    if (2 * (order_.size() + 1) > places_.size()) {
      std::vector<value> old(2 * places_.size());
      old.swap(places_);
      for (const value& o : old) {
        if (o.key != 0) {
          places_[place_of(o.key)] = o;
        }
      }
    }
    order_.push_back(v);
    places_[place_of(v.key)] = v;
  }

 private:
  static constexpr std::size_t kSmallest = 8;

  // Those that had to go further because of it move up: a search ends at the first free place.
  void erase(std::uint64_t key) {
    const std::size_t mask = places_.size() - 1;
    std::size_t hole = place_of(key);
    for (std::size_t i = (hole + 1) & mask; places_[i].key != 0; i = (i + 1) & mask) {
      const std::size_t home = places_[i].key & mask;
      if (((i - home) & mask) >= ((i - hole) & mask)) {
        places_[hole] = places_[i];
        hole = i;
      }
    }
    places_[hole] = {};
  }

  // Where the key is, or where it belongs.
  std::size_t place_of(std::uint64_t key) const {
    const std::size_t mask = places_.size() - 1;
    std::size_t i = key & mask;
    while (places_[i].key != 0 && places_[i].key != key) {
      i = (i + 1) & mask;
    }
    return i;
  }

  // GL1; the word is the table until the last value has gone. Whoever asks afterwards, in another hook,
  // gets another table.
  static void end(rt::exit_hook* h) {
    auto* self = static_cast<table*>(h);
    while (!self->order_.empty()) {
      const value v = self->order_.back();
      self->order_.pop_back();
      v.destroy(v.p);  // which may still ask for itself
      self->erase(v.key);
    }
    rt::set_own_word(nullptr);
    delete self;
  }

  std::vector<value> places_;
  std::vector<value> order_;
};

constinit rt::atomic<std::uint64_t> next_key{1};

}  // namespace

std::uint64_t local_key() {
  return next_key.fetch_add(1, WEFT_ORDER(LK0, relaxed));  // order: LK0 relaxed, only unique
}

void* local_get(std::uint64_t key, void* (*make)(const void*), const void* context,
                void (*destroy)(void*) noexcept) {
  auto* t = static_cast<table*>(rt::own_word());
  if (t != nullptr) {
    if (void* p = t->find(key)) {
      return p;
    }
  }
  void* p = make(context);  // may use other keys, or park
  t = static_cast<table*>(rt::own_word());
  if (t == nullptr) {
    t = new table;
    rt::set_own_word(t);
    rt::at_exit(*t);
  }
  t->insert({key, p, destroy});
  return p;
}

}  // namespace weft::detail
