// See debug/elf_image.h.
#include "debug/elf_image.h"

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "debug/loaded_file.h"

namespace weft::rt {

namespace {

constexpr const char* kSelf = "/proc/self/exe";
constexpr std::size_t kFiles = 64;

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
};
constinit image_slot slots[kFiles];
constinit atomic<std::size_t> slots_claimed{0};

elf_image debug_file_of(const elf_image& file) {
  const byte_range id = file.build_id();
  if (id.size < 2 || file.section(".debug_line")) return {};
  const char* root = std::getenv("WEFT_DEBUG_DIR");
  path_buffer path;
  path.add(root != nullptr ? root : "/usr/lib/debug").add("/.build-id/");
  path.add_hex({id.data, 1}).add("/").add_hex({id.data + 1, id.size - 1}).add(".debug");
  return elf_image(path.c_str());
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
  const byte_range note = section(".note.gnu.build-id");
  constexpr std::size_t kHeader = sizeof(ElfW(Nhdr)) + 4;  // with the name "GNU"
  if (note.size < kHeader) return {};
  ElfW(Nhdr) header;
  std::memcpy(&header, note.data, sizeof header);
  if (header.n_descsz > note.size - kHeader) return {};
  return {note.data + kHeader, header.n_descsz};
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
  for (const image_slot& known : slots) {
    // order: MF1 acquire; pairs with the release below, which publishes the image
    if (known.key.load(WEFT_ORDER(MF1, acquire)) == where.begin) return &known.image;
  }
  // order: MF2 relaxed; only hands out indices
  const std::size_t index = slots_claimed.fetch_add(1, WEFT_ORDER(MF2, relaxed));
  if (index >= kFiles) return nullptr;
  image_slot& mine = slots[index];
  known_image& image = mine.image;
  image.file = elf_image(*where.path != '\0' ? where.path : kSelf);
  image.debug = debug_file_of(image.file);
  image.symbols = image.with_debug().symbols();
  if (image.symbols.count == 0) image.symbols = image.file.symbols();
  mine.key.store(where.begin, WEFT_ORDER(MF1, release));  // order: MF1 pairs with the acquire above
  return &image;
}

}  // namespace weft::rt
