// Timers in order, without putting them in order: a wheel of wheels.
//
// The problem. Most timers are time-outs: started, and stopped before they are due. A heap pays
// O(log n) for each and moves entries about that nobody will ever look at. Here starting and stopping
// are a push on a list and an unlink; order is made only of what the time comes near to.
//
// Level 0 has a slot for every 16 us, level 1 for every 4.2 ms (256 slots of level 0), then 1.07 s,
// 4.6 min, 19.5 h, 208 days, 146 years. An event is kept on the level of the highest digit (base
// 256) in which its time differs from `now_`, in the slot of that digit:
//
//     time      | d6 | d5 | d4 | d3 | d2 | d1 | d0 | 14 bits |
//     now_      |  0 |  0 |  3 |  7 | 91 | 14 |  2 |   …     |
//     an event  |  0 |  0 |  3 |  7 | 95 |  8 | 40 |   …     |    level 2, slot 95
//
// WH1: everything on a level is earlier than everything on the levels above it, and within a level
//      slots are in order. So the earliest event is in the first slot of the lowest level in use.
// WH2: a slot's `earliest` is not later than any event in it (removals do not raise it).
//
// Advancing the time to t: let k be the highest digit that changes. What lies below level k is due, and
// so are the slots of level k before t's digit; the slot of t's digit is dealt out to the levels
// below. An event is touched once per level that it comes down, which for sleeps of up to a second is
// once, and in batches of 4 ms.
//
// Due events are sorted, so that they fire in the order of their times, though they were kept in none.
//
// Not thread-safe: timer_set has the lock. Allocates nothing; all zero is an empty wheel, and pages of
// it that are never used are never touched.
//
// Rejected: a heap (Go's; see above; and stopped timers stay in it until somebody sweeps); levels of
// 64 slots and 1 us (half the memory, but a sleep then comes down three times, each time with
// a cache miss on somebody's stack); a sorted bottom level (nothing is ever read from the middle).
#pragma once

#include <bit>
#include <cstdint>

#include "timer/timer_event.h"

namespace weft::rt {

template <unsigned BaseBits, unsigned LevelBits>
class timer_wheel {
 public:
  static constexpr unsigned kSlots = 1u << LevelBits;
  static constexpr unsigned kLevels = (63 - BaseBits + LevelBits - 1) / LevelBits;

  // Requires: on no list; 0 <= e.when.
  void insert(timer_event& e) {
    const std::int64_t key = e.when > now_ ? e.when : now_;  // the past is now
    const unsigned level = level_of(key);
    const unsigned digit = digit_of(key, level);
    slot& s = slots_[level][digit];
    if (s.first == nullptr || e.when < s.earliest) {
      s.earliest = e.when;
    }
    if (level == 1) {
      trail& t = trails_[digit];
      e.ahead = t.last[t.turn];
      t.last[t.turn] = &e;
      t.turn = (t.turn + 1) % kAhead;
    }
    push(&s.first, e);
    used_[level][digit / 64] |= std::uint64_t{1} << digit % 64;
  }

  // From whatever list it is on.
  void remove(timer_event& e) {
    *e.link = e.next;
    if (e.next != nullptr) {
      e.next->link = e.link;
    } else if (due_end_ == &e.next) {
      due_end_ = e.link;
    }
    e.next = nullptr;
    e.link = nullptr;
  }

  // Moves what is due at `now` to the end of the list of due events, in the order of their times.
  void advance(std::int64_t now) {
    if (now < now_) {
      now = now_;
    }
    timer_event* due = nullptr;
    const unsigned top = level_of(now);
    for (unsigned level = 0; level < top; ++level) {
      take_slots(level, kSlots, &due);
    }
    const unsigned digit = digit_of(now, top);
    take_slots(top, digit, &due);
    now_ = now;
    timer_event* rest = open_slot(top, digit);
    while (timer_event* e = rest) {
      __builtin_prefetch(e->ahead, 1);
      rest = e->next;
      if (e->when <= now) {
        e->next = due;
        due = e;
      } else {
        insert(*e);
      }
    }
    append_due(sort(due));
  }

  // When the first due event was due; kNever if there is none.
  std::int64_t next_due() const { return due_ == nullptr ? kNever : due_->when; }

  // The first due event, off the list; or null.
  timer_event* pop_due() {
    timer_event* e = due_;
    if (e != nullptr) {
      remove(*e);
    }
    return e;
  }

  // Not later than the earliest event that is not on the list of due ones; kNever if there is none.
  std::int64_t next() {
    for (unsigned level = 0; level < kLevels; ++level) {
      for (unsigned word = 0; word < kWords; ++word) {
        while (const std::uint64_t bits = used_[level][word]) {
          const unsigned digit = word * 64 + static_cast<unsigned>(std::countr_zero(bits));
          if (slots_[level][digit].first != nullptr) {
            return slots_[level][digit].earliest;
          }
          used_[level][word] = bits & (bits - 1);  // all that was there has been removed
        }
      }
    }
    return kNever;
  }

