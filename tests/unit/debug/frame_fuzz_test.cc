// Walks over garbage: a walk ends, and never reads what cannot be read, whatever the stack holds.
#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <sys/mman.h>
#include <vector>

#include "debug/frame.h"
#include "debug/loaded_file.h"
#include "debug/traceback.h"
#include "support/test_fiber.h"

namespace weft::rt {
namespace {

constexpr int kLongest = 100'000;

volatile int sink;

int walk(frame f) {
  int steps = 0;
  while (steps < kLongest && step(f) == frame_step::ok) ++steps;
  return steps;
}

// Words that a damaged stack is likely to hold: code, stack, heap, zero, anything.
class word_source {
 public:
  word_source(std::uint32_t seed, std::uintptr_t* stack, std::size_t words)
      : random_(seed), stack_(stack), words_(words) {
    loaded_file file;
    if (find_loaded_file(reinterpret_cast<std::uintptr_t>(&walk), file)) {
      code_ = file.begin;
      code_size_ = file.end - file.begin;
    }
  }
  std::uintptr_t operator()() {
    const std::uintptr_t any =
        static_cast<std::uintptr_t>(random_()) << 32 | static_cast<std::uintptr_t>(random_());
    switch (random_() % 8) {
      case 0: return 0;
      case 1: return any;
      case 2:
      case 3:
      case 4: return code_ + any % code_size_;
      case 5: return reinterpret_cast<std::uintptr_t>(&walk) + any % 64;
      default: return reinterpret_cast<std::uintptr_t>(stack_ + any % words_);
    }
  }
  std::uint32_t number() { return static_cast<std::uint32_t>(random_()); }

 private:
  std::mt19937 random_;
  std::uintptr_t* stack_;
  std::size_t words_;
  std::uintptr_t code_ = 4096;
  std::uintptr_t code_size_ = 4096;
};

// A stack with unreadable memory on both sides.
class island {
 public:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kPages = 4;
  island() {
    void* all = mmap(nullptr, (kPages + 2) * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    begin_ = static_cast<std::byte*>(all) + kPage;
    mprotect(begin_, kPages * kPage, PROT_READ | PROT_WRITE);
  }
  island(const island&) = delete;
  island& operator=(const island&) = delete;
  ~island() { munmap(begin_ - kPage, (kPages + 2) * kPage); }
  std::uintptr_t* words() const { return reinterpret_cast<std::uintptr_t*>(begin_); }
  static constexpr std::size_t size() { return kPages * kPage / sizeof(std::uintptr_t); }

 private:
  std::byte* begin_;
};

TEST(FrameFuzz, GarbageStacks) {
  const island stack;
  word_source word(7, stack.words(), island::size());
  for (int round = 0; round < 4000; ++round) {
    for (std::size_t i = 0; i < island::size(); i += 1 + round % 3) stack.words()[i] = word();
    frame f;
    for (int n = 0; n < kFrameRegisters; ++n) f.set(n, word());
    f.set(kStackRegister,
          reinterpret_cast<std::uintptr_t>(stack.words() + word.number() % island::size()));
    f.pc = word();
    f.exact = word.number() % 2 == 0;
    ASSERT_LT(walk(f), kLongest);
  }
}

test::fiber* parked = nullptr;
[[gnu::noinline]] int descend(int n) {
  volatile char array[48];
  array[n % 48] = 1;
  if (n == 0) {
    parked->yield(nullptr);
    return array[0];
  }
  const int r = descend(n - 1);
  sink = r;
  return r + array[n % 48];
}

// The stack of a parked fiber, copied and damaged in a few places: the walk begins well.
// Of frames that belong to somebody else, which ASan would not like.
__attribute__((noinline, no_sanitize("address"), no_sanitize("thread"))) void copy_words(
    std::uintptr_t* to, const volatile std::uintptr_t* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
}

TEST(FrameFuzz, DamagedStacks) {
  test::fiber f([](void*) { descend(20); });
  parked = &f;
  f.resume(nullptr);
  const auto* live = static_cast<const std::uintptr_t*>(f.own()->sp);
  const island stack;
  // What is above the saved stack pointer and belongs to this stack.
  const std::size_t live_words = 300;
  word_source word(8, stack.words(), island::size());
  std::string text;
  for (int round = 0; round < 3000; ++round) {
    std::memset(stack.words(), 0, island::size() * sizeof(std::uintptr_t));
    copy_words(stack.words(), live, live_words);
    for (int i = 0; i < 1 + round % 20; ++i) stack.words()[word.number() % live_words] = word();
    context c;
    c.sp = stack.words();
    ASSERT_LT(walk(frame_of(c)), kLongest);
    if (round % 100 == 0) {
      text.clear();
      printer out([](void* to, const char* data,
                     std::size_t size) { static_cast<std::string*>(to)->append(data, size); },
                  &text);
      print_stack(out, frame_of(c), traceback_level::detail::system);
      out.flush();
      EXPECT_FALSE(text.empty());
    }
  }
  f.resume(nullptr);
}

}  // namespace
}  // namespace weft::rt
