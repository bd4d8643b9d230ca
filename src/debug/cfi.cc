// Running the program that describes a function's frame; see debug/cfi.h.
#include "debug/cfi.h"

#include "debug/cfi_table.h"
#include "debug/loaded_file.h"

namespace weft::rt {

namespace {

// Call frame instructions.
enum : std::uint8_t {
  op_advance = 0x40,  // the upper two bits; the operand is in the lower six
  op_offset = 0x80,
  op_restore = 0xc0,
  op_nop = 0x00,
  op_set_loc = 0x01,
  op_advance1 = 0x02,
  op_advance2 = 0x03,
  op_advance4 = 0x04,
  op_offset_extended = 0x05,
  op_restore_extended = 0x06,
  op_undefined = 0x07,
  op_same_value = 0x08,
  op_register = 0x09,
  op_remember_state = 0x0a,
  op_restore_state = 0x0b,
  op_def_cfa = 0x0c,
  op_def_cfa_register = 0x0d,
  op_def_cfa_offset = 0x0e,
  op_def_cfa_expression = 0x0f,
  op_expression = 0x10,
  op_offset_extended_sf = 0x11,
  op_def_cfa_sf = 0x12,
  op_def_cfa_offset_sf = 0x13,
  op_val_offset = 0x14,
  op_val_offset_sf = 0x15,
  op_val_expression = 0x16,
  op_aarch64_negate_ra_state = 0x2d,
  op_gnu_args_size = 0x2e,
  op_gnu_negative_offset = 0x2f,
};

// Runs call frame instructions.
class interpreter {
 public:
  interpreter(const function_entry& f, unwind_row& row) : f_(f), row_(row) {}

  // Up to the address. The initial program goes first, with no address.
  bool run(std::uintptr_t address) {
    if (!run(f_.common.program, f_.common.program_end, ~std::uintptr_t{0})) return false;
    initial_ = row_;
    location_ = f_.begin;
    return run(f_.program, f_.program_end, address);
  }

 private:
  static constexpr int kRemembered = 4;  // compilers nest these once or twice

  bool run(const std::uint8_t* program, const std::uint8_t* end, std::uintptr_t address) {
    table_reader in(program, end);
    while (in.more() && location_ <= address) {
      const auto op = in.fixed<std::uint8_t>();
      const std::uint8_t low = op & 0x3f;
      switch (op & 0xc0) {
        case op_advance: location_ += low * f_.common.code_factor; break;
        case op_offset: set(low, register_rule::kind::at_offset, scaled(in.uleb())); break;
        case op_restore: restore(low); break;
        default:
          if (!run_extended(op, in)) return false;
      }
    }
    return true;
  }

  std::int64_t scaled(std::uint64_t n) const {
    return static_cast<std::int64_t>(n) * f_.common.data_factor;
  }
  void set(std::uint64_t reg, register_rule::kind how, std::int64_t value) {
    if (reg >= kFrameRegisters) return;  // vector registers, which no frame address depends on
    row_.registers[reg].how = how;
    row_.registers[reg].value = value;
  }
  void restore(std::uint64_t reg) {
    if (reg < kFrameRegisters) row_.registers[reg] = initial_.registers[reg];
  }
  void set_cfa(std::uint64_t reg, std::int64_t offset) {
    row_.cfa_expression = nullptr;
    row_.cfa_register = static_cast<std::uint8_t>(reg);
    row_.cfa_offset = offset;
  }

  bool run_extended(std::uint8_t op, table_reader& in);
  bool run_cfa(std::uint8_t op, table_reader& in);
  bool run_location(std::uint8_t op, table_reader& in);
  bool run_state(std::uint8_t op, table_reader& in);

