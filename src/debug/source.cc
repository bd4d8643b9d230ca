// See debug/source.h.
#include "debug/source.h"

#include <memory>
#include <sys/mman.h>

#include "base/atomic.h"

namespace weft::rt {

namespace {

constexpr int kDeepestOrigin = 8;  // specification of an abstract origin of …

// Memory for one look-up, from the kernel; none if it refuses.
class scratch {
 public:
  explicit scratch(std::size_t bytes) : bytes_(bytes) {
    memory_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  ~scratch() {
    if (memory_ != MAP_FAILED) ::munmap(memory_, bytes_);
  }
  template <class T>
  T* as() const {
    return memory_ == MAP_FAILED ? nullptr : static_cast<T*>(memory_);
  }

 private:
  void* memory_;
  std::size_t bytes_;
};

constexpr std::uint32_t kIndexed = 1 << 14;  // abbreviation codes that are found at once

void index_abbreviations(dwarf_unit& unit, std::uint32_t* memory) {
  if (memory == nullptr) return;
  dwarf_cursor in(unit.sections->abbrev, unit.abbrev);
  while (in.more()) {
    const std::uint64_t code = in.uleb();
    if (code == 0) break;
    if (code < kIndexed && in.position() <= UINT32_MAX) {
      memory[code] = static_cast<std::uint32_t>(in.position());
    }
    in.uleb();
    in.fixed<std::uint8_t>();
    for (std::uint64_t name = 1, form = 1; in.ok() && (name != 0 || form != 0);) {
      name = in.uleb();
      form = in.uleb();
      if (form == 0x21) in.sleb();
    }
  }
  unit.abbrev_index = memory;
  unit.abbrev_index_size = kIndexed;
}

// .debug_aranges: the unit that has code at an address. False: it does not say.
bool unit_by_ranges(const dwarf_sections& sections, std::uint64_t address, std::uint64_t* unit) {
  dwarf_cursor in(sections.aranges);
  while (in.more()) {
    bool is_64 = false;
    const std::uint64_t length = in.unit_length(&is_64);
    const std::uint64_t end = in.position() + length;
    if (length > in.left()) return false;
    in.skip(2);
    const std::uint64_t info = in.offset(is_64);
    const unsigned size = in.fixed<std::uint8_t>();
    in.skip(1);
    if (size != 4 && size != 8) return false;
    const std::uint64_t header = is_64 ? 24 : 12;
    in.skip((2 * size - header % (2 * size)) % (2 * size));
    while (in.ok() && in.position() + 2 * size <= end) {
      const std::uint64_t begin = in.word(size);
      const std::uint64_t bytes = in.word(size);
      if (begin == 0 && bytes == 0) break;
      if (address >= begin && address - begin < bytes) {
        *unit = info;
        return true;
      }
    }
    in.move_to(end);
  }
  return false;
}

bool find_unit(const dwarf_sections& sections, std::uint64_t address, dwarf_unit& unit) {
  dwarf_entry first;
  std::uint64_t next = 0;
  std::uint64_t offset = 0;
  if (unit_by_ranges(sections, address, &offset)) {
    return read_unit(sections, offset, unit, first, &next);
  }
  for (offset = 0; offset < sections.info.size; offset = next) {
    const bool understood = read_unit(sections, offset, unit, first, &next);
    if (understood && covers(unit, first, address)) return true;
    if (next <= offset) return false;
  }
  return false;
}

// The unit that an entry belongs to, if it is not the one at hand.
bool unit_of(const dwarf_sections& sections, std::uint64_t entry, dwarf_unit& unit) {
  dwarf_entry first;
  std::uint64_t next = 0;
  for (std::uint64_t offset = 0; offset < sections.info.size; offset = next) {
    const bool understood = read_unit(sections, offset, unit, first, &next);
    if (next <= offset) return false;
    if (entry < next) return understood && entry >= unit.entries;
  }
  return false;
}

// The name of a function, perhaps said by what it is an instance of.
const char* name_of(const dwarf_unit& unit, dwarf_entry entry) {
  const char* plain = entry.name;
  dwarf_unit other;
  for (int depth = 0; depth < kDeepestOrigin; ++depth) {
    if (entry.linkage_name != nullptr) return entry.linkage_name;
    if (plain == nullptr) plain = entry.name;
    if (entry.origin == 0) break;
    const std::uint64_t origin = entry.origin;
    const dwarf_unit* home = &unit;
    if (origin < unit.entries || origin >= unit.end) {
      if (!unit_of(*unit.sections, origin, other)) break;
      home = &other;
    }
    dwarf_cursor in(unit.sections->info, origin);
    if (!read_entry(*home, in, entry)) break;
  }
  return plain;
}

// The functions at an address of a unit, outermost first.
class inline_chain {
 public:
  inline_chain(const dwarf_unit& unit, std::uint64_t address) : unit_(unit), address_(address) {}

  void find() {
    dwarf_cursor in(unit_.sections->info, unit_.entries);
    int depth = 0;     // of the entry at the cursor
    int function = 0;  // depth of the one that was found, 0: none yet
    while (in.more() && in.position() < unit_.end) {
      dwarf_entry e;
      if (!read_entry(unit_, in, e)) return;
      if (e.tag == 0) {
        if (--depth <= function) return;  // the end of the unit, or of the function
        continue;
      }
      const bool enter = look_at(e, depth, function);
      if (!e.children) continue;
      if (!enter && e.sibling > in.position() && e.sibling <= unit_.end) {
        in.move_to(e.sibling);
      } else {
        ++depth;
      }
    }
  }

