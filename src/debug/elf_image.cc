// See debug/elf_image.h.
#include "debug/elf_image.h"

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/readable.h"
#include "debug/loaded_file.h"
#include "os/clock.h"

namespace weft::rt {

namespace {

constexpr const char* kSelf = "/proc/self/exe";
constexpr std::size_t kFiles = 128;

// Text in a fixed buffer; what does not fit makes it empty.
class path_buffer {
 public:
  path_buffer& add(std::string_view text) {
    if (text.size() + 1 > sizeof text_ - used_) {
      whole_ = false;
    } else {
      std::memcpy(text_ + used_, text.data(), text.size());
      used_ += text.size();
    }
    text_[used_] = '\0';
    return *this;
  }
  path_buffer& add_hex(byte_range bytes) {
    for (std::size_t i = 0; i < bytes.size; ++i) {
      constexpr char kDigits[] = "0123456789abcdef";
      const char pair[] = {kDigits[bytes.data[i] >> 4], kDigits[bytes.data[i] & 15]};
      add({pair, 2});
    }
    return *this;
  }
  const char* c_str() const { return whole_ ? text_ : ""; }

 private:
  char text_[512];
  std::size_t used_ = 0;
  bool whole_ = true;
};

struct image_slot {
  // atomic: load address of the file; 0 until the image is complete.
  atomic<std::uintptr_t> key{0};
  known_image image;
  // atomic: when the files were last found to be as they were; -1: they are not.
  atomic<std::int64_t> intact_at{0};
};
constinit image_slot slots[kFiles];
constinit atomic<std::size_t> slots_claimed{0};

bool same(byte_range a, byte_range b) {
  return a.size == b.size && std::memcmp(a.data, b.data, a.size) == 0;
}

// As far as can be told without reading all of it. Where a symbol's name is read, there is an end to it.
bool is_as_it_was(const known_image& image) {
  const auto& [symbols, count, strings, strings_size] = image.symbols;
  return image.file.intact() && image.debug.intact() &&
         (!image.file || image.head.is_of(image.file)) &&
         (!image.debug || same(image.debug.build_id(), image.file.build_id())) &&
         (strings_size == 0 || strings[strings_size - 1] == '\0');
}

// A few system calls a millisecond, not for each frame.
bool still_intact(image_slot& slot) {
  constexpr std::int64_t kOften = 1'000'000;  // ns
  const std::int64_t now = nanotime();
  // order: MF2 relaxed; a lone number
  const std::int64_t known = slot.intact_at.load(WEFT_ORDER(MF2, relaxed));
  if (known < 0) return false;
  if (now - known < kOften) return true;
  const bool intact = is_as_it_was(slot.image);
  slot.intact_at.store(intact ? now : -1, WEFT_ORDER(MF2, relaxed));  // order: MF2 as above
  return intact;
}

// The build id in a section or segment of notes; empty if there is none.
byte_range build_id_in(byte_range notes) {
  constexpr std::size_t kName = 4;  // "GNU"
  while (notes.size >= sizeof(ElfW(Nhdr)) + kName) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes.data, sizeof header);
    const std::uint64_t begin =
        sizeof header + ((header.n_namesz + std::uint64_t{3}) & ~std::uint64_t{3});
    const std::uint64_t end = begin + ((header.n_descsz + std::uint64_t{3}) & ~std::uint64_t{3});
    if (begin + header.n_descsz > notes.size) break;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == kName &&
        std::memcmp(notes.data + sizeof header, "GNU", kName) == 0) {
      return {notes.data + begin, header.n_descsz};
    }
    if (end >= notes.size) break;
    notes = {notes.data + end, notes.size - end};
  }
  return {};
}

elf_image debug_file_of(const elf_image& file) {
  const byte_range id = file.build_id();
  if (id.size < 2 || file.section(".debug_line")) return {};
  const char* root = std::getenv("WEFT_DEBUG_DIR");
  path_buffer path;
  path.add(root != nullptr ? root : "/usr/lib/debug").add("/.build-id/");
  path.add_hex({id.data, 1}).add("/").add_hex({id.data + 1, id.size - 1}).add(".debug");
  const elf_image found(path.c_str());
  return same(found.build_id(), id) ? found : elf_image();  // objcopy --only-keep-debug keeps it
}

}  // namespace

elf_image::elf_image(const char* path) noexcept {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  struct stat info;
  void* data = MAP_FAILED;
  if (::fstat(fd, &info) == 0 && info.st_size > 0) {
    size_ = static_cast<std::size_t>(info.st_size);
    data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
  }
  ::close(fd);
  if (data == MAP_FAILED) return;
  data_ = static_cast<const std::uint8_t*>(data);
  const auto* header = at<ElfW(Ehdr)>(0, sizeof(ElfW(Ehdr)));
  constexpr int kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != kClass) {
    ::munmap(data, size_);
    data_ = nullptr;
    return;
  }
  header_ = *header;
  std::memcpy(end_, data_ + size_ - sizeof end_, sizeof end_);
  section_count_ = header->e_shnum;
  sections_ = at<ElfW(Shdr)>(header->e_shoff, section_count_ * sizeof(ElfW(Shdr)));
  if (sections_ == nullptr || header->e_shstrndx >= section_count_) {
    section_count_ = 0;
    return;
  }
  const ElfW(Shdr)& names = sections_[header->e_shstrndx];
  names_ = at<char>(names.sh_offset, names.sh_size);
  names_size_ = names_ == nullptr ? 0 : names.sh_size;
}

