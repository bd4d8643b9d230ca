// Goroutines wait for files, and threads do not.
#include <algorithm>
#include <gtest/gtest.h>

#include <weft/go.h>
#include <weft/io.h>
#include <weft/wait_group.h>

#include "os/test_hooks.h"
#include "poll/ring.h"
#include "support/files.h"
#include "support/fixture.h"
#include "support/threads.h"

namespace {

using weft::io::file;
using weft::rt::os::test_hooks;
using weft::test::block;
using weft::test::own_threads;
using weft::test::scaled;

constexpr std::size_t kBlock = 64 << 10;

// Nobody takes Ps from those whom the machine pauses: every thread that is made, somebody has asked for.
class RingThreads : public weft::test::over_procs {
 public:
  static void SetUpTestSuite() { test_hooks.no_sysmon.set(1); }

 protected:
  void TearDown() override {
    test_hooks.force_miss.set(0);
    test_hooks.ring_operations.set(-1);
    over_procs::TearDown();
  }
  void SetUp() override {
    over_procs::SetUp();
    bool usable = false;
    run([&] { usable = weft::rt::ring_usable(); });
    if (!usable) GTEST_SKIP() << "no rings here: threads wait";
  }
  weft::test::folder dir_;
};

// Goroutines wait, and no threads: as many as Ps, the spawner, the caller of run(), some more; and whoever is about to
// sleep has given its P away, for which another thread may have come.
TEST_P(RingThreads, ManyReadersFewThreads) {
  const std::size_t size = 64 * kBlock;
  int most = 0;
  run([&] {
    file f = weft::test::filled_file(dir_ / "a", 7, size);
    test_hooks.force_miss.set(1);  // in case that it cannot go past the page cache
    test_hooks.ring_operations.set(0);
    const int before = own_threads();
    const int reads = scaled(10, 4);
    weft::wait_group all;
    for (std::uint64_t i = 0; i < 64; ++i) {
      all.go([&, i] {
        const block b(kBlock);
        for (int k = 0; k < reads; ++k) {
          const std::uint64_t at = (i * 31 + static_cast<std::uint64_t>(k) * 17) % 64 * kBlock;
          EXPECT_EQ(f.read_at(b, static_cast<std::int64_t>(at)), kBlock);
          EXPECT_TRUE(weft::test::is_filled(b.data(), 7, at, kBlock));
        }
      });
    }
    all.wait();
    most = own_threads();
    EXPECT_GE(test_hooks.ring_operations.get(), 1);
    EXPECT_LE(most, std::max(before, 2 * procs() + 4));
  });
}

}  // namespace
