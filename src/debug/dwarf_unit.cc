// See debug/dwarf_unit.h.
#include "debug/dwarf_unit.h"

namespace weft::rt {

namespace {

using kind = dwarf_value::kind;

enum : std::uint64_t {
  kAtSibling = 0x01,
  kAtName = 0x03,
  kAtStmtList = 0x10,
  kAtLowPc = 0x11,
  kAtHighPc = 0x12,
  kAtCompDir = 0x1b,
  kAtAbstractOrigin = 0x31,
  kAtSpecification = 0x47,
  kAtRanges = 0x55,
  kAtCallFile = 0x58,
  kAtCallLine = 0x59,
  kAtLinkageName = 0x6e,
  kAtStrOffsetsBase = 0x72,
  kAtAddrBase = 0x73,
  kAtRnglistsBase = 0x74,
  kAtMipsLinkageName = 0x2007,
};

enum : std::uint64_t {
  kFormAddr = 0x01,
  kFormBlock2 = 0x03,
  kFormBlock4 = 0x04,
  kFormData2 = 0x05,
  kFormData4 = 0x06,
  kFormData8 = 0x07,
  kFormString = 0x08,
  kFormBlock = 0x09,
  kFormBlock1 = 0x0a,
  kFormData1 = 0x0b,
  kFormFlag = 0x0c,
  kFormSdata = 0x0d,
  kFormStrp = 0x0e,
  kFormUdata = 0x0f,
  kFormRefAddr = 0x10,
  kFormRef1 = 0x11,
  kFormRef2 = 0x12,
  kFormRef4 = 0x13,
  kFormRef8 = 0x14,
  kFormRefUdata = 0x15,
  kFormIndirect = 0x16,
  kFormSecOffset = 0x17,
  kFormExprloc = 0x18,
  kFormFlagPresent = 0x19,
  kFormStrx = 0x1a,
  kFormAddrx = 0x1b,
  kFormData16 = 0x1e,
  kFormLineStrp = 0x1f,
  kFormRefSig8 = 0x20,
  kFormImplicitConst = 0x21,
  kFormLoclistx = 0x22,
  kFormRnglistx = 0x23,
  kFormStrx1 = 0x25,
  kFormStrx2 = 0x26,
  kFormStrx3 = 0x27,
  kFormStrx4 = 0x28,
  kFormAddrx1 = 0x29,
  kFormAddrx2 = 0x2a,
  kFormAddrx3 = 0x2b,
  kFormAddrx4 = 0x2c,
};

dwarf_value number(std::uint64_t n) { return {kind::number, false, n, nullptr}; }
dwarf_value text(const char* t) { return {kind::text, false, 0, t}; }
dwarf_value address(std::uint64_t n) { return {kind::address, false, n, nullptr}; }

dwarf_value skipped(dwarf_cursor& in, std::uint64_t bytes) {
  in.skip(bytes);
  return {};
}

const char* indexed_text(const dwarf_unit& unit, std::uint64_t index) {
  const unsigned size = unit.is_64 ? 8 : 4;
  dwarf_cursor table(unit.sections->str_offsets, unit.str_offsets_base);
  if (index > table.left() / size) return "";
  table.skip(index * size);
  return text_at(unit.sections->str, table.word(size));
}

// Moves `in` behind the declaration of this code: tag and so on. False: there is none.
bool find_abbreviation(const dwarf_unit& unit, std::uint64_t code, dwarf_cursor& in) {
  if (unit.abbrev_index != nullptr && code < unit.abbrev_index_size) {
    in = dwarf_cursor(unit.sections->abbrev, unit.abbrev_index[code]);
    return unit.abbrev_index[code] != 0;
  }
  in = dwarf_cursor(unit.sections->abbrev, unit.abbrev);
  for (;;) {
    const std::uint64_t here = in.uleb();
    if (!in.ok() || here == 0) return false;
    if (here == code) return true;
    in.uleb();  // tag
    in.fixed<std::uint8_t>();
    for (std::uint64_t name = 1, form = 1; in.ok() && (name != 0 || form != 0);) {
      name = in.uleb();
      form = in.uleb();
      if (form == kFormImplicitConst) in.sleb();
    }
  }
}

void take_attribute(const dwarf_unit& unit, std::uint64_t name, const dwarf_value& v,
                    dwarf_entry& e) {
  switch (name) {
    case kAtSibling:
      if (v.what == kind::reference) e.sibling = v.number;
      break;
    case kAtName:
      if (v.what == kind::text) e.name = v.text;
      break;
    case kAtLinkageName:
    case kAtMipsLinkageName:
      if (v.what == kind::text) e.linkage_name = v.text;
      break;
    case kAtLowPc:
      e.low = v.number;
      e.has_low = v.what == kind::address;
      break;
    case kAtHighPc:
      e.high = v.number;
      e.high_is_size = v.what != kind::address;
      break;
    case kAtRanges:
      e.ranges = v;
      // Versions before 4 have no form of its own for offsets.
      if (v.what == kind::number && unit.version < 4) e.ranges.what = kind::range_list;
      break;
    case kAtAbstractOrigin:
    case kAtSpecification:
      if (v.what == kind::reference) e.origin = v.number;
      break;
    case kAtCallFile: e.call_file = v.number; break;
    case kAtCallLine: e.call_line = v.number; break;
    default: break;
  }
}

// The bases come first: other attributes are read by means of them.
void take_unit_attribute(std::uint64_t name, const dwarf_value& v, dwarf_unit& unit) {
  switch (name) {
    case kAtStmtList:
      unit.line_program = v.number;
      unit.has_lines = true;
      break;
    case kAtCompDir:
      if (v.what == kind::text) unit.directory = v.text;
      break;
    case kAtStrOffsetsBase: unit.str_offsets_base = v.number; break;
    case kAtAddrBase: unit.addr_base = v.number; break;
    case kAtRnglistsBase: unit.rnglists_base = v.number; break;
    default: break;
  }
}

// Calls take(name, value) for each attribute of the entry.
template <class Take>
bool for_each_attribute(const dwarf_unit& unit, dwarf_cursor& in, dwarf_entry& e, Take take) {
  e = dwarf_entry{};
  const std::uint64_t code = in.uleb();
  if (code == 0) return in.ok();
  dwarf_cursor declared;
  if (!find_abbreviation(unit, code, declared)) return false;
  e.tag = declared.uleb();
  e.children = declared.fixed<std::uint8_t>() != 0;
  for (;;) {
    const std::uint64_t name = declared.uleb();
    const std::uint64_t form = declared.uleb();
    if (!declared.ok()) return false;
    if (name == 0 && form == 0) return in.ok();
    const std::int64_t constant = form == kFormImplicitConst ? declared.sleb() : 0;
    const dwarf_value v = unit.read(in, form, constant);
    if (v.what == kind::failed || !in.ok()) return false;
    take(name, v);
  }
}

// .debug_ranges, versions 2 to 4.
bool in_old_ranges(const dwarf_unit& unit, std::uint64_t offset, std::uint64_t address) {
  const std::uint64_t choose_base = unit.address_size == 8 ? ~std::uint64_t{0} : 0xffffffff;
  std::uint64_t base = unit.base_address;
  dwarf_cursor in(unit.sections->ranges, offset);
  for (;;) {
    const std::uint64_t begin = in.word(unit.address_size);
    const std::uint64_t end = in.word(unit.address_size);
    if (!in.ok() || (begin == 0 && end == 0)) return false;
    if (begin == choose_base) {
      base = end;
    } else if (address - base >= begin && address - base < end) {
      return true;
    }
  }
}

// .debug_rnglists, version 5.
bool in_range_list(const dwarf_unit& unit, const dwarf_value& list, std::uint64_t address) {
  std::uint64_t offset = list.number;
  if (list.indexed) {
    const unsigned size = unit.is_64 ? 8 : 4;
    dwarf_cursor table(unit.sections->rnglists, unit.rnglists_base);
    if (offset > table.left() / size) return false;
    table.skip(offset * size);
    offset = unit.rnglists_base + table.word(size);
  }
  std::uint64_t base = unit.base_address;
  dwarf_cursor in(unit.sections->rnglists, offset);
  while (in.more()) {
    std::uint64_t begin = 0, end = 0;
    switch (in.fixed<std::uint8_t>()) {
      case 0: return false;
      case 1: base = unit.address_at(in.uleb()); continue;
      case 2:
        begin = unit.address_at(in.uleb());
        end = unit.address_at(in.uleb());
        break;
      case 3:
        begin = unit.address_at(in.uleb());
        end = begin + in.uleb();
        break;
      case 4:
        begin = base + in.uleb();
        end = base + in.uleb();
        break;
      case 5: base = in.word(unit.address_size); continue;
      case 6:
        begin = in.word(unit.address_size);
        end = in.word(unit.address_size);
        break;
      case 7:
        begin = in.word(unit.address_size);
        end = begin + in.uleb();
        break;
      default: return false;
    }
    if (in.ok() && address >= begin && address < end) return true;
  }
  return false;
}

}  // namespace

dwarf_sections::dwarf_sections(const elf_image& file) noexcept
    : info(file.section(".debug_info")),
      abbrev(file.section(".debug_abbrev")),
      line(file.section(".debug_line")),
      str(file.section(".debug_str")),
      line_str(file.section(".debug_line_str")),
      ranges(file.section(".debug_ranges")),
      rnglists(file.section(".debug_rnglists")),
      aranges(file.section(".debug_aranges")),
      addr(file.section(".debug_addr")),
      str_offsets(file.section(".debug_str_offsets")) {}

std::uint64_t dwarf_unit::address_at(std::uint64_t index) const noexcept {
  dwarf_cursor table(sections->addr, addr_base);
  if (index > table.left() / address_size) return 0;
  table.skip(index * address_size);
  return table.word(address_size);
}

dwarf_value dwarf_unit::read(dwarf_cursor& in, std::uint64_t form,
                             std::int64_t constant) const noexcept {
  switch (form) {
    case kFormAddr: return address(in.word(address_size));
    case kFormData1:
    case kFormFlag: return number(in.word(1));
    case kFormData2: return number(in.word(2));
    case kFormData4: return number(in.word(4));
    case kFormData8: return number(in.word(8));
    case kFormData16: return skipped(in, 16);
    case kFormSdata: return number(static_cast<std::uint64_t>(in.sleb()));
    case kFormUdata: return number(in.uleb());
    case kFormImplicitConst: return number(static_cast<std::uint64_t>(constant));
    case kFormFlagPresent: return number(1);
    case kFormString: return text(in.text());
    case kFormStrp: return text(text_at(sections->str, in.offset(is_64)));
    case kFormLineStrp: return text(text_at(sections->line_str, in.offset(is_64)));
    case kFormStrx: return text(indexed_text(*this, in.uleb()));
    case kFormStrx1: return text(indexed_text(*this, in.word(1)));
    case kFormStrx2: return text(indexed_text(*this, in.word(2)));
    case kFormStrx3: return text(indexed_text(*this, in.word(3)));
    case kFormStrx4: return text(indexed_text(*this, in.word(4)));
    case kFormAddrx: return address(address_at(in.uleb()));
    case kFormAddrx1: return address(address_at(in.word(1)));
    case kFormAddrx2: return address(address_at(in.word(2)));
    case kFormAddrx3: return address(address_at(in.word(3)));
    case kFormAddrx4: return address(address_at(in.word(4)));
    case kFormRefAddr:
      return {kind::reference, false, version < 3 ? in.word(address_size) : in.offset(is_64),
              nullptr};
    case kFormRef1: return {kind::reference, false, start + in.word(1), nullptr};
    case kFormRef2: return {kind::reference, false, start + in.word(2), nullptr};
    case kFormRef4: return {kind::reference, false, start + in.word(4), nullptr};
    case kFormRef8: return {kind::reference, false, start + in.word(8), nullptr};
    case kFormRefUdata: return {kind::reference, false, start + in.uleb(), nullptr};
    case kFormRefSig8: return skipped(in, 8);
    case kFormSecOffset: return {kind::range_list, false, in.offset(is_64), nullptr};
    case kFormRnglistx: return {kind::range_list, true, in.uleb(), nullptr};
    case kFormLoclistx: return number(in.uleb());
    case kFormExprloc:
    case kFormBlock: return skipped(in, in.uleb());
    case kFormBlock1: return skipped(in, in.word(1));
    case kFormBlock2: return skipped(in, in.word(2));
    case kFormBlock4: return skipped(in, in.word(4));
    case kFormIndirect: {
      const std::uint64_t actual = in.uleb();
      if (actual != kFormIndirect && actual != kFormImplicitConst) return read(in, actual, 0);
      [[fallthrough]];
    }
    default: return {kind::failed, false, 0, nullptr};
  }
}

bool read_unit(const dwarf_sections& sections, std::uint64_t offset, dwarf_unit& unit,
               dwarf_entry& first, std::uint64_t* next) noexcept {
  *next = 0;
  unit = dwarf_unit{};
  unit.sections = &sections;
  unit.start = offset;
  dwarf_cursor in(sections.info, offset);
  if (!in.more()) return false;
  const std::uint64_t length = in.unit_length(&unit.is_64);
  if (length > in.left()) return false;
  unit.end = in.position() + length;
  *next = unit.end;
  unit.version = in.fixed<std::uint16_t>();
  if (unit.version < 2 || unit.version > 5) return false;
  if (unit.version == 5) {
    const auto type = in.fixed<std::uint8_t>();
    unit.address_size = in.fixed<std::uint8_t>();
    unit.abbrev = in.offset(unit.is_64);
    if (type == 4 || type == 5) in.skip(8);                           // id of split units
    if (type == 2 || type == 6) in.skip(8 + (unit.is_64 ? 8u : 4u));  // of types
    unit.addr_base = unit.str_offsets_base = unit.is_64 ? 16 : 8;     // unless it says so
    unit.rnglists_base = unit.is_64 ? 20 : 12;
  } else {
    unit.abbrev = in.offset(unit.is_64);
    unit.address_size = in.fixed<std::uint8_t>();
  }
  if (unit.address_size != 4 && unit.address_size != 8) return false;
  unit.entries = in.position();
  dwarf_cursor again = in;
  const auto bases = [&unit](std::uint64_t name, const dwarf_value& v) {
    take_unit_attribute(name, v, unit);
  };
  if (!for_each_attribute(unit, again, first, bases)) return false;
  const auto rest = [&](std::uint64_t name, const dwarf_value& v) {
    take_attribute(unit, name, v, first);
    if (name == kAtCompDir) take_unit_attribute(name, v, unit);  // by the bases that we know now
  };
  if (!for_each_attribute(unit, in, first, rest)) return false;
  unit.base_address = first.low;
  return true;
}

bool read_entry(const dwarf_unit& unit, dwarf_cursor& in, dwarf_entry& entry) noexcept {
  return for_each_attribute(unit, in, entry, [&](std::uint64_t name, const dwarf_value& v) {
    take_attribute(unit, name, v, entry);
  });
}

bool covers(const dwarf_unit& unit, const dwarf_entry& entry, std::uint64_t address) noexcept {
  if (entry.ranges.what == kind::range_list) {
    return unit.version >= 5 ? in_range_list(unit, entry.ranges, address)
                             : in_old_ranges(unit, entry.ranges.number, address);
  }
  if (!entry.has_low || entry.low == 0) return false;  // 0: the linker has dropped it
  const std::uint64_t end = entry.high_is_size ? entry.low + entry.high : entry.high;
  return address >= entry.low && address < end;
}

}  // namespace weft::rt
