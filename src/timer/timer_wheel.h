// Timers in order, without putting them in order: a wheel of wheels.
//
// The problem. Most timers are time-outs: started, and stopped before they are due. A heap pays
// O(log n) for each and moves entries about that nobody will ever look at. Here starting and stopping
// are a push on a list and an unlink; order is made only of what the time comes near to.
//
// Level 0 has a slot for every 16 us, level 1 for every 4.2 ms (256 slots of level 0), then 1.07 s,
// 4.6 min, 19.5 h, 208 days. Each level is a ring of 512 slots, from the one of `now_` on: 8 ms, 2.1 s, 9 min …
// An event is kept on the lowest level whose ring reaches as far.
//
// WH1: what is in a level's slot of `now_` is on level 0. Otherwise the ring would have to be searched for what is due.
// WH2: a slot's `earliest` is not later than any event in it (removals do not raise it). So the earliest event of all is
//      in the first slot in use of one of the levels.
// WH3: the slot after that of `now_`, on any level, is in reach of the level below: a ring is two slots of the next level
//      long. So it can be dealt out to it at any time before its own comes.
//
// Advancing the time to t. Slots of the times up to t are due, but for those of t itself, on all levels, which are dealt
// out. An event is touched once per level that it comes down, which for sleeps of up to two seconds is once, and
// in batches of 4 ms. There may be a great many in a slot of level 2 or above, and dealing them out at once would make
// others late; so each advance takes some of them, while their time is not there yet.
//
// Due events are sorted, so that they fire in the order of their times, though they were kept in none.
//
// Not thread-safe: timer_set has the lock. Allocates nothing; all zero is an empty wheel, and pages of
// it that are never used are never touched.
//
// Rejected: a heap (Go's; see above; and stopped timers stay in it until somebody sweeps); levels of
// 64 slots and 1 us (half the memory, but a sleep then comes down three times, each time with
// a cache miss on somebody's stack); a sorted bottom level (nothing is ever read from the middle); levels by the highest
// digit that differs from now_ (no rings, half the memory; but when that of 1.07 s changes, all timers of the next second
// come down at once: 100,000 took 25 ms).
#pragma once

#include <bit>
#include <cstdint>

#include "base/on_zeros.h"
#include "timer/timer_event.h"

namespace weft::rt {

template <unsigned BaseBits, unsigned LevelBits>
class timer_wheel {
 public:
  constexpr timer_wheel() noexcept : slots_{}, trails_{} {}
  explicit timer_wheel(on_zeros) noexcept {}  // and writes none of its tables: 76 KiB
  timer_wheel(const timer_wheel&) = delete;
  timer_wheel& operator=(const timer_wheel&) = delete;

  static constexpr unsigned kSlots = 2u << LevelBits;  // WH3
  // The last ring reaches as far as there is time.
  static constexpr unsigned kLevels =
      (63 - BaseBits - (LevelBits + 1) + LevelBits - 1) / LevelBits + 1;

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

  // It is `now` or later. Requires: the wheel is empty.
  void skip_to(std::int64_t now) { now_ = now > now_ ? now : now_; }
  std::int64_t now() const { return now_; }

  // Moves what is due at `now` to the end of the list of due events, in the order of their times. How many others it has
  // touched, for tests.
  unsigned advance(std::int64_t now) {
    unsigned dealt = 0;
    const std::int64_t before = now_;
    now_ = now > before ? now : before;
    timer_event* due = nullptr;
    for (unsigned level = 0; level < kLevels; ++level) {
      const std::int64_t from = before >> shift_of(level), to = now_ >> shift_of(level);
      take_slots(level, from, to, &due);
      if (level == 0 || from != to) {
        dealt += deal_out(level, to, kAll, &due);
      }
      if (from == to) {
        break;  // nor is there news above
      }
    }
    // By WH3. What is left when its time comes is dealt out above.
    for (unsigned level = 2; level < kLevels && level <= kDealtAhead; ++level) {
      dealt += deal_out(level, (now_ >> shift_of(level)) + 1, kSome, &due);
    }
    append_due(sort(due));
    return dealt;
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
    std::int64_t first = kNever;
    for (unsigned level = 0; level < kLevels; ++level) {
      const std::int64_t at = now_ >> shift_of(level);
      // What is kept there is not in the slot of now_. WH1
      if (level > 0 && first >> shift_of(level) <= at) {
        break;
      }
      const std::int64_t found = first_in(level, static_cast<unsigned>(at) & (kSlots - 1));
      first = found < first ? found : first;
    }
    return first;
  }

