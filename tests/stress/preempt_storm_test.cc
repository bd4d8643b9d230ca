// Goroutines are frozen in the middle of libc, libstdc++ and the loader, wherever the signal meets them, while others
// run into the same locks. What they compute is right, and nobody hangs.
//
// Each test goes on until the runtime has counted so many preemptions: a few hundred, or WEFT_PREEMPTIONS.
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <memory>
#include <numeric>
#include <regex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <weft/weft.h>

#include "support/child.h"
#include "support/fixture.h"
#include "support/preemptions.h"

namespace {

using weft::test::crowd;
using weft::test::preemptions;

constexpr int kProcs = 2;
constexpr int kHogs = 4;

// Goroutines do work(i, round), which says whether its result is right, until they have been preempted so often.
template <class Work>
int wrong_results(std::uint64_t wanted, Work work) {
  std::atomic<int> wrong{0};
  weft::run(
      [&] {
        const std::uint64_t until = preemptions() + wanted;
        std::atomic<bool> stop{false};
        weft::wait_group hogs;
        const crowd others;
        for (int i = 0; i < kHogs; ++i) {
          hogs.go([&, i] {
            for (unsigned round = 0; !stop.load(std::memory_order_relaxed); ++round) {
              if (!work(i, round)) ++wrong;
            }
          });
        }
        while (preemptions() < until) weft::gosched();
        stop = true;
        hogs.wait();
      },
      {.max_procs = kProcs});
  return wrong;
}

class PreemptStorm : public weft::test::runtime_test {
 protected:
  template <class Work>
  void expect_right(Work work, std::uint64_t few = 100, unsigned times = 1) {
    EXPECT_EQ(wrong_results(times * weft::test::preemptions_wanted(few), work), 0);
  }
};

// Sizes of all classes of malloc's, up to those that it maps.
std::size_t size_of(unsigned n) {
  constexpr std::size_t kSizes[] = {16, 40, 120, 500, 1100, 2500, 5000, 20'000, 150'000};
  return kSizes[n % std::size(kSizes)];
}

// About one half of the time is malloc's, one half free's: so twice as often.
bool malloc_and_free(int i, unsigned round) {
  constexpr unsigned kBlocks = 64;
  std::array<char*, kBlocks> all;
  for (unsigned n = 0; n < kBlocks; ++n) {
    const std::size_t size = size_of(n * 7 + round);
    char* p = static_cast<char*>(std::malloc(size));
    p[0] = static_cast<char>(i + static_cast<int>(n));
    p[size - 1] = static_cast<char>(round + n);
    all[n] = p;
  }
  bool right = true;
  for (unsigned k = 0; k < kBlocks; ++k) {
    const unsigned n = (k * 29 + round) % kBlocks;  // in another order
    right &= all[n][0] == static_cast<char>(i + static_cast<int>(n));
    right &= all[n][size_of(n * 7 + round) - 1] == static_cast<char>(round + n);
    std::free(all[n]);
  }
  return right;
}

TEST_F(PreemptStorm, InMallocAndFree) { expect_right(malloc_and_free, 100, 2); }

// All write to one stream, so that the frozen one holds its lock as often as not.
TEST_F(PreemptStorm, InPrintf) {
  struct sink {  // atomic: TSan does not see the stream's lock
    std::atomic<std::uint64_t> bytes{0}, sum{0};
  } got;
  cookie_io_functions_t functions{};
  functions.write = [](void* to, const char* text, std::size_t size) -> ssize_t {
    auto* s = static_cast<sink*>(to);
    s->bytes += size;
    for (std::size_t n = 0; n < size; ++n) s->sum += static_cast<unsigned char>(text[n]);
    return static_cast<ssize_t>(size);
  };
  std::FILE* out = fopencookie(&got, "w", functions);
  ASSERT_NE(out, nullptr);
  std::atomic<std::uint64_t> bytes{0}, sum{0};
  expect_right([&](int i, unsigned round) {
    char text[100];
    const int n = std::snprintf(text, sizeof text, "%d %u %.6f %s\n", i, round, i / 3.0, "text");
    std::uint64_t here = 0;
    for (int k = 0; k < n; ++k) here += static_cast<unsigned char>(text[k]);
    bytes += static_cast<std::uint64_t>(n);
    sum += here;
    return std::fprintf(out, "%d %u %.6f %s\n", i, round, i / 3.0, "text") == n;
  });
  std::fclose(out);
  EXPECT_EQ(got.bytes.load(), bytes.load());
  EXPECT_EQ(got.sum.load(), sum.load());
}

TEST_F(PreemptStorm, InDlopen) {
  expect_right([](int i, unsigned) {
    void* library = dlopen(STRANGER, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    using mix_fn = unsigned long (*)(unsigned long, unsigned long);
    auto* mix = reinterpret_cast<mix_fn>(dlsym(library, "stranger_mix"));
    const bool right =
        mix != nullptr && mix(static_cast<unsigned long>(i), 0) == static_cast<unsigned long>(i);
    return dlclose(library) == 0 && right;
  });
}

struct counts_itself {
  int* count;
  explicit counts_itself(int* c) : count(c) { ++*count; }
  ~counts_itself() {
    for (int n = 0; n < 50; ++n) asm volatile("");  // computes during unwinding
    --*count;
  }
};

int throws_deep(int depth, int value, int* alive) {
  const counts_itself here(alive);
  if (depth == 0) throw std::runtime_error(std::to_string(value));
  return throws_deep(depth - 1, value, alive) + 1;
}

TEST_F(PreemptStorm, InExceptions) {
  expect_right([](int i, unsigned round) {
    const int value = i * 1000 + static_cast<int>(round % 1000);
    int alive = 0;
    try {
      throws_deep(5, value, &alive);
    } catch (const std::runtime_error& outer) {
      try {
        throw value;
      } catch (int inner) {
        for (int n = 0; n < 1000; ++n) asm volatile("");  // inside a handler
        return inner == value && outer.what() == std::to_string(value) && alive == 0 &&
               std::uncaught_exceptions() == 0;
      }
    }
    return false;
  });
}

TEST_F(PreemptStorm, InGrowingStrings) {
  expect_right([](int i, unsigned) {
    std::string text;
    for (int n = 0; n < 5000; ++n) text.push_back(static_cast<char>('a' + (n + i) % 26));
    bool right = text.size() == 5000;
    for (std::size_t n = 0; n < text.size(); n += 97) {
      right &= text[n] == static_cast<char>('a' + (static_cast<int>(n) + i) % 26);
    }
    return right;
  });
}

TEST_F(PreemptStorm, InRegex) {
  expect_right(
      [](int i, unsigned round) {
        const std::string text =
            "user" + std::to_string(i) + "@host" + std::to_string(round) + ".org";
        static const std::regex address(R"((\w+)@([\w.]+)\.(\w+))");
        std::smatch found;
        return std::regex_match(text, found, address) && found[1] == "user" + std::to_string(i) &&
               found[3] == "org";
      },
      60);
}

TEST_F(PreemptStorm, InMemcpy) {
  constexpr std::size_t kSize = std::size_t{32} << 20;  // longer than a slice
  struct buffers {
    std::unique_ptr<char[]> from{new char[kSize]}, to{new char[kSize]};
  };
  std::array<buffers, kHogs> all;
  for (int i = 0; i < kHogs; ++i) {
    std::memset(all[static_cast<std::size_t>(i)].from.get(), i + 1, kSize);
  }
  expect_right(
      [&](int i, unsigned round) {
        buffers& b = all[static_cast<std::size_t>(i)];
        b.from[round % kSize] = static_cast<char>(i + 1);
        std::memcpy(b.to.get(), b.from.get(), kSize);
        bool right = true;
        for (std::size_t n = 0; n < kSize; n += 65'537)
          right &= b.to[n] == static_cast<char>(i + 1);
        return right;
      },
      20);
}

// -- one arena for all, and threads that are created meanwhile ------------------------------------------

WEFT_CHILD(one_arena) {
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread creator([&] {  // pthread_create allocates, and takes the loader's lock
    while (!stop) std::thread([&] { wrong += malloc_and_free(9, 0) ? 0 : 1; }).join();
  });
  wrong += wrong_results(weft::test::preemptions_wanted(80), [](int i, unsigned round) {
    bool right = malloc_and_free(i, round);
    // Seldom enough for slices to end in between: who waits makes room by itself.
    if (round % 256 == 0) {
      weft::wait_group children;
      for (int n = 0; n < 4; ++n) children.go([] { std::free(std::malloc(3000)); });
      children.wait();
    }
    if (round % 256 == 128) std::thread([&] { right &= malloc_and_free(i, round); }).join();
    return right;
  });
  stop = true;
  creator.join();
  return wrong == 0 ? 3 : 1;
}

TEST(PreemptStormProcess, InMallocOfOneArena) {
  const auto child = weft::test::run_child("one_arena", {"MALLOC_ARENA_MAX=1"});
  EXPECT_EQ(child.status, 3) << child.output;
}

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
