// Everything at once, for WEFT_SOAK_SECONDS: goroutines that compute, block in calls that they announce or not, hold
// std's and weft's locks, talk over channels, sleep, end with their threads; the world stops every millisecond or so, the
// number of Ps changes, threads come and go; and each millisecond somebody is asked to make room by the runtime's signal,
// wherever he is, beside those who have computed for long. Whatever is counted must balance, whatever is computed must be
// right, and everybody must get on: who makes no round within a minute ends the test with a dump of all goroutines.
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/file.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <weft/weft.h>

#include "sched/preempt.h"
#include "sched/sched_api.h"
#include "sched/sysmon.h"
#include "support/interrupted.h"
#include "support/preemptions.h"
#include "support/seed.h"

namespace {

using namespace std::chrono_literals;
using weft::test::random_source;
using weft::test::test_clock;

std::chrono::seconds soak_time() {
  const char* text = std::getenv("WEFT_SOAK_SECONDS");
  return std::chrono::seconds(text != nullptr ? std::atoi(text) : 2);
}

// One kind of participant: what it does, and how many rounds it has made.
struct kind {
  const char* name;
  int members;
  bool (*round)(random_source&);
  std::atomic<std::uint64_t> rounds{0};
  std::atomic<std::uint64_t> wrong{0};
};

// -- those who compute ---------------------------------------------------------------------------

constexpr std::uint64_t kA = 6364136223846793005u, kC = 1442695040888963407u;

// x after n steps of the generator, by doubling.
std::uint64_t jump(std::uint64_t x, std::uint64_t n) {
  std::uint64_t a = kA, c = kC, all_a = 1, all_c = 0;
  for (; n > 0; n >>= 1) {
    if ((n & 1) != 0) {
      all_a *= a;
      all_c = all_c * a + c;
    }
    c *= a + 1;
    a *= a;
  }
  return all_a * x + all_c;
}

bool compute(random_source& random) {
  const std::uint64_t begin = random.next(), n = 1'000'000 + random.next() % 4'000'000;
  std::uint64_t x = begin;
  for (std::uint64_t i = 0; i < n; ++i) x = x * kA + kC;
  return x == jump(begin, n);
}

bool allocate(random_source& random) {
  std::map<int, std::string> texts;
  for (int n = 0; n < 300; ++n) {
    std::string text;
    for (int k = random.below(400); k >= 0; --k) text.push_back(static_cast<char>('a' + n % 26));
    texts[n] = std::move(text);
  }
  bool right = texts.size() == 300;
  for (const auto& [n, text] : texts) {
    right &= text.find_first_not_of(static_cast<char>('a' + n % 26)) == text.npos;
  }
  return right;
}

bool throws(random_source& random) {
  const int value = random.below(1'000'000);
  for (int n = 0; n < 50; ++n) {
    try {
      const std::string local(100, 'x');
      throw std::runtime_error(std::to_string(value + n));
    } catch (const std::runtime_error& e) {
      if (std::atoi(e.what()) != value + n) return false;
    }
  }
  return true;
}

// -- those who block -----------------------------------------------------------------------------

bool reads_a_pipe(random_source& random) {
  int fd[2];
  if (pipe2(fd, O_CLOEXEC) != 0) return errno == EMFILE;
  const std::uint64_t sent = random.next();
  std::uint64_t got = 0;
  weft::wait_group writer;
  writer.go([&] {
    const std::chrono::microseconds pause(sent % 2000);
    weft::this_thread::sleep_for(pause);  // sleep-ok: part of the mix
    if (write(fd[1], &sent, sizeof sent) != sizeof sent) std::abort();
  });
  const bool announced = random.one_in(2);
  const auto call = [&] { return read(fd[0], &got, sizeof got); };
  const ssize_t n = announced ? weft::runtime::blocking(call) : call();
  writer.wait();
  close(fd[0]);
  close(fd[1]);
  return n == sizeof got && got == sent;
}

bool waits_for_time(random_source& random) {
  const int ms = 1 + random.below(3);
  const auto began = test_clock::now();
  timespec pause{0, ms * 1'000'000L};
  long result = 0;
  switch (random.below(3)) {
    case 0: result = nanosleep(&pause, nullptr); break;  // sleep-ok: the call that blocks
    case 1: result = poll(nullptr, 0, ms); break;
    default:
      weft::this_thread::sleep_for(std::chrono::milliseconds(ms));  // sleep-ok: part of the mix
  }
  if (result != 0) return weft::test::may_be_interrupted();
  return test_clock::now() - began >= std::chrono::milliseconds(ms);
}

bool waits_for_a_program(random_source& random) {
  if (!random.one_in(20)) return waits_for_time(random);
  const pid_t child = vfork();
  if (child == 0) {
    execl("/bin/true", "true", nullptr);
    _exit(127);
  }
  int status = -1;
  while (waitpid(child, &status, 0) != child) {
    if (!weft::test::may_be_interrupted()) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// -- those who want the same ---------------------------------------------------------------------

template <class Lock>
struct account {
  Lock lock;
  std::uint64_t a = 0, b = 0;  // a + b stays

  bool transfer(random_source& random) {
    const std::lock_guard held(lock);
    const bool right = a + b == 0;
    const std::uint64_t sum = random.next();
    a += sum;
    for (int n = random.below(20'000); n > 0; --n) asm volatile("");  // may be frozen here
    b -= sum;
    return right;
  }
};
account<std::mutex> std_account;
account<weft::mutex> weft_account;
bool locks_std(random_source& random) { return std_account.transfer(random); }
bool locks_weft(random_source& random) { return weft_account.transfer(random); }

bool locks_a_file(random_source& random) {
  static const std::string path = "/tmp/weft_soak." + std::to_string(getpid());
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return errno == EMFILE;
  const bool right = flock(fd, LOCK_EX) == 0;
  for (int n = random.below(20'000); n > 0; --n) asm volatile("");
  unlink(path.c_str());
  close(fd);
  return right;
}

bool talks(random_source& random) {
  const weft::chan<std::uint64_t> to(static_cast<std::size_t>(random.below(3))), from;
  constexpr int kMessages = 100;
  weft::go([to, from] {
    std::uint64_t sum = 0;
    for (std::uint64_t x : to) sum += x;
    from.send(sum);
  });
  std::uint64_t sum = 0;
  for (int n = 0; n < kMessages; ++n) {
    const std::uint64_t x = random.next();
    sum += x;
    to.send(x);
  }
  to.close();
  return from.recv() == sum;
}

// -- those who disturb ---------------------------------------------------------------------------

bool stops_the_world(random_source& random) {
  static std::atomic<int> inside{0};
  int seen = -1;
  weft::runtime::stop_the_world([&] {
    seen = inside.fetch_add(1);
    for (int n = random.below(1000); n > 0; --n) asm volatile("");
    inside.fetch_sub(1);
  });
  weft::this_thread::sleep_for(1ms);  // sleep-ok: part of the mix
  return seen == 0;
}

bool changes_procs(random_source& random) {
  weft::runtime::gomaxprocs(1 + random.below(4));
  weft::this_thread::sleep_for(50ms);  // sleep-ok: part of the mix
  return true;
}

bool makes_threads(random_source& random) {
  bool right = false;
  if (random.one_in(2)) {
    std::thread([&] { right = talks(random); }).join();
  } else {
    weft::thread([&] {  // its thread ends with it
      weft::runtime::lock_os_thread();
      right = talks(random);
    })
        .join();
  }
  return right;
}

// ------------------------------------------------------------------------------------------------

kind kinds[] = {
    {"compute", 4, compute},
    {"allocate", 3, allocate},
    {"throw", 2, throws},
    {"read a pipe", 20, reads_a_pipe},
    {"wait for time", 20, waits_for_time},
    {"wait for a program", 2, waits_for_a_program},
    {"lock a std::mutex", 6, locks_std},
    {"lock a weft::mutex", 6, locks_weft},
    {"lock a file", 3, locks_a_file},
    {"talk", 6, talks},
    {"stop the world", 2, stops_the_world},
    {"change procs", 1, changes_procs},
    {"make threads", 3, makes_threads},
};

// A plain thread that looks whether everybody gets on.
void watch(const std::atomic<bool>& over) {
  constexpr auto kPatience = 60s;
  std::array<std::uint64_t, std::size(kinds)> last{};
  std::array<test_clock::time_point, std::size(kinds)> when;
  when.fill(test_clock::now());
  while (!over) {
    std::this_thread::sleep_for(100ms);  // sleep-ok: a look now and then
    for (std::size_t i = 0; i < std::size(kinds); ++i) {
      const std::uint64_t rounds = kinds[i].rounds;
      if (rounds != last[i]) {
        last[i] = rounds;
        when[i] = test_clock::now();
      } else if (test_clock::now() - when[i] > kPatience) {
        std::fprintf(stderr, "soak: nobody could %s for a minute\n", kinds[i].name);
        raise(SIGQUIT);  // a dump of all goroutines
      }
    }
  }
}

// -- those who are disturbed ---------------------------------------------------------------------

// The runtime's own request to make room, to any M that has a P or was robbed of it: wherever it is, be it in a call, which
// sysmon would not interrupt. False: there is none, or a request is on its way to it already.
bool disturbs_somebody(random_source& random) {
  weft::rt::M* chosen = nullptr;
  int tid = 0;
  {
    const weft::rt::inside here;
    const weft::rt::scoped_lock held(weft::rt::sched.lock);
    int seen = 0;
    const auto draw = [&](weft::rt::M* mp) {
      if (mp != nullptr && random.below(++seen) == 0) chosen = mp;
    };
    for (std::int32_t i = 0; i < weft::rt::sched.proc_count(); ++i) {
      weft::rt::P* pp = weft::rt::sched.p(i);
      // order: PM1 acquire: sees the M set up; pairs with acquire_p()
      if (weft::rt::is_running(pp)) draw(pp->m.load(WEFT_ORDER(PM1, acquire)));
    }
    for (auto* mp = weft::rt::sched.robbed_ms; mp != nullptr; mp = mp->robbed_next) draw(mp);
    if (chosen != nullptr) tid = weft::rt::thread_to_signal(chosen);
  }
  if (tid == 0) return false;
  weft::rt::ask_to_yield(chosen, tid);
  return true;
}

// A plain thread that does so each millisecond, and makes up for those in which it did not get a processor.
std::uint64_t disturb(const std::atomic<bool>& over) {
  random_source random(0);
  std::uint64_t sent = 0;
  for (auto next = test_clock::now(); !over; next += 1ms) {
    std::this_thread::sleep_until(next);  // sleep-ok: a signal per millisecond
    sent += disturbs_somebody(random) ? 1 : 0;
  }
  return sent;
}

TEST(Soak, EverythingAtOnce) {
  weft::test::seed();
  const std::uint64_t frozen = weft::test::preemptions(), handed = weft::test::handoffs();
  const std::clock_t began = std::clock();
  std::atomic<bool> over{false};
  std::thread watcher([&] { watch(over); });
  std::uint64_t sent = 0;
  std::thread disturber([&] { sent = disturb(over); });
  weft::run([&] {
    const auto until = test_clock::now() + soak_time();
    weft::wait_group all;
    std::uint64_t number = 0;
    for (kind& k : kinds) {
      for (int i = 0; i < k.members; ++i) {
        all.go([&k, until, n = ++number] {
          random_source random(n);
          do {
            if (!k.round(random)) ++k.wrong;
            ++k.rounds;
          } while (test_clock::now() < until);
        });
      }
    }
    all.wait();
  });
  over = true;
  watcher.join();
  disturber.join();
  for (const kind& k : kinds) {
    EXPECT_EQ(k.wrong, 0u) << k.name;
    EXPECT_GT(k.rounds, 0u) << k.name;
    std::printf("%-20s %12llu rounds\n", k.name, static_cast<unsigned long long>(k.rounds));
  }
  EXPECT_EQ(std_account.a + std_account.b, 0u);
  EXPECT_EQ(weft_account.a + weft_account.b, 0u);
  // By the time that the process got, for a thread that gets none takes no signal. Measured on two processors, busy or not:
  // 1200 signals in a second of that, and as many preemptions; under TSan 550.
  const auto used = static_cast<std::uint64_t>(std::clock() - began) / (CLOCKS_PER_SEC / 1000);
  const std::uint64_t least = used * 50 / 1000, preempted = weft::test::preemptions() - frozen;
  EXPECT_GE(sent, least);
  EXPECT_GE(preempted, least);
  const std::pair<const char*, std::uint64_t> numbers[] = {
      {"signals", sent},
      {"preemptions", preempted},
      {"hand-offs", weft::test::handoffs() - handed},
      {"ms of processors", used},
  };
  for (const auto& [name, n] : numbers) {
    std::printf("%-20s %12llu\n", name, static_cast<unsigned long long>(n));
  }
}

}  // namespace
