// Walks of stacks: one's own, parked ones, through signal handlers, and over garbage.
#include "debug/frame.h"

#include <algorithm>
#include <cstdint>
#include <gtest/gtest.h>
#include <signal.h>
#include <ucontext.h>
#include <unwind.h>
#include <vector>

#include "debug/loaded_file.h"
#include "support/test_fiber.h"

namespace weft::rt {
namespace {

using pcs = std::vector<std::uintptr_t>;

struct walk_result {
  pcs addresses;
  frame_step end = frame_step::ok;
};

walk_result walk(frame f) {
  walk_result r;
  do {
    r.addresses.push_back(f.pc);
  } while (r.addresses.size() < 10'000 && (r.end = step(f)) == frame_step::ok);
  return r;
}

// The same by libgcc, of the caller's stack.
_Unwind_Reason_Code add_pc(_Unwind_Context* context, void* to) {
  static_cast<pcs*>(to)->push_back(_Unwind_GetIP(context));
  return _URC_NO_REASON;
}

// The frames above the one that compares; that one is at two places.
void expect_same_as_libgcc(const walk_result& ours, const pcs& theirs, std::size_t below) {
  ASSERT_GT(ours.addresses.size(), 1u);
  const auto at = std::search(theirs.begin(), theirs.end(), ours.addresses.begin() + 1,
                              ours.addresses.begin() + 2);
  ASSERT_NE(at, theirs.end());
  EXPECT_LE(static_cast<std::size_t>(at - theirs.begin()), below);
  // libgcc may report a last frame without an address.
  const pcs rest(at, theirs.end());
  const std::size_t n = std::min(rest.size(), ours.addresses.size() - 1);
  EXPECT_GE(n + 1, rest.size());
  for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(ours.addresses[i + 1], rest[i]) << i;
}

volatile int sink;

[[gnu::noinline]] void compare_here() {
  pcs theirs;
  _Unwind_Backtrace(add_pc, &theirs);
  expect_same_as_libgcc(walk(this_frame()), theirs, 4);
  sink = 1;
}

[[gnu::noinline]] int recurse(int n) {
  volatile char array[64];
  array[n % 64] = static_cast<char>(n);
  if (n == 0) compare_here();
  const int r = n == 0 ? 0 : recurse(n - 1) + array[n % 64];
  sink = r;
  return r;
}

// A frame whose size is known at run time only, and one with an aligned stack.
[[gnu::noinline]] void with_alloca(std::size_t n) {
  auto* memory = static_cast<volatile char*>(__builtin_alloca(n));
  memory[n / 2] = 1;
  compare_here();
  sink = memory[n / 2];
}
[[gnu::noinline]] void with_alignment() {
  alignas(128) volatile char memory[256];
  memory[3] = 1;
  compare_here();
  sink = memory[3];
}

TEST(Frame, SameAsLibgcc) {
  compare_here();
  recurse(100);
  with_alloca(1000);
  with_alignment();
}

TEST(Frame, SameAsLibgccOnAFiber) {
  test::fiber f([](void*) { recurse(10); });
  f.resume(nullptr);
  EXPECT_TRUE(f.finished());
}

test::fiber* parked = nullptr;

[[gnu::noinline]] void park_here() {
  parked->yield(nullptr);
  sink = 2;
}
// With a frame that is found through a saved register.
[[gnu::noinline]] void park_below() {
  const std::size_t n = 100 + static_cast<std::size_t>(sink);
  auto* memory = static_cast<volatile char*>(__builtin_alloca(n));
  memory[n / 2] = 3;
  park_here();
  sink = memory[n / 2];
}

bool within(std::uintptr_t pc, void (*function)()) {
  loaded_file file;
  return find_loaded_file(pc - 1, file) &&
         find_symbol(file, pc - 1).start == reinterpret_cast<std::uintptr_t>(function);
}

TEST(Frame, ParkedContext) {
  test::fiber f([](void*) { park_below(); });
  parked = &f;
  f.resume(nullptr);
  const walk_result r = walk(frame_of(*f.own()));
  EXPECT_EQ(r.end, frame_step::end);
  const auto in = [&r](void (*function)()) {
    return std::find_if(r.addresses.begin(), r.addresses.end(),
                        [function](std::uintptr_t pc) { return within(pc, function); });
  };
  EXPECT_NE(in(park_here), r.addresses.end());
  EXPECT_EQ(in(park_here) + 1, in(park_below));
  EXPECT_TRUE(within(r.addresses.back(), weft_goroutine_entry));
  f.resume(nullptr);
  EXPECT_TRUE(f.finished());
}

TEST(Frame, ContextThatHasNotStarted) {
  test::fiber f([](void*) {});
  const walk_result r = walk(frame_of(*f.own()));
  EXPECT_LE(r.addresses.size(), 2u);
  f.resume(nullptr);
}

walk_result in_handler;  // its memory is there before the signal

void on_signal(int) {
  frame f = this_frame();
  do {
    in_handler.addresses.push_back(f.pc);
  } while (in_handler.addresses.size() < in_handler.addresses.capacity() &&
           step(f) == frame_step::ok);
}

TEST(Frame, ThroughASignalHandler) {
  struct sigaction action = {};
  struct sigaction before = {};
  in_handler.addresses.reserve(1000);
  action.sa_handler = on_signal;
  sigaction(SIGUSR1, &action, &before);
  const walk_result outside = walk(this_frame());
  raise(SIGUSR1);
  sigaction(SIGUSR1, &before, nullptr);
  // The frames above this function are the same ones.
  ASSERT_GT(outside.addresses.size(), 2u);
  ASSERT_GT(in_handler.addresses.size(), outside.addresses.size());
  EXPECT_TRUE(std::equal(outside.addresses.rbegin(), outside.addresses.rend() - 1,
                         in_handler.addresses.rbegin()));
}

// A function that is interrupted at its very first instruction: the one before it is no part of it.
extern "C" void weft_test_trap();
#if defined(__x86_64__)
#define TRAP_INSTRUCTION "ud2"
constexpr std::uintptr_t kTrapSize = 2;
#else
#define TRAP_INSTRUCTION ".inst 0"
constexpr std::uintptr_t kTrapSize = 4;
#endif
asm(".text\n"
    ".p2align 4\n"
    "nop\n"
    ".type weft_test_trap, %function\n"
    ".globl weft_test_trap\n"
    "weft_test_trap:\n"
    ".cfi_startproc\n" TRAP_INSTRUCTION
    "\n"
    "ret\n"
    ".cfi_endproc\n"
    ".size weft_test_trap, . - weft_test_trap\n");

void on_trap(int, siginfo_t*, void* arg) {
  in_handler.addresses.clear();
  on_signal(0);
  mcontext_t& machine = static_cast<ucontext_t*>(arg)->uc_mcontext;
#if defined(__x86_64__)
  machine.gregs[REG_RIP] += kTrapSize;
#else
  machine.pc += kTrapSize;
#endif
}

TEST(Frame, InterruptedAtTheFirstInstruction) {
  struct sigaction action = {};
  struct sigaction before = {};
  in_handler.addresses.reserve(1000);
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = on_trap;
  sigaction(SIGILL, &action, &before);
  const walk_result outside = walk(this_frame());
  weft_test_trap();
  sigaction(SIGILL, &before, nullptr);
  const pcs& found = in_handler.addresses;
  const auto trap = reinterpret_cast<std::uintptr_t>(&weft_test_trap);
  EXPECT_NE(std::find(found.begin(), found.end(), trap), found.end());
  ASSERT_GT(found.size(), outside.addresses.size());
  EXPECT_TRUE(std::equal(outside.addresses.rbegin(), outside.addresses.rend() - 1, found.rbegin()));
}

TEST(Frame, GarbageEndsTheWalk) {
  frame f;
  EXPECT_EQ(step(f), frame_step::stuck) << "no address";
  f = this_frame();
  for (int n = 0; n < kFrameRegisters; ++n) f.set(n, 16);  // unreadable
  EXPECT_LE(walk(f).addresses.size(), 2u);

  // A stack overwritten with one word, whichever it is.
  std::vector<std::uintptr_t> stack(4096);
  const auto code = reinterpret_cast<std::uintptr_t>(&park_below) + 12;
  for (const std::uintptr_t word :
       {std::uintptr_t{0}, ~std::uintptr_t{0}, code, reinterpret_cast<std::uintptr_t>(&stack[8])}) {
    std::fill(stack.begin(), stack.end(), word);
    context c;
    c.sp = stack.data();
    EXPECT_LT(walk(frame_of(c)).addresses.size(), 10'000u);
  }
  context nowhere;
  EXPECT_EQ(walk(frame_of(nowhere)).addresses.size(), 1u);
}

}  // namespace
}  // namespace weft::rt
