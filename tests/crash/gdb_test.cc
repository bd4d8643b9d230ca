// The commands for gdb and lldb, on a running program and on a core file.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <signal.h>
#include <string>
#include <unistd.h>

#include "crash/expect.h"
#include "fiber/sanitizer.h"

namespace {

using namespace crash;  // NOLINT: their words throughout
namespace fs = std::filesystem;

class Gdb : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v gdb >/dev/null 2>&1") != 0) GTEST_SKIP() << "gdb is not there";
    if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "gdb and the sanitizer's mappings";
    if (std::getenv("WEFT_TEST_EMULATOR") != nullptr)
      GTEST_SKIP() << "a program of another machine";
  }

  // What gdb says to these commands, about the program or about a core of it.
  static std::string gdb(std::vector<std::string> commands, std::vector<std::string> last) {
    std::vector<std::string> words{"gdb",  "-q",
                                   "-nx",  "-batch",
                                   "-iex", "set auto-load safe-path /",
                                   "-iex", "set debuginfod enabled off"};
    for (const std::string& c : commands) {
      words.emplace_back("-ex");
      words.push_back(c);
    }
    words.insert(words.end(), last.begin(), last.end());
    const outcome o = run({.command = words});
    return o.out + o.err;
  }
  static void expect(const std::string& text, const std::string& pattern) {
    EXPECT_TRUE(crash::matches(text, pattern)) << "no match for\n" << pattern << "\nin\n" << text;
  }
  // Of deadlock_two: two goroutines in wait_forever().
  static void expect_two(const std::string& text) {
    expect(text,
           "  goroutine 1 \\[sync.WaitGroup.Wait\\] .*\n"
           "  goroutine 2 \\[sync.WaitGroup.Wait\\] \\{name: sleeper\\} .*\n");
    expect(text,
           "\ngoroutine 2 \\[sync.WaitGroup.Wait\\] \\{name: sleeper\\}:\n#0 .*\n"
           "(#.*\n)*#[0-9]+ .*weft::wait_group::wait.*\n#[0-9]+ .*wait_forever.*\n(#.*\n)*"
           "#[0-9]+ .*weft_goroutine_entry.*\ncreated by .* in goroutine 1\n");
    EXPECT_EQ(text.find("Python Exception"), std::string::npos) << text;
  }
};

const std::vector<std::string> kLook{"info goroutines", "goroutine 2 bt", "goroutine all bt"};

std::vector<std::string> after(std::vector<std::string> first) {
  first.insert(first.end(), kLook.begin(), kLook.end());
  return first;
}

TEST_F(Gdb, OfARunningProgram) {
  expect_two(gdb(after({"break weft::rt::begin_crash", "run"}),
                 {"--args", CRASH_PROGRAMS, "deadlock_two"}));
}

// look(path) at the core of deadlock_two. By the kernel; gdb's own gcore gives up at the guards of stacks.
template <class F>
void look_at_a_core(F look) {
  std::string pattern;
  std::getline(std::ifstream("/proc/sys/kernel/core_pattern"), pattern);
  if (pattern.find_first_of("|/%") != std::string::npos) GTEST_SKIP() << "cores go to " << pattern;
  const fs::path folder = fs::path(testing::TempDir()) / ("weft_core_" + std::to_string(getpid()));
  fs::create_directories(folder);
  const outcome o =
      run({.command = {"sh", "-c",
                       "cd " + folder.string() +
                           " && ulimit -c unlimited && exec " CRASH_PROGRAMS " deadlock_two"},
           .environment = {"WEFTTRACEBACK=crash"}});
  EXPECT_EQ(o.signal, SIGABRT) << o.err;
  for (const auto& file : fs::directory_iterator(folder)) look(file.path().string());
  EXPECT_FALSE(fs::is_empty(folder)) << "no core file";
  fs::remove_all(folder);
}

TEST_F(Gdb, OfACoreFile) {
  look_at_a_core([](const std::string& core) { expect_two(gdb(kLook, {CRASH_PROGRAMS, core})); });
}

// Other commands see the goroutine's frames, and those that run are found by their threads.
TEST_F(Gdb, AnyCommandAndRunningGoroutines) {
  const std::string text = gdb({"break app::leaf", "run", "info goroutines", "goroutine 1 frame",
                                "goroutine 2 bt 3", "goroutine 77 bt", "goroutine"},
                               {"--args", CRASH_PROGRAMS, "panic_std_exception"});
  expect(text, "\\* goroutine 2 \\[running\\] .*leaf.*\n");
  expect(text, "\ngoroutine 2 \\[running\\]:\n#0  .*leaf.*\n#1  .*middle.*\n");
  expect(text, "no goroutine 77\n");
  expect(text, "usage: goroutine N COMMAND");
}

