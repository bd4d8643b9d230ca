// See debug/loaded_file.h.
#include "debug/loaded_file.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <unistd.h>

#include "debug/elf_image.h"

namespace weft::rt {

namespace {

constexpr const char* kSelf = "/proc/self/exe";

bool is_function(const ElfW(Sym) & s) {
  const int type = ELF64_ST_TYPE(s.st_info);
  return (type == STT_FUNC || type == STT_GNU_IFUNC) && s.st_shndx != SHN_UNDEF;
}

bool is_variable(const ElfW(Sym) & s) {
  return ELF64_ST_TYPE(s.st_info) == STT_OBJECT && s.st_shndx != SHN_UNDEF && s.st_size != 0;
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

namespace {

template <class Wanted>
symbol find_any(const loaded_file& where, std::uintptr_t pc, Wanted wanted) noexcept {
  symbol best{nullptr, pc};
  const known_image* image = image_of(where);
  if (image == nullptr) return best;
  const elf_image::symbol_table* file = &image->symbols;
  const std::uintptr_t in_file = pc - where.load_bias;
  for (std::size_t i = 0; i < file->count; ++i) {
    const ElfW(Sym)& s = file->symbols[i];
    if (!wanted(s) || s.st_value > in_file || s.st_name >= file->strings_size) continue;
    // Assembly may leave the size out; such a symbol covers what follows, unless another does.
    const bool covers = s.st_size == 0 || in_file < s.st_value + s.st_size;
    const std::uintptr_t start = s.st_value + where.load_bias;
    if (!covers || (best.name != nullptr && start < best.start)) continue;
    best = {file->strings + s.st_name, start};
  }
  return best;
}

}  // namespace

symbol find_symbol(const loaded_file& where, std::uintptr_t pc) noexcept {
  return find_any(where, pc, is_function);
}

symbol find_data_symbol(const loaded_file& where, std::uintptr_t address) noexcept {
  return find_any(where, address, is_variable);
}

std::string_view display_path(const loaded_file& where, char* buffer, std::size_t size) noexcept {
  if (*where.path != '\0') return where.path;
  const ssize_t length = ::readlink(kSelf, buffer, size);
  return length > 0 ? std::string_view(buffer, static_cast<std::size_t>(length)) : "?";
}

}  // namespace weft::rt
