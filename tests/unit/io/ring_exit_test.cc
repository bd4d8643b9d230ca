// What needs a process of its own: it ends, or is copied, while the kernel has operations of it; or its rings are made
// in another way. Pipes are read through the ring, which nobody ends, and files past the page cache.
#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/go.h>
#include <weft/io.h>
#include <weft/process.h>
#include <weft/run.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "io/ring_wait.h"
#include "os/test_hooks.h"
#include "poll/ring.h"
#include "support/child_suite.h"
#include "support/files.h"

namespace {

using weft::rt::ring_op;
using weft::rt::os::test_hooks;

struct endless {
  endless() {
    if (pipe2(fd, O_CLOEXEC) != 0) std::abort();
  }
  // One byte, when there is one.
  std::int64_t read(char* to) const {
    ring_op op{.call = weft::rt::ring_call::read,
               .fd = fd[0],
               .address = to,
               .length = 1,
               .offset = weft::rt::kOwnPosition,
               .done = {}};
    std::int64_t result = -1;
    return run_on_ring(op, {}, &result) ? result : -ENOSYS;
  }
  int fd[2];
};

// Starts some that never end, and returns when the kernel has them all.
void start_readers(const endless& p, weft::io::file& f) {
  weft::wait_group begun;
  for (int i = 0; i < 8; ++i) {
    begun.add(1);
    weft::go([&] {
      begun.done();
      char c = 0;
      p.read(&c);
    });
    begun.add(1);
    weft::go([&] {
      const weft::test::block b(64 << 10);
      f.read_at(b, 0);
      begun.done();
      for (;;) f.read_at(b, 0);
    });
  }
  begun.wait();
}

// They go on after main(): what they use stays.
template <class F>
int among_readers(F then) {
  static const endless p;
  static weft::io::file& f = *new weft::io::file;  // never destroyed: they are inside
  return weft::run([&] {
    {
      const weft::test::folder dir;
      f = weft::test::filled_file(dir / "a", 1, 64 << 10);
    }
    start_readers(p, f);
    return then();
  });
}

WEFT_CHILD(main_returns) {
  return among_readers([] { return 3; });
}

WEFT_CHILD(exits_inside) {
  return among_readers([] {
    std::exit(4);
    return 0;
  });
}

// A copy of the process, and another program, take nothing away.
WEFT_CHILD(forks) {
  return weft::run([] {
    const endless p;
    char got[4] = {};
    weft::wait_group all;
    for (char& to : got) all.go([&] { p.read(&to); });
    weft::gosched();
    if (const pid_t child = fork(); child == 0) {
      _exit(0);
    } else {
      int status = 0;
      waitpid(child, &status, 0);
      if (status != 0) return 1;
    }
    if (!weft::process::command("true").run().ok()) return 2;
    if (::write(p.fd[1], "abcd", 4) != 4) return 3;
    all.wait();
    return got[0] != 0 && got[1] != 0 && got[2] != 0 && got[3] != 0 ? 5 : 4;
  });
}

// Somebody else will write: nobody is dead meanwhile.
WEFT_CHILD(waits_for_another_process) {
  return weft::run([] {
    FILE* other = popen("sleep 0.05; echo x", "r");
    ring_op op{.call = weft::rt::ring_call::read, .fd = fileno(other), .done = {}};
    char c = 0;
    op.address = &c;
    op.length = 1;
    op.offset = weft::rt::kOwnPosition;
    std::int64_t result = 0;
    const bool taken = run_on_ring(op, {}, &result);
    pclose(other);
    return !taken || (result == 1 && c == 'x') ? 6 : 1;
  });
}

// More is completed at once than a ring has room for, and whoever empties the ring does not see it yet: the rest is
// fetched by the next one who looks. Meanwhile nobody submits anything, which may fetch it, too.
WEFT_CHILD(overflows) {
  test_hooks.ring_room.set(2);
  test_hooks.ring_overflow_late.set(1);
  test_hooks.ring_operations.set(0);
  return weft::run([] {
    constexpr int kReaders = 20;
    const endless p;
    char got[kReaders] = {};
    weft::wait_group all;
    for (char& to : got) all.go([&] { p.read(&to); });
    while (test_hooks.ring_operations.get() < kReaders) weft::gosched();
    const std::string text(kReaders, 'x');
    if (::write(p.fd[1], text.data(), text.size()) != kReaders) return 1;
    all.wait();
    return std::string(got, kReaders) == text ? 9 : 2;
  });
}

// Errors that pass are not for ever.
WEFT_CHILD(has_no_descriptor_at_first) {
  return weft::run([] {
    for (const int error : {EMFILE, ENOMEM}) {
      test_hooks.deny_io_uring.set(error);
      if (weft::rt::ring_usable()) return 1;
    }
    test_hooks.deny_io_uring.set(0);
    return weft::rt::ring_usable() ? 7 : 2;
  });
}
WEFT_CHILD(is_denied) {
  return weft::run([] {
    test_hooks.deny_io_uring.set(EPERM);
    if (weft::rt::ring_usable()) return 1;
    test_hooks.deny_io_uring.set(0);
    return weft::rt::ring_usable() ? 2 : 8;
  });
}

class RingExit : public weft::test::children_over_procs {};

TEST_P(RingExit, MainReturns) { expect("main_returns", 3, ""); }
TEST_P(RingExit, ExitsInside) { expect("exits_inside", 4, ""); }
TEST_P(RingExit, Forks) {
  if (weft::rt::ring_usable()) expect("forks", 5, "");
}
TEST_P(RingExit, TriedAgain) {
  if (weft::rt::ring_usable()) expect("has_no_descriptor_at_first", 7, "");
  expect("is_denied", 8, "");
}
TEST_P(RingExit, Overflows) {
  if (weft::rt::ring_usable()) expect("overflows", 9, "");
}
TEST_P(RingExit, IsNoDeadlock) { EXPECT_EQ(run("waits_for_another_process").status, 6); }

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
