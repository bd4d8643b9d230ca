// `./weft run FILE.cpp`: the program's status, signals, words and input are its own; what is missing or wrong is named. And
// other commands of it.
//
// The library is the one that these tests were built with: the command looks for it in `release` of its build folder, and
// here that is a link to this tree, in which there is nothing left to build; where there is, because a source has been
// changed since, building it is not these tests' business. What it compiles goes beside the link.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "crash/expect.h"

namespace {

using namespace crash;  // NOLINT: their words throughout
namespace fs = std::filesystem;

constexpr const char* kProgram = R"(
#include <csignal>
#include <cstdio>
#include <cstring>
#include <unistd.h>
#include <weft/go.h>
#include <weft/wait_group.h>
int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "die") == 0) std::raise(SIGTERM);
  if (argc == 2 && std::strcmp(argv[1], "wait") == 0) {
    std::signal(SIGUSR1, [](int) { _exit(9); });
    std::puts("ready");
    std::fflush(stdout);
    for (;;) pause();
  }
  weft::wait_group wg;
  wg.go([&] {
    for (int i = 1; i < argc; ++i) std::printf("[%s]", argv[i]);
    for (int c; (c = std::getchar()) != EOF;) std::putchar(c);
  });
  wg.wait();
  return argc;
}
)";

void write(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }

// One folder for all: what has been compiled is kept there.
class Run : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string name = testing::TempDir() + "weft_run_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
    fs::create_directory(folder_ / "builds");
    fs::create_directory_symlink(WEFT_BUILD_TREE, folder_ / "builds" / "release");
    write(folder_ / "builds" / ".setup-run", "");  // nothing is to be installed
    write(folder_ / "program.cpp", kProgram);
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }

  void SetUp() override {
    // It would begin to install them.
    for (const char* tool : {"cmake", "ninja", "g++"}) {
      if (std::system(join({"command -v ", tool, " >/dev/null 2>&1"}).c_str()) != 0) {
        GTEST_SKIP() << tool << " is not there";
      }
    }
    const outcome o = crash::run({.command = {"ninja", "-C", WEFT_BUILD_TREE, "-n", "weft"}});
    if (o.out.find("no work to do") == std::string::npos) {
      GTEST_SKIP() << "the library is older than its sources: " << o.out;
    }
  }

  static std::string file(const char* name) { return (folder_ / name).string(); }

  // A command with our build folder, and a compiler that is not asked to optimise.
  static request in_folder(std::vector<std::string> words) {
    request r;
    r.command = {"env", "LC_ALL=C", "WEFT_BUILD_DIR=" + file("builds"), "CXXFLAGS=-O0", "LDFLAGS="};
    r.command.insert(r.command.end(), words.begin(), words.end());
    return r;
  }
  static outcome run_file(const char* name, std::vector<std::string> arguments = {}) {
    std::vector<std::string> words = {WEFT_COMMAND, "run", file(name)};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return crash::run(in_folder(std::move(words)));
  }

  static inline fs::path folder_;
};

void expect_says(const outcome& o, const std::string& pattern) { EXPECT_TRUE(matches(o, pattern)); }

TEST_F(Run, WordsInputAndStatusAreTheProgramsOwn) {
  const outcome o =
      crash::run(in_folder({"sh", "-c", R"(printf 'one\ntwo' | exec "$@")", "sh", WEFT_COMMAND,
                            "run", file("program.cpp"), "a b", "", "*", "--help"}));
  EXPECT_EQ(o.exit_status, 5) << o.err;
  EXPECT_EQ(o.out, "[a b][][*][--help]one\ntwo");
  EXPECT_EQ(o.err.find("weft: building"), std::string::npos) << "the library is there: " << o.err;
  EXPECT_EQ(o.err.find("weft: configuring"), std::string::npos) << o.err;
}

// The process that was started becomes the program, so that its end is seen as it was, and signals find it.
TEST_F(Run, DeathBySignalIsTheProgramsOwn) {
  const outcome o = run_file("program.cpp", {"die"});
  EXPECT_EQ(o.signal, SIGTERM) << o.exit_status << o.err;
}

TEST_F(Run, SignalsReachTheProgram) {
  request r = in_folder({WEFT_COMMAND, "run", file("program.cpp"), "wait"});
  r.when_it_says = "ready";
  r.signal = SIGUSR1;
  const outcome o = crash::run(r);
  EXPECT_EQ(o.exit_status, 9) << o.signal << o.err;
}

