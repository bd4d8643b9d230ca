// Finding a function in the unwind tables of a loaded file, and reading its entry.
//
// Only what g++, clang++ and assemblers emit into .eh_frame is understood: the 32-bit format, a
// sorted look-up table in .eh_frame_hdr. Anything else counts as "no table", never as a guess.
// (LSB core specification, "Exception frames".)
#pragma once

#include <cstdint>

namespace weft::rt {

// Reads the tables. They belong to a loaded file, so bounds are those that they state themselves.
class table_reader {
 public:
  explicit table_reader(const std::uint8_t* at, const std::uint8_t* end = nullptr)
      : at_(at), end_(end) {}

  const std::uint8_t* position() const { return at_; }
  bool more() const { return at_ < end_; }
  void skip(std::uint64_t bytes) { at_ += bytes; }

  template <class T>
  T fixed() {
    T value;
    __builtin_memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::uint64_t uleb();
  std::int64_t sleb();
  // A pointer in one of DWARF's encodings; `data_base` is for those relative to a table.
  std::uintptr_t pointer(std::uint8_t encoding, std::uintptr_t data_base);

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

// What functions of one object file have in common (a CIE), and one function (an FDE).
struct common_entry {
  std::uint64_t code_factor = 1;
  std::int64_t data_factor = 1;
  std::uint8_t return_register = 0;
  std::uint8_t pointer_encoding = 0;  // absolute
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

// The function that covers an address, by the look-up table of its file; false if there is none.
bool find_function(const std::uint8_t* unwind_table, std::uintptr_t address,
                   function_entry& found) noexcept;

}  // namespace weft::rt
