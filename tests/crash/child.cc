#include "crash/child.h"

#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace crash {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);

struct channel {
  int read_end = -1;
  int write_end = -1;
  std::string* text = nullptr;
};

channel open_channel(std::string& text) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  return {ends[0], ends[1], &text};
}

// In a cross build the words of the emulator come first.
std::vector<std::string> command_for(const request& what) {
  std::vector<std::string> words;
  if (const char* emulator = std::getenv("WEFT_TEST_EMULATOR")) {
    std::istringstream in(emulator);
    for (std::string word; in >> word;) words.push_back(word);
  }
  if (what.command.empty()) words.emplace_back(CRASH_PROGRAMS);
  words.insert(words.end(), what.command.begin(), what.command.end());
  if (!what.program.empty()) words.push_back(what.program);
  return words;
}

pid_t start(const request& what, const channel& out, const channel& err) {
  std::vector<std::string> words = command_for(what);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::vector<char*> variables;
  for (const std::string& extra : what.environment) {
    variables.push_back(const_cast<char*>(extra.c_str()));
  }
  for (char** v = environ; *v != nullptr; ++v) variables.push_back(*v);
  variables.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out.write_end, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write_end, STDERR_FILENO);
  pid_t child = -1;
  const int failed =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) std::abort();
  return child;
}

// Reads both until the child has closed them. False: it took too long.
template <class Look>
bool read_all(std::vector<channel> open, Look look) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!open.empty()) {
    std::vector<pollfd> waiting;
    for (const channel& c : open) waiting.push_back({c.read_end, POLLIN, 0});
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    poll(waiting.data(), waiting.size(), static_cast<int>(left.count()));
    for (std::size_t i = waiting.size(); i-- > 0;) {
      if (waiting[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t n = read(open[i].read_end, buffer, sizeof buffer);
      if (n > 0) {
        open[i].text->append(buffer, static_cast<std::size_t>(n));
        look();
      } else {
        close(open[i].read_end);
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }
  return true;
}

}  // namespace

outcome run(const request& what) {
  outcome result;
  const channel out = open_channel(result.out);
  const channel err = open_channel(result.err);
  const pid_t child = start(what, out, err);
  close(out.write_end);
  close(err.write_end);
  bool signalled = what.signal == 0;
  const auto look = [&] {
    if (!signalled && result.out.find(what.when_it_says) != std::string::npos) {
      signalled = true;
      kill(child, what.signal);
    }
  };
  if (!read_all({out, err}, look)) {
    result.hung = true;
    kill(child, SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) result.exit_status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

outcome run_program(const std::string& name, std::initializer_list<const char*> environment) {
  request what;
  what.program = name;
  what.environment.assign(environment.begin(), environment.end());
  return run(what);
}

}  // namespace crash
