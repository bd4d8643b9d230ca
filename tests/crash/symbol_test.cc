// Names and lines in reports: of programs with debug information, with it beside them, and without.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include "crash/expect.h"
#include "fiber/sanitizer.h"

namespace {

using namespace crash;  // NOLINT: their words throughout
namespace fs = std::filesystem;

bool have(const char* tool) {
  return std::system(join({"command -v ", tool, " >/dev/null 2>&1"}).c_str()) == 0;
}
#define NEEDS(TOOL) \
  if (!have(TOOL)) GTEST_SKIP() << TOOL " is not there"

// A copy of the crash programs without symbols, and what was stripped off.
class stripped : public testing::Test {
 protected:
  void SetUp() override {
    NEEDS("objcopy");
    NEEDS("readelf");
    if (std::getenv("WEFT_TEST_EMULATOR") != nullptr) GTEST_SKIP() << "objcopy of another machine";
    folder_ = fs::path(testing::TempDir()) / ("weft_stripped_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    program_ = folder_ / "app";
    debug_ = folder_ / "app.debug";
    shell("objcopy --only-keep-debug " CRASH_PROGRAMS " " + debug_.string());
    shell("objcopy --strip-all " CRASH_PROGRAMS " " + program_.string());
    std::ifstream(shell("readelf -n " + program_.string() + " | sed -n 's/.*Build ID: //p' > " +
                        (folder_ / "id").string())
                      ? folder_ / "id"
                      : "/dev/null") >>
        id_;
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }
  static bool shell(const std::string& command) {
    const bool ok = std::system(command.c_str()) == 0;
    EXPECT_TRUE(ok) << command;
    return ok;
  }

  fs::path folder_, program_, debug_;
  std::string id_;
};

TEST(Lines, FileAndLine) {
  const outcome o = run_program("panic_std_exception");
  EXPECT_TRUE(matches(o, "app::leaf\\(\\.\\.\\.\\)\n\t/.*/panic\\.cc:[0-9]+ \\+0x[0-9a-f]+\n"))
      << o.err;
  EXPECT_TRUE(matches(o, "created by .* in goroutine 1\n\t/.*/panic\\.cc:[0-9]+.*\n$"));
}

// Inlined functions have no frame of their own, so no distance from a beginning.
TEST(Lines, InlinedFunctions) {
  const outcome o = run_program("panic_in_inlined");
  EXPECT_TRUE(matches(o,
                      "app::inlined_leaf\\(\\.\\.\\.\\)\n\t/.*/panic\\.cc:[0-9]+\n"
                      "app::inlined_middle\\(\\.\\.\\.\\)\n\t/.*/panic\\.cc:[0-9]+\n"
                      "app::has_inlined\\(\\.\\.\\.\\)\n\t/.*/panic\\.cc:[0-9]+ \\+0x"));
}

TEST_F(stripped, SaysModuleOffsetAndBuildId) {
  const outcome o = run({.command = {program_.string()}, .program = "panic_std_exception"});
  EXPECT_EQ(o.exit_status, 2);
  EXPECT_TRUE(matches(o, "\n0x[0-9a-f]+\\(\\.\\.\\.\\)\n\t/.*/app:0x[0-9a-f]+\n"));
  ASSERT_FALSE(id_.empty());
  EXPECT_TRUE(matches(o, "\nfiles without symbols .*\n\t/.*/app build id " + id_ + "\n$"));
  EXPECT_EQ(o.err.find("app::leaf"), std::string::npos);
}

TEST_F(stripped, FindsItsDebugFileByBuildId) {
  ASSERT_GT(id_.size(), 2u);
  const fs::path at = folder_ / ".build-id" / id_.substr(0, 2);
  fs::create_directories(at);
  fs::copy_file(debug_, at / (id_.substr(2) + ".debug"));
  const outcome o = run({.command = {program_.string()},
                         .program = "panic_std_exception",
                         .environment = {"WEFT_DEBUG_DIR=" + folder_.string()}});
  EXPECT_TRUE(matches(o, "app::leaf\\(\\.\\.\\.\\)\n\t/.*/panic\\.cc:[0-9]+ \\+0x")) << o.err;
  EXPECT_EQ(o.err.find("files without symbols"), std::string::npos);
}

// A report neither dies of it nor says what it has no right to.
TEST_F(stripped, DebugFileIsCutOff) {
  if (WEFT_TSAN || WEFT_ASAN) GTEST_SKIP() << "sanitizers name functions themselves";
  ASSERT_GT(id_.size(), 2u);
  const fs::path at = folder_ / ".build-id" / id_.substr(0, 2);
  fs::create_directories(at);
  const fs::path file = at / (id_.substr(2) + ".debug");
  fs::copy_file(debug_, file);
  const outcome o = run(
      {.command = {program_.string()},
       .program = "reports_after_its_debug_file_is_cut",
       .environment = {"WEFT_DEBUG_DIR=" + folder_.string(), "WEFT_TEST_CUT=" + file.string()}});
  EXPECT_EQ(o.exit_status, 0) << o.err;
  EXPECT_NE(o.err.find("/quit.cc:"), std::string::npos) << o.err;
  EXPECT_EQ(o.out.find("/quit.cc:"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("/app:0x"), std::string::npos) << o.out;
}

// The debug file of another build, under the name of ours.
TEST_F(stripped, DebugFileIsAnothers) {
  ASSERT_GT(id_.size(), 2u);
  const fs::path at = folder_ / ".build-id" / id_.substr(0, 2);
  fs::create_directories(at);
  const fs::path file = at / (id_.substr(2) + ".debug");
  std::ifstream in(debug_, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::string id;
  for (std::size_t i = 0; i < id_.size(); i += 2) {
    id.push_back(static_cast<char>(std::stoi(id_.substr(i, 2), nullptr, 16)));
  }
  const std::size_t found = bytes.find(id);
  ASSERT_NE(found, std::string::npos);
  bytes[found] = static_cast<char>(bytes[found] ^ 1);
  std::ofstream(file, std::ios::binary) << bytes;
  const outcome o = run({.command = {program_.string()},
                         .program = "panic_std_exception",
                         .environment = {"WEFT_DEBUG_DIR=" + folder_.string()}});
  EXPECT_EQ(o.err.find("app::leaf"), std::string::npos) << o.err;
}

TEST_F(stripped, IsSymbolisedElsewhere) {
  NEEDS("python3");
  NEEDS("addr2line");
  const outcome o = run({.command = {program_.string()}, .program = "panic_std_exception"});
  std::ofstream(folder_ / "report") << o.err;
  const outcome told = run({.command = {"python3", SYMBOLIZE, "--file", debug_.string()},
                            .program = (folder_ / "report").string()});
  EXPECT_EQ(told.exit_status, 0) << told.err;
  outcome report;
  report.err = told.out;
  EXPECT_TRUE(matches(report, "app::leaf\\(\\.\\.\\.\\)\n\t/.*/panic\\.cc:[0-9]+"));
  EXPECT_TRUE(matches(report, "created by .*in_goroutine.* in goroutine 1\n\t/.*/panic\\.cc:"));
}

}  // namespace
