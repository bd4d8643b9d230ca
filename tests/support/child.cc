// See child.h.
#include "support/child.h"

#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <map>
#include <signal.h>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

#include "support/watchdog.h"

extern char** environ;

namespace weft::test {

namespace {

constexpr const char* kFlag = "--child=";

std::map<std::string, int (*)()>& children() {
  static auto* all = new std::map<std::string, int (*)()>();  // outlives every static destructor
  return *all;
}

std::string this_program() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
  return n > 0 ? std::string(path, static_cast<std::size_t>(n)) : std::string();
}

// The emulator's words, if there is one, and then ours.
std::vector<std::string> command(const std::string& name) {
  std::vector<std::string> words;
  if (const char* emulator = std::getenv("WEFT_TEST_EMULATOR")) {
    std::istringstream in(emulator);
    for (std::string w; in >> w;) words.push_back(w);
  }
  words.push_back(this_program());
  words.push_back(kFlag + name);
  return words;
}

// Ours, and what we have ourselves unless it is among them: of two of one name an emulator takes the last.
std::vector<std::string> with_inherited(std::vector<std::string> variables) {
  const std::size_t given = variables.size();
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string inherited = *e;
    const std::string name = inherited.substr(0, inherited.find('=') + 1);
    bool again = false;
    for (std::size_t i = 0; i < given; ++i) again = again || variables[i].starts_with(name);
    if (!again) variables.push_back(inherited);
  }
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (auto& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

std::string read_all(int fd) {
  std::string out;
  char buffer[4096];
  for (;;) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n <= 0) return out;
    out.append(buffer, static_cast<std::size_t>(n));
  }
}

int status_of(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

child_result run_child(const std::string& name, const std::vector<std::string>& environment) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::vector<std::string> words = command(name);
  std::vector<std::string> variables = with_inherited(environment);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, words[0].c_str(), &actions, nullptr, pointers(words).data(),
                                 pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  child_result result;
  if (error == 0) {
    result.output = read_all(ends[0]);
    result.status = status_of(pid);
  }
  close(ends[0]);
  return result;
}

child_registration::child_registration(const char* name, int (*body)()) { children()[name] = body; }

int main_with_children(int argc, char** argv) {
  const std::string flag = kFlag;
  if (argc == 2 && std::string(argv[1]).starts_with(flag)) {
    const auto found = children().find(std::string(argv[1]).substr(flag.size()));
    if (found == children().end()) {
      return 127;
    }
    static const auto* const barks = new watchdog("child " + found->first, 30);  // in exit(), too
    static_cast<void>(barks);
    return found->second();
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace weft::test