// Compiled once; again where the source, or a header of its, says something else.
TEST_F(Run, CompilesWhatHasChanged) {
  constexpr const char* kPrints =
      "#include <cstdio>\n#include \"word.h\"\nint main() { std::puts(WORD); }\n";
  const auto expect = [](const char* word, bool compiles) {
    const outcome o = run_file("prints.cpp");
    EXPECT_EQ(o.exit_status, 0) << o.err;
    EXPECT_EQ(o.out, join({word, "\n"}));
    EXPECT_EQ(o.err.find("weft: compiling prints.cpp") != std::string::npos, compiles) << o.err;
  };
  write(folder_ / "prints.cpp", kPrints);
  write(folder_ / "word.h", "#define WORD \"first\"\n");
  expect("first", true);
  expect("first", false);
  write(folder_ / "word.h", "#define WORD \"other\"\n");
  expect("other", true);
  write(folder_ / "prints.cpp", join({kPrints, "// a word more\n"}));
  expect("other", true);
}

TEST_F(Run, NamesWhatDoesNotCompile) {
  write(folder_ / "wrong.cpp", "int main() { return nobody_knows; }\n");
  for (int i = 0; i < 2; ++i) {  // nothing of it is kept
    const outcome o = run_file("wrong.cpp", {"a b"});
    EXPECT_EQ(o.exit_status, 1);
    EXPECT_EQ(o.out, "");
    expect_says(o, "wrong.cpp:1:[0-9]+: error: .*nobody_knows");
    expect_says(o, join({"weft: run: .*/wrong.cpp does not compile; again: .*/weft run ",
                         file("wrong.cpp"), " a\\\\ b\n$"}));
  }
}

TEST_F(Run, NamesTheMissingFile) {
  outcome o = run_file("nothing.cpp");
  EXPECT_EQ(o.exit_status, 1);
  EXPECT_EQ(o.err, join({"weft: run: no such file: ", file("nothing.cpp"), "\n"}));
  o = crash::run(in_folder({WEFT_COMMAND, "run"}));
  EXPECT_EQ(o.exit_status, 1);
  expect_says(o, "weft: run: which file\\? ");
}

// Whoever waits for another's build is told so. The lock is given back when it has been said.
TEST_F(Run, SaysThatItWaitsForAnotherBuild) {
  constexpr const char* kHolds = R"(exec 8>"$WEFT_BUILD_DIR/.lock" && flock 8
{ "$@" 2>&1 >&3 8>&- | { read -r line; printf '%s\n' "$line" >&2; flock -u 8; cat >&2; }; } 3>&1)";
  const outcome o = crash::run(
      in_folder({"bash", "-c", kHolds, "bash", WEFT_COMMAND, "run", file("program.cpp"), "on"}));
  EXPECT_FALSE(o.hung);
  expect_says(o, join({"^weft: waiting for another ./weft that builds in ", file("builds"), "\n"}));
  EXPECT_EQ(o.out, "[on]");
}

