// Finding and running the program that describes a function's frame; see debug/cfi.h.
//
// Only what g++, clang++ and assemblers emit into .eh_frame is understood: the 32-bit format, a
// sorted look-up table in .eh_frame_hdr. Anything else counts as "no table", never as a guess.
#include "debug/cfi.h"

#include "debug/loaded_file.h"

namespace weft::rt {

namespace {

// Pointer encodings (LSB core specification, "DWARF exception header encoding").
constexpr std::uint8_t kOmit = 0xff, kIndirect = 0x80;
constexpr std::uint8_t kFormatMask = 0x0f, kBaseMask = 0x70;
constexpr std::uint8_t kAbsolute = 0x00, kUleb = 0x01, kU2 = 0x02, kU4 = 0x03, kU8 = 0x04;
constexpr std::uint8_t kSleb = 0x09, kS2 = 0x0a, kS4 = 0x0b, kS8 = 0x0c;
constexpr std::uint8_t kPcRelative = 0x10, kDataRelative = 0x30;
constexpr std::uint8_t kSortedTable = kDataRelative | kS4;

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

// What functions of one object file have in common (a CIE), and one function (an FDE).
struct common_entry {
  std::uint64_t code_factor = 1;
  std::int64_t data_factor = 1;
  std::uint8_t return_register = 0;
  std::uint8_t pointer_encoding = kAbsolute;
  bool has_augmentation = false;
  bool signal_frame = false;
  const std::uint8_t* program = nullptr;
  const std::uint8_t* program_end = nullptr;
};

struct function_entry {
  common_entry common;
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  const std::uint8_t* program = nullptr;
  const std::uint8_t* program_end = nullptr;
};

bool parse_common(const std::uint8_t* at, common_entry& out) {
  table_reader in(at);
  const auto length = in.fixed<std::uint32_t>();
  if (length == 0 || length == 0xffffffff) return false;
  out.program_end = in.position() + length;
  in.skip(4);  // 0: the mark of a CIE
  const auto version = in.fixed<std::uint8_t>();
  const auto* augmentation = reinterpret_cast<const char*>(in.position());
  in.skip(__builtin_strlen(augmentation) + 1);
  out.code_factor = in.uleb();
  out.data_factor = in.sleb();
  out.return_register =
      version == 1 ? in.fixed<std::uint8_t>() : static_cast<std::uint8_t>(in.uleb());
  if (*augmentation == '\0') {
    out.program = in.position();
    return true;
  }
  if (*augmentation != 'z') return false;
  out.has_augmentation = true;
  const std::uint64_t size = in.uleb();
  out.program = in.position() + size;
  for (const char* c = augmentation + 1; *c != '\0'; ++c) {
    switch (*c) {
      case 'R': out.pointer_encoding = in.fixed<std::uint8_t>(); break;
      case 'L': in.skip(1); break;
      case 'P': {
        const auto encoding = in.fixed<std::uint8_t>();
        in.pointer(encoding & static_cast<std::uint8_t>(~kIndirect), 0);
        break;
      }
      case 'S': out.signal_frame = true; break;
      case 'B': break;  // aarch64: which key signs return addresses
      default: return false;
    }
  }
  return true;
}

bool parse_function(const std::uint8_t* at, function_entry& out) {
  table_reader in(at);
  const auto length = in.fixed<std::uint32_t>();
  if (length == 0 || length == 0xffffffff) return false;
  out.program_end = in.position() + length;
  const std::uint8_t* here = in.position();
  const auto back = in.fixed<std::uint32_t>();
  if (back == 0 || !parse_common(here - back, out.common)) return false;
  const std::uint8_t encoding = out.common.pointer_encoding;
  out.begin = in.pointer(encoding, 0);
  out.end = out.begin + in.pointer(encoding & kFormatMask, 0);
  if (out.common.has_augmentation) in.skip(in.uleb());
  out.program = in.position();
  return true;
}

// The entry that may cover the address, by bisection of .eh_frame_hdr.
const std::uint8_t* look_up(const std::uint8_t* header, std::uintptr_t address) {
  struct row {
    std::int32_t begin, entry;  // both relative to the header
  };
  table_reader in(header);
  const auto base = reinterpret_cast<std::uintptr_t>(header);
  if (in.fixed<std::uint8_t>() != 1) return nullptr;
  const auto frame_encoding = in.fixed<std::uint8_t>();
  const auto count_encoding = in.fixed<std::uint8_t>();
  if (in.fixed<std::uint8_t>() != kSortedTable || count_encoding == kOmit) return nullptr;
  in.pointer(frame_encoding, base);
  std::size_t count = in.pointer(count_encoding, base);
  const auto* table = reinterpret_cast<const row*>(in.position());
  const auto wanted = static_cast<std::int64_t>(address - base);
  if (count == 0 || table[0].begin > wanted) return nullptr;
  const row* low = table;
  while (count > 1) {
    const std::size_t half = count / 2;
    if (low[half].begin <= wanted) low += half;
    count -= half;
  }
  return header + low->entry;
}

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

std::uint64_t table_reader::uleb() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const std::uint8_t byte = *at_++;
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) break;
  }
  return value;
}

std::int64_t table_reader::sleb() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64;) {
    const std::uint8_t byte = *at_++;
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    shift += 7;
    if ((byte & 0x80) != 0) continue;
    if ((byte & 0x40) != 0 && shift < 64) value |= ~std::uint64_t{0} << shift;
    break;
  }
  return static_cast<std::int64_t>(value);
}

std::uintptr_t table_reader::pointer(std::uint8_t encoding, std::uintptr_t data_base) {
  if (encoding == kOmit) return 0;
  const auto here = reinterpret_cast<std::uintptr_t>(at_);
  std::uintptr_t value = 0;
  switch (encoding & kFormatMask) {
    case kUleb: value = uleb(); break;
    case kSleb: value = static_cast<std::uintptr_t>(sleb()); break;
    case kU2: value = fixed<std::uint16_t>(); break;
    case kU4: value = fixed<std::uint32_t>(); break;
    case kS2: value = static_cast<std::uintptr_t>(std::int64_t{fixed<std::int16_t>()}); break;
    case kS4: value = static_cast<std::uintptr_t>(std::int64_t{fixed<std::int32_t>()}); break;
    case kAbsolute:
    case kU8:
    case kS8:
    default: value = fixed<std::uint64_t>(); break;
  }
  if ((encoding & kBaseMask) == kPcRelative) value += here;
  if ((encoding & kBaseMask) == kDataRelative) value += data_base;
  return value;
}

bool find_unwind_row(std::uintptr_t address, unwind_row& row) noexcept {
  loaded_file file;
  if (!find_loaded_file(address, file) || file.unwind_table == nullptr) return false;
  const std::uint8_t* entry = look_up(file.unwind_table, address);
  function_entry function;
  if (entry == nullptr || !parse_function(entry, function)) return false;
  if (address < function.begin || address >= function.end) return false;
  row = unwind_row{};
  row.return_register = function.common.return_register;
  row.signal_frame = function.common.signal_frame;
  return row.return_register < kFrameRegisters && interpreter(function, row).run(address);
}

}  // namespace weft::rt
