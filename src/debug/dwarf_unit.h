// The entries of DWARF's .debug_info, as far as "which function, inlined into which, at which line" needs
// them: units, abbreviations, the forms of attributes, address ranges. Versions 2 to 5.
//
// Nothing is kept between calls but what the caller holds. What is not understood ends the search, it is
// never guessed. (DWARF 5, sections 2, 3.3 and 7.)
#pragma once

#include <cstdint>

#include "debug/dwarf_cursor.h"

namespace weft::rt {

struct dwarf_sections {
  byte_range info, abbrev, line, str, line_str, ranges, rnglists, aranges, addr, str_offsets;

  explicit dwarf_sections(const elf_image& file) noexcept;
};

enum : std::uint64_t {
  kTagLexicalBlock = 0x0b,
  kTagCompileUnit = 0x11,
  kTagInlined = 0x1d,
  kTagSubprogram = 0x2e,
  kTagNamespace = 0x39,
  kTagPartialUnit = 0x3c,
  kTagSkeletonUnit = 0x4a,
};

struct dwarf_value {
  enum class kind : std::uint8_t { other, number, text, address, reference, range_list, failed };
  kind what = kind::other;
  bool indexed = false;  // range_list: a number in the unit's table, not an offset
  std::uint64_t number = 0;
  const char* text = nullptr;
};

struct dwarf_unit {
  const dwarf_sections* sections = nullptr;
  std::uint64_t start = 0;    // of its header in .debug_info
  std::uint64_t entries = 0;  // of its first entry
  std::uint64_t end = 0;
  std::uint64_t abbrev = 0;
  std::uint16_t version = 0;
  std::uint8_t address_size = 8;
  bool is_64 = false;
  // From its first entry.
  std::uint64_t base_address = 0;
  std::uint64_t addr_base = 0;
  std::uint64_t str_offsets_base = 0;
  std::uint64_t rnglists_base = 0;
  std::uint64_t line_program = 0;
  bool has_lines = false;
  const char* directory = "";

  // Where each abbreviation is, by its code; null: they are looked for one by one.
  std::uint32_t* abbrev_index = nullptr;
  std::uint32_t abbrev_index_size = 0;

  dwarf_value read(dwarf_cursor& in, std::uint64_t form, std::int64_t constant) const noexcept;
  std::uint64_t address_at(std::uint64_t index) const noexcept;
};

// What is of interest of one entry.
struct dwarf_entry {
  std::uint64_t tag = 0;  // 0: the end of a list of children
  bool children = false;
  bool has_low = false;
  bool high_is_size = false;
  std::uint64_t low = 0, high = 0;
  dwarf_value ranges;
  const char* name = nullptr;
  const char* linkage_name = nullptr;
  std::uint64_t origin = 0;  // abstract origin or specification, in .debug_info; 0: none
  std::uint64_t sibling = 0;
  std::uint64_t call_file = 0, call_line = 0;
};

// The unit whose header is at `offset`; false at the end, or if it makes no sense. *next: where the one
// after it begins, 0 if that is unknown.
bool read_unit(const dwarf_sections& sections, std::uint64_t offset, dwarf_unit& unit,
               dwarf_entry& first, std::uint64_t* next) noexcept;

// The entry at the cursor, which is left behind it. False: the table is damaged or not understood.
bool read_entry(const dwarf_unit& unit, dwarf_cursor& in, dwarf_entry& entry) noexcept;

// Whether code of the entry covers an address of the file.
bool covers(const dwarf_unit& unit, const dwarf_entry& entry, std::uint64_t address) noexcept;

}  // namespace weft::rt
