// A mapped ELF file: its sections, its symbols, its build id. The only knowledge of ELF in weft.
//
// Problem. Stacks are printed while others may be stopped inside malloc or the loader, and from signal
// handlers. So files are read with open, mmap and nothing else, and kept for the life of the process in
// a small table to which entries are only ever added: no lock, no allocation.
//
// A stripped file may have its debug information beside it. It is looked for where distributions put it:
// /usr/lib/debug/.build-id/ab/cdef….debug, and under WEFT_DEBUG_DIR instead of /usr/lib/debug if that is
// set. Files are never trusted: each read is within the mapping.
//
// A file may change while we have it mapped, and another may be at its path, or at its address, by the time somebody
// asks. So what is loaded is known by its first bytes in memory, with the build id among them: a file that begins
// otherwise is not used. And a file that was cut off or written over since is mapped anew before it is read. (If that was
// a millisecond ago, and as far as its beginning and its end tell. If it is cut off while we read, or just before, that
// ends the process by SIGBUS. To copy whole files would take too long.) Likewise for
// what another thread unloads: it is not touched once it is gone, but for the moment between the look and the touch.
//
// Rejected: libelf and libdw. They allocate and lock, so that they could serve neither crash reports nor
// handlers; what is left of their use is too little for a dependency (docs/design/009-own-symboliser.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <elf.h>
#include <link.h>
#include <string_view>

namespace weft::rt {

struct loaded_file;

// A range of a mapped file.
struct byte_range {
  const std::uint8_t* data = nullptr;
  std::size_t size = 0;

  explicit operator bool() const { return size != 0; }
};

class elf_image {
 public:
  elf_image() = default;
  // Maps the file; empty if that fails or if it is no ELF file of this machine's kind.
  explicit elf_image(const char* path) noexcept;

  explicit operator bool() const { return data_ != nullptr; }
  // False: it was cut off, or its header or its end written over, since it was mapped. Takes two system calls.
  bool intact() const noexcept;
  // Whether it begins with these bytes, but for the header, which strip(1) changes.
  bool begins_with(const std::uint8_t* bytes, std::size_t size) const noexcept;
  // Empty if there is none, if it has no contents here, or if it is compressed.
  byte_range section(std::string_view name) const noexcept;
  // The build id as the linker wrote it; empty if there is none.
  byte_range build_id() const noexcept;

  struct symbol_table {
    const ElfW(Sym) * symbols = nullptr;
    std::size_t count = 0;
    const char* strings = nullptr;
    std::size_t strings_size = 0;
  };
  // .symtab, which has everything; else .dynsym.
  symbol_table symbols() const noexcept;

 private:
  // A range of the file as an array, or null if it is not all there.
  template <class T>
  const T* at(std::uint64_t offset, std::uint64_t bytes) const {
    if (offset > size_ || bytes > size_ - offset || offset % alignof(T) != 0) return nullptr;
    return reinterpret_cast<const T*>(data_ + offset);
  }

  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  ElfW(Ehdr) header_ = {};  // as it was
  std::uint8_t end_[sizeof(ElfW(Ehdr))] = {};
  const ElfW(Shdr) * sections_ = nullptr;
  std::size_t section_count_ = 0;
  const char* names_ = nullptr;
  std::size_t names_size_ = 0;
};

// The first bytes of a loaded file, as they are in memory.
class loaded_head {
 public:
  void read(const loaded_file& where) noexcept;
  // Whether that is there still; true if it cannot be told.
  bool is_of(const loaded_file& where) const noexcept;
  bool is_of(const elf_image& file) const noexcept;
  // As the linker wrote it; empty if there is none here.
  byte_range build_id() const noexcept;

 private:
  static constexpr std::size_t kBytes = 1024;
  std::uint8_t bytes_[kBytes] = {};
  bool known_ = false;
};

// What is known of a loaded file: itself, and the file with its debug information, which may be the
// same. Null if there are too many files. Runs on: any, signal handlers included.
struct known_image {
  loaded_head head;
  elf_image file;   // empty: it is not there, or is another by now
  elf_image debug;  // empty: `file` has what there is
  elf_image::symbol_table symbols;

  const elf_image& with_debug() const { return debug ? debug : file; }
};
const known_image* image_of(const loaded_file& where) noexcept;

// Whether what was read from it may still be read.
bool is_intact(const known_image& image) noexcept;

}  // namespace weft::rt