// The thread on which the first goroutine begins is only lent to it. (As in reports: dump.cc.)
TEST_F(Gdb, GoroutinesThatAreLockedToTheirThreads) {
  const auto at_first = [](const char* function, const char* program) {
    return gdb({std::string("break ") + function, "run", "info goroutines"},
               {"--args", CRASH_PROGRAMS, program});
  };
  expect(at_first("app::leaf", "panic_in_main"), "\n\\* goroutine 1 \\[running\\] .*leaf.*\n");
  for (const char* program : {"deadlock_locked", "deadlock_locked_main"}) {
    expect(at_first("weft::wait_group::wait", program),
           "\n\\* goroutine 1 \\[running, locked to thread\\] .*wait_group::wait.*\n");
  }
}

// Preemption goes on under gdb, which passes the signal on and does not stop for it.
TEST_F(Gdb, OfAProgramThatIsPreempted) {
  const std::string text = gdb({"break reached_the_end", "run", "info goroutines", "continue"},
                               {"--args", CRASH_PROGRAMS, "computes_for_a_while"});
  expect(text, "\\* goroutine 1 \\[running\\] .*reached_the_end.*\n");
  expect(text, "exited with code 05\\]");
  EXPECT_EQ(text.find("received signal"), std::string::npos) << text;
}

// Runnable, but on their stacks and on threads of their own.
TEST_F(Gdb, FrozenGoroutines) {
  const std::string text = gdb({"break app::say", "run", "info goroutines", "goroutine 2 bt"},
                               {"--args", CRASH_PROGRAMS, "frozen_hogs"});
  expect(text, "\n  goroutine 2 \\[runnable\\] .*spin_for_ever.*\n");
  expect(text, "\ngoroutine 2 \\[runnable\\]:\n(#.*\n)*#[0-9]+ .*spin_for_ever.*\n");
}

// Attached to, and left, while goroutines are frozen.
TEST_F(Gdb, AttachesAndLeaves) {
  const outcome o =
      run({.command = {"sh", "-c",
                       CRASH_PROGRAMS " computes_for_a_while & "
                                      "gdb -q -nx -batch -iex 'set debuginfod enabled off' -p $! "
                                      "-ex 'thread apply all bt 1' -ex detach >/dev/null 2>&1; "
                                      "wait $!; exit $?"}});
  EXPECT_EQ(o.exit_status, 5) << o.out << o.err;
}

// It has the last of all reasons.
TEST_F(Gdb, GoroutinesThatWaitForADescriptor) {
  expect(gdb({"run", "info goroutines"}, {"--args", CRASH_PROGRAMS, "reads_from_a_silent_pipe"}),
         "\n  goroutine 2 \\[IO wait\\] .*\n");
}

TEST_F(Gdb, BeforeTheRuntimeStarts) {
  expect(gdb({"break main", "run", "info goroutines"}, {"--args", CRASH_PROGRAMS, "deadlock_two"}),
         "weft: the runtime has not started yet\n");
}

