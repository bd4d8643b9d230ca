// A program that serves, as a process of its own: started, asked for its address, told to end.
#pragma once

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include <weft/net.h>
#include <weft/process.h>

namespace weft::test {

// Prints "... on ADDRESS" as its first line. Its standard input ends when this process does.
class program {
 public:
  // `faults`: what goes wrong in it (WEFT_TEST_FORCE).
  program(const char* path, const std::vector<std::string>& arguments,
          const std::string& faults = "") {
    std::vector<std::string> words = arguments;
    std::string first = path;
    if (const char* emulator = std::getenv("WEFT_TEST_EMULATOR")) {
      words.insert(words.begin(), first);
      first = emulator;
    }
    process::command what(first, words);
    if (!faults.empty()) what.env("WEFT_TEST_FORCE", faults);
    child_ = what.in(process::stream_choice::pipe()).out(process::stream_choice::pipe()).start();
    for (char c = 0; child_.out.read_some({&c, 1}) == 1 && c != '\n';) said_ += c;
    const std::size_t on = said_.rfind(" on ");
    EXPECT_NE(on, said_.npos) << said_;
    address_ = on == said_.npos ? "" : said_.substr(on + 4);
  }
  ~program() {
    if (!ended_) {
      child_.kill();
      child_.wait();
    }
  }
  program(const program&) = delete;
  program& operator=(const program&) = delete;

  const std::string& address() const { return address_; }
  net::tcp_conn dial() const { return net::dial(address_); }
  void signal(int number) { child_.kill(number); }

  process::result wait() {
    ended_ = true;
    char part[256];
    while (const std::size_t n = child_.out.read_some(part)) rest_.append(part, n);
    return child_.wait();
  }
  // What it has printed after its first line; after wait().
  const std::string& output() const { return rest_; }

  // How many sockets and files of that directory it has open.
  int descriptors(const std::string& directory) const {
    int n = 0;
    const std::string all = "/proc/" + std::to_string(child_.pid()) + "/fd";
    for (const auto& e : std::filesystem::directory_iterator(all)) {
      std::error_code gone;
      const std::string to = std::filesystem::read_symlink(e.path(), gone).string();
      n += to.starts_with("socket:") || to.starts_with(directory);
    }
    return n;
  }

 private:
  process::child child_;
  std::string said_, address_, rest_;
  bool ended_ = false;
};

// The first accept() fails with EPROTO (src/io/calls.h).
inline constexpr const char* kOneBadAccept = "io_faults=4096000001,io_faults_left=1";

// A directory of its own, gone at the end.
class temporary_directory {
 public:
  temporary_directory() {
    std::string name = (std::filesystem::temp_directory_path() / "weft-XXXXXX").string();
    path_ = ::mkdtemp(name.data()) != nullptr ? name : "";
    EXPECT_FALSE(path_.empty());
  }
  ~temporary_directory() { std::filesystem::remove_all(path_); }
  temporary_directory(const temporary_directory&) = delete;
  temporary_directory& operator=(const temporary_directory&) = delete;

  std::string path(const std::string& name = "") const { return path_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

 private:
  std::string path_;
};

// A program of somebody else's, by its name.
inline bool is_installed(const char* name) {
  return process::command("sh", {"-c", "command -v \"$0\" >/dev/null", name}).run().ok();
}

}  // namespace weft::test
