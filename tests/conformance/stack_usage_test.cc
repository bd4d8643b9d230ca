// runtime::stack_usage(): high-water marks.
#include <cstddef>
#include <gtest/gtest.h>

#include <weft/weft.h>

namespace {

[[gnu::noinline]] void use(std::size_t bytes) {
  auto* memory = static_cast<volatile char*>(__builtin_alloca(bytes));
  for (std::size_t i = 0; i < bytes; i += 256) memory[i] = 1;
}

TEST(StackUsage, SeesTheDeepestCall) {
  weft::runtime::stack_use before, after;
  weft::run([&] {
    weft::thread(weft::attrs{.stack_size = 1 << 20},
                 [&] {  // a stack of its own size is fresh
                   before = weft::runtime::stack_usage();
                   use(300'000);
                   after = weft::runtime::stack_usage();
                 })
        .join();
  });
  EXPECT_GE(before.size, std::size_t{1} << 20);
  EXPECT_GT(before.now, 0u);
  EXPECT_LT(before.now, 100'000u);
  EXPECT_GE(before.most, before.now);
  EXPECT_GE(after.most, 300'000u);
  EXPECT_LT(after.most, 400'000u);
  EXPECT_LE(after.now, before.now + 4096);
}

TEST(StackUsage, OfAPlainThreadIsUnknown) { EXPECT_EQ(weft::runtime::stack_usage().size, 0u); }

}  // namespace
