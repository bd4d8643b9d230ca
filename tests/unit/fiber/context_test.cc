// fiber/context.h: what survives a switch, what a new context starts with, and that unwinders cope.
#include "fiber/context.h"

#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <sys/mman.h>
#include <unwind.h>
#include <vector>

#include "support/test_fiber.h"

namespace weft::rt {
namespace {

using test::fiber;

TEST(ContextTest, TransfersAPointerInBothDirections) {
  int to_fiber = 0;
  int to_main = 0;
  fiber other([&](void* first) {
    EXPECT_EQ(first, &to_fiber);
    EXPECT_EQ(other.yield(&to_main), nullptr);
    other.yield(&to_fiber);
  });
  EXPECT_EQ(other.resume(&to_fiber), &to_main);
  EXPECT_EQ(other.resume(nullptr), &to_fiber);
}

TEST(ContextTest, ManyContextsTakeTurns) {
  constexpr int kFibers = 100;
  constexpr int kRounds = 50;
  std::vector<std::unique_ptr<fiber>> fibers;
  std::vector<int> order;
  for (int i = 0; i < kFibers; ++i) {
    fibers.push_back(std::make_unique<fiber>([&, i](void*) {
      for (int round = 0; round < kRounds; ++round) {
        order.push_back(i);
        fibers[static_cast<std::size_t>(i)]->yield(nullptr);
      }
    }));
  }
  for (int round = 0; round < kRounds; ++round) {
    for (auto& each : fibers) each->resume(nullptr);
  }
  ASSERT_EQ(order.size(), std::size_t{kFibers * kRounds});
  for (std::size_t i = 0; i < order.size(); ++i) {
    ASSERT_EQ(order[i], static_cast<int>(i % kFibers));
  }
}

TEST(ContextTest, TheEntryFrameIsAlignedWhateverTheTop) {
  for (std::size_t less = 0; less < 64; ++less) {
    bool aligned = false;
    fiber other(
        [&](void*) {
          alignas(16) volatile char probe[16] = {};
          aligned = reinterpret_cast<std::uintptr_t>(&probe) % 16 == 0 &&
                    reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) % 16 == 0;
        },
        less);
    other.resume(nullptr);
    EXPECT_TRUE(aligned) << "top less " << less;
  }
}

TEST(ContextTest, ANewContextTouchesNoMemoryBeforeItStarts) {
  void* nothing = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const context made = new_context(static_cast<std::byte*>(nothing) + 4096);
  EXPECT_FALSE(made.started());
  munmap(nothing, 4096);
}

// An entry function that returns names the next one, which may be new, too.
struct chain {
  context home;
  context rest[3];
  int began = 0;
};

WEFT_NO_TSAN departure link(void* transfer) {
  auto* c = static_cast<chain*>(transfer);
  const int mine = c->began++;
  return {mine < 3 ? &c->rest[mine] : &c->home, c};
}

TEST(ContextTest, AReturnLeadsToTheNextContext) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "switches behind the tool's back";
  alignas(16) static std::byte stacks[4][4096];
  chain c;
  for (int i = 0; i < 3; ++i) c.rest[i] = new_context(stacks[i] + 4096);
  const context first = new_context(stacks[3] + 4096);
  EXPECT_EQ(weft_switch(&c.home, &first, &c, link), &c);
  EXPECT_EQ(c.began, 4);
}

// ---- registers ------------------------------------------------------------------------------------

// Fills every callee-saved register with values derived from `pattern`, switches, and returns how
// many of them differ afterwards.
extern "C" long weft_test_registers(context* save, const context* load, std::uint64_t pattern,
                                    context_entry entry);
