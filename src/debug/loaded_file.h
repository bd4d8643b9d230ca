// Which loaded file does a code address belong to, and what is the function called?
//
// Problem. Stacks are printed while other threads may be stopped inside malloc or the loader, so
// dladdr, dl_iterate_phdr (both take the loader's lock) and backtrace_symbols (allocates) are out.
// glibc 2.35 has _dl_find_object, made for unwinders: it takes no lock. Names are read from the
// file itself (debug/elf_image.h).
//
// Where _dl_find_object is missing, dl_iterate_phdr is used and may hang in the situation above.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft::rt {

// A loaded executable or shared library.
struct loaded_file {
  std::uintptr_t begin = 0;  // mapped range
  std::uintptr_t end = 0;
  std::uintptr_t load_bias = 0;                // address minus address in the file
  const char* path = "";                       // empty for the executable itself
  const std::uint8_t* unwind_table = nullptr;  // .eh_frame_hdr, or null
};

// False if no loaded file covers pc. Runs on: any, signal handlers included.
bool find_loaded_file(std::uintptr_t pc, loaded_file& found) noexcept;

struct symbol {
  const char* name = nullptr;  // mangled; null if unknown
  std::uintptr_t start = 0;    // address of the function; pc itself if unknown
};

// The function that covers pc. Runs on: any. Blocks: the thread, for reading the file.
symbol find_symbol(const loaded_file& where, std::uintptr_t pc) noexcept;

// The variable that covers an address.
symbol find_data_symbol(const loaded_file& where, std::uintptr_t address) noexcept;

// The path to show: of the executable, what /proc/self/exe points at.
std::string_view display_path(const loaded_file& where, char* buffer, std::size_t size) noexcept;

}  // namespace weft::rt
