// Go: TestEINTR. Every thread is interrupted all the time by a signal of the program's own, whose handler does not ask for
// calls to be restarted. A raw call says EINTR then, as it must; none of weft's does: files, pipes, sockets, programs,
// names and sleep succeed, with the right data, while all of them go on at once.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <weft/weft.h>

#include "support/child_suite.h"
#include "support/files.h"
#include "support/sockets.h"
#include "support/tasks.h"
#include "support/thread_state.h"

namespace {

using namespace std::chrono_literals;
using weft::test::folder;
using weft::test::pattern_string;
namespace io = weft::io;
namespace net = weft::net;

constexpr int kRight = 3;
constexpr std::size_t kBytes = 200'000;  // more than pipes and sockets hold

// -- the storm -----------------------------------------------------------------------------------

std::vector<int> threads_of_process() {
  std::vector<int> tids;
  std::error_code ec;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ec)) {
    tids.push_back(std::stoi(task.path().filename().string()));
  }
  return tids;
}

// A plain thread that signals all others every 100 us; less often where a handler takes longer.
class storm {
 public:
  storm() {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    sigaction(SIGUSR1, &action, nullptr);  // without SA_RESTART
    thread_ = std::thread([this] { blow(); });
  }
  ~storm() {
    over_ = true;
    thread_.join();
  }

 private:
  void blow() const {
    const long self = weft::test::thread_now();
    std::vector<int> tids;
    for (int n = 0; !over_; ++n) {
      if (n % 10 == 0) tids = threads_of_process();
      for (const int tid : tids) {
        if (tid != self) syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
      }
      std::this_thread::sleep_for(100us * weft::test::slowness());  // sleep-ok: the storm's rate
    }
  }

  std::atomic<bool> over_{false};
  std::thread thread_;
};

// A call that nobody makes again says so. Without the storm it would never return.
bool storm_is_felt() {
  int fd[2];
  if (pipe2(fd, O_CLOEXEC) != 0) return false;
  const bool interrupted = weft::runtime::blocking([&] {
    char byte;
    return read(fd[0], &byte, 1) < 0 && weft::test::get_errno() == EINTR;
  });
  close(fd[0]);
  close(fd[1]);
  return interrupted;
}

// -- weft's calls, each in a folder of its own ---------------------------------------------------

// Everything there is, up to the end.
template <class Input>
std::string read_all(Input& from) {
  std::string all, some(5000, '\0');
  while (const std::size_t n = from.read_some(some)) all.append(some, 0, n);
  return all;
}

bool files(const folder& in) {
  const std::string path = in / "file", sent = pattern_string(1, 0, kBytes);
  {
    io::file f = io::file::create(path);
    f.write_all(sent);
    f.sync();
    f.datasync();
    if (f.size() != static_cast<std::int64_t>(kBytes)) return false;
    f.close();
  }
  std::string got(kBytes, '\0');
  io::file f = io::file::open(path);
  if (f.read_at(got, 0) != kBytes || got != sent) return false;
  const auto entries = io::read_dir(in.path());
  return entries.size() == 1 && entries[0].name == "file" && io::read_file(path) == sent;
}

// Each end waits in open(2) for the other.
bool fifos(const folder& in) {
  const std::string path = in / "fifo", sent = pattern_string(2, 0, kBytes);
  if (mkfifo(path.c_str(), 0600) != 0) return false;
  weft::thread writer([&] { io::file::open(path, O_WRONLY).write_all(sent); });
  io::file f = io::file::open(path);
  const std::string got = read_all(f);
  writer.join();
  return unlink(path.c_str()) == 0 && got == sent;
}

bool pipes(const folder&) {
  auto [r, w] = io::pipe();
  const std::string sent = pattern_string(3, 0, kBytes);
  weft::thread writer([&, &w = w] {
    w.write_all(sent);
    w.close();
  });
  const std::string got = read_all(r);
  writer.join();
  return got == sent;
}

// What is sent comes back.
template <class Listener, class Dial>
bool echoes(Listener& l, Dial dial) {
  weft::thread server([&] {
    auto c = l.accept();
    c.write_all(read_all(c));
    c.shutdown_write();
  });
  const std::string sent = pattern_string(4, 0, kBytes);
  auto c = dial();
  c.write_all(sent);
  c.shutdown_write();
  const std::string got = read_all(c);
  server.join();
  return got == sent;
}

bool tcp(const folder&) {
  net::tcp_listener l = net::listen("127.0.0.1:0");
  return echoes(l, [&] { return net::dial(l.local_endpoint()); });
}

bool unix_sockets(const folder& in) {
  const std::string path = in / "socket";
  net::unix_listener l = net::listen_unix(path);
  const bool right = echoes(l, [&] { return net::dial_unix(path); });
  unlink(path.c_str());
  return right;
}

bool programs(const folder&) {
  using weft::process::command;
  return command("true").run().ok() && command("echo", {"x"}).output().out == "x\n" &&
         command("sh", {"-c", "exit 7"}).run().exit_code == 7;
}

bool names(const folder&) {
  return !net::resolver::lookup("localhost:80").empty() &&
         net::resolver::lookup("127.0.0.1:80").size() == 1;
}

bool sleeps(const folder&) {
  const auto until = weft::test::test_clock::now() + 2ms;
  weft::this_thread::sleep_until(until);  // sleep-ok: what is tested
  return weft::test::test_clock::now() >= until;
}

// ------------------------------------------------------------------------------------------------

constexpr struct {
  const char* name;
  bool (*round)(const folder&);
} kCalls[] = {
    {"files", files},       {"fifos", fifos}, {"pipes", pipes},   {"tcp", tcp},
    {"unix", unix_sockets}, {"names", names}, {"sleeps", sleeps}, {"programs", programs},
};

WEFT_CHILD(in_a_storm) {
  std::atomic<int> wrong{0};
  bool felt = false;
  {
    const storm all_the_time;
    weft::run([&] {
      weft::wait_group all;
      for (const auto& call : kCalls) {
        all.go([&wrong, &call] {
          const folder here;
          for (weft::test::budget b(100, 200ms); b.next();) {
            try {
              if (call.round(here)) continue;
              std::printf("%s: wrong\n", call.name);
            } catch (const std::exception& e) {
              std::printf("%s: %s\n", call.name, e.what());
            }
            ++wrong;
          }
        });
      }
      felt = storm_is_felt();
      all.wait();
    });
  }
  if (!felt) std::puts("a raw call was not interrupted");
  return wrong == 0 && felt ? kRight : 1;
}

class SignalStorm : public weft::test::children_over_procs {};

TEST_P(SignalStorm, CommonCallsNeverSayEINTR) {
  const auto r = run("in_a_storm");
  EXPECT_EQ(r.status, kRight);
  EXPECT_EQ(r.output, "");
}
WEFT_OVER_PROCS(SignalStorm);

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
