// DWARF's line tables: the line of an address, and the names of files. Versions 2 to 5 (DWARF 5, 6.2).
#pragma once

#include <cstdint>

#include "debug/dwarf_unit.h"

namespace weft::rt {

// A place in a source file. A path is put together from up to three parts when it is printed.
struct source_place {
  const char* root = "";       // what a relative directory is relative to
  const char* directory = "";  // may be empty
  const char* file = nullptr;  // null: unknown
  std::uint64_t line = 0;
};

class line_table {
 public:
  // The table of a unit.
  explicit line_table(const dwarf_unit& unit) noexcept;

  // False if no line covers the address.
  bool find(std::uint64_t address, source_place& found) const noexcept;
  // The file with this number.
  source_place file(std::uint64_t number) const noexcept;

 private:
  struct entry {
    const char* path = nullptr;
    std::uint64_t directory = 0;
  };
  struct row {
    std::uint64_t address = 0, file = 1, line = 1;
  };
  struct search;

  bool read_header(dwarf_cursor& in);
  bool skip_old_tables(dwarf_cursor& in);
  bool skip_table(dwarf_cursor& in);
  // Of a table of version 5: the entry with this number.
  entry entry_of(std::uint64_t table, std::uint64_t number) const;
  const char* old_directory(std::uint64_t number) const;
  const char* directory(std::uint64_t number) const;
  void extended(dwarf_cursor& in, row& now, search& s) const;

  const dwarf_unit& unit_;
  dwarf_unit forms_;  // how the header's own forms are read
  bool valid_ = false;
  std::uint16_t version_ = 0;
  std::uint8_t step_ = 1, line_range_ = 1, opcode_base_ = 1;
  std::int8_t line_base_ = 0;
  std::uint64_t lengths_ = 0;  // where each part begins, in .debug_line
  std::uint64_t directories_ = 0;
  std::uint64_t files_ = 0;
  std::uint64_t program_ = 0, end_ = 0;
};

}  // namespace weft::rt
