// os/cgroup_text.h: what the kernel writes about cgroups, and what it might.
#include "os/cgroup_text.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

namespace weft::rt::cgroup {
namespace {

// A file of text that gives `chunk` bytes at a time, and may fail at its end.
struct text_file {
  std::string text;
  std::size_t chunk = 7;
  bool fails = false;
  std::size_t at = 0;

  static std::ptrdiff_t read(void* from, char* buffer, std::size_t size) {
    auto* self = static_cast<text_file*>(from);
    const std::size_t n = std::min({size, self->chunk, self->text.size() - self->at});
    if (n == 0 && self->fails) return -1;
    std::memcpy(buffer, self->text.data() + self->at, n);
    self->at += n;
    return static_cast<std::ptrdiff_t>(n);
  }
};

using result = line_reader::result;

// All lines, cut ones with "…" behind them; ends with what ended it.
std::vector<std::string> lines_of(text_file file, std::size_t buffer_size) {
  std::vector<char> buffer(buffer_size);
  line_reader lines(text_file::read, &file, buffer.data(), buffer.size());
  std::vector<std::string> out;
  for (;;) {
    switch (lines.next()) {
      case result::line: out.emplace_back(lines.line()); break;
      case result::cut: out.push_back(std::string(lines.line()) + "…"); break;
      case result::end: out.emplace_back("end"); return out;
      case result::failed: out.emplace_back("failed"); return out;
    }
  }
}

// Go: cgroup.TestLineReader
TEST(CgroupLines, AllBuffersAndChunks) {
  using lines = std::vector<std::string>;
  for (std::size_t chunk : {1u, 2u, 3u, 5u, 64u}) {
    EXPECT_EQ(lines_of({"", chunk}, 8), (lines{"end"}));
    EXPECT_EQ(lines_of({"\n", chunk}, 8), (lines{"", "end"}));
    EXPECT_EQ(lines_of({"abc", chunk}, 8), (lines{"abc", "end"}));
    EXPECT_EQ(lines_of({"abc\n", chunk}, 8), (lines{"abc", "end"}));
    EXPECT_EQ(lines_of({"abc\n\nde\n", chunk}, 8), (lines{"abc", "", "de", "end"}));
    EXPECT_EQ(lines_of({"abc\ndefghij\nk\n", chunk}, 8), (lines{"abc", "defghij", "k", "end"}));
    EXPECT_EQ(lines_of({"abc\ndefghijk\nl\n", chunk}, 8), (lines{"abc", "defghijk…", "l", "end"}));
    EXPECT_EQ(lines_of({"0123456789abcdefghij\nk\n0123456789", chunk}, 8),
              (lines{"01234567…", "k", "01234567…", "end"}));
    EXPECT_EQ(lines_of({"abc\ndef", chunk, /*fails=*/true}, 8), (lines{"abc", "failed"}));
    EXPECT_EQ(lines_of({"0123456789", chunk, /*fails=*/true}, 8), (lines{"01234567…", "failed"}));
  }
}

// --- which group --------------------------------------------------------------------------------

std::string group_of(const std::string& text, std::size_t buffer_size = 256) {
  text_file file{text};
  std::vector<char> buffer(buffer_size);
  line_reader lines(text_file::read, &file, buffer.data(), buffer.size());
  path_text group;
  switch (find_group(lines, group)) {
    case version::none: return "none";
    case version::v1: return "v1 " + std::string(group.view());
    case version::v2: return "v2 " + std::string(group.view());
  }
  return "?";
}

// Go: cgroup.TestContainsCPU
TEST(CgroupMembership, NamesCpu) {
  for (const char* list : {"cpu", "cpu,cpuacct", "cpuacct,cpu", "a,cpu,b"}) {
    EXPECT_TRUE(names_cpu(list)) << list;
  }
  for (const char* list :
       {"", "cpuacct", "cpuset,cpuacct", "name=cpu", "CPU", "cpu ", ",", "xcpu"}) {
    EXPECT_FALSE(names_cpu(list)) << list;
  }
}

// Go: cgroup.TestParseCPUCgroup. [CG-3]
TEST(CgroupMembership, FindsTheGroup) {
  EXPECT_EQ(group_of("0::/\n"), "v2 /");
  EXPECT_EQ(group_of("0::/a/b.slice/c:d e.scope\n"), "v2 /a/b.slice/c:d e.scope");
  EXPECT_EQ(group_of("0::/../../x\n"), "v2 /../../x");
  EXPECT_EQ(group_of("0::/no/newline"), "v2 /no/newline");
  // v1 wins, before and after the line of v2, and the first one that has it.
  EXPECT_EQ(group_of("12:memory:/m\n3:cpu,cpuacct:/old\n2:cpuset:/s\n0::/new\n"), "v1 /old");
  EXPECT_EQ(group_of("0::/new\n3:cpuacct,cpu:/old\n"), "v1 /old");
  EXPECT_EQ(group_of("4:cpu:/one\n3:cpu:/two\n"), "v1 /one");
  // Hybrid: v1 for other things only.
  EXPECT_EQ(group_of("2:cpuacct:/a\n1:name=systemd:/s\n0::/new\n"), "v2 /new");
  // Nothing after the v1 line is looked at.
  EXPECT_EQ(group_of("3:cpu:/old\ngarbage\n"), "v1 /old");
}

TEST(CgroupMembership, Nowhere) {
  EXPECT_EQ(group_of(""), "none");
  EXPECT_EQ(group_of("2:cpuacct:/a\n1:name=systemd:/s\n"), "none");
}

// Go: cgroup.TestParseCPUCgroupMalformed
TEST(CgroupMembership, Malformed) {
  for (const char* text :
       {"\n", "0\n", "0:\n", "0:cpu\n", "0::\n", "0::relative\n", "garbage\n0::/a\n", "0::/a\n\n",
        "0::/a\n1:cpu\n", "1:cpu:relative\n", ":cpu:\n"}) {
    EXPECT_EQ(group_of(text), "none") << text;
  }
  EXPECT_EQ(group_of("0::/0123456789\n", 8), "none");  // longer than the buffer
  EXPECT_EQ(group_of("0::/" + std::string(4095, 'a') + "\n", 8192), "none");  // than any path
  EXPECT_EQ(group_of("0::/" + std::string(4094, 'a') + "\n", 8192),
            "v2 /" + std::string(4094, 'a'));
}

// --- where it is mounted ------------------------------------------------------------------------

std::string directory_of(version which, const std::string& group, const std::string& text,
                         std::size_t buffer_size = 512) {
  text_file file{text};
  std::vector<char> buffer(buffer_size);
  line_reader lines(text_file::read, &file, buffer.data(), buffer.size());
  path_text directory;
  path_text root;
  int levels = 0;
  if (!find_directory(lines, which, group, directory, levels, root)) return "none";
  return std::string(directory.view()) + " " + std::to_string(levels);
}

// Of a machine with systemd and both versions.
const std::string kHybrid =
    "22 28 0:21 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"
    "28 0 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw,discard\n"
    "31 22 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
    "32 31 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    "35 31 0:29 / /sys/fs/cgroup/cpuset rw shared:9 master:2 - cgroup cgroup rw,cpuset\n"
    "36 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct\n";

// Go: cgroup.TestParseCPUMount. [CG-4]
TEST(CgroupMount, FindsTheDirectory) {
  EXPECT_EQ(directory_of(version::v1, "/", kHybrid), "/sys/fs/cgroup/cpu,cpuacct 1");
  EXPECT_EQ(directory_of(version::v1, "/a/b", kHybrid), "/sys/fs/cgroup/cpu,cpuacct/a/b 3");
  EXPECT_EQ(directory_of(version::v2, "/a/b", kHybrid), "/sys/fs/cgroup/unified/a/b 3");
  EXPECT_EQ(directory_of(version::v2, "/..odd/...", kHybrid), "/sys/fs/cgroup/unified/..odd/... 3");
}

TEST(CgroupMount, OnlyTheRightKind) {
  EXPECT_EQ(directory_of(version::v2, "/a", "1 2 0:3 / /m rw - cgroup cgroup rw,cpu\n"), "none");
  EXPECT_EQ(directory_of(version::v1, "/a", "1 2 0:3 / /m rw - cgroup2 cgroup2 rw\n"), "none");
  EXPECT_EQ(directory_of(version::v1, "/a", "1 2 0:3 / /m rw - cgroup cgroup rw,cpuacct\n"),
            "none");
  EXPECT_EQ(directory_of(version::v1, "/a", "1 2 0:3 / /m rw,cpu - cgroup cgroup rw\n"), "none");
  EXPECT_EQ(directory_of(version::v2, "/a", ""), "none");
}

// A container's mount shows a part of the tree; what is not in it cannot be read.
TEST(CgroupMount, RootsArePrefixesByComponents) {
  const std::string docker = "1 2 0:3 /docker/1234 /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
  EXPECT_EQ(directory_of(version::v2, "/docker/1234", docker), "/sys/fs/cgroup 1");
  EXPECT_EQ(directory_of(version::v2, "/docker/1234/x/y", docker), "/sys/fs/cgroup/x/y 3");
  EXPECT_EQ(directory_of(version::v2, "/docker/12345", docker), "none");
  EXPECT_EQ(directory_of(version::v2, "/docker", docker), "none");
  EXPECT_EQ(directory_of(version::v2, "/", docker), "none");
  // The first that shows it, not the first.
  const std::string two = docker + "1 2 0:3 / /all rw - cgroup2 cgroup rw\n";
  EXPECT_EQ(directory_of(version::v2, "/other", two), "/all/other 2");
  EXPECT_EQ(directory_of(version::v2, "/docker/1234", two), "/sys/fs/cgroup 1");
}

// With cgroup namespaces paths are relative to the namespace, and may lead out of it.
TEST(CgroupMount, Namespaces) {
  const std::string inside = "1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
  EXPECT_EQ(directory_of(version::v2, "/", inside), "/sys/fs/cgroup 1");
  EXPECT_EQ(directory_of(version::v2, "/..", inside), "none");
  EXPECT_EQ(directory_of(version::v2, "/../sibling", inside), "none");
  // A mount from before the namespace was entered shows more than it.
  const std::string outside = "1 2 0:3 /../.. /host rw - cgroup2 cgroup rw\n" + inside;
  EXPECT_EQ(directory_of(version::v2, "/../../sibling", outside), "/host/sibling 2");
  EXPECT_EQ(directory_of(version::v2, "/../../..", outside), "none");
  EXPECT_EQ(directory_of(version::v2, "/mine", outside), "/sys/fs/cgroup/mine 2");
}

TEST(CgroupMount, Escapes) {
  EXPECT_EQ(directory_of(version::v2, "/my group/x",
                         "1 2 0:3 /my\\040group /odd\\011\\134\\012place rw - cgroup2 c rw\n"),
            "/odd\t\\\nplace/x 2");
  EXPECT_EQ(directory_of(version::v2, "/my\\040group/x", "1 2 0:3 / /m rw - cgroup2 c rw\n"),
            "/m/my\\040group/x 3");  // names of groups are not escaped
  EXPECT_EQ(directory_of(version::v2, "/a", "1 2 0:3 /\\04 /m rw - cgroup2 c rw\n"), "none");
  EXPECT_EQ(directory_of(version::v2, "/a", "1 2 0:3 / /m\\ rw - cgroup2 c rw\n"), "none");
  // Those of others do not matter.
  EXPECT_EQ(directory_of(version::v2, "/a",
                         "1 2 0:3 /\\9 /\\ rw - ext4 c rw\n1 2 0:3 / /m rw - cgroup2 c rw\n"),
            "/m/a 2");
}

// Go: cgroup.TestEscapePath, TestUnescapeInvalidPath
TEST(CgroupMount, Unescape) {
  const auto unescaped = [](std::string_view text) {
    path_text out;
    return append_unescaped(text, out) ? std::string(out.view()) : std::string("refused");
  };
  EXPECT_EQ(unescaped(""), "");
  EXPECT_EQ(unescaped("/plain"), "/plain");
  EXPECT_EQ(unescaped("\\040a\\040"), " a ");
  EXPECT_EQ(unescaped("\\1234"), "S4");
  EXPECT_EQ(unescaped("\\377"), "\377");
  for (const char* bad :
       {"\\", "\\0", "\\04", "\\400", "\\777", "\\08x", "\\x41", "a\\ b", "\\000"}) {
    EXPECT_EQ(unescaped(bad), "refused") << bad;
  }
  EXPECT_EQ(unescaped(std::string(4096, 'a')), "refused");
  EXPECT_EQ(unescaped(std::string(4095, 'a') + "\\040"), "refused");
}

// Go: cgroup.TestParseCPUMountMalformed
TEST(CgroupMount, Malformed) {
  const std::string good = "1 2 0:3 / /m rw - cgroup2 c rw\n";
  for (const char* line :
       {"\n", "1\n", "1 2 0:3\n", "1 2 0:3 /\n", "1 2 0:3 / /m\n", "1 2 0:3 / /m rw\n",
        "1 2 0:3 / /m rw -\n", "1 2 0:3 / /m rw - cgroup2\n", "1 2 0:3 / /m rw - cgroup2 c\n",
        "1 2 0:3 / /m rw shared:1 cgroup2 c rw\n"}) {
    EXPECT_EQ(directory_of(version::v2, "/a", line + good), "none") << line;
  }
  // No room for the directory.
  EXPECT_EQ(directory_of(version::v2, "/" + std::string(4093, 'a'), good), "none");
}

// Overlays have options without end; they are the last field.
TEST(CgroupMount, LinesLongerThanTheBuffer) {
  const std::string overlay =
      "1 2 0:3 / /o rw - overlay overlay rw,lowerdir=" + std::string(2000, 'l') + "\n";
  const std::string nested = "1 2 0:3 / /" + std::string(2000, 'd') + " rw - tmpfs t rw\n";
  const std::string good = "1 2 0:3 / /m rw - cgroup2 c rw\n";
  EXPECT_EQ(directory_of(version::v2, "/a", overlay + nested + good, 64), "/m/a 2");
}

// --- how much -----------------------------------------------------------------------------------

using limit = std::optional<std::int64_t>;

// Go: cgroup.TestParseV1Number. [CG-5]
TEST(CgroupLimit, V1Numbers) {
  EXPECT_EQ(parse_v1_number("0\n"), limit(0));
  EXPECT_EQ(parse_v1_number("-1\n"), limit(-1));
  EXPECT_EQ(parse_v1_number("100000\n"), limit(100000));
  EXPECT_EQ(parse_v1_number("9223372036854775807\n"), limit(kNoLimit));
  for (const char* bad : {"", "\n", "-\n", "1", "1 \n", " 1\n", "+1\n", "1\n\n", "0x10\n", "1.5\n",
                          "max\n", "9223372036854775808\n", "99999999999999999999999\n"}) {
    EXPECT_EQ(parse_v1_number(bad), std::nullopt) << bad;
  }
}

TEST(CgroupLimit, V1NeedsBothFiles) {
  EXPECT_EQ(parse_v1_limit("250000\n", "100000\n"), limit(3));
  EXPECT_EQ(parse_v1_limit("-1\n", "100000\n"), limit(kNoLimit));
  EXPECT_EQ(parse_v1_limit("-1\n", "nonsense"), limit(kNoLimit));
  EXPECT_EQ(parse_v1_limit("250000\n", "0\n"), std::nullopt);
  EXPECT_EQ(parse_v1_limit("250000\n", "-5\n"), std::nullopt);
  EXPECT_EQ(parse_v1_limit("250000\n", ""), std::nullopt);
  EXPECT_EQ(parse_v1_limit("x\n", "100000\n"), std::nullopt);
}

// Go: cgroup.TestParseV2Limit. [CG-5]
TEST(CgroupLimit, V2) {
  EXPECT_EQ(parse_v2_limit("max 100000\n"), limit(kNoLimit));
  EXPECT_EQ(parse_v2_limit("100000 100000\n"), limit(1));
  EXPECT_EQ(parse_v2_limit("1000 100000\n"), limit(1));
  EXPECT_EQ(parse_v2_limit("0 100000\n"), limit(0));
  for (const char* bad :
       {"", "\n", " \n", "max\n", "max 100000", "100000\n", "100000 100000", "x 100000\n",
        "100000 x\n", "100000 \n", " 100000\n", "-1 100000\n", "100000 0\n", "100000 -1\n",
        "100000 100000 \n", "100000  100000\n", "maximal 100000\n"}) {
    EXPECT_EQ(parse_v2_limit(bad), std::nullopt) << bad;
  }
}

// [CG-2] Exactly, where floating point might slip.
TEST(CgroupLimit, RoundsUp) {
  EXPECT_EQ(processors(200000, 100000), limit(2));
  EXPECT_EQ(processors(200001, 100000), limit(3));
  EXPECT_EQ(processors(299999, 100000), limit(3));
  EXPECT_EQ(processors(300000, 100000), limit(3));
  EXPECT_EQ(processors(1, kNoLimit), limit(1));
  EXPECT_EQ(processors(kNoLimit, 1), limit(kNoLimit));
  EXPECT_EQ(processors(kNoLimit - 1, 2), limit(kNoLimit / 2));
}

}  // namespace
}  // namespace weft::rt::cgroup
