#include "debug/demangle.h"

#include <gtest/gtest.h>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

namespace weft::rt {
namespace {

void append(void* to, const char* data, std::size_t size) {
  static_cast<std::string*>(to)->append(data, size);
}

std::string function(const char* mangled) {
  std::string text;
  {
    printer out(append, &text);
    print_function_name(out, mangled);
  }
  return text;
}

std::string type(const std::type_info& t) {
  std::string text;
  {
    printer out(append, &text);
    print_type_name(out, t.name());
  }
  return text;
}

std::string callable(const char* mangled) { return std::string(user_callable(mangled).text()); }

TEST(Demangle, Functions) {
  EXPECT_EQ(function("main"), "main(...)");
  EXPECT_EQ(function("read@GLIBC_2.2.5"), "read(...)");
  EXPECT_EQ(function("helper.constprop.0"), "helper(...)");
  EXPECT_EQ(function("_Z1fv"), "f(...)");
  EXPECT_EQ(function("_ZN3app6server3runEi"), "app::server::run(...)");
  EXPECT_EQ(function("_ZNK3app6server4nameB5cxx11Ev"), "app::server::name(...)");
  EXPECT_EQ(function("_ZL6hiddenv"), "hidden(...)");
  EXPECT_EQ(function("_ZN12_GLOBAL__N_16hiddenEv"), "(anonymous)::hidden(...)");
  EXPECT_EQ(function("_ZN3app6serverC1ERKS0_"), "app::server::server(...)");
  EXPECT_EQ(function("_ZN3app6serverD0Ev.cold"), "app::server::~server(...)");
}

TEST(Demangle, Templates) {
  EXPECT_EQ(function("_ZN4weft4chanIiE4sendEi"), "weft::chan<...>::send(...)");
  EXPECT_EQ(function("_ZNSt6vectorIiSaIiEE2atEm"), "std::vector<...>::at(...)");
  EXPECT_EQ(function("_ZNSt6vectorIiSaIiEED2Ev"), "std::vector<...>::~vector(...)");
  EXPECT_EQ(function("_Z3fooIJicEEvDpT_"), "foo<...>(...)");
  EXPECT_EQ(function("_Z3barILi42ELb1EEvv"), "bar<...>(...)");
  EXPECT_EQ(function("_Z3bazIXadL_Z1fvEEEvv"), "baz<...>(...)");
}

TEST(Demangle, OperatorsAndLambdas) {
  EXPECT_EQ(function("_ZZ4mainENKUlvE_clEv"), "main::{lambda#1}::operator()(...)");
  EXPECT_EQ(function("_ZZ4mainENKUliE0_clEi"), "main::{lambda#2}::operator()(...)");
  EXPECT_EQ(function("_ZZN3app1gERKSsENUlvE_4_FUNEv"), "app::g::{lambda#1}::_FUN(...)");
  EXPECT_EQ(function("_ZlsRSoRK3foo"), "operator<<(...)");
  EXPECT_EQ(function("_ZN3foocvbEv"), "foo::operator bool(...)");
  EXPECT_EQ(function("_ZN3foonwEm"), "foo::operator new(...)");
}

TEST(Demangle, WhatIsNotUnderstoodStaysAsItIs) {
  EXPECT_EQ(function("_Z"), "_Z(...)");
  EXPECT_EQ(function("_ZN3ap"), "_ZN3ap(...)");
  EXPECT_EQ(function("_ZN99999999999999foo"), "_ZN99999999999999foo(...)");
  EXPECT_EQ(function(""), "(...)");
  const std::string deep = "_Z1f" + std::string(10'000, 'P') + "i";
  EXPECT_EQ(function(deep.c_str()), "f(...)") << "parameters are not looked at";
  const std::string nested = "_ZN1aI" + std::string(10'000, 'P') + "iE1bEv";
  EXPECT_EQ(function(nested.c_str()), nested + "(...)") << "too deep";
}

TEST(Demangle, Types) {
  EXPECT_EQ(type(typeid(int)), "int");
  EXPECT_EQ(type(typeid(const char*)), "char const*");
  EXPECT_EQ(type(typeid(std::out_of_range)), "std::out_of_range");
  EXPECT_EQ(type(typeid(std::vector<int>)), "std::vector<...>");
}

TEST(Demangle, TheUsersCallableInOurTemplates) {
  EXPECT_EQ(callable("_ZZN4weft3runIZ4mainEUlvE_EEiOT_NS_11run_optionsEEN4call6invokeEPv"),
            "main::{lambda#1}::operator()");
  EXPECT_EQ(callable("_ZN4weft6detail7closureIZ4mainEUlvE_JEE3runEPv"),
            "main::{lambda#1}::operator()");
  EXPECT_EQ(
      callable("_ZN4weft6detail7closureIZNS_10wait_group2goIZ4mainEUlvE_EEvOT_EUlvE_JEE3runEPv"),
      "main::{lambda#1}::operator()");
  EXPECT_EQ(callable("_ZN4weft6detail7closureIPFviEJiEE3runEPv"), "") << "a pointer has a frame";
  EXPECT_EQ(callable("_ZN4weft10wait_group4waitEv"), "");
  EXPECT_EQ(callable("_ZN3app5thingIiE3runEv"), "");
}

}  // namespace
}  // namespace weft::rt
