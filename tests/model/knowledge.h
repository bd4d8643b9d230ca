// What a modelled thread knows: which writes it must see, and which events happened before it.
//
// Two notions that C++ keeps apart and that an explorer must not mix:
//   view    per location, the oldest write that a load may still return ("coherence"). Raised by
//           reading and writing, by synchronisation, and by seq_cst fences.
//   vclock  per thread, how many of its events happened before now ("happens before"). Raised by
//           synchronisation only. Plain variables are race-checked against it.
// A seq_cst fence raises views but no clock: it orders accesses to atomics, it publishes no data.
// An explorer that joins clocks at such a fence accepts code that is a data race in C++.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::model {

inline constexpr int kThreads = 6;      // modelled threads in one scenario
inline constexpr int kMain = kThreads;  // who runs the set-up and the final check
inline constexpr int kLocations = 64;   // atomics in one scenario

struct view {
  alignas(16) std::array<std::int16_t, kLocations> at{};

  // The inner loop of every exploration, hence by hand: g++ -O2 leaves it scalar.
  void join(const view& other) {
    typedef std::int16_t lanes __attribute__((vector_size(16), may_alias));
    static_assert(kLocations % 8 == 0);
    auto* mine = reinterpret_cast<lanes*>(at.data());
    const auto* theirs = reinterpret_cast<const lanes*>(other.at.data());
    for (int i = 0; i < kLocations / 8; ++i) mine[i] = mine[i] < theirs[i] ? theirs[i] : mine[i];
  }
};

struct vclock {
  std::array<std::uint32_t, kThreads + 1> at{};

  void join(const vclock& other) {
    for (std::size_t i = 0; i < at.size(); ++i) {
      at[i] = at[i] < other.at[i] ? other.at[i] : at[i];
    }
  }
};

struct knowledge {
  view sees;
  vclock knows;

  void join(const knowledge& other) {
    sees.join(other.sees);
    knows.join(other.knows);
  }
};

// One event of one thread: a point that a vclock has passed or not.
struct event {
  int thread = kMain;
  std::uint32_t time = 0;

  bool before(const vclock& clock) const {
    return time <= clock.at[static_cast<std::size_t>(thread)];
  }
};

}  // namespace weft::model