  // How many events, up to `limit`, come before *end: within `slots` slots of level 0 from `next` on,
  // which is in one of them. Those that have not come down to it yet are not counted.
  unsigned crowd(std::int64_t next, unsigned slots, unsigned limit, std::int64_t* end) const {
    *end = next;
    if (level_of(next) != 0) {
      return 0;
    }
    unsigned n = 0;
    const unsigned first = digit_of(next, 0);
    const unsigned last = slots < kSlots - first ? first + slots - 1 : kSlots - 1;
    *end = next | ((std::int64_t{1} << BaseBits) - 1);
    *end += std::int64_t{last - first} << BaseBits;
    for (unsigned digit = first; digit <= last; ++digit) {
      for (const timer_event* e = slots_[0][digit].first; e != nullptr; e = e->next) {
        if (++n == limit) {
          return n;
        }
      }
    }
    return n;
  }

  // Everything, linked by `next`, in no order; the wheel is empty afterwards.
  timer_event* take_all() {
    timer_event* all = nullptr;
    for (unsigned level = 0; level < kLevels; ++level) {
      take_slots(level, kSlots, &all);
    }
    while (timer_event* e = pop_due()) {
      e->next = all;
      all = e;
    }
    return all;
  }

 private:
  static constexpr unsigned kWords = (kSlots + 63) / 64;

  struct slot {
    timer_event* first;
    std::int64_t earliest;  // WH2
  };

  // Events lie on stacks that nobody has touched for long, and a list is walked one cache miss after the
  // other. So each event of level 1, through which all must pass, knows the one that will be met
  // kAhead steps later.
  static constexpr unsigned kAhead = 6;
  struct trail {
    timer_event* last[kAhead];
    unsigned turn;
  };

  static constexpr unsigned shift_of(unsigned level) { return BaseBits + level * LevelBits; }
  static constexpr unsigned digit_of(std::int64_t t, unsigned level) {
    return static_cast<unsigned>(t >> shift_of(level)) & (kSlots - 1);
  }
  // The highest digit in which t differs from now_.
  unsigned level_of(std::int64_t t) const {
    const auto differs = static_cast<std::uint64_t>(t ^ now_) >> BaseBits;
    return differs == 0 ? 0 : static_cast<unsigned>(std::bit_width(differs) - 1) / LevelBits;
  }

  static void push(timer_event** list, timer_event& e) {
    e.next = *list;
    e.link = list;
    if (e.next != nullptr) {
      e.next->link = &e.next;
    }
    *list = &e;
  }

  // Empties the slot of the time that has come.
  timer_event* open_slot(unsigned level, unsigned digit) {
    slot& s = slots_[level][digit];
    timer_event* all = s.first;
    s.first = nullptr;
    used_[level][digit / 64] &= ~(std::uint64_t{1} << digit % 64);
    return all;
  }

  // All that is in a level's slots before `to`, pushed on a list that uses `next` only.
  void take_slots(unsigned level, unsigned to, timer_event** list) {
    for (unsigned word = 0; word * 64 < to; ++word) {
      while (const std::uint64_t bits = used_[level][word]) {
        const unsigned digit = word * 64 + static_cast<unsigned>(std::countr_zero(bits));
        if (digit >= to) {
          break;
        }
        timer_event* rest = open_slot(level, digit);
        while (timer_event* e = rest) {
          rest = e->next;
          e->next = *list;
          *list = e;
        }
      }
    }
  }

  // Merges runs of doubling length, as a binary counter.
  static timer_event* sort(timer_event* rest) {
    if (rest == nullptr || rest->next == nullptr) {
      return rest;
    }
    timer_event* runs[64] = {};
    while (timer_event* run = rest) {
      rest = run->next;
      run->next = nullptr;
      unsigned i = 0;
      for (; runs[i] != nullptr; ++i) {
        run = merge(runs[i], run);
        runs[i] = nullptr;
      }
      runs[i] = run;
    }
    timer_event* sorted = nullptr;
    for (timer_event* run : runs) {
      sorted = merge(run, sorted);
    }
    return sorted;
  }

  void append_due(timer_event* e) {
    *due_end_ = e;
    for (; e != nullptr; e = e->next) {
      e->link = due_end_;
      due_end_ = &e->next;
    }
  }

  static timer_event* merge(timer_event* a, timer_event* b) {
    timer_event* first = nullptr;
    timer_event** end = &first;
    while (a != nullptr && b != nullptr) {
      timer_event*& smaller = a->when <= b->when ? a : b;
      *end = smaller;
      end = &smaller->next;
      smaller = smaller->next;
    }
    *end = a != nullptr ? a : b;
    return first;
  }

  std::int64_t now_ = 0;  // the time up to which due events have been taken out
  timer_event* due_ = nullptr;
  timer_event** due_end_ = &due_;
  std::uint64_t used_[kLevels][kWords] = {};  // a set bit: something may be in the slot
  slot slots_[kLevels][kSlots] = {};
  trail trails_[kSlots] = {};
};

}  // namespace weft::rt