// `./weft setup` on machines that have hardly anything: a PATH of our own.
class Setup : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "weft_setup_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
    for (const char* tool : {"env", "bash", "dirname", "readlink", "nproc"}) {
      const fs::path usual = fs::path("/usr/bin") / tool;
      fs::create_symlink(fs::exists(usual) ? usual : fs::path("/bin") / tool, folder_ / tool);
    }
  }
  void TearDown() override { fs::remove_all(folder_); }

  void tool(const char* name, const std::string& does) {
    write(folder_ / name, join({"#!/usr/bin/env bash\n", does, "\n"}));
    fs::permissions(folder_ / name, fs::perms::owner_all);
  }
  outcome setup(const char* what) const { return weft({"setup", what}); }
  outcome weft(const std::vector<std::string>& words) const {
    request r;
    r.command = {"env", "PATH=" + folder_.string(),
                 "WEFT_BUILD_DIR=" + (folder_ / "builds").string(), WEFT_COMMAND};
    r.command.insert(r.command.end(), words.begin(), words.end());
    return crash::run(r);
  }
  // An apt-get that knows these, and installs nothing where it does not know all that it is asked for.
  void apt_get_knows(const std::string& names) {
    tool("id", "echo 0");
    tool("cp", R"(exec /bin/cp "$@")");
    tool("apt-get", join({"echo \"apt-get $*\" >&2; known=' ", names, R"( '
[ "$1" = install ] || exit 0
for name in "${@:5}"; do [[ $known = *" $name "* ]] || exit 100; done
for name in "${@:5}"; do cp "$0" "${0%/*}/${name/ninja-build/ninja}"; done)"}));
  }
  bool installed(const char* name) const { return fs::exists(folder_ / name); }
  static void expect_failure(const outcome& o, const std::string& pattern) {
    EXPECT_EQ(o.exit_status, 1);
    EXPECT_EQ(o.out, "");
    expect_says(o, pattern);
  }

  // Whether the header is there does not depend on the PATH.
  static constexpr const char* kNeeded = "g\\+\\+ cmake ninja-build";
  static constexpr const char* kMissing = "g\\+\\+ cmake ninja-build( liburing-dev)?";

 private:
  fs::path folder_;
};

TEST_F(Setup, WithoutAptGetNamesWhatIsMissing) {
  expect_failure(setup("run"), join({"^weft: missing: ", kNeeded,
                                     " \\(Debian's names\\). Install them with this "
                                     "system's package manager, then run again.\n$"}));
}

TEST_F(Setup, WithoutSudoNamesTheCommand) {
  tool("apt-get", "echo installs >&2");
  tool("id", "echo 1000");
  expect_failure(setup("run"),
                 join({"^weft: missing: ", kNeeded,
                       "; there is no sudo, so as root: apt-get install ", kNeeded, "\n$"}));
}

TEST_F(Setup, AnInstallationThatFailsIsNoSuccess) {
  tool("id", "echo 0");
  tool("apt-get", "echo \"apt-get: $*\" >&2; exit 100");
  expect_failure(setup("run"), join({"apt-get: install .*", kMissing,
                                     "\n(apt-get: install .* g\\+\\+ cmake ninja-build\n)?"
                                     "weft: could not install them; by hand: apt-get install ",
                                     kNeeded, ", then run again\n$"}));
  tool("apt-get", "exit 0");
  expect_failure(setup("run"), "weft: 'g\\+\\+' is still missing after its installation\n$");
}

// Only the two calls that need it are another user's.
TEST_F(Setup, InstallsThroughSudo) {
  const std::string installs = join(
      {"sudo: env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends ",
       kMissing, "\n"});
  const std::string updates =
      join({"^weft: installing Debian packages: ", kMissing, "\nsudo: apt-get update -q\n"});
  tool("id", "echo 1000");
  tool("apt-get", "echo 'apt-get as nobody in particular' >&2");
  tool("sudo", "echo \"sudo: $*\" >&2; exit 1");
  expect_failure(setup("run"),
                 join({updates, "weft: apt-get update failed; trying with the lists at hand\n",
                       installs, "(sudo: env .* install .* ", kNeeded,
                       "\n)?weft: could not install them; by hand: apt-get install ", kNeeded,
                       ", then run again\n$"}));
  tool("sudo", R"(echo "sudo: $*" >&2
case "$*" in
  *' install '*) for name in g++ cmake ninja; do cp "$0" "${0%/*}/$name"; done ;;
esac)");
  tool("cp", R"(exec /bin/cp "$@")");
  const outcome o = setup("run");
  expect_says(o, updates + installs);
  if (o.err.find("liburing") == std::string::npos) {
    EXPECT_EQ(o.exit_status, 0);
    EXPECT_TRUE(matches(o, installs + "$"));
  }
}

// What is there if it can be had: one that apt does not know keeps no other from coming.
TEST_F(Setup, WhatIsNotNeededMayStayAway) {
  apt_get_knows("g++ cmake ninja-build pkg-config gdb wrk");
  const outcome o = setup("test");
  EXPECT_EQ(o.exit_status, 0) << o.err;
  EXPECT_TRUE(installed("pkg-config") && installed("gdb") && installed("wrk")) << o.err;
  expect_says(o,
              "weft: goes on without [^\n]*lldb \\(its tests are skipped\\), linux-perf "
              "\\(its tests are skipped\\), [^\n]*\n$");
  EXPECT_EQ(o.err.find("wrk ("), std::string::npos) << o.err;
}

