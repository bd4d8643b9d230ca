// From an address to source lines: which functions are there, inlined into each other, and at which lines.
//
// Problem. Compilers merge functions, so that one frame of a stack stands for several; and the names of
// files are in DWARF's tables. This reads them in place, by mapping the file (debug/elf_image.h): no
// allocation but a few pages of its own, no lock, so that crash reports and handlers may use it, whatever
// the thread that they have interrupted was doing.
//
// Answers are kept for the life of the process, up to a bound: dumps ask for the same addresses again and
// again, and a look-up takes from 20 us to some milliseconds, by the size of the unit.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/print.h"
#include "debug/dwarf_line.h"
#include "debug/loaded_file.h"

namespace weft::rt {

struct source_function {
  const char* name = nullptr;  // mangled, or plain; null: the file does not say
  source_place place;
};

struct source_frames {
  static constexpr int kMost = 24;  // std::make_shared() in a callable of std::invoke() is 16
  int count = 0;
  source_function
      functions[kMost];  // innermost first; the last one is the function that has a frame
};

// False: nothing is known of it. `function`: by the symbol table, which may know it all the same. Runs on: any, signal
// handlers included.
bool find_source(std::uintptr_t pc, source_frames& found, symbol* function = nullptr) noexcept;

// The same, every time from the file. For tests.
bool look_up_source(const elf_image& file, std::uint64_t address, source_frames& found) noexcept;

void print_path(printer& out, const source_place& place) noexcept;

// Does the file's path end in folder/name? Compilers cut a path in two wherever they like: clang++ puts all
// that a unit's files have in common into the directory and leaves the rest to the name.
bool lies_in(const source_place& place, std::string_view folder) noexcept;

}  // namespace weft::rt
