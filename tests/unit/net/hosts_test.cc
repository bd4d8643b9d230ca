// Lines of /etc/hosts, as people and programs write them.
#include "net/hosts.h"

#include <cstdio>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

// What a file with that text has for the name, without ports.
std::vector<std::string> found(std::string text, std::string_view name) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(::fmemopen(text.data(), text.size(), "r"),
                                                   std::fclose);
  std::vector<std::string> addresses;
  for (const auto& e : weft::net::hosts_in(file.get(), name, 80)) {
    EXPECT_EQ(e.port(), 80);
    addresses.push_back(e.address());
  }
  return addresses;
}

using addresses = std::vector<std::string>;

TEST(Hosts, AliasesAndSeveralLines) {
  const std::string text =
      "127.0.0.1 localhost\n"
      "192.0.2.1\tone.test one  uno\r\n"
      "\n"
      "  192.0.2.2 two one\n"
      "192.0.2.3 three";  // nothing ends the last line
  EXPECT_EQ(found(text, "localhost"), addresses{"127.0.0.1"});
  EXPECT_EQ(found(text, "one"), (addresses{"192.0.2.1", "192.0.2.2"}));
  EXPECT_EQ(found(text, "UNO"), addresses{"192.0.2.1"});
  EXPECT_EQ(found(text, "One.Test"), addresses{"192.0.2.1"});
  EXPECT_EQ(found(text, "three"), addresses{"192.0.2.3"});
  EXPECT_EQ(found(text, "on"), addresses{});
  EXPECT_EQ(found(text, "192.0.2.1"), addresses{}) << "an address is no name";
}

TEST(Hosts, TheNameTwiceInALineIsOneAddress) {
  EXPECT_EQ(found("192.0.2.1 one one\n", "one"), addresses{"192.0.2.1"});
}

TEST(Hosts, Comments) {
  const std::string text =
      "# 192.0.2.1 one\n"
      "192.0.2.2 two # one\n"
      "192.0.2.3 three#one\n"
      "#\n";
  EXPECT_EQ(found(text, "one"), addresses{});
  EXPECT_EQ(found(text, "two"), addresses{"192.0.2.2"});
  EXPECT_EQ(found(text, "three"), addresses{"192.0.2.3"});
}

TEST(Hosts, IPv6) {
  const std::string text =
      "::1 localhost ip6-localhost\n"
      "127.0.0.1 localhost\n"
      "2001:DB8::1 six\n"
      "fe80::1%lo near\n";
  EXPECT_EQ(found(text, "localhost"), (addresses{"::1", "127.0.0.1"})) << "the file's order";
  EXPECT_EQ(found(text, "six"), addresses{"2001:db8::1"});
  EXPECT_EQ(found(text, "near"), addresses{"fe80::1%lo"});
}

TEST(Hosts, WhatCannotBeUnderstoodSaysNothing) {
  const std::string text =
      "one 192.0.2.1\n"
      "192.0.2 one\n"
      "[::1] one\n"
      "192.0.2.4\n"
      "192.0.2.5 one\n";
  EXPECT_EQ(found(text, "one"), addresses{"192.0.2.5"});
}

// However long a line is, what is in it belongs to its address: wherever a buffer might end, nothing after that is a line.
TEST(Hosts, LongLines) {
  for (const std::size_t size : {1000, 1023, 4096, 70'000}) {
    for (std::size_t n = size - 40; n < size + 3; ++n) {
      const std::string filler(n, 'x');
      const std::string names = "192.0.2.1 first " + filler + " 192.0.2.9 last\n192.0.2.2 first\n";
      ASSERT_EQ(found(names, "last"), addresses{"192.0.2.1"}) << n;
      ASSERT_EQ(found(names, "first"), (addresses{"192.0.2.1", "192.0.2.2"})) << n;
      const std::string comment =
          "192.0.2.1 first #" + filler + " 192.0.2.9 last\n192.0.2.2 last\n";
      ASSERT_EQ(found(comment, "last"), addresses{"192.0.2.2"}) << n;
      ASSERT_EQ(found("192.0.2.1 " + filler + "yz\n", filler), addresses{}) << "half a name";
    }
  }
}

}  // namespace