#if defined(__x86_64__)
asm(R"(
    .text
    .type weft_test_registers, @function
weft_test_registers:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    pushq %rdx
    leaq 1(%rdx), %rbp
    leaq 2(%rdx), %rbx
    leaq 3(%rdx), %r12
    leaq 4(%rdx), %r13
    leaq 5(%rdx), %r14
    leaq 6(%rdx), %r15
    xorl %edx, %edx
    call weft_switch
    popq %rdx
    xorl %eax, %eax
    xorl %ecx, %ecx
    subq %rdx, %rbp
    subq %rdx, %rbx
    subq %rdx, %r12
    subq %rdx, %r13
    subq %rdx, %r14
    subq %rdx, %r15
    cmpq $1, %rbp
    setne %cl
    addq %rcx, %rax
    cmpq $2, %rbx
    setne %cl
    addq %rcx, %rax
    cmpq $3, %r12
    setne %cl
    addq %rcx, %rax
    cmpq $4, %r13
    setne %cl
    addq %rcx, %rax
    cmpq $5, %r14
    setne %cl
    addq %rcx, %rax
    cmpq $6, %r15
    setne %cl
    addq %rcx, %rax
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size weft_test_registers, . - weft_test_registers
)");
#elif defined(__aarch64__)
asm(R"(
    .macro check_x register, offset
    sub \register, \register, x9
    cmp \register, #\offset
    cinc x0, x0, ne
    .endm
    .macro check_d register, offset
    fmov x10, \register
    check_x x10, \offset
    .endm
    .text
    .type weft_test_registers, %function
weft_test_registers:
    sub sp, sp, #176
    stp x29, x30, [sp]
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    str x2, [sp, #160]
    add x19, x2, #1
    add x20, x2, #2
    add x21, x2, #3
    add x22, x2, #4
    add x23, x2, #5
    add x24, x2, #6
    add x25, x2, #7
    add x26, x2, #8
    add x27, x2, #9
    add x28, x2, #10
    add x29, x2, #11
    add x9, x2, #12
    fmov d8, x9
    add x9, x2, #13
    fmov d9, x9
    add x9, x2, #14
    fmov d10, x9
    add x9, x2, #15
    fmov d11, x9
    add x9, x2, #16
    fmov d12, x9
    add x9, x2, #17
    fmov d13, x9
    add x9, x2, #18
    fmov d14, x9
    add x9, x2, #19
    fmov d15, x9
    mov x2, #0
    bl weft_switch
    ldr x9, [sp, #160]
    mov x0, #0
    check_x x19, 1
    check_x x20, 2
    check_x x21, 3
    check_x x22, 4
    check_x x23, 5
    check_x x24, 6
    check_x x25, 7
    check_x x26, 8
    check_x x27, 9
    check_x x28, 10
    check_x x29, 11
    check_d d8, 12
    check_d d9, 13
    check_d d10, 14
    check_d d11, 15
    check_d d12, 16
    check_d d13, 17
    check_d d14, 18
    check_d d15, 19
    ldp x29, x30, [sp]
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #176
    ret
    .size weft_test_registers, . - weft_test_registers
)");
#endif

TEST(ContextTest, CalleeSavedRegistersSurvive) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "switches behind the tool's back";
  long lost_in_fiber = 0;
  fiber other([&](void*) {
    for (std::uint64_t i = 0; i < 3; ++i) {
      lost_in_fiber +=
          weft_test_registers(other.own(), other.resumer(), 0x1111000000000000 + i, nullptr);
    }
  });
  long lost_in_main = 0;
  for (std::uint64_t i = 0; i < 3; ++i) {
    lost_in_main +=
        weft_test_registers(other.resumer(), other.own(), 0x7777000000000000 + i, fiber::entry);
  }
  other.resume(nullptr);
  EXPECT_EQ(lost_in_main, 0);
  EXPECT_EQ(lost_in_fiber, 0);
}

// ---- floating-point control words -----------------------------------------------------------------

#if defined(__x86_64__)
std::uint16_t x87_control() {
  std::uint16_t word;
  asm volatile("fnstcw %0" : "=m"(word));
  return word;
}
std::uint32_t mxcsr() { return __builtin_ia32_stmxcsr(); }
#endif

/// 1/3 in the current rounding mode, computed at run time: what users see of it.
double third() {
  volatile double one = 1;
  volatile double three = 3;
  return one / three;
}

TEST(ContextTest, RoundingModeBelongsToTheContext) {
  const double nearest = third();
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  const double upward = third();
  ASSERT_NE(upward, nearest);
  fiber other([&](void*) {
    EXPECT_EQ(std::fegetround(), FE_TONEAREST) << "a context starts with the default";
    EXPECT_EQ(third(), nearest);
    std::fesetround(FE_TOWARDZERO);
    for (int i = 0; i < 3; ++i) {
      other.yield(nullptr);
      EXPECT_EQ(std::fegetround(), FE_TOWARDZERO);
    }
  });
  for (int i = 0; i < 4; ++i) {
    other.resume(nullptr);
    EXPECT_EQ(std::fegetround(), FE_UPWARD);
    EXPECT_EQ(third(), upward);
  }
  std::fesetround(FE_TONEAREST);
}

#if defined(__x86_64__)
TEST(ContextTest, BothControlWordsAreKeptIndependently) {
  constexpr std::uint32_t kFlushToZero = 0x8000;
  const std::uint16_t x87_before = x87_control();
  const std::uint32_t mxcsr_before = mxcsr();
  fiber other([&](void*) {
    EXPECT_EQ(x87_control(), 0x037f);
    EXPECT_EQ(mxcsr() & 0xffc0, 0x1f80u);
    __builtin_ia32_ldmxcsr(0x1f80 | kFlushToZero);  // the SSE word alone
    other.yield(nullptr);
    EXPECT_EQ(mxcsr() & 0xffc0, 0x1f80 | kFlushToZero);
    EXPECT_EQ(x87_control(), 0x037f);
    __builtin_ia32_ldmxcsr(0x1f80);
    const std::uint16_t single_precision = 0x007f;  // the x87 word alone
    asm volatile("fldcw %0" ::"m"(single_precision));
    other.yield(nullptr);
    EXPECT_EQ(x87_control(), 0x007f);
    EXPECT_EQ(mxcsr() & 0xffc0, 0x1f80u);
  });
  for (int i = 0; i < 3; ++i) {
    other.resume(nullptr);
    EXPECT_EQ(x87_control(), x87_before);
    EXPECT_EQ(mxcsr() & 0xffc0, mxcsr_before & 0xffc0);
  }
}
#endif

// ---- unwinding ------------------------------------------------------------------------------------

struct walk {
  std::vector<void*> functions;  // start addresses, innermost first
  _Unwind_Reason_Code end = _URC_NO_REASON;
};

_Unwind_Reason_Code note_frame(_Unwind_Context* frame, void* arg) {
  auto* functions = static_cast<std::vector<void*>*>(arg);
  if (functions->size() > 200) return _URC_NORMAL_STOP;  // ran away
  if (_Unwind_GetIP(frame) == 0) return _URC_NO_REASON;  // past the outermost frame
  functions->push_back(reinterpret_cast<void*>(_Unwind_GetRegionStart(frame)));
  return _URC_NO_REASON;
}

walk walk_stack() {
  walk result;
  result.end = _Unwind_Backtrace(note_frame, &result.functions);
  return result;
}

TEST(ContextTest, UnwindingStopsAtTheEntry) {
  walk found;
  fiber other([&](void*) { found = walk_stack(); });
  other.resume(nullptr);
  EXPECT_EQ(found.end, _URC_END_OF_STACK);
  ASSERT_FALSE(found.functions.empty());
  EXPECT_LT(found.functions.size(), 20u);
  EXPECT_EQ(found.functions.back(), reinterpret_cast<void*>(&weft_goroutine_entry));
}

TEST(ContextTest, UnwindingStopsAfterMigrationThroughManySwitches) {
  walk found;
  fiber other([&](void*) {
    for (int i = 0; i < 5; ++i) other.yield(nullptr);
    found = walk_stack();
  });
  for (int i = 0; i < 6; ++i) other.resume(nullptr);
  EXPECT_EQ(found.end, _URC_END_OF_STACK);
  EXPECT_EQ(found.functions.back(), reinterpret_cast<void*>(&weft_goroutine_entry));
}

TEST(ContextTest, ExceptionsStayInsideTheContext) {
  int caught = 0;
  fiber other([&](void*) {
    for (int i = 1; i <= 3; ++i) {
      try {
        throw i;
      } catch (int value) {
        caught += value;
      }
      other.yield(nullptr);
    }
  });
  for (int i = 0; i < 4; ++i) other.resume(nullptr);
  EXPECT_EQ(caught, 6);
}

}  // namespace
}  // namespace weft::rt
