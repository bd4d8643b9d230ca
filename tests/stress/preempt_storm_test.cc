// Goroutines are frozen in the middle of libc, libstdc++ and the loader, wherever the signal meets them, while others
// run into the same locks. What they compute is right, and nobody hangs.
//
// Each test goes on until so many goroutines were frozen just there, some dozens or WEFT_PREEMPTIONS: those who work say when
// they are inside of what is tested, and a handler around the runtime's own counts whom it has stopped there.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <pthread.h>
#include <regex>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

#include <weft/weft.h>

#include "support/child.h"
#include "support/fixture.h"
#include "support/preemptions.h"
#include "support/thread_state.h"

namespace {

using weft::test::crowd;

constexpr int kProcs = 2;
constexpr int kHogs = 4;

enum place {
  kElsewhere,
  kMalloc,
  kFree,
  kPrintf,
  kDlopen,
  kThrow,
  kGrowth,
  kRegex,
  kMemcpy,
  kHolding,
  kPlaces
};

struct hog {
  std::atomic<pid_t> tid{0};
  std::atomic<place> inside{kElsewhere};

  // f() is the place.
  template <class F>
  auto in(place here, F f) {
    tid.store(gettid(), std::memory_order_relaxed);
    struct scope {
      hog& h;
      scope(hog& who, place where) : h(who) { h.set(where); }
      ~scope() { h.set(kElsewhere); }
    } const now(*this, here);
    return f();
  }

