// The tables behind debug/frame.h: how the registers of a caller are recovered at an address.
//
// A compiler describes each function by a small program (in .eh_frame) that says, as addresses
// advance, where the caller's registers have been put. unwind_row() runs it up to an address and
// returns what holds there. Stack memory is not touched here.
#pragma once

#include <cstdint>

#include "debug/frame.h"

namespace weft::rt {

// Where a register of the caller is. An expression is a program of its own, run by frame.cc.
struct register_rule {
  enum class kind : std::uint8_t {
    same,           // still in the register
    undefined,      // lost; for the return address: there is no caller
    at_offset,      // in memory at CFA + value
    is_offset,      // CFA + value
    in_register,    // in register number `value`
    at_expression,  // in memory at what the expression says
    is_expression,  // what the expression says
  };
  kind how = kind::same;
  union {
    std::int64_t value = 0;
    const std::uint8_t* expression;  // length (ULEB128), then the operations
  };
};

// What holds at one address. CFA, the canonical frame address: the stack pointer of the caller.
struct unwind_row {
  register_rule registers[kFrameRegisters];
  const std::uint8_t* cfa_expression = nullptr;  // or, if null:
  std::uint8_t cfa_register = 0;
  std::int64_t cfa_offset = 0;

  std::uint8_t return_register = kReturnRegister;
  bool signal_frame = false;   // the caller was interrupted, it has not called anything
  bool signed_return = false;  // aarch64: the return address carries an authentication code
};

// False if no table covers the address. Runs on: any.
bool find_unwind_row(std::uintptr_t address, unwind_row& row) noexcept;

}  // namespace weft::rt
