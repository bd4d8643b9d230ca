// All records of a kind that were ever made: added under a lock, read by anybody at any time.
//
// Problem. A crash report shows all goroutines. It runs while threads that will never run again may
// hold any lock, so that it can take none.
//
//   maker, under his lock               reader
//   1. no room: add(fresh chunk)        1. first chunk, next chunk, …
//   2. fills the next records           2. how many are used in it             AG1
//   3. publish(n)                 AG1   3. looks at that many
//
// AG-a: a reader gets whole records only; those that are published while it reads it may miss. Chunks
// stay, and so do records: a reader may look as long as it likes.
// AG-b: a chunk is zeroed memory in which nobody has written yet when it is added. So its address
// carries nothing, and relaxed is enough for it; what counts is published by the number in use.
//
// Rejected: a list through the records (a cache miss each, and it cannot be filled in batches).
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace weft::rt {

template <class T, std::uint32_t Size>
class record_list {
 public:
  static constexpr std::uint32_t kSize = Size;

  struct chunk {
    atomic<chunk*> next{nullptr};
    atomic<std::uint32_t> used{0};
    alignas(64) T records[Size];
  };

  // The rest belongs to makers, under their lock: records [used, used + room) of `at` are free.
  struct free_part {
    chunk* at;
    std::uint32_t used;
    std::uint32_t room() const { return at == nullptr ? 0 : Size - used; }
  };
  free_part free() const { return {last_, used_}; }
  // Requires: no room is left.
  void add(chunk* fresh) {
    // order: AG0 relaxed, the address carries nothing (AG-b)
    (last_ == nullptr ? first_ : last_->next).store(fresh, WEFT_ORDER(AG0, relaxed));
    last_ = fresh;
    used_ = 0;
  }
  // The first n records of the free part are made.
  void publish(std::uint32_t n) {
    used_ += n;
    // order: AG1 release publishes the records; pairs with the acquire load in for_each()
    last_->used.store(used_, WEFT_ORDER(AG1, release));
  }

  // Calls f(record) for every record, oldest first. Runs on: any. Locks: none.
  template <class F>
  void for_each(F f) {
    chunk* c = first_.load(WEFT_ORDER(AG0, relaxed));  // order: AG0 relaxed, AG-b
    while (c != nullptr) {
      // order: AG1 acquire; pairs with the release store in publish()
      const std::uint32_t used = c->used.load(WEFT_ORDER(AG1, acquire));
      for (std::uint32_t i = 0; i < used; ++i) {
        f(c->records[i]);
      }
      c = c->next.load(WEFT_ORDER(AG0, relaxed));  // order: AG0 relaxed, AG-b
    }
  }

 private:
  atomic<chunk*> first_{nullptr};
  // guarded by the makers' lock. The number stands here, too: to read it in a fresh chunk would map that page twice, once
  // to be read and once to be written
  chunk* last_ = nullptr;
  std::uint32_t used_ = 0;
};

}  // namespace weft::rt