TEST_F(Setup, WhatIsNotNeededAsksForNobodysRights) {
  for (const char* name : {"g++", "cmake", "ninja", "python3"}) tool(name, "exit 0");
  const auto expect_goes_on = [this] {
    const outcome o = setup("bench");
    EXPECT_EQ(o.exit_status, 0) << o.err;
    expect_says(o, "^weft: goes on without [^\n]*wrk \\(its tests are skipped\\)\n$");
  };
  expect_goes_on();  // there is no apt-get
  tool("apt-get", "echo installs >&2");
  tool("id", "echo 1000");
  expect_goes_on();  // there is no sudo
}

// Before each build what cannot be had would be looked for again, on the network.
TEST_F(Setup, WhatIsNotNeededIsAskedForOnce) {
  apt_get_knows("");
  for (const char* name : {"g++", "cmake", "ninja"}) tool(name, "exit 0");
  tool("python3", "echo benchmarks");
  tool("mkdir", "exec /bin/mkdir \"$@\"");
  for (const bool asks : {true, false}) {
    const outcome o = weft({"bench", "core"});
    EXPECT_EQ(o.out, "benchmarks\n") << o.err;
    EXPECT_EQ(o.err.find("apt-get update") != std::string::npos, asks) << o.err;
    expect_says(o, "weft: goes on without [^\n]*wrk ");
  }
  EXPECT_NE(setup("bench").err.find("apt-get update"), std::string::npos) << "asked for by name";
}

TEST_F(Setup, DoesNotKnowEverything) {
  expect_failure(setup("nonsense"),
                 "^weft: setup: run, test, bench, ci or a preset, not 'nonsense'\n$");
}

// `./weft test` with tools of our own: nothing is compiled, and no test runs.
class Fakes : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    fs::create_directories(folder_ / "tools");
    for (const char* name : {"cmake", "gdb", "pkg-config"}) tool(name, "exit 0");
    for (const char* name : {"apt-get", "sudo"}) tool(name, "exit 1");
    tool("ninja", "echo no work to do");
  }
  static void tool(const char* name, const std::string& does) {
    const fs::path file = folder_ / "tools" / name;
    write(file, join({"#!/bin/sh\n", does, "\n"}));
    fs::permissions(file, fs::perms::owner_all);
  }
  static outcome test(const char* builds, std::vector<std::string> words,
                      const std::string& command = WEFT_COMMAND) {
    request r;
    r.command = {"env",
                 "-u",
                 "WEFT_WERROR",
                 join({"PATH=", file("tools"), ":", std::getenv("PATH")}),
                 "WEFT_BUILD_DIR=" + file(builds),
                 command,
                 "test"};
    r.command.insert(r.command.end(), words.begin(), words.end());
    return crash::run(r);
  }
  // How it is done again is the last that is said.
  static void expect_failure(const outcome& o, const std::string& end) {
    EXPECT_EQ(o.exit_status, 1);
    EXPECT_TRUE(o.err.ends_with("weft: " + end)) << o.err;
  }
};

TEST_F(Fakes, TestsThatFailAreNamedWithTheirCommands) {
  tool("ctest", "mkdir -p \"$2/Testing/Temporary\"; echo the output; exit 8");
  const std::string again = join({WEFT_COMMAND, " test model"});
  outcome o = test("failing", {"model"});
  expect_failure(o, join({"tests failed in preset model; again:\n  ", again, "\n"}));
  EXPECT_EQ(o.out, "the output\n");
  tool(
      "ctest",
      "cd \"$2/Testing/Temporary\"; printf '3:unit.three\\n17:model.Note\\n' >LastTestsFailed.log\n"
      "exit 8");
  o = test("failing", {"model"});
  expect_failure(o, join({"tests failed in preset model; again:\n  ", again,
                          " -R '^unit.three$'\n  ", again, " -R '^model.Note$'\n"}));
}

TEST_F(Fakes, ABuildThatFailsIsNamedWithItsCommand) {
  tool("ctest", "echo tests");
  tool("ninja", "for word; do [ \"$word\" != -n ] || exit 0; done; echo the error; exit 1");
  const outcome o = test("unbuilt", {"model"});
  expect_failure(
      o, join({"the build failed; again: ninja -C '", file("unbuilt"), "/model' models\n"}));
  EXPECT_NE(o.err.find("the error\n"), std::string::npos) << o.err;
  EXPECT_EQ(o.out, "");
}