  const function_entry& f_;
  unwind_row& row_;
  unwind_row initial_;
  unwind_row remembered_[kRemembered];
  int depth_ = 0;
  std::uintptr_t location_ = 0;
};

// Instructions that say where a register is.
bool interpreter::run_extended(std::uint8_t op, table_reader& in) {
  using kind = register_rule::kind;
  switch (op) {
    case op_offset_extended: {
      const std::uint64_t reg = in.uleb();
      set(reg, kind::at_offset, scaled(in.uleb()));
      return true;
    }
    case op_offset_extended_sf: {
      const std::uint64_t reg = in.uleb();
      set(reg, kind::at_offset, in.sleb() * f_.common.data_factor);
      return true;
    }
    case op_gnu_negative_offset: {
      const std::uint64_t reg = in.uleb();
      set(reg, kind::at_offset, -scaled(in.uleb()));
      return true;
    }
    case op_val_offset: {
      const std::uint64_t reg = in.uleb();
      set(reg, kind::is_offset, scaled(in.uleb()));
      return true;
    }
    case op_val_offset_sf: {
      const std::uint64_t reg = in.uleb();
      set(reg, kind::is_offset, in.sleb() * f_.common.data_factor);
      return true;
    }
    case op_register: {
      const std::uint64_t reg = in.uleb();
      set(reg, kind::in_register, static_cast<std::int64_t>(in.uleb()));
      return true;
    }
    case op_expression:
    case op_val_expression: {
      const std::uint64_t reg = in.uleb();
      set(reg, op == op_expression ? kind::at_expression : kind::is_expression,
          static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(in.position())));
      in.skip(in.uleb());
      return true;
    }
    case op_undefined: set(in.uleb(), kind::undefined, 0); return true;
    case op_same_value: set(in.uleb(), kind::same, 0); return true;
    case op_restore_extended: restore(in.uleb()); return true;
    default: return run_cfa(op, in);
  }
}

// Instructions that say where the frame is.
bool interpreter::run_cfa(std::uint8_t op, table_reader& in) {
  switch (op) {
    case op_def_cfa: {
      const std::uint64_t reg = in.uleb();
      set_cfa(reg, static_cast<std::int64_t>(in.uleb()));
      return true;
    }
    case op_def_cfa_sf: {
      const std::uint64_t reg = in.uleb();
      set_cfa(reg, in.sleb() * f_.common.data_factor);
      return true;
    }
    case op_def_cfa_register: set_cfa(in.uleb(), row_.cfa_offset); return true;
    case op_def_cfa_offset:
      set_cfa(row_.cfa_register, static_cast<std::int64_t>(in.uleb()));
      return true;
    case op_def_cfa_offset_sf:
      set_cfa(row_.cfa_register, in.sleb() * f_.common.data_factor);
      return true;
    case op_def_cfa_expression:
      row_.cfa_expression = in.position();
      in.skip(in.uleb());
      return true;
    default: return run_location(op, in);
  }
}

bool interpreter::run_location(std::uint8_t op, table_reader& in) {
  const std::uint64_t factor = f_.common.code_factor;
  switch (op) {
    case op_advance1: location_ += in.fixed<std::uint8_t>() * factor; return true;
    case op_advance2: location_ += in.fixed<std::uint16_t>() * factor; return true;
    case op_advance4: location_ += in.fixed<std::uint32_t>() * factor; return true;
    case op_set_loc: location_ = in.pointer(f_.common.pointer_encoding, 0); return true;
    default: return run_state(op, in);
  }
}

bool interpreter::run_state(std::uint8_t op, table_reader& in) {
  switch (op) {
    case op_nop: return true;
    case op_gnu_args_size: in.uleb(); return true;
    case op_aarch64_negate_ra_state: row_.signed_return = !row_.signed_return; return true;
    case op_remember_state:
      if (depth_ == kRemembered) return false;
      remembered_[depth_++] = row_;
      return true;
    case op_restore_state:
      if (depth_ == 0) return false;
      row_ = remembered_[--depth_];
      return true;
    default: return false;
  }
}

}  // namespace

bool find_unwind_row(std::uintptr_t address, unwind_row& row) noexcept {
  loaded_file file;
  if (!find_loaded_file(address, file) || file.unwind_table == nullptr) return false;
  function_entry function;
  if (!find_function(file.unwind_table, address, function)) return false;
  row = unwind_row{};
  row.return_register = function.common.return_register;
  row.signal_frame = function.common.signal_frame;
  return row.return_register < kFrameRegisters && interpreter(function, row).run(address);
}

}  // namespace weft::rt
