// Replacing std:: by weft:: compiles and behaves: the same programs, once over each, print the same.
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <latch>
#include <map>
#include <mutex>
#include <numeric>
#include <semaphore>
#include <shared_mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weft/barrier.h>
#include <weft/condition_variable.h>
#include <weft/future.h>
#include <weft/latch.h>
#include <weft/mutex.h>
#include <weft/once.h>
#include <weft/semaphore.h>
#include <weft/shared_mutex.h>
#include <weft/thread.h>

#include "support/fixture.h"

namespace with_std {
namespace ns = std;
#include "conformance/std_programs.inc"
}  // namespace with_std

namespace with_weft {
namespace ns = weft;
#include "conformance/std_programs.inc"
}  // namespace with_weft

namespace {

class StdPrograms : public weft::test::over_procs {};

TEST_P(StdPrograms, SayTheSame) {
  const auto by_std = with_std::all_programs();
  const auto by_weft = with_weft::all_programs();
  ASSERT_EQ(by_std.size(), by_weft.size());
  for (std::size_t i = 0; i < by_std.size(); ++i) {
    SCOPED_TRACE(by_std[i].first);
    // Under TSan std::call_once hangs when its function throws, and libstdc++ hides what orders futures.
    const std::string expected = (WEFT_TEST_TSAN ? by_weft : by_std)[i].second();
    EXPECT_NE(expected, "");
    run([&] { EXPECT_EQ(by_weft[i].second(), expected) << "in a goroutine"; });
    EXPECT_EQ(by_weft[i].second(), expected) << "on a plain thread";
  }
}

WEFT_OVER_PROCS(StdPrograms);

}  // namespace