TEST_F(Fakes, AConfigurationThatFailsIsNamedWithItsCommand) {
  tool("ctest", "echo tests");
  tool("ninja", "echo builds; exit 1");
  tool("cmake", "echo the reason; exit 1");
  const outcome o = test("unconfigured", {"model"});
  expect_failure(
      o,
      join({"configuration failed; again: (cd '", fs::path(WEFT_COMMAND).parent_path().string(),
            "' && cmake --preset model -B '", file("unconfigured"), "/model' -DWEFT_WERROR=0)\n"}));
  EXPECT_NE(o.err.find("the reason\n"), std::string::npos) << o.err;
  EXPECT_EQ(o.out, "");
}

// A compiler that warns of more than ours keeps nobody from building, but for those who want to know.
TEST_F(Fakes, WarningsAreErrorsWhereThatIsAskedFor) {
  tool("cmake", "echo \"cmake $*\"; exit 1");
  request r;
  r.command = {"env",           join({"PATH=", file("tools"), ":", std::getenv("PATH")}),
               "WEFT_WERROR=1", "WEFT_BUILD_DIR=" + file("strict"),
               WEFT_COMMAND,    "test",
               "model"};
  expect_says(crash::run(r), "\ncmake --preset model -B [^\n]+/model -DWEFT_WERROR=1\n");
}

// cmake is called in the folder of the sources, everything else in the caller's.
TEST_F(Fakes, ABuildFolderMayBeRelative) {
  tool("cmake", "exit 1");
  request r;
  r.command = {"sh",
               "-c",
               R"(cd "$1" && shift && exec env "$@")",
               "sh",
               folder_.string(),
               join({"PATH=", file("tools"), ":", std::getenv("PATH")}),
               "WEFT_BUILD_DIR=relative",
               WEFT_COMMAND,
               "test",
               "model"};
  expect_says(crash::run(r), join({" -B '", file("relative"), "/model' "}));
}

// `./weft test --full` counts what ctest has written, here without ctest. It writes the file only
// if all tests were to be run.
TEST_F(Fakes, AFullRunCountsWhatWasSkipped) {
  constexpr const char* kLog = R"(1/3 Test: one
[  SKIPPED ] Suite.OverProcs/P1 (0 ms)
[  SKIPPED ] Suite.OverProcs/P16 (12 ms)
[  SKIPPED ] Suite.Once (3 ms)
[       OK ] Suite.Other (3 ms)
[  SKIPPED ] 3 tests, listed below:
[  SKIPPED ] Suite.OverProcs/P1
Test time =   0.01 sec
Test Passed.
Test time =   0.01 sec
Test Passed.
Test time =   0.01 sec
Test Failed.
)";
  write(folder_ / "log", kLog);
  tool("ctest", join({"cd \"$2\" && mkdir -p Testing/Temporary && cd Testing/Temporary || exit\n",
                      "cp '", file("log"), "' LastTest.log; echo 3:three > LastTestsFailed.log"}));
  // Of a copy, as it writes a file beside itself.
  fs::create_directories(folder_ / "copy" / "tests");
  fs::copy(WEFT_COMMAND, folder_ / "copy" / "weft", fs::copy_options::overwrite_existing);
  const fs::path result = folder_ / "copy" / "tests" / "full-result.md";
  const outcome o = test("counted", {"--full", "-R", ".", "release"}, file("copy/weft"));
  EXPECT_EQ(o.exit_status, 0) << o.err;
  const std::string table =
      "\\| preset \\| tests \\| failed \\| skipped \\| minutes \\|.*\n(\\|---){8}\\|\n"
      "\\| release \\| 3 \\| three \\| 2 \\| [0-9]+ \\| 20[-0-9]+ [0-9:]+ \\|.*\\|\n";
  EXPECT_TRUE(crash::matches(o.out, table)) << o.out;
  EXPECT_FALSE(fs::exists(result)) << "some were chosen";
  const outcome all = test("counted", {"--full", "-V", "release"}, file("copy/weft"));
  expect_says(all, "the result is in tests/full-result.md: commit it\n$");
  EXPECT_TRUE(fs::exists(result));
}

}  // namespace
