// See debug/dwarf_line.h.
#include "debug/dwarf_line.h"

namespace weft::rt {

namespace {

constexpr std::uint64_t kPath = 1;
constexpr std::uint64_t kDirectoryIndex = 2;
constexpr int kFormats = 8;

struct entry_formats {
  std::uint64_t content[kFormats];
  std::uint64_t form[kFormats];
  int count = 0;
};

bool read_formats(dwarf_cursor& in, entry_formats& out) {
  out.count = in.fixed<std::uint8_t>();
  if (out.count > kFormats) return false;
  for (int i = 0; i < out.count; ++i) {
    out.content[i] = in.uleb();
    out.form[i] = in.uleb();
  }
  return in.ok();
}

}  // namespace

line_table::line_table(const dwarf_unit& unit) noexcept : unit_(unit), forms_(unit) {
  dwarf_cursor in(unit.sections->line, unit.line_program);
  valid_ = unit.has_lines && in.more() && read_header(in);
}

bool line_table::read_header(dwarf_cursor& in) {
  const std::uint64_t length = in.unit_length(&forms_.is_64);
  if (length > in.left()) return false;
  end_ = in.position() + length;
  version_ = in.fixed<std::uint16_t>();
  if (version_ < 2 || version_ > 5) return false;
  if (version_ == 5) {
    forms_.address_size = in.fixed<std::uint8_t>();
    in.skip(1);  // segments
    if (forms_.address_size != 4 && forms_.address_size != 8) return false;
  }
  const std::uint64_t header = in.offset(forms_.is_64);
  program_ = in.position() + header;
  step_ = in.fixed<std::uint8_t>();
  if (version_ >= 4) in.skip(1);  // operations per instruction
  in.skip(1);                     // where statements begin does not matter
  line_base_ = in.fixed<std::int8_t>();
  line_range_ = in.fixed<std::uint8_t>();
  opcode_base_ = in.fixed<std::uint8_t>();
  if (line_range_ == 0 || opcode_base_ == 0) return false;
  lengths_ = in.position();
  in.skip(opcode_base_ - 1u);
  directories_ = in.position();
  const bool tables = version_ == 5 ? skip_table(in) : skip_old_tables(in);
  return tables && program_ <= end_;
}

bool line_table::skip_old_tables(dwarf_cursor& in) {
  while (in.more() && *in.text() != '\0') {
  }
  files_ = in.position();
  return in.ok();
}

bool line_table::skip_table(dwarf_cursor& in) {
  entry_formats formats;
  if (!read_formats(in, formats)) return false;
  const std::uint64_t count = in.uleb();
  for (std::uint64_t i = 0; i < count && in.ok(); ++i) {
    const std::uint64_t before = in.position();
    for (int f = 0; f < formats.count; ++f) {
      if (forms_.read(in, formats.form[f], 0).what == dwarf_value::kind::failed) return false;
    }
    if (in.position() == before) break;  // entries without contents: there may be 2^64 of them
  }
  files_ = in.position();
  return in.ok();
}

line_table::entry line_table::entry_of(std::uint64_t table, std::uint64_t number) const {
  entry found;
  dwarf_cursor in(unit_.sections->line, table);
  entry_formats formats;
  if (!read_formats(in, formats) || formats.count == 0) return found;
  const std::uint64_t count = in.uleb();
  if (number >= count) return found;
  for (std::uint64_t i = 0; i <= number && in.ok(); ++i) {
    found = entry{};
    const std::uint64_t before = in.position();
    for (int f = 0; f < formats.count; ++f) {
      const dwarf_value v = forms_.read(in, formats.form[f], 0);
      if (v.what == dwarf_value::kind::failed) return entry{};
      if (formats.content[f] == kPath) found.path = v.text;
      if (formats.content[f] == kDirectoryIndex) found.directory = v.number;
    }
    if (in.position() == before) break;
  }
  return in.ok() ? found : entry{};
}

const char* line_table::old_directory(std::uint64_t number) const {
  dwarf_cursor in(unit_.sections->line, directories_);
  for (std::uint64_t i = 1; in.more(); ++i) {
    const char* here = in.text();
    if (*here == '\0') break;
    if (i == number) return here;
  }
  return "";
}

const char* line_table::directory(std::uint64_t number) const {
  if (version_ < 5) return number == 0 ? "" : old_directory(number);
  const char* path = entry_of(directories_, number).path;
  return path == nullptr ? "" : path;
}

source_place line_table::file(std::uint64_t number) const noexcept {
  source_place place;
  if (!valid_) return place;
  entry e;
  if (version_ == 5) {
    e = entry_of(files_, number);
  } else {
    dwarf_cursor in(unit_.sections->line, files_);
    for (std::uint64_t i = 1; in.more() && i <= number; ++i) {
      e.path = in.text();
      if (*e.path == '\0') return place;
      e.directory = in.uleb();
      in.uleb();
      in.uleb();
    }
    if (!in.ok()) return place;
  }
  if (e.path == nullptr) return place;
  place.file = e.path;
  place.directory = directory(e.directory);
  place.root = unit_.directory;
  return place;
}

// A row covers what lies between its address and the next row's.
struct line_table::search {
  std::uint64_t address = 0;
  row before;
  bool have_before = false;
  bool found = false;

  void add(const row& now, bool last) {
    found = have_before && address >= before.address && address < now.address;
    if (found) return;
    before = now;
    have_before = !last;
  }
};

void line_table::extended(dwarf_cursor& in, row& now, search& s) const {
  const std::uint64_t length = in.uleb();
  if (length == 0) return;
  if (length > in.left()) {
    in.skip(length);  // fails: such a length might lead back, for ever
    return;
  }
  const std::uint64_t after = in.position() + length;
  switch (in.fixed<std::uint8_t>()) {
    case 1:  // end of a sequence
      s.add(now, true);
      now = row{};
      break;
    case 2: now.address = in.word(length - 1 == 4 ? 4 : 8); break;
    default: break;
  }
  in.move_to(after);
}

bool line_table::find(std::uint64_t address, source_place& found) const noexcept {
  if (!valid_) return false;
  dwarf_cursor in(unit_.sections->line, program_);
  in.limit(end_ - program_);
  row now;
  search s;
  s.address = address;
  const auto advance = [&](std::uint64_t operations) { now.address += operations * step_; };
  while (in.more() && !s.found) {
    const auto opcode = in.fixed<std::uint8_t>();
    if (opcode >= opcode_base_) {
      const unsigned special = opcode - opcode_base_;
      advance(special / line_range_);
      now.line += static_cast<std::uint64_t>(
          static_cast<std::int64_t>(line_base_ + static_cast<int>(special % line_range_)));
      s.add(now, false);
      continue;
    }
    switch (opcode) {
      case 0: extended(in, now, s); break;
      case 1: s.add(now, false); break;
      case 2: advance(in.uleb()); break;
      case 3: now.line += static_cast<std::uint64_t>(in.sleb()); break;
      case 4: now.file = in.uleb(); break;
      case 8: advance((255u - opcode_base_) / line_range_); break;
      case 9: now.address += in.fixed<std::uint16_t>(); break;
      default: {  // operands without a meaning to us
        dwarf_cursor lengths(unit_.sections->line, lengths_ + opcode - 1);
        for (unsigned n = lengths.fixed<std::uint8_t>(); n > 0; --n) in.uleb();
      }
    }
  }
  if (!s.found) return false;
  found = file(s.before.file);
  found.line = s.before.line;
  return found.file != nullptr;
}

}  // namespace weft::rt
