// How long tests wait and how much they do, on fast machines and under slow tools.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <sched.h>

#include <weft/go.h>

#if defined(__SANITIZE_THREAD__)
#define WEFT_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_TEST_TSAN 1
#endif
#endif
#ifndef WEFT_TEST_TSAN
#define WEFT_TEST_TSAN 0
#endif

#if defined(__SANITIZE_ADDRESS__)
#define WEFT_TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT_TEST_ASAN 1
#endif
#endif
#ifndef WEFT_TEST_ASAN
#define WEFT_TEST_ASAN 0
#endif

namespace weft::test {

// Under an emulator; tests/CMakeLists.txt says so in cross builds.
inline bool emulated() {
  static const bool yes = std::getenv("WEFT_TEST_EMULATOR") != nullptr;
  return yes;
}

// By what factor this build is slower than a release build.
inline int slowness() {
#ifdef WEFT_CHAOS
  constexpr int chaos = 4;
#else
  constexpr int chaos = 1;
#endif
  constexpr int tools = WEFT_TEST_TSAN ? 20 : WEFT_TEST_ASAN ? 5 : 1;
  return chaos * tools * (emulated() ? 20 : 1);
}

// A number of repetitions that takes about as long in every build.
template <class Int>
Int scaled(Int n, Int at_least = 1) {
  const Int less = n / static_cast<Int>(slowness());
  return less > at_least ? less : at_least;
}

using test_clock = std::chrono::steady_clock;

// So many rounds, or as many as fit into a share of the test's time; never less than a few.
//     for (budget b(1000); b.next();) ...
class budget {
 public:
  explicit budget(int rounds, std::chrono::milliseconds time = std::chrono::milliseconds(400))
      : rounds_(rounds), until_(test_clock::now() + time) {}
  bool next() {
    constexpr int kAtLeast = 5;
    return ++round_ <= rounds_ && (round_ <= kAtLeast || test_clock::now() < until_);
  }
  int round() const { return round_ - 1; }

 private:
  int rounds_;
  int round_ = 0;
  test_clock::time_point until_;
};

// Gives way to goroutines and to threads.
inline void give_way() {
  gosched();
  sched_yield();
}

// Waits for what has to come soon. False: it has not come, and the test has failed.
template <class Predicate>
[[nodiscard]] bool eventually(Predicate&& p,
                              std::chrono::seconds limit = std::chrono::seconds(20)) {
  const auto until = test_clock::now() + limit * (slowness() > 1 ? 3 : 1);
  while (!p()) {
    if (test_clock::now() > until) {
      return p();
    }
    give_way();
  }
  return true;
}

// The same without a scheduling point: the goroutine keeps its P, and its thread gives way.
template <class Predicate>
[[nodiscard]] bool eventually_hogging(Predicate&& p,
                                      std::chrono::seconds limit = std::chrono::seconds(20)) {
  const auto until = test_clock::now() + limit * (slowness() > 1 ? 3 : 1);
  while (!p()) {
    if (test_clock::now() > until) {
      return p();
    }
    sched_yield();
  }
  return true;
}

}  // namespace weft::test