  int count() const { return count_; }
  const dwarf_entry& at(int i) const { return entries_[i]; }

 private:
  // Whether its children may matter.
  bool look_at(const dwarf_entry& e, int depth, int& function) {
    if (function == 0 && e.tag == kTagSubprogram) {
      if (!covers(unit_, e, address_)) return false;
      function = depth;
      entries_[count_++] = e;
      return true;
    }
    if (function == 0) {
      return e.tag == kTagNamespace || e.tag == kTagCompileUnit || e.tag == kTagPartialUnit;
    }
    if (e.tag == kTagInlined && covers(unit_, e, address_)) {
      if (count_ < source_frames::kMost) entries_[count_++] = e;
      return true;
    }
    return e.tag == kTagLexicalBlock;
  }

  const dwarf_unit& unit_;
  std::uint64_t address_;
  dwarf_entry entries_[source_frames::kMost];
  int count_ = 0;
};

// Answers, found by address. An entry is claimed, filled in and never changed again.
struct remembered {
  // All zeros at first, so that the table costs nothing before it is used: its pointers would be relocated, page by page, in
  // every program that starts.
  constexpr remembered() : none('\0') {}
  // atomic: the address; 0 free, 1 being filled in.
  atomic<std::uintptr_t> key{0};
  bool found = false;
  const known_image* image = nullptr;  // of which it is true
  symbol function;
  union {
    char none;
    source_frames frames;
  };
};
constexpr std::size_t kRemembered = 512;
constexpr std::size_t kProbes = 16;
constinit remembered memory[kRemembered];

remembered& entry_for(std::uintptr_t pc, std::size_t probe) {
  return memory[(((pc * 0x9e3779b97f4a7c15) >> 55) + probe) % kRemembered];
}

void remember(std::uintptr_t pc, const known_image* image, bool found, const source_frames& frames,
              const symbol& function) {
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    remembered& e = entry_for(pc, probe);
    std::uintptr_t none = 0;
    // order: SC1 relaxed, only decides who fills it in
    if (!e.key.compare_exchange_strong(none, 1, WEFT_ORDER(SC1, relaxed),
                                       WEFT_ORDER(SC1, relaxed))) {
      continue;
    }
    e.found = found;
    e.image = image;
    std::construct_at(&e.frames, frames);
    e.function = function;
    e.key.store(pc, WEFT_ORDER(SC2, release));  // order: SC2 pairs with the acquire in recall()
    return;
  }
}

// By a file that is loaded there; or, if none is any more, by whichever was.
const remembered* recall(std::uintptr_t pc, const known_image* image) {
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    const remembered& e = entry_for(pc, probe);
    // order: SC2 acquire; pairs with the release that published the answer
    if (e.key.load(WEFT_ORDER(SC2, acquire)) != pc) continue;
    if (e.image == image || (image == nullptr && is_intact(*e.image))) return &e;
  }
  return nullptr;
}

}  // namespace

bool look_up_source(const elf_image& file, std::uint64_t address, source_frames& found) noexcept {
  found.count = 0;
  const dwarf_sections sections(file);
  if (!sections.info || !sections.abbrev || !sections.line) return false;
  dwarf_unit unit;
  if (!find_unit(sections, address, unit)) return false;
  const scratch pages(kIndexed * sizeof(std::uint32_t));
  index_abbreviations(unit, pages.as<std::uint32_t>());
  const line_table lines(unit);
  source_place here;
  if (!lines.find(address, here)) return false;
  inline_chain chain(unit, address);
  chain.find();
  for (int i = chain.count(); i-- > 0;) {
    source_function& f = found.functions[found.count++];
    f.name = name_of(unit, chain.at(i));
    f.place = here;
    here = lines.file(chain.at(i).call_file);
    here.line = chain.at(i).call_line;
  }
  if (found.count == 0) {
    found.functions[found.count++] = {nullptr, here};
  }
  return true;
}

bool find_source(std::uintptr_t pc, source_frames& found, symbol* function) noexcept {
  symbol ignored;
  symbol& named = function != nullptr ? *function : ignored;
  found.count = 0;
  named = {nullptr, pc};
  loaded_file file;
  const bool loaded = find_loaded_file(pc, file);
  const known_image* image = loaded ? image_of(file) : nullptr;
  if (loaded && image == nullptr) return false;
  if (const remembered* e = recall(pc, image)) {
    found = e->frames;
    named = e->function;
    return e->found;
  }
  if (!loaded) return false;
  named = find_symbol(file, pc);
  const bool known = look_up_source(image->with_debug(), pc - file.load_bias, found);
  remember(pc, image, known, found, named);
  return known;
}

void print_path(printer& out, const source_place& place) noexcept {
  if (*place.file != '/') {
    if (*place.directory != '/' && *place.root != '\0') out.str(place.root).chr('/');
    if (*place.directory != '\0') out.str(place.directory).chr('/');
  }
  out.str(place.file);
}

bool lies_in(const source_place& place, std::string_view folder) noexcept {
  constexpr auto ends = [](std::string_view path, std::string_view with) {
    return path.ends_with(with) &&
           (path.size() == with.size() || path[path.size() - with.size() - 1] == '/');
  };
  std::string_view inner(place.file);
  inner = inner.substr(0, inner.find_last_of('/') == inner.npos ? 0 : inner.find_last_of('/'));
  if (inner.empty()) return ends(place.directory, folder);
  if (inner.size() >= folder.size()) return ends(inner, folder);
  return ends(folder, inner) &&
         ends(place.directory, folder.substr(0, folder.size() - inner.size() - 1));
}

}  // namespace weft::rt
