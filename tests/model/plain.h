// Modelled memory that is not atomic: plain variables and the slots of work queues.
//
// A plain variable is checked for data races against vector clocks: two accesses, one of them a
// write, must be ordered by happens-before. The check does not depend on when the accesses happen
// to run, so they are no schedule points.
// A slot is read speculatively; the value counts only if the very next atomic operation of the
// thread is a compare-exchange that succeeds. Only then is the read checked, as if the slot were a
// plain variable: its write happened before it, and the next write happens after it. No schedule
// points either: a confirmed read must be right wherever the other threads stood.
#pragma once

#include <array>
#include <cstdint>

#include "model/engine.h"

namespace weft::model {

struct cell_base {
  std::uint64_t execution = 0;
  event write;
  std::array<event, kThreads> reads{};
  void renew();
  void on_read();
  void on_write();
};

template <class T>
class cell {
 public:
  constexpr cell() noexcept = default;
  constexpr explicit cell(T value) noexcept : value_(value) {}
  ~cell() {  // by a modelled thread: its end is a write
    if (engine::get().in_thread()) access_.on_write();
  }
  T get() const {
    access_.on_read();
    return value_;
  }
  void set(T value) {
    access_.on_write();
    value_ = value;
  }

 private:
  T value_{};
  mutable cell_base access_;
};

// What all slots share, so that a successful compare-exchange can confirm reads of any type.
struct slot_base {
  std::uint64_t execution = 0;
  std::uint32_t serial = 0;                 // of the last write
  event write;                              // its event
  std::array<event, kThreads> confirmed{};  // the last confirmed read of each thread
  void renew();
  void on_read();
  void on_write();
};

void confirm_reads(engine& e);  // after a successful compare-exchange
inline void forget_reads(engine& e) { e.me().reads.clear(); }

template <class T>
class slot {
 public:
  constexpr slot() noexcept = default;
  T get() const {
    access_.on_read();
    return value_;
  }
  void set(T value) {
    access_.on_write();
    value_ = value;
  }

 private:
  T value_{};
  mutable slot_base access_;
};

}  // namespace weft::model
