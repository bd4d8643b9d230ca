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
  EXPECT_EQ(parse_traceback_level(nullptr).show, detail::user);
  EXPECT_FALSE(parse_traceback_level("single").all_goroutines);
  EXPECT_EQ(parse_traceback_level("none").show, detail::none);
  EXPECT_EQ(parse_traceback_level("0").show, detail::none);
  EXPECT_TRUE(parse_traceback_level("all").all_goroutines);
  EXPECT_EQ(parse_traceback_level("1").show, detail::user);
  EXPECT_TRUE(parse_traceback_level("system").system());
  EXPECT_TRUE(parse_traceback_level("2").system());
  EXPECT_TRUE(parse_traceback_level("crash").core);
  EXPECT_EQ(parse_traceback_level("nonsense").show, detail::user);
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

TEST(Traceback, SourceLinesIfThereIsAFinder) {
  set_line_finder([](std::uintptr_t, source_line& found) {
    found = {"loom.cc", 12};
    return true;
  });
  EXPECT_NE(stack_here(detail::user).find("main(...)\n\tloom.cc:12 +0x"), std::string::npos);
  set_line_finder([](std::uintptr_t, source_line&) { return false; });
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
