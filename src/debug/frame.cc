// One step up a stack, by the rules of debug/cfi.h; see debug/frame.h.
#include "debug/frame.h"

#include <cstddef>
#include <signal.h>
#include <ucontext.h>

#include "base/readable.h"
#include "debug/cfi.h"
#include "debug/cfi_table.h"

namespace weft::rt {

namespace {

// Memory that may be anywhere, for one step: what was found readable a moment ago is not asked for again, for most
// words of a frame lie in one page.
class wild_memory {
 public:
  // A word; false if it cannot be read.
  // Not instrumented: it reads other functions' frames, and perhaps other threads'.
  [[gnu::no_sanitize_address, gnu::no_sanitize_thread]] bool read(std::uintptr_t address,
                                                                  std::uintptr_t& value) {
    constexpr std::uintptr_t kPage = 4096;
    if (address % alignof(std::uintptr_t) != 0) return false;
    if (address / kPage != page_) {
      if (!readable(address, sizeof value)) return false;
      page_ = address / kPage;
    }
    value = *reinterpret_cast<const volatile std::uintptr_t*>(address);
    return true;
  }

 private:
  std::uintptr_t page_ = ~std::uintptr_t{0};  // by number; there is no such page
};

// Evaluates a DWARF expression. Compilers use few operations, in three places: the entries of the
// PLT, the return from a signal handler, and realigned stacks.
class expression {
 public:
  expression(const frame& f, wild_memory& memory, const std::uint8_t* program)
      : f_(f), memory_(memory), in_(program) {
    const std::uint64_t length = in_.uleb();
    in_ = table_reader(in_.position(), in_.position() + length);
  }

  bool run(std::uintptr_t& result) {
    while (in_.more()) {
      if (!run_one(in_.fixed<std::uint8_t>())) return false;
    }
    return pop(result);
  }
  bool push(std::uintptr_t value) {
    if (depth_ == kDepth) return false;
    stack_[depth_++] = value;
    return true;
  }

 private:
  static constexpr int kDepth = 16;

  bool pop(std::uintptr_t& value) {
    if (depth_ == 0) return false;
    value = stack_[--depth_];
    return true;
  }
  bool push_register(std::uint64_t n, std::int64_t offset) {
    if (n >= kFrameRegisters) return false;
    const int number = static_cast<int>(n);
    if (number != kPcRegister && !f_.has(number)) return false;
    const std::uintptr_t base = number == kPcRegister ? f_.pc : f_.registers[number];
    return push(base + static_cast<std::uintptr_t>(offset));
  }
  bool run_one(std::uint8_t op);
  bool run_constant(std::uint8_t op);
  bool run_binary(std::uint8_t op);