class Lldb : public Gdb {
 protected:
  void SetUp() override {
    if (std::system("command -v lldb >/dev/null 2>&1") != 0) GTEST_SKIP() << "lldb is not there";
    if (lldb_says({"script import lldb.embedded_interpreter"}).find("Error") != std::string::npos) {
      GTEST_SKIP() << "lldb has no Python";
    }
    Gdb::SetUp();
  }
  static std::string lldb_says(const std::vector<std::string>& commands,
                               const std::vector<std::string>& last = {}) {
    std::vector<std::string> words{"lldb", "-b", "-x"};
    for (const std::string& c : commands) {
      words.emplace_back("-o");
      words.push_back(c);
    }
    words.insert(words.end(), last.begin(), last.end());
    const outcome o = run({.command = words, .environment = python_of_lldb()});
    return o.out + o.err;
  }
  // Debian's lldb does not know where its own modules are.
  static std::vector<std::string> python_of_lldb() {
    std::error_code none;
    for (const auto& llvm : fs::directory_iterator("/usr/lib", none)) {
      if (!llvm.path().filename().string().starts_with("llvm-")) continue;
      for (const auto& python : fs::directory_iterator(llvm.path() / "lib", none)) {
        const fs::path modules = python.path() / "dist-packages";
        if (fs::exists(modules / "lldb/embedded_interpreter.py", none))
          return {"PYTHONPATH=" + modules.string()};
      }
    }
    return {};
  }
  static std::string lldb(const std::vector<std::string>& commands,
                          const std::vector<std::string>& last) {
    std::vector<std::string> all{"command script import " LLDB_SCRIPT};
    all.insert(all.end(), commands.begin(), commands.end());
    return lldb_says(all, last);
  }
  // Of deadlock_two, as expect_two().
  static void expect_both(const std::string& text) {
    expect(
        text,
        "  goroutine 1 \\[sync.WaitGroup.Wait\\] weft::wait_group::wait.*\n"
        "  goroutine 2 \\[sync.WaitGroup.Wait\\] \\{name: sleeper\\} weft::wait_group::wait.*\n");
    expect(text,
           "\ngoroutine 2 \\[sync.WaitGroup.Wait\\] \\{name: sleeper\\}:\n    frame #0: .*\n"
           "(    frame #.*\n)*    frame #[0-9]+: .*weft::wait_group::wait.*\n    frame "
           "#.*wait_forever.*\n"
           "(    frame #.*\n)*    frame #[0-9]+: .*weft_goroutine_entry.*\ncreated by .* in "
           "goroutine 1\n");
  }
};

TEST_F(Lldb, OfARunningProgram) {
  const std::string text = lldb({"b weft::rt::begin_crash", "run", "goroutines", "goroutine 2 bt",
                                 "thread list", "continue", "goroutines"},
                                {"--", CRASH_PROGRAMS, "deadlock_two"});
  expect_both(text);
  expect(text, "  thread #[0-9]+: tid = 4294967298, .*'goroutine 2 \\[sync.WaitGroup.Wait\\]");
  expect(text, "exited with status = 2 ");
}

TEST_F(Lldb, OfACoreFile) {
  look_at_a_core([](const std::string& core) {
    expect_both(lldb({"target create --core " + core + " " CRASH_PROGRAMS, "goroutines",
                      "goroutine 2 bt", "goroutine all bt"},
                     {}));
  });
}

TEST_F(Lldb, RunningGoroutines) {
  const std::string text = lldb({"b app::leaf", "run", "goroutines", "goroutine 77 bt"},
                                {"--", CRASH_PROGRAMS, "panic_std_exception"});
  expect(text, "  goroutine 2 \\[running\\] app::leaf.*\n");
  expect(text, "no goroutine 77\n");
}

// One that is about to park, or whose memory a core file lacks: here its stack pointer is made one to nowhere, and to
// where there is no frame.
TEST_F(Lldb, AGoroutineWithoutAFrame) {
  for (const char* sp : {"16", "p.all_gs"}) {
    const std::string text =
        lldb({"b weft::rt::begin_crash", "run", "script import weft_lldb",
              "script p = weft_lldb.Program(lldb.debugger.GetSelectedTarget().process)",
              "script chunk = p.number(p.all_gs)",
              "script all = [chunk + p.chunk_records + i * p.g_size for i in range(9)]",
              "script two = [at for at in all if weft_lldb.Goroutine(p, at).id == 2][0]",
              std::string("script p.process.WriteMemory(two + p.g_sp, int.to_bytes(") + sp +
                  ", 8, 'little'), lldb.SBError())",
              "thread step-inst", "thread list", "goroutines", "goroutine 2 bt"},
             {"--", CRASH_PROGRAMS, "deadlock_two"});
    expect(text,
           "  goroutine 1 \\[sync.WaitGroup.Wait\\] weft::wait_group::wait.*\n"
           "  goroutine 2 \\[sync.WaitGroup.Wait\\] \\{name: sleeper\\} .*\n");
    // (lldb's own Python may have complaints.)
    EXPECT_EQ(text.find("weft_lldb.py\", line"), std::string::npos) << text;
  }
}

// Both scripts read the same table.
TEST(Scripts, KnowTheSameFields) {
  const auto fields = [](const char* script) {
    std::ifstream in(script);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const std::size_t begin = text.find("\nFIELDS = (");
    return text.substr(begin, text.find(")\n", begin) - begin);
  };
  EXPECT_NE(fields(GDB_SCRIPT), "");
  EXPECT_EQ(fields(GDB_SCRIPT), fields(LLDB_SCRIPT));
}

}  // namespace
