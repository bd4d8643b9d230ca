// See debug/loaded_file.h. The only knowledge of ELF files in weft.
#include "debug/loaded_file.h"

#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"

namespace weft::rt {

namespace {

constexpr const char* kSelf = "/proc/self/exe";

// A file mapped for its symbols. One with no symbols is kept as well, so as not to be opened again.
struct symbol_file {
  // atomic: load address of the file; 0 until the other fields are complete.
  atomic<std::uintptr_t> key{0};
  const ElfW(Sym) * symbols = nullptr;
  std::size_t count = 0;
  const char* strings = nullptr;
  std::size_t strings_size = 0;
};

constexpr std::size_t kFiles = 64;
symbol_file files[kFiles];
atomic<std::size_t> files_claimed{0};

struct mapping {
  const std::uint8_t* data = nullptr;
  std::size_t size = 0;

  // A range of the file as an array, or null if it is not all there.
  template <class T>
  const T* at(std::uint64_t offset, std::uint64_t bytes) const {
    if (offset > size || bytes > size - offset || offset % alignof(T) != 0) return nullptr;
    return reinterpret_cast<const T*>(data + offset);
  }
};

mapping map_file(const char* path) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  struct stat info;
  mapping mapped;
  if (::fstat(fd, &info) == 0 && info.st_size > 0) {
    const auto size = static_cast<std::size_t>(info.st_size);
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data != MAP_FAILED) mapped = {static_cast<const std::uint8_t*>(data), size};
  }
  ::close(fd);
  return mapped;
}

// Fills in the symbols of a mapped file; .symtab is preferred, as it has everything.
void read_symbols(const mapping& file, symbol_file& out) {
  const auto* header = file.at<ElfW(Ehdr)>(0, sizeof(ElfW(Ehdr)));
  if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
  const auto* sections =
      file.at<ElfW(Shdr)>(header->e_shoff, std::uint64_t{header->e_shnum} * sizeof(ElfW(Shdr)));
  if (sections == nullptr) return;
  for (const std::uint32_t wanted : {SHT_SYMTAB, SHT_DYNSYM}) {
    for (std::size_t i = 0; i < header->e_shnum; ++i) {
      const ElfW(Shdr)& table = sections[i];
      if (table.sh_type != wanted || table.sh_link >= header->e_shnum) continue;
      const ElfW(Shdr)& strings = sections[table.sh_link];
      out.symbols = file.at<ElfW(Sym)>(table.sh_offset, table.sh_size);
      out.strings = file.at<char>(strings.sh_offset, strings.sh_size);
      if (out.symbols == nullptr || out.strings == nullptr) continue;
      out.count = table.sh_size / sizeof(ElfW(Sym));
      out.strings_size = strings.sh_size;
      return;
    }
  }
}

// Two threads may map one file twice: that costs address space, and happens once.
const symbol_file* open_symbols(const loaded_file& where) {
  for (const symbol_file& known : files) {
    // order: MF1 acquire; pairs with the release below, which publishes the other fields
    const std::uintptr_t key = known.key.load(WEFT_ORDER(MF1, acquire));
    if (key == where.begin) return &known;
  }
  // order: MF2 relaxed; only hands out indices
  const std::size_t slot = files_claimed.fetch_add(1, WEFT_ORDER(MF2, relaxed));
  if (slot >= kFiles) return nullptr;
  symbol_file& file = files[slot];
  read_symbols(map_file(*where.path != '\0' ? where.path : kSelf), file);
  file.key.store(where.begin, WEFT_ORDER(MF1, release));  // order: MF1 pairs with the acquire above
  return &file;
}

bool is_function(const ElfW(Sym) & s) {
  const int type = ELF64_ST_TYPE(s.st_info);
  return (type == STT_FUNC || type == STT_GNU_IFUNC) && s.st_shndx != SHN_UNDEF;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE  // glibc 2.35 declares _dl_find_object

bool find_loaded(std::uintptr_t pc, loaded_file& found) {
  dl_find_object object;
  if (_dl_find_object(reinterpret_cast<void*>(pc), &object) != 0) return false;
  found.begin = reinterpret_cast<std::uintptr_t>(object.dlfo_map_start);
  found.end = reinterpret_cast<std::uintptr_t>(object.dlfo_map_end);
  found.unwind_table = static_cast<const std::uint8_t*>(object.dlfo_eh_frame);
  if (object.dlfo_link_map != nullptr) {
    found.load_bias = object.dlfo_link_map->l_addr;
    if (object.dlfo_link_map->l_name != nullptr) found.path = object.dlfo_link_map->l_name;
  }
  return true;
}

#else

struct search {
  std::uintptr_t pc;
  loaded_file* found;
};

int look_at(dl_phdr_info* info, std::size_t, void* arg) {
  auto* wanted = static_cast<search*>(arg);
  loaded_file here;
  here.load_bias = info->dlpi_addr;
  bool covers = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    const std::uintptr_t start = info->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_GNU_EH_FRAME) {
      here.unwind_table = reinterpret_cast<const std::uint8_t*>(start);
    } else if (part.p_type == PT_LOAD) {
      if (here.begin == 0 || start < here.begin) here.begin = start;
      if (start + part.p_memsz > here.end) here.end = start + part.p_memsz;
      covers = covers || (wanted->pc >= start && wanted->pc < start + part.p_memsz);
    }
  }
  if (!covers) return 0;
  if (info->dlpi_name != nullptr) here.path = info->dlpi_name;
  *wanted->found = here;
  return 1;
}

bool find_loaded(std::uintptr_t pc, loaded_file& found) {
  search wanted{pc, &found};
  return dl_iterate_phdr(look_at, &wanted) == 1;
}

#endif

}  // namespace

bool find_loaded_file(std::uintptr_t pc, loaded_file& found) noexcept {
  found = loaded_file{};
  return find_loaded(pc, found);
}

symbol find_symbol(const loaded_file& where, std::uintptr_t pc) noexcept {
  symbol best{nullptr, pc};
  const symbol_file* file = open_symbols(where);
  if (file == nullptr) return best;
  const std::uintptr_t in_file = pc - where.load_bias;
  for (std::size_t i = 0; i < file->count; ++i) {
    const ElfW(Sym)& s = file->symbols[i];
    if (!is_function(s) || s.st_value > in_file || s.st_name >= file->strings_size) continue;
    // Assembly may leave the size out; such a symbol covers what follows, unless another does.
    const bool covers = s.st_size == 0 || in_file < s.st_value + s.st_size;
    const std::uintptr_t start = s.st_value + where.load_bias;
    if (!covers || (best.name != nullptr && start < best.start)) continue;
    best = {file->strings + s.st_name, start};
  }
  return best;
}

std::string_view display_path(const loaded_file& where, char* buffer, std::size_t size) noexcept {
  if (*where.path != '\0') return where.path;
  const ssize_t length = ::readlink(kSelf, buffer, size);
  return length > 0 ? std::string_view(buffer, static_cast<std::size_t>(length)) : "?";
}

}  // namespace weft::rt