  // How many events, up to `limit`, come before *end: within `slots` slots of level 0 from `next` on,
  // which is in one of them. Those that have not come down to it yet are not counted.
  unsigned crowd(std::int64_t next, unsigned slots, unsigned limit, std::int64_t* end) const {
    *end = next;
    if (next < now_ || level_of(next) != 0) {
      return 0;
    }
    const std::int64_t first = next >> BaseBits;
    const std::int64_t ring_ends = (now_ >> BaseBits) + kSlots - 1, time_ends = kNever >> BaseBits;
    std::int64_t last = first + slots - 1;
    last = last < ring_ends ? last : ring_ends;
    last = last < time_ends ? last : time_ends;
    *end = (last << BaseBits) | ((std::int64_t{1} << BaseBits) - 1);
    unsigned n = 0;
    for (std::int64_t i = first; i <= last; ++i) {
      const slot& s = slots_[0][static_cast<unsigned>(i) & (kSlots - 1)];
      for (const timer_event* e = s.first; e != nullptr; e = e->next) {
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
      take_slots(level, 0, kSlots, &all);
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

  static constexpr unsigned kAll = ~0u;
  static constexpr unsigned kSome = 32;       // some microseconds
  static constexpr unsigned kDealtAhead = 3;  // up to this level: above, a slot is of hours

  static constexpr unsigned shift_of(unsigned level) { return BaseBits + level * LevelBits; }
  static constexpr unsigned digit_of(std::int64_t t, unsigned level) {
    return static_cast<unsigned>(t >> shift_of(level)) & (kSlots - 1);
  }
  // The lowest level whose ring has a slot for t. Requires: now_ <= t.
  unsigned level_of(std::int64_t t) const {
    const auto away = static_cast<std::uint64_t>((t >> BaseBits) - (now_ >> BaseBits));
    if (kLevels == 1 || away < kSlots) {
      return 0;
    }
    const auto width = static_cast<unsigned>(std::bit_width(away));
    const unsigned level = (width - (LevelBits + 1) + LevelBits - 1) / LevelBits;
    const bool reaches = (t >> shift_of(level)) - (now_ >> shift_of(level)) < kSlots;
    return reaches ? level : level + 1;
  }

  static void push(timer_event** list, timer_event& e) {
    e.next = *list;
    e.link = list;
    if (e.next != nullptr) {
      e.next->link = &e.next;
    }
    *list = &e;
  }

  // The earliest time of the first slot in use, from `digit` on, around the ring; kNever if there is none.
  std::int64_t first_in(unsigned level, unsigned digit) {
    std::uint64_t mask = ~std::uint64_t{0} << digit % 64;
    unsigned word = digit / 64;
    for (unsigned i = 0; i <= kWords; ++i) {
      while (const std::uint64_t bits = used_[level][word] & mask) {
        const slot& s = slots_[level][word * 64 + static_cast<unsigned>(std::countr_zero(bits))];
        if (s.first != nullptr) {
          return s.earliest;
        }
        used_[level][word] &= ~(bits & -bits);  // all that was there has been removed
      }
      mask = ~std::uint64_t{0};
      word = word + 1 == kWords ? 0 : word + 1;
    }
    return kNever;
  }

  timer_event* open_slot(unsigned level, unsigned digit) {
    slot& s = slots_[level][digit];
    timer_event* all = s.first;
    s.first = nullptr;
    used_[level][digit / 64] &= ~(std::uint64_t{1} << digit % 64);
    return all;
  }

  // Up to `most` of a slot's events: what is due is pushed on a list that uses `next` only, the rest goes to lower levels.
  // How many those are.
  unsigned deal_out(unsigned level, std::int64_t at, unsigned most, timer_event** due) {
    unsigned dealt = 0;
    const unsigned digit = static_cast<unsigned>(at) & (kSlots - 1);
    timer_event* rest = open_slot(level, digit);
    while (timer_event* e = rest) {
      if (most-- == 0) {
        put_back(level, digit, e);
        break;
      }
      __builtin_prefetch(e->ahead, 1);
      rest = e->next;
      if (e->when <= now_) {
        e->next = *due;
        *due = e;
      } else {
        insert(*e);
        ++dealt;
      }
    }
    return dealt;
  }
  // What was left of a slot, which has not changed otherwise.
  void put_back(unsigned level, unsigned digit, timer_event* e) {
    slot& s = slots_[level][digit];
    s.first = e;
    e->link = &s.first;
    used_[level][digit / 64] |= std::uint64_t{1} << digit % 64;
  }

  // All that is in the slots of the times from `from` to before `to`, pushed on a list that uses `next` only.
  void take_slots(unsigned level, std::int64_t from, std::int64_t to, timer_event** list) {
    const std::int64_t count = to - from < kSlots ? to - from : kSlots;
    for (std::int64_t i = 0; i < count;) {
      const unsigned digit = static_cast<unsigned>(from + i) & (kSlots - 1);
      const std::uint64_t bits = used_[level][digit / 64] >> digit % 64;
      if (bits == 0) {
        const unsigned to_word = 64 - digit % 64, to_end = kSlots - digit;
        i += to_word < to_end ? to_word : to_end;
        continue;
      }
      i += std::countr_zero(bits);
      if (i >= count) {
        break;
      }
      timer_event* rest = open_slot(level, static_cast<unsigned>(from + i) & (kSlots - 1));
      while (timer_event* e = rest) {
        rest = e->next;
        e->next = *list;
        *list = e;
      }
      ++i;
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
  slot slots_[kLevels][kSlots];
  trail trails_[kSlots];
};

}  // namespace weft::rt
