// From addresses to source lines: known places of this file, everything that addr2line knows of this
// program, and files that have been damaged.
#include "debug/source.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <initializer_list>
#include <iterator>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

#include "debug/demangle.h"
#include "debug/loaded_file.h"
#include "support/patience.h"

namespace weft::rt {
namespace {

volatile int sink;
std::uintptr_t address_inside = 0;

[[gnu::noinline]] std::uintptr_t caller() {
  asm volatile("");
  return reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
}
// clang-format off: each statement is on the line that the constant below it names
[[gnu::always_inline]] inline void innermost() {
  address_inside = caller();
  constexpr int kLine = __LINE__ - 1;
  sink = kLine;
}
[[gnu::always_inline]] inline void between() {
  innermost();
  constexpr int kLine = __LINE__ - 1;
  sink = kLine;
}
[[gnu::noinline]] int outermost() {
  between();
  constexpr int kLine = __LINE__ - 1;
  sink = kLine;
  return kLine;
}
// clang-format on

std::string base_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

TEST(Source, InlinedFunctionsAndTheirLines) {
  const auto line = static_cast<std::uint64_t>(outermost());
  source_frames found;
  ASSERT_TRUE(find_source(address_inside - 1, found));
  ASSERT_EQ(found.count, 3);
  const char* const names[] = {"innermost", "between", "outermost"};
  for (int i = 0; i < 3; ++i) {
    ASSERT_NE(found.functions[i].name, nullptr) << i;
    EXPECT_NE(std::string(found.functions[i].name).find(names[i]), std::string::npos) << i;
    EXPECT_EQ(base_name(found.functions[i].place.file), "source_test.cc");
  }
  EXPECT_EQ(found.functions[2].place.line, line);
  EXPECT_EQ(found.functions[1].place.line, line - 5);
  EXPECT_EQ(found.functions[0].place.line, line - 10);
}

TEST(Source, NothingIsKnownOfNoCode) {
  source_frames found;
  EXPECT_FALSE(find_source(0, found));
  EXPECT_FALSE(find_source(reinterpret_cast<std::uintptr_t>(&found), found));
}

// What addr2line says of an address: "file:line" of each inlined function, innermost first.
std::vector<std::string> lines_by_addr2line(FILE* out) {
  std::vector<std::string> places;
  char line[4096];
  while (std::fgets(line, sizeof line, out) != nullptr) {
    std::string text(line);
    text.erase(text.find_last_not_of('\n') + 1);
    if (text == "0x0000000000000000") break;
    if (text.find(':') == std::string::npos) continue;  // a function
    text.erase(std::min(text.find(" (disc"), text.size()));
    places.push_back(base_name(text.c_str()));
  }
  return places;
}

// clang++ writes the ranges of inlined functions as numbers in a table (DWARF 5, DW_FORM_rnglistx), which the addr2line of
// binutils 2.40 does not follow: it knows the innermost line only. That of LLVM does.
#if defined(__clang__)
constexpr const char* kAddr2line = "llvm-addr2line";
#else
constexpr const char* kAddr2line = "addr2line";
#endif

// Every few bytes of the library's own code in this program.
TEST(Source, AgreesWithAddr2line) {
  char look[64];
  std::snprintf(look, sizeof look, "command -v %s >/dev/null 2>&1", kAddr2line);
  if (std::system(look) != 0) {
    GTEST_SKIP() << kAddr2line << " (Debian: binutils, llvm) is not there";
  }
  if (weft::test::emulated())
    GTEST_SKIP() << "this machine's addr2line does not know the other one's files";
  loaded_file file;
  const auto start = reinterpret_cast<std::uintptr_t>(&find_source);
  ASSERT_TRUE(find_loaded_file(start, file));
  const known_image* image = image_of(file);
  ASSERT_NE(image, nullptr);
  int compared = 0;
  int differ = 0;
  std::string first;
  for (int i = 0; i < 60; ++i) {
    const std::uint64_t address = start - file.load_bias + static_cast<std::uint64_t>(i) * 37;
    source_frames found;
    if (!look_up_source(image->with_debug(), address, found)) continue;
    char command[512];
    std::snprintf(command, sizeof command, "%s -ife /proc/%d/exe 0x%lx", kAddr2line, getpid(),
                  static_cast<unsigned long>(address));
    FILE* out = popen(command, "r");
    ASSERT_NE(out, nullptr);
    const std::vector<std::string> theirs = lines_by_addr2line(out);
    pclose(out);
    std::vector<std::string> ours;
    for (int f = 0; f < found.count; ++f) {
      const source_place& p = found.functions[f].place;
      ours.push_back(base_name(p.file == nullptr ? "?" : p.file) + ":" + std::to_string(p.line));
    }
    ++compared;
    if (ours != theirs) {
      ++differ;
      first += testing::PrintToString(ours) + " is not " + testing::PrintToString(theirs) + "\n";
    }
  }
  EXPECT_GT(compared, 30);
  EXPECT_EQ(differ, 0) << first;
}

// A copy of this program in which bytes of its debug information have been changed.
class damaged_copy {
 public:
  damaged_copy() {
    std::ifstream in("/proc/self/exe", std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    std::snprintf(path_, sizeof path_, "%s/weft_source_test_%d", testing::TempDir().c_str(),
                  getpid());
  }
  ~damaged_copy() { unlink(path_); }

  std::size_t size() const { return bytes_.size(); }
  const char* write(std::size_t begin, std::size_t end, std::mt19937& random, int changes) {
    std::vector<char> damaged = bytes_;
    for (int i = 0; i < changes; ++i) {
      damaged[begin + random() % (end - begin)] = static_cast<char>(random());
    }
    unlink(path_);  // earlier ones are still mapped
    std::ofstream(path_, std::ios::binary).write(damaged.data(), std::ssize(damaged));
    return path_;
  }
  const std::vector<char>& bytes() const { return bytes_; }

 private:
  std::vector<char> bytes_;
  char path_[256];
};

TEST(Source, DamagedFilesAreSurvived) {
  loaded_file file;
  const auto start = reinterpret_cast<std::uintptr_t>(&find_source);
  ASSERT_TRUE(find_loaded_file(start, file));
  damaged_copy copy;
  const elf_image whole("/proc/self/exe");
  std::mt19937 random(12);
  for (const char* section : {".debug_info", ".debug_abbrev", ".debug_line", ".debug_rnglists",
                              ".debug_aranges", ".debug_str"}) {
    const byte_range r = whole.section(section);
    if (!r) continue;
    // Where it is in the file: by its contents.
    const void* at = memmem(copy.bytes().data(), copy.size(), r.data, r.size);
    ASSERT_NE(at, nullptr);
    const auto begin = static_cast<std::size_t>(static_cast<const char*>(at) - copy.bytes().data());
    for (int round = 0; round < 6; ++round) {
      const elf_image damaged(copy.write(begin, begin + r.size, random, 1 << (3 * round)));
      source_frames found;
      for (std::uint64_t i = 0; i < 8; ++i) {
        static_cast<void>(
            look_up_source(damaged, start - file.load_bias + i * 16, found));  // comes back
      }
    }
  }
  // … and the tables of sections themselves.
  for (int round = 0; round < 20; ++round) {
    const elf_image damaged(copy.write(0, 64, random, 4));
    source_frames found;
    static_cast<void>(look_up_source(damaged, start - file.load_bias, found));
    const elf_image cut(copy.write(copy.size() - 4096, copy.size(), random, 400));
    static_cast<void>(look_up_source(cut, start - file.load_bias, found));
    static_cast<void>(cut.symbols());
    static_cast<void>(cut.build_id());
  }
}

// A line program of version 5 as a compiler would never write it.
class line_program {
 public:
  line_program& byte(unsigned b) { return add({static_cast<std::uint8_t>(b)}); }
  line_program& add(std::initializer_list<std::uint8_t> more) {
    bytes_.insert(bytes_.end(), more);
    return *this;
  }
  // uleb128 of 2^64 - n, n <= 128
  line_program& huge(unsigned n) {
    byte(0x80u | ((128 - n) & 0x7f));
    for (int i = 0; i < 8; ++i) byte(0xff);
    return byte(0x01);
  }
  // The header up to the tables, whose lengths are corrected by look().
  line_program& header() { return add({0, 0, 0, 0, 5, 0, 8, 0, 0, 0, 0, 0, 1, 1, 1, 0xfb, 14, 1}); }
  line_program& here_the_code_begins() {
    const auto header = static_cast<std::uint32_t>(bytes_.size() - 12);
    std::memcpy(&bytes_[8], &header, sizeof header);
    return *this;
  }
  bool look() {
    const auto length = static_cast<std::uint32_t>(bytes_.size() - 4);
    std::memcpy(bytes_.data(), &length, sizeof length);
    dwarf_sections sections{elf_image()};
    sections.line = {bytes_.data(), bytes_.size()};
    dwarf_unit unit;
    unit.sections = &sections;
    unit.version = 5;
    unit.has_lines = true;
    source_place found;
    return line_table(unit).find(1, found);
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

TEST(Source, TablesOfNothingEnd) {
  line_program p;
  p.header().byte(1).byte(1).byte(0x19);  // directories: a path in the form flag_present, no bytes
  p.huge(1);
  p.byte(1).byte(1).byte(0x19).huge(1);  // files likewise
  p.here_the_code_begins().byte(1);
  EXPECT_FALSE(p.look());
}

TEST(Source, OperationsThatLeadBackEnd) {
  line_program p;
  p.header().byte(0).byte(0).byte(0).byte(0);         // no directories, no files
  p.here_the_code_begins().byte(0).huge(11).byte(9);  // back to its own beginning
  EXPECT_FALSE(p.look());
}

TEST(Source, FoldersHoweverThePathIsCut) {
  const auto lies = [](const char* directory, const char* file) {
    source_place p;
    p.directory = directory;
    p.file = file;
    return lies_in(p, "weft/detail");
  };
  EXPECT_TRUE(lies("/usr/include/weft/detail", "spawn.h"));
  EXPECT_TRUE(lies("/usr/include/weft", "detail/spawn.h"));
  EXPECT_TRUE(lies("/usr/include", "weft/detail/spawn.h"));
  EXPECT_TRUE(lies("/usr", "include/weft/detail/spawn.h"));
  EXPECT_TRUE(lies("", "/usr/include/weft/detail/spawn.h"));
  EXPECT_TRUE(lies("weft/detail", "spawn.h"));
  EXPECT_FALSE(lies("/usr/include/weft", "spawn.h"));
  EXPECT_FALSE(lies("/usr/include/weft/detail", "more/spawn.h"));
  EXPECT_FALSE(lies("/usr/include/driftweft/detail", "spawn.h"));
  EXPECT_FALSE(lies("/usr/include/driftweft", "detail/spawn.h"));
  EXPECT_FALSE(lies("/usr", "driftweft/detail/spawn.h"));
  EXPECT_FALSE(lies("/usr/include/weft/de", "tail/spawn.h"));
  EXPECT_FALSE(lies("", "spawn.h"));
}

TEST(Source, FilesThatAreNone) {
  EXPECT_FALSE(elf_image("/nonexistent"));
  EXPECT_FALSE(elf_image("/dev/null"));
  EXPECT_FALSE(elf_image("/proc/self/cmdline"));
  EXPECT_FALSE(elf_image("/usr"));
}

}  // namespace
}  // namespace weft::rt
