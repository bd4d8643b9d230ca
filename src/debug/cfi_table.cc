// See debug/cfi_table.h.
#include "debug/cfi_table.h"

#include <cstddef>

namespace weft::rt {

namespace {

// Pointer encodings (LSB core specification, "DWARF exception header encoding").
constexpr std::uint8_t kOmit = 0xff, kIndirect = 0x80;
constexpr std::uint8_t kFormatMask = 0x0f, kBaseMask = 0x70;
constexpr std::uint8_t kAbsolute = 0x00, kUleb = 0x01, kU2 = 0x02, kU4 = 0x03, kU8 = 0x04;
constexpr std::uint8_t kSleb = 0x09, kS2 = 0x0a, kS4 = 0x0b, kS8 = 0x0c;
constexpr std::uint8_t kPcRelative = 0x10, kDataRelative = 0x30;
constexpr std::uint8_t kSortedTable = kDataRelative | kS4;

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

bool find_function(const std::uint8_t* unwind_table, std::uintptr_t address,
                   function_entry& found) noexcept {
  const std::uint8_t* entry = look_up(unwind_table, address);
  if (entry == nullptr || !parse_function(entry, found)) return false;
  return address >= found.begin && address < found.end;
}

}  // namespace weft::rt