  const frame& f_;
  wild_memory& memory_;
  table_reader in_;
  std::uintptr_t stack_[kDepth];
  int depth_ = 0;
};

bool expression::run_one(std::uint8_t op) {
  constexpr std::uint8_t kDeref = 0x06, kDup = 0x12, kDrop = 0x13, kPlusConstant = 0x23;
  constexpr std::uint8_t kLiteral = 0x30, kRegister = 0x70, kAnyRegister = 0x92, kNop = 0x96;
  if (op >= kLiteral && op < kLiteral + 32) return push(op - kLiteral);
  if (op >= kRegister && op < kRegister + 32) return push_register(op - kRegister, in_.sleb());
  std::uintptr_t a = 0;
  switch (op) {
    case kDeref: return pop(a) && memory_.read(a, a) && push(a);
    case kDup: return pop(a) && push(a) && push(a);
    case kDrop: return pop(a);
    case kPlusConstant: return pop(a) && push(a + in_.uleb());
    case kAnyRegister: {
      const std::uint64_t n = in_.uleb();
      return push_register(n, in_.sleb());
    }
    case kNop: return true;
    default: return run_constant(op);
  }
}

bool expression::run_constant(std::uint8_t op) {
  constexpr std::uint8_t kConst1u = 0x08;
  switch (op) {
    case kConst1u: return push(in_.fixed<std::uint8_t>());
    case kConst1u + 1: return push(static_cast<std::uintptr_t>(in_.fixed<std::int8_t>()));
    case kConst1u + 2: return push(in_.fixed<std::uint16_t>());
    case kConst1u + 3: return push(static_cast<std::uintptr_t>(in_.fixed<std::int16_t>()));
    case kConst1u + 4: return push(in_.fixed<std::uint32_t>());
    case kConst1u + 5: return push(static_cast<std::uintptr_t>(in_.fixed<std::int32_t>()));
    case kConst1u + 6:
    case kConst1u + 7: return push(in_.fixed<std::uint64_t>());
    case kConst1u + 8: return push(in_.uleb());
    case kConst1u + 9: return push(static_cast<std::uintptr_t>(in_.sleb()));
    default: return run_binary(op);
  }
}

bool expression::run_binary(std::uint8_t op) {
  std::uintptr_t a = 0, b = 0;
  if (!pop(b) || !pop(a)) return false;
  const auto sa = static_cast<std::intptr_t>(a);
  const auto sb = static_cast<std::intptr_t>(b);
  switch (op) {
    case 0x1a: return push(a & b);
    case 0x1c: return push(a - b);
    case 0x1e: return push(a * b);
    case 0x21: return push(a | b);
    case 0x22: return push(a + b);
    case 0x24: return push(b < 64 ? a << b : 0);
    case 0x25: return push(b < 64 ? a >> b : 0);
    case 0x27: return push(a ^ b);
    case 0x29: return push(sa == sb);
    case 0x2a: return push(sa >= sb);
    case 0x2b: return push(sa > sb);
    case 0x2c: return push(sa <= sb);
    case 0x2d: return push(sa < sb);
    case 0x2e: return push(sa != sb);
    default: return false;
  }
}

bool frame_address(const frame& f, wild_memory& memory, const unwind_row& row,
                   std::uintptr_t& cfa) {
  if (row.cfa_expression != nullptr) return expression(f, memory, row.cfa_expression).run(cfa);
  if (row.cfa_register >= kFrameRegisters || !f.has(row.cfa_register)) return false;
  cfa = f.registers[row.cfa_register] + static_cast<std::uintptr_t>(row.cfa_offset);
  return true;
}

// The caller's value of one register; false if it cannot be known.
bool recover(const frame& f, wild_memory& memory, int n, const register_rule& rule,
             std::uintptr_t cfa, std::uintptr_t& value) {
  using kind = register_rule::kind;
  switch (rule.how) {
    case kind::undefined: return false;
    case kind::same: value = f.registers[n]; return f.has(n);
    case kind::at_offset: return memory.read(cfa + static_cast<std::uintptr_t>(rule.value), value);
    case kind::is_offset: value = cfa + static_cast<std::uintptr_t>(rule.value); return true;
    case kind::in_register:
      if (rule.value < 0 || rule.value >= kFrameRegisters) return false;
      value = f.registers[rule.value];
      return f.has(static_cast<int>(rule.value));
    case kind::at_expression:
    case kind::is_expression: {
      expression e(f, memory, rule.expression);
      if (!e.push(cfa) || !e.run(value)) return false;
      return rule.how == kind::is_expression || memory.read(value, value);
    }
  }
  return false;
}

// Removes the authentication code from a signed return address.
std::uintptr_t strip_signature([[maybe_unused]] bool is_signed, std::uintptr_t pc) {
#if defined(__aarch64__)
  if (is_signed) {
    register std::uintptr_t x30 asm("x30") = pc;
    asm("hint #7" : "+r"(x30));  // xpaclri; does nothing where there are no signatures
    return x30;
  }
#endif
  return pc;
}

// The code that signal handlers return to has no table on aarch64 and is recognised by its
// instructions: mov x8, #139 (rt_sigreturn); svc #0. Above it lies what the kernel saved.
frame_step step_over_signal([[maybe_unused]] frame& f) {
#if defined(__aarch64__)
  constexpr std::uint64_t kReturnFromSignal = 0xd4000001'd2801168;
  std::uintptr_t code[2];
  wild_memory memory;
  const std::uintptr_t aligned = f.pc & ~std::uintptr_t{7};
  if (!memory.read(aligned, code[0]) || !memory.read(aligned + 8, code[1]))
    return frame_step::stuck;
  const std::uint64_t here = f.pc == aligned ? code[0] : (code[0] >> 32 | code[1] << 32);
  if (here != kReturnFromSignal) return frame_step::stuck;

  const std::uintptr_t saved =
      f.sp() + sizeof(siginfo_t) + offsetof(ucontext_t, uc_mcontext) + offsetof(mcontext_t, regs);
  static_assert(offsetof(mcontext_t, pc) - offsetof(mcontext_t, regs) == 32 * 8);
  frame interrupted;
  for (int n = 0; n < kFrameRegisters; ++n) {  // x0 … x30, sp
    std::uintptr_t value = 0;
    if (memory.read(saved + static_cast<std::uintptr_t>(n) * 8, value)) interrupted.set(n, value);
  }
  if (!memory.read(saved + 32 * 8, interrupted.pc) || interrupted.pc == 0) return frame_step::stuck;
  interrupted.exact = true;
  f = interrupted;
  return frame_step::ok;
#else
  return frame_step::stuck;
#endif
}

}  // namespace

frame_step step(frame& f) noexcept {
  unwind_row row;
  if (!find_unwind_row(f.call_site(), row)) return step_over_signal(f);
  std::uintptr_t cfa = 0;
  wild_memory memory;
  if (!frame_address(f, memory, row, cfa)) return frame_step::stuck;
  const register_rule& back = row.registers[row.return_register];
  if (back.how == register_rule::kind::undefined) return frame_step::end;
  // keep F1; a handler's frame may lie on an alternate stack, below or above what it interrupted. On
  // aarch64 a function that has called nobody may have no frame, and its return address in a register.
  const bool moves = cfa > f.sp() || (cfa == f.sp() && f.exact);
  if (!moves && !row.signal_frame) return frame_step::stuck;
  if (back.how == register_rule::kind::same && !f.exact) return frame_step::stuck;
  frame caller;
  for (int n = 0; n < kFrameRegisters; ++n) {
    std::uintptr_t value = 0;
    if (recover(f, memory, n, row.registers[n], cfa, value)) caller.set(n, value);
  }
  if (row.registers[kStackRegister].how == register_rule::kind::same) {
    caller.set(kStackRegister, cfa);
  }
  if (!caller.has(row.return_register)) return frame_step::stuck;
  caller.pc = strip_signature(row.signed_return, caller.registers[row.return_register]);
  caller.exact = row.signal_frame;
  if (caller.pc == 0) return frame_step::end;
  if (caller.pc == f.pc && caller.sp() == f.sp()) return frame_step::stuck;
  f = caller;
  return frame_step::ok;
}

// The layouts are those at the head of fiber/switch_*.S.
frame frame_of(const context& suspended) noexcept {
  frame f;
  wild_memory memory;
  const auto sp = reinterpret_cast<std::uintptr_t>(suspended.sp);
#if defined(__x86_64__)
  struct saved {
    int number;
    std::uintptr_t offset;
  };
  constexpr saved kSaved[] = {{15, 8}, {14, 16}, {13, 24}, {12, 32}, {3, 40}, {6, 48}};
  constexpr std::uintptr_t kResume = 56, kSize = 64;
  for (const saved& s : kSaved) {
    std::uintptr_t value = 0;
    if (memory.read(sp + s.offset, value)) f.set(s.number, value);
  }
#elif defined(__aarch64__)
  constexpr std::uintptr_t kResume = 8, kSize = 176, kFirst = 16;
  std::uintptr_t x29 = 0;
  if (memory.read(sp, x29)) f.set(29, x29);
  for (int n = 19; n <= 28; ++n) {
    std::uintptr_t value = 0;
    if (memory.read(sp + kFirst + static_cast<std::uintptr_t>(n - 19) * 8, value)) f.set(n, value);
  }
#endif
  static_cast<void>(memory.read(sp + kResume, f.pc));
  f.set(kStackRegister, sp + kSize);
  f.exact = false;
  return f;
}

}  // namespace weft::rt