byte_range elf_image::section(std::string_view name) const noexcept {
  for (std::size_t i = 0; i < section_count_; ++i) {
    const ElfW(Shdr)& s = sections_[i];
    if (s.sh_name >= names_size_ || name.size() >= names_size_ - s.sh_name) continue;
    const char* its_name = names_ + s.sh_name;
    if (name != std::string_view(its_name, name.size()) || its_name[name.size()] != '\0') continue;
    if (s.sh_type == SHT_NOBITS || (s.sh_flags & SHF_COMPRESSED) != 0) return {};
    const auto* data = at<std::uint8_t>(s.sh_offset, s.sh_size);
    return {data, data == nullptr ? 0 : s.sh_size};
  }
  return {};
}

byte_range elf_image::build_id() const noexcept {
  return build_id_in(section(".note.gnu.build-id"));
}

// Of a file that was cut off the last page is gone, or ends with zeros.
bool elf_image::intact() const noexcept {
  if (data_ == nullptr) return true;
  return readable(reinterpret_cast<std::uintptr_t>(data_ + size_ - sizeof end_), sizeof end_) &&
         readable(reinterpret_cast<std::uintptr_t>(data_), 1) &&
         std::memcmp(data_, &header_, sizeof header_) == 0 &&
         std::memcmp(data_ + size_ - sizeof end_, end_, sizeof end_) == 0;
}

bool elf_image::begins_with(const std::uint8_t* bytes, std::size_t size) const noexcept {
  constexpr std::size_t kHeader = sizeof(ElfW(Ehdr));
  if (size > size_) size = size_;
  return data_ != nullptr && std::memcmp(data_ + kHeader, bytes + kHeader, size - kHeader) == 0;
}

void loaded_head::read(const loaded_file& where) noexcept {
  if (!readable(where.begin, kBytes)) return;
  std::memcpy(bytes_, reinterpret_cast<const void*>(where.begin), kBytes);
  known_ = std::memcmp(bytes_, ELFMAG, SELFMAG) == 0;
}

bool loaded_head::is_of(const loaded_file& where) const noexcept {
  return !known_ || (readable(where.begin, kBytes) &&
                     std::memcmp(bytes_, reinterpret_cast<const void*>(where.begin), kBytes) == 0);
}

bool loaded_head::is_of(const elf_image& file) const noexcept {
  return !known_ || file.begins_with(bytes_, kBytes);
}

byte_range loaded_head::build_id() const noexcept {
  ElfW(Ehdr) header;
  std::memcpy(&header, bytes_, sizeof header);
  for (std::size_t i = 0; known_ && i < header.e_phnum; ++i) {
    ElfW(Phdr) part;
    const std::uint64_t at = header.e_phoff + i * sizeof part;
    if (at > kBytes - sizeof part) break;
    std::memcpy(&part, bytes_ + at, sizeof part);
    if (part.p_type != PT_NOTE || part.p_offset > kBytes || part.p_filesz > kBytes - part.p_offset)
      continue;
    if (const byte_range id = build_id_in({bytes_ + part.p_offset, part.p_filesz})) return id;
  }
  return {};
}

elf_image::symbol_table elf_image::symbols() const noexcept {
  for (const std::uint32_t wanted : {SHT_SYMTAB, SHT_DYNSYM}) {
    for (std::size_t i = 0; i < section_count_; ++i) {
      const ElfW(Shdr)& table = sections_[i];
      if (table.sh_type != wanted || table.sh_link >= section_count_) continue;
      const ElfW(Shdr)& strings = sections_[table.sh_link];
      symbol_table found;
      found.symbols = at<ElfW(Sym)>(table.sh_offset, table.sh_size);
      found.strings = at<char>(strings.sh_offset, strings.sh_size);
      if (found.symbols == nullptr || found.strings == nullptr) continue;
      found.count = table.sh_size / sizeof(ElfW(Sym));
      found.strings_size = strings.sh_size;
      // An unterminated table would let names run out of the mapping.
      if (found.strings_size == 0 || found.strings[found.strings_size - 1] != '\0') continue;
      return found;
    }
  }
  return {};
}

// Two threads may map one file twice: that costs address space, and happens once.
const known_image* image_of(const loaded_file& where) noexcept {
  // order: MF2 relaxed; those who are not complete have no key
  const std::size_t claimed = slots_claimed.load(WEFT_ORDER(MF2, relaxed));
  for (std::size_t i = 0; i < claimed && i < kFiles; ++i) {
    image_slot& known = slots[i];
    // order: MF1 acquire; pairs with the release below, which publishes the image
    if (known.key.load(WEFT_ORDER(MF1, acquire)) == where.begin && known.image.head.is_of(where) &&
        still_intact(known)) {
      return &known.image;
    }
  }
  if (claimed >= kFiles || !readable(where.begin, 1)) return nullptr;
  // order: MF2 relaxed; only hands out indices
  const std::size_t index = slots_claimed.fetch_add(1, WEFT_ORDER(MF2, relaxed));
  if (index >= kFiles) return nullptr;
  image_slot& mine = slots[index];
  known_image& image = mine.image;
  image.head.read(where);
  image.file = elf_image(*where.path != '\0' ? where.path : kSelf);
  if (!image.head.is_of(image.file)) image.file = {};
  image.debug = debug_file_of(image.file);
  image.symbols = image.with_debug().symbols();
  if (image.symbols.count == 0) image.symbols = image.file.symbols();
  mine.key.store(where.begin, WEFT_ORDER(MF1, release));  // order: MF1 pairs with the acquire above
  return &image;
}

bool is_intact(const known_image& image) noexcept {
  for (image_slot& slot : slots) {
    if (&slot.image == &image) return still_intact(slot);
  }
  return false;
}

}  // namespace weft::rt
