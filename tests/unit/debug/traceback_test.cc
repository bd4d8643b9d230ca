#include "debug/traceback.h"

#include <gtest/gtest.h>
#include <string>

namespace weft::rt {
namespace {

using detail = traceback_level::detail;

void append(void* to, const char* data, std::size_t size) {
  static_cast<std::string*>(to)->append(data, size);
}

volatile int sink;

[[gnu::noinline]] std::string stack_here(detail show) {
  std::string text;
  {
    printer out(append, &text);
    print_stack(out, this_frame(), show);
  }
  sink = 1;
  return text;
}

TEST(Traceback, Levels) {
  const auto parse = [](const char* word) { return parse_traceback_level(word).value(); };
  EXPECT_EQ(parse("").show, detail::user);
  EXPECT_FALSE(parse("single").all_goroutines);
  EXPECT_EQ(parse("none").show, detail::none);
  EXPECT_EQ(parse("0").show, detail::none);
  EXPECT_TRUE(parse("all").all_goroutines);
  EXPECT_EQ(parse("1").show, detail::user);
  EXPECT_TRUE(parse("system").system());
  EXPECT_TRUE(parse("2").system());
  EXPECT_TRUE(parse("crash").core);
  EXPECT_FALSE(parse_traceback_level("nonsense").has_value());
  EXPECT_FALSE(parse_traceback_level("2x").has_value());
}

TEST(Traceback, HidesTheRuntime) {
  // This test lies in the runtime's own namespace.
  EXPECT_EQ(stack_here(detail::user).find("weft::rt::"), std::string::npos);
  EXPECT_NE(stack_here(detail::system).find("stack_here(...)\n\t"), std::string::npos);
  EXPECT_EQ(stack_here(detail::none), "");
}

TEST(Traceback, EndsAtMain) {
  EXPECT_NE(stack_here(detail::user).find("\nmain(...)\n\t"), std::string::npos)
      << stack_here(detail::user);
}

TEST(Traceback, CreatedBy) {
  std::string text;
  {
    printer out(append, &text);
    print_created_by(out, reinterpret_cast<const void*>(&print_stack), 7);
    print_created_by(out, nullptr, 7);
  }
  EXPECT_EQ(text.find("created by "), 0u);
  EXPECT_NE(text.find(" in goroutine 7\n\t"), std::string::npos) << text;
}

}  // namespace
}  // namespace weft::rt
