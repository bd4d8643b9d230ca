// Reads debug information within bounds. A file may be damaged or lie: the first read outside of the range
// makes the cursor fail, and everything after it reads as zero, so that callers check once at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "debug/elf_image.h"

namespace weft::rt {

class dwarf_cursor {
 public:
  dwarf_cursor() = default;
  explicit dwarf_cursor(byte_range range, std::uint64_t offset = 0)
      : begin_(range.data), at_(range.data), end_(range.data + range.size) {
    skip(offset);
  }

  bool ok() const { return ok_; }
  bool more() const { return ok_ && at_ < end_; }
  std::uint64_t position() const { return static_cast<std::uint64_t>(at_ - begin_); }
  std::uint64_t left() const { return static_cast<std::uint64_t>(end_ - at_); }

  void skip(std::uint64_t bytes) {
    if (need(bytes)) at_ += bytes;
  }
  // Ends after so many bytes from here.
  void limit(std::uint64_t bytes) {
    if (need(bytes)) end_ = at_ + bytes;
  }
  void move_to(std::uint64_t position) {
    at_ = begin_;
    skip(position);
  }

  template <class T>
  T fixed() {
    T value{};
    if (need(sizeof value)) {
      std::memcpy(&value, at_, sizeof value);
      at_ += sizeof value;
    }
    return value;
  }
  std::uint64_t word(unsigned size) {
    switch (size) {
      case 1: return fixed<std::uint8_t>();
      case 2: return fixed<std::uint16_t>();
      case 3: {
        const std::uint64_t low = fixed<std::uint16_t>();
        return low | static_cast<std::uint64_t>(fixed<std::uint8_t>()) << 16;
      }
      case 4: return fixed<std::uint32_t>();
      default: return fixed<std::uint64_t>();
    }
  }
  // The length of a unit; tells which of the two formats it has.
  std::uint64_t unit_length(bool* is_64) {
    const std::uint32_t length = fixed<std::uint32_t>();
    *is_64 = length == 0xffffffff;
    return *is_64 ? fixed<std::uint64_t>() : length;
  }
  std::uint64_t offset(bool is_64) {
    return is_64 ? fixed<std::uint64_t>() : fixed<std::uint32_t>();
  }
  std::uint64_t uleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = fixed<std::uint8_t>();
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
  }
  std::int64_t sleb() {
    std::uint64_t value = 0;
    unsigned shift = 0;
    std::uint8_t byte;
    do {
      byte = fixed<std::uint8_t>();
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      shift += 7;
    } while ((byte & 0x80) != 0);
    if (shift < 64 && (byte & 0x40) != 0) value |= ~std::uint64_t{0} << shift;
    return static_cast<std::int64_t>(value);
  }
  // A string that ends within the range; "" otherwise.
  const char* text() {
    const void* nul = ok_ ? std::memchr(at_, 0, left()) : nullptr;
    if (nul == nullptr) {
      ok_ = false;
      return "";
    }
    const char* start = reinterpret_cast<const char*>(at_);
    at_ = static_cast<const std::uint8_t*>(nul) + 1;
    return start;
  }

 private:
  bool need(std::uint64_t bytes) {
    ok_ = ok_ && bytes <= left();
    return ok_;
  }

  const std::uint8_t* begin_ = nullptr;
  const std::uint8_t* at_ = nullptr;
  const std::uint8_t* end_ = nullptr;
  bool ok_ = true;
};

inline const char* text_at(byte_range strings, std::uint64_t offset) {
  return dwarf_cursor(strings, offset).text();
}

}  // namespace weft::rt