 private:
  void set(place where) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    inside.store(where, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
};

std::array<hog, kHogs> hogs;
std::atomic<std::uint64_t> frozen_in[kPlaces];
struct sigaction runtimes {};

// Not instrumented, nor initialised by a function that is: its frame lies on the thread's stack for handlers.
WEFT_TEST_OF_THE_THREAD long sleeps_of_this_thread() {
  rusage u;
  getrusage(RUSAGE_THREAD, &u);
  return u.ru_nvcsw;
}

// Where the thread is that the signal has interrupted. TSan may deliver it later.
place interrupted_place() {
  const pid_t self = gettid();
  for (const hog& h : hogs) {
    if (h.tid.load(std::memory_order_relaxed) == self) {
      return h.inside.load(std::memory_order_relaxed);
    }
  }
  return kElsewhere;
}

// Around the runtime's: it sleeps in there if it freezes the goroutine. errno is the thread's.
WEFT_TEST_OF_THE_THREAD void count_frozen(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const place here = interrupted_place();
  const long before = sleeps_of_this_thread();
  runtimes.sa_sigaction(signal, info, context);
  if (sleeps_of_this_thread() != before) ++frozen_in[here];
  errno = saved;
}

// Once the runtime has its own.
void count_from_now_on() {
  struct sigaction present {};
  sigaction(SIGURG, nullptr, &present);
  if (present.sa_sigaction == count_frozen) return;
  runtimes = present;
  present.sa_sigaction = count_frozen;
  sigaction(SIGURG, &present, nullptr);
}

// Goroutines do work(i, round), which says whether its result is right, until so many were frozen in each of the places.
template <class Work>
int wrong_results(std::uint64_t wanted, std::initializer_list<place> places, Work work) {
  std::atomic<int> wrong{0};
  weft::run(
      [&] {
        count_from_now_on();
        for (auto& n : frozen_in) n = 0;
        const auto enough = [&] {
          if (WEFT_TEST_TSAN) {
            return std::accumulate(std::begin(frozen_in), std::end(frozen_in), std::uint64_t{0}) >=
                   wanted;
          }
          return std::all_of(places.begin(), places.end(),
                             [&](place p) { return frozen_in[p] >= wanted; });
        };
        std::atomic<bool> stop{false};
        weft::wait_group all;
        const crowd others;
        for (int i = 0; i < kHogs; ++i) {
          all.go([&, i] {
            for (unsigned round = 0; !stop.load(std::memory_order_relaxed); ++round) {
              if (!work(i, round)) ++wrong;
            }
          });
        }
        while (!enough()) weft::gosched();
        stop = true;
        all.wait();
      },
      {.max_procs = kProcs});
  return wrong;
}

class PreemptStorm : public weft::test::runtime_test {
 protected:
  template <class Work>
  void expect_right(std::initializer_list<place> places, Work work, std::uint64_t few = 50) {
    EXPECT_EQ(wrong_results(weft::test::preemptions_wanted(few), places, work), 0);
  }
};

// Sizes of all classes of malloc's, up to those that it maps.
std::size_t size_of(unsigned n) {
  constexpr std::size_t kSizes[] = {16, 40, 120, 500, 1100, 2500, 5000, 20'000, 150'000};
  return kSizes[n % std::size(kSizes)];
}

bool malloc_and_free(int i, unsigned round) {
  constexpr unsigned kBlocks = 64;
  hog& me = hogs[static_cast<std::size_t>(i)];
  std::array<char*, kBlocks> all;
  for (unsigned n = 0; n < kBlocks; ++n) {
    const std::size_t size = size_of(n * 7 + round);
    char* p = static_cast<char*>(me.in(kMalloc, [&] { return std::malloc(size); }));
    p[0] = static_cast<char>(i + static_cast<int>(n));
    p[size - 1] = static_cast<char>(round + n);
    all[n] = p;
  }
  bool right = true;
  for (unsigned k = 0; k < kBlocks; ++k) {
    const unsigned n = (k * 29 + round) % kBlocks;  // in another order
    right &= all[n][0] == static_cast<char>(i + static_cast<int>(n));
    right &= all[n][size_of(n * 7 + round) - 1] == static_cast<char>(round + n);
    me.in(kFree, [&] { std::free(all[n]); });
  }
  return right;
}

TEST_F(PreemptStorm, InMallocAndFree) { expect_right({kMalloc, kFree}, malloc_and_free); }

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
  expect_right({kPrintf}, [&](int i, unsigned round) {
    char text[100];
    const int n = std::snprintf(text, sizeof text, "%d %u %.6f %s\n", i, round, i / 3.0, "text");
    std::uint64_t here = 0;
    for (int k = 0; k < n; ++k) here += static_cast<unsigned char>(text[k]);
    bytes += static_cast<std::uint64_t>(n);
    sum += here;
    return hogs[static_cast<std::size_t>(i)].in(kPrintf, [&] {
      return std::fprintf(out, "%d %u %.6f %s\n", i, round, i / 3.0, "text");
    }) == n;
  });
  std::fclose(out);
  EXPECT_EQ(got.bytes.load(), bytes.load());
  EXPECT_EQ(got.sum.load(), sum.load());
}

TEST_F(PreemptStorm, InDlopen) {
  expect_right({kDlopen}, [](int i, unsigned) {
    void* library = hogs[static_cast<std::size_t>(i)].in(
        kDlopen, [] { return dlopen(STRANGER, RTLD_NOW | RTLD_LOCAL); });
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

bool throw_and_catch(int i, unsigned round) {
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
}

TEST_F(PreemptStorm, InExceptions) {
  expect_right({kThrow}, [](int i, unsigned round) {
    return hogs[static_cast<std::size_t>(i)].in(kThrow, [&] { return throw_and_catch(i, round); });
  });
}

// Every step needs another piece of memory.
TEST_F(PreemptStorm, InGrowingStrings) {
  expect_right({kGrowth}, [](int i, unsigned) {
    const char mine = static_cast<char>('a' + i);
    std::string text(20, mine);
    bool right = true;
    while (text.size() < 100'000) {
      hogs[static_cast<std::size_t>(i)].in(kGrowth,
                                           [&] { text.resize(text.capacity() + 1, mine); });
      right &= text.front() == mine && text[text.size() / 2] == mine && text.back() == mine;
    }
    for (std::size_t n = 0; n < text.size(); n += 997) right &= text[n] == mine;
    return right;
  });
}

TEST_F(PreemptStorm, InRegex) {
  expect_right(
      {kRegex},
      [](int i, unsigned round) {
        const std::string text =
            "user" + std::to_string(i) + "@host" + std::to_string(round) + ".org";
        static const std::regex address(R"((\w+)@([\w.]+)\.(\w+))");
        std::smatch found;
        return hogs[static_cast<std::size_t>(i)].in(
                   kRegex, [&] { return std::regex_match(text, found, address); }) &&
               found[1] == "user" + std::to_string(i) && found[3] == "org";
      },
      30);
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
      {kMemcpy},
      [&](int i, unsigned round) {
        buffers& b = all[static_cast<std::size_t>(i)];
        b.from[round % kSize] = static_cast<char>(i + 1);
        hogs[static_cast<std::size_t>(i)].in(
            kMemcpy, [&] { return std::memcpy(b.to.get(), b.from.get(), kSize); });
        bool right = true;
        for (std::size_t n = 0; n < kSize; n += 65'537)
          right &= b.to[n] == static_cast<char>(i + 1);
        return right;
      },
      20);
}

// Whoever is frozen here holds the mutex that all others want: they lose their Ps, until it goes on.
TEST_F(PreemptStorm, HoldingAMutex) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  std::uint64_t begun = 0, ended = 0;  // guarded by the mutex
  std::atomic<std::uint64_t> all{0};
  expect_right({kHolding}, [&](int i, unsigned) {
    pthread_mutex_lock(&mutex);
    const bool alone = hogs[static_cast<std::size_t>(i)].in(kHolding, [&] {
      const std::uint64_t before = begun++;
      for (int n = 0; n < 20'000; ++n) asm volatile("");
      return before == ended++ && begun == ended;
    });
    pthread_mutex_unlock(&mutex);
    ++all;
    return alone;
  });
  EXPECT_EQ(ended, all);
}

// -- one arena for all, and threads that are created meanwhile ------------------------------------------

bool use_malloc(int i) {
  std::array<char*, 64> all;
  for (char*& p : all) p = static_cast<char*>(std::memset(std::malloc(700), i, 700));
  bool right = true;
  for (char* p : all) {
    right &= p[0] == i && p[699] == i;
    std::free(p);
  }
  return right;
}

WEFT_CHILD(one_arena) {
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread creator([&] {  // pthread_create allocates, and takes the loader's lock
    while (!stop) std::thread([&] { wrong += use_malloc(9) ? 0 : 1; }).join();
  });
  const std::uint64_t wanted = weft::test::preemptions_wanted(40);
  wrong += wrong_results(wanted, {kMalloc, kFree}, [](int i, unsigned round) {
    bool right = malloc_and_free(i, round);
    // Seldom enough for slices to end in between: who waits makes room by itself.
    if (round % 256 == 0) {
      weft::wait_group children;
      for (int n = 0; n < 4; ++n) children.go([] { std::free(std::malloc(3000)); });
      children.wait();
    }
    if (round % 256 == 128) std::thread([&] { right &= use_malloc(i); }).join();
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
