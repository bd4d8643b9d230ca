// Tools beside the library: `./weft doctor`, and what perf makes of goroutines' stacks.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#include "crash/expect.h"
#include "fiber/sanitizer.h"

namespace {

using namespace crash;  // NOLINT: their words throughout
namespace fs = std::filesystem;

bool have(const char* tool) {
  return std::system(join({"command -v ", tool, " >/dev/null 2>&1"}).c_str()) == 0;
}

void expect(const std::string& text, const std::string& pattern) {
  EXPECT_TRUE(crash::matches(text, pattern)) << "no match for\n" << pattern << "\nin\n" << text;
}

class Doctor : public testing::Test {
 protected:
  void SetUp() override {
    if (!have("bash") || !have("python3")) GTEST_SKIP() << "bash or python3 is not there";
    if (std::getenv("WEFT_TEST_EMULATOR") != nullptr) GTEST_SKIP() << "a tool of this machine";
  }
};

TEST_F(Doctor, KnowsTheMachineItsLimitsAndTheEnvironment) {
  const outcome o = run({.command = {"sh", "-c", "ulimit -n 77 && exec " WEFT_COMMAND " doctor"},
                         .environment = {"WEFTMAXPROCS=3", "WEFTDEBUG=iouring=0"}});
  EXPECT_EQ(o.exit_status, 0) << o.err;
  for (const char* fact :
       {"kernel +Linux", "processors \\(affinity / online\\) +[0-9]+ / [0-9]+",
        "cgroup limit of processors ", "vm.max_map_count +[0-9]+",
        "open files \\(ulimit -n\\) +77\n", "WEFTMAXPROCS +3\n", "WEFTDEBUG +iouring=0\n",
        "stack guards by advice +(yes|no \\()", "membarrier \\(private expedited\\) +(yes|no \\()",
        "io_uring +no \\(WEFTDEBUG=iouring=0\\)\n +threads wait for files", "core files +.+\n"}) {
    expect(o.out, join({"\n  ", fact}));
  }
}

// Each fallback is named with its price where the kernel, or a sandbox, denies everything.
TEST_F(Doctor, SaysWhatIsMissingCosts) {
  const outcome o = run({.command = {"python3", "-c",
                                     "import sys; sys.dont_write_bytecode = True; "
                                     "sys.path.insert(0, '" WEFT_TOOLS "'); import doctor_probe; "
                                     "doctor_probe.call = lambda *a: (-1, 38); "
                                     "doctor_probe.doctor()"}});
  EXPECT_EQ(o.exit_status, 0) << o.err;
  for (const char* missing : {"membarrier \\(private expedited\\) +no \\(ENOSYS\\)\n +full fences",
                              "process_madvise +no \\(ENOSYS\\)\n +guards are installed one by one",
                              "io_uring +no \\(ENOSYS.*\\)\n +threads wait for files",
                              "epoll_pwait2 +no \\(ENOSYS\\)\n +timers .* up to 1 ms late",
                              "pidfd +no \\(ENOSYS\\)\n +waiting for a child process blocks",
                              "rt_tgsigqueueinfo +no \\(ENOSYS\\)\n +plain tgkill"}) {
    expect(o.out, join({"(^|\n)  ", missing}));
  }
}

// A copy of .ci/run beside a ./weft that does nothing but fail: what it was called with is shown.
class Checks : public testing::Test {
 protected:
  void SetUp() override {
    if (!have("bash")) GTEST_SKIP() << "bash is not there";
    if (std::getenv("WEFT_TEST_EMULATOR") != nullptr) GTEST_SKIP() << "a tool of this machine";
    std::string name = testing::TempDir() + "weft_ci_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
    fs::create_directory(folder_ / ".ci");
    fs::copy(fs::path(WEFT_COMMAND).parent_path() / ".ci" / "run", folder_ / ".ci" / "run");
    std::ofstream(folder_ / "weft") << "#!/bin/sh\necho \"weft $* $WEFT_WERROR\"; exit 1\n";
    fs::permissions(folder_ / "weft", fs::perms::owner_all);
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }
  outcome check(std::vector<std::string> steps) const {
    request r = {.command = {"env", "-u", "WEFT_WERROR", "-u", "WEFT_BUILD_DIR",
                             (folder_ / ".ci" / "run").string()}};
    r.command.insert(r.command.end(), steps.begin(), steps.end());
    return run(r);
  }

 private:
  fs::path folder_;
};

TEST_F(Checks, WarningsAreErrors) {
  const outcome o = check({"setup", "tsan"});
  EXPECT_EQ(o.exit_status, 1);
  expect(o.out, "\nweft setup ci 1\n");
  expect(o.out, "\nweft test tsan 1\n");
  expect(o.out, "\n0 passed, 2 failed\n$");
}

TEST_F(Checks, AStepThatThereIsNotIsNamed) {
  const outcome o = check({"setup", "tsann"});
  EXPECT_EQ(o.exit_status, 1);
  EXPECT_EQ(o.out, "") << "the others have not run, either";
  expect(o.err, "^\\.ci/run: no such step: tsann; there are: setup self-tests .* tsan .*\n$");
}

// Samples of `perf script`: the functions of each, innermost first.
std::vector<std::vector<std::string>> samples_of(const std::string& text) {
  std::vector<std::vector<std::string>> samples(1);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t") == std::string::npos) {
      samples.emplace_back();
    } else {
      samples.back().push_back(line);
    }
  }
  return samples;
}

// Every stack goes through the user's frames to the goroutine's entry, and ends there.
void expect_whole_stacks(const char* call_graph) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "the sanitizer's frames are in between";
  if (!have("perf")) GTEST_SKIP() << "perf is not there";
  if (std::getenv("WEFT_TEST_EMULATOR") != nullptr) GTEST_SKIP() << "a program of another machine";
  const fs::path data = fs::path(testing::TempDir()) / ("weft_perf_" + std::to_string(getpid()));
  const outcome recorded =
      run({.command = {"perf", "record", "-q", "--call-graph", call_graph, "-F", "100", "-e",
                       "cpu-clock:u", "-o", data.string(), CRASH_PROGRAMS},
           .program = "burns"});
  if (recorded.exit_status != 0) {
    fs::remove(data);
    GTEST_SKIP() << "perf may not record here: " << recorded.err;
  }
  const outcome o =
      run({.command = {"perf", "script", "-i", data.string(), "--no-inline", "-F", "ip,sym"}});
  fs::remove(data);
  int seen = 0;
  for (const auto& sample : samples_of(o.out)) {
    if (sample.empty() || sample.front().find("burn_inner") == std::string::npos) continue;
    ++seen;
    EXPECT_NE(sample.back().find("weft_goroutine_entry"), std::string::npos) << o.out;
    ASSERT_GT(sample.size(), 2u);
    EXPECT_NE(sample[1].find("burn_outer"), std::string::npos) << o.out;
  }
  EXPECT_GT(seen, 0) << o.out;
}

TEST(Perf, StacksByUnwindTablesEndAtTheGoroutinesEntry) { expect_whole_stacks("dwarf,4096"); }
// What `perf record -g` does: the program has frame pointers, and the library where its chain passes.
TEST(Perf, StacksByFramePointersEndAtTheGoroutinesEntry) { expect_whole_stacks("fp"); }

}  // namespace
