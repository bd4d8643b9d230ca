// base/debug_vars.h: what WEFTDEBUG says, and what it is told when nobody understands it.
#include "base/debug_vars.h"

#include <gtest/gtest.h>
#include <string>

namespace weft::rt {
namespace {

std::string parse(std::string_view text, debug_vars_t& vars) {
  std::string complaints;
  {
    printer out([](void* to, const char* data,
                   std::size_t size) { static_cast<std::string*>(to)->append(data, size); },
                &complaints);
    parse_debug_vars(text, vars, out);
  }
  return complaints;
}

TEST(DebugVars, NothingChangesNothing) {
  for (const char* text : {"", ",", ",,,"}) {
    debug_vars_t vars;
    EXPECT_EQ(parse(text, vars), "");
    EXPECT_EQ(vars.containermaxprocs, 1);
    EXPECT_EQ(vars.updatemaxprocs, 1);
  }
}

TEST(DebugVars, SetsWhatIsNamed) {
  debug_vars_t vars;
  EXPECT_EQ(parse("updatemaxprocs=0", vars), "");
  EXPECT_EQ(vars.containermaxprocs, 1);
  EXPECT_EQ(vars.updatemaxprocs, 0);
  EXPECT_EQ(parse(",containermaxprocs=0,,schedtrace=2147483647,", vars), "");
  EXPECT_EQ(vars.containermaxprocs, 0);
  EXPECT_EQ(vars.schedtrace, 2147483647);
}

TEST(DebugVars, TheLaterValueCounts) {
  debug_vars_t vars;
  EXPECT_EQ(parse("schedtrace=2,schedtrace=3", vars), "");
  EXPECT_EQ(vars.schedtrace, 3);
}

TEST(DebugVars, ValuesOutOfRangeAreNamedAndIgnored) {
  debug_vars_t vars;
  EXPECT_EQ(parse("containermaxprocs=-7,scheddetail=2,tracebackancestors=1001,maxfrozen=-1", vars),
            "runtime: WEFTDEBUG key containermaxprocs takes 0 to 1: containermaxprocs=-7\n"
            "runtime: WEFTDEBUG key scheddetail takes 0 to 1: scheddetail=2\n"
            "runtime: WEFTDEBUG key tracebackancestors takes 0 to 1000: tracebackancestors=1001\n"
            "runtime: WEFTDEBUG key maxfrozen takes 0 to 2147483647: maxfrozen=-1\n");
  EXPECT_EQ(vars.containermaxprocs, 1);
  EXPECT_EQ(vars.scheddetail, 0);
  EXPECT_EQ(vars.tracebackancestors, 0);
  EXPECT_EQ(vars.maxfrozen, 0);
}

TEST(DebugVars, UnknownKeysAreNamedAndTheRestCounts) {
  debug_vars_t vars;
  EXPECT_EQ(parse("updatemaxproc=0,containermaxprocs=0,Updatemaxprocs=0,=1", vars),
            "runtime: unknown WEFTDEBUG key updatemaxproc\n"
            "runtime: unknown WEFTDEBUG key Updatemaxprocs\n"
            "runtime: unknown WEFTDEBUG key \n");
  EXPECT_EQ(vars.containermaxprocs, 0);
  EXPECT_EQ(vars.updatemaxprocs, 1);
}

TEST(DebugVars, ValuesThatAreNoNumbersAreNamedAndIgnored) {
  for (const char* text :
       {"updatemaxprocs", "updatemaxprocs=", "updatemaxprocs=-", "updatemaxprocs=x",
        "updatemaxprocs=0x", "updatemaxprocs= 0", "updatemaxprocs=2147483648"}) {
    debug_vars_t vars;
    EXPECT_EQ(parse(text, vars),
              std::string("runtime: WEFTDEBUG key updatemaxprocs needs a number: ") + text + "\n");
    EXPECT_EQ(vars.updatemaxprocs, 1);
  }
}

}  // namespace
}  // namespace weft::rt
