// os/memory.h and os/test_hooks.h.
#include "os/memory.h"

#include <cstddef>
#include <cstdlib>
#include <errno.h>
#include <gtest/gtest.h>

#include "os/test_hooks.h"

namespace weft::rt {
namespace {

class MemoryTest : public testing::Test {
 protected:
  void SetUp() override { os::test_hooks.reset(); }
  void TearDown() override { os::test_hooks.reset(); }
};

TEST_F(MemoryTest, ReservesZeroedMemoryThatCanBeDropped) {
  const std::size_t bytes = 16 * page_size();
  auto* memory = static_cast<unsigned char*>(reserve(bytes));
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory[bytes - 1], 0);
  memory[bytes - 1] = 7;
  EXPECT_TRUE(decommit(memory, bytes));
  EXPECT_EQ(memory[bytes - 1], 0);
  release(memory, bytes);
}

TEST_F(MemoryTest, ReservesFarMoreThanThereIs) {
  if (std::getenv("WEFT_TEST_EMULATOR") != nullptr) GTEST_SKIP() << "takes qemu half a minute";
  constexpr std::size_t kQuarterTerabyte = std::size_t{1} << 38;
  void* memory = reserve(kQuarterTerabyte);
  ASSERT_NE(memory, nullptr);
  release(memory, kQuarterTerabyte);
}

TEST_F(MemoryTest, GrowsKeepingTheContents) {
  auto* memory = static_cast<unsigned char*>(reserve(page_size()));
  ASSERT_NE(memory, nullptr);
  memory[3] = 42;
  auto* moved = static_cast<unsigned char*>(regrow(memory, page_size(), 64 * page_size()));
  ASSERT_NE(moved, nullptr);
  EXPECT_EQ(moved[3], 42);
  EXPECT_EQ(moved[64 * page_size() - 1], 0);
  release(moved, 64 * page_size());
}

TEST_F(MemoryTest, ReportsWhatTheKernelRefuses) {
  errno = 0;
  EXPECT_EQ(reserve(std::size_t{1} << 62), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST_F(MemoryTest, ForcedFailureBeginsAfterSoManySuccesses) {
  os::test_hooks.force_mmap_fail_after.set(2);
  void* first = reserve(page_size());
  void* second = reserve(page_size());
  EXPECT_NE(first, nullptr);
  EXPECT_NE(second, nullptr);
  errno = 0;
  EXPECT_EQ(reserve(page_size()), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(regrow(first, page_size(), 2 * page_size()), nullptr);
  os::test_hooks.reset();
  release(first, page_size());
  release(second, page_size());
}

TEST_F(MemoryTest, RoundsToPages) {
  EXPECT_EQ(round_to_pages(1), page_size());
  EXPECT_EQ(round_to_pages(page_size()), page_size());
  EXPECT_EQ(round_to_pages(page_size() + 1), 2 * page_size());
}

TEST_F(MemoryTest, HooksAreReadFromText) {
  os::apply_test_hooks("force_thread_eagain_count=12,map_count_budget=0,pretend_qemu_guard=1");
  EXPECT_EQ(os::test_hooks.force_thread_eagain_count.get(), 12);
  EXPECT_EQ(os::test_hooks.map_count_budget.get(), 0);
  EXPECT_EQ(os::test_hooks.pretend_qemu_guard.get(), 1);
  EXPECT_EQ(os::test_hooks.deny_guard_install.get(), 0);
}

TEST_F(MemoryTest, AMisspeltHookEndsTheProcess) {
  EXPECT_EXIT(os::apply_test_hooks("deny_gaurd_install=1"), testing::ExitedWithCode(3),
              "unknown or malformed entry: deny_gaurd_install=1");
  EXPECT_EXIT(os::apply_test_hooks("deny_mprotect=yes"), testing::ExitedWithCode(3),
              "deny_mprotect");
}

}  // namespace
}  // namespace weft::rt
