// Whoever leaves the queue for the resolver's threads is out of it: nobody is asked for him, and nobody waits behind him.
#include <cerrno>
#include <gtest/gtest.h>
#include <netdb.h>
#include <string>
#include <vector>

#include <weft/context.h>
#include <weft/go.h>
#include <weft/net.h>
#include <weft/wait_group.h>

#include "net/lookup_error.h"
#include "os/test_hooks.h"
#include "support/fixture.h"
#include "support/waiting.h"

namespace {

using weft::net::endpoint;
using weft::rt::os::test_hooks;
namespace net = weft::net;

constexpr int kThreads = 32;  // as many as there are, at most

class Resolver : public weft::test::over_procs {
 protected:
  void SetUp() override {
    over_procs::SetUp();
    test_hooks.resolver_delay_ms.set(-1);  // there are no answers
    test_hooks.resolver_asked.set(0);
  }
  void TearDown() override {
    test_hooks.reset();
    over_procs::TearDown();
  }
  static std::int64_t asked() { return test_hooks.resolver_asked.get(); }
  static void answer() { test_hooks.resolver_delay_ms.set(1); }
};

// So many lookups, which are answered.
void look_up(int count, weft::wait_group& all) {
  for (int i = 0; i < count; ++i) {
    all.go([] { EXPECT_EQ(net::resolver::lookup("slow.test:80").size(), 1u); });
  }
}

// … and which are cancelled.
void look_up(int count, const weft::context& ctx, weft::wait_group& all) {
  for (int i = 0; i < count; ++i) {
    all.go([=] {
      std::error_code ec;
      net::resolver::lookup("slow.test:80", ctx, ec);
      EXPECT_EQ(ec, std::errc::operation_canceled);
    });
  }
}

auto all_wait(int lookups) {
  return [=] { return weft::test::parked_goroutines() >= static_cast<std::uint64_t>(lookups); };
}

// Nobody is told that there is no such host unless that is known.
TEST(LookupError, SaysWhatIsKnown) {
  for (const int code : {EAI_NONAME, EAI_NODATA, EAI_ADDRFAMILY}) {
    EXPECT_EQ(net::lookup_error(code), weft::errc::no_such_host) << code;
  }
  EXPECT_EQ(net::lookup_error(EAI_FAIL), weft::errc::server_misbehaving);
  EXPECT_EQ(net::lookup_error(EAI_FAIL).message(), "server misbehaving");
  EXPECT_EQ(net::lookup_error(EAI_AGAIN), std::errc::resource_unavailable_try_again);
  EXPECT_EQ(net::lookup_error(EAI_MEMORY), std::errc::not_enough_memory);
  EXPECT_EQ(net::lookup_error(EAI_SERVICE), std::errc::invalid_argument);
  errno = EMFILE;
  EXPECT_EQ(net::lookup_error(EAI_SYSTEM), std::errc::too_many_files_open);
}

TEST_P(Resolver, IsNotAskedForThoseWhoHaveLeft) {
  run([&] {
    constexpr int kLeave = 10 * kThreads;
    weft::wait_group stay, leave;
    look_up(kThreads, stay);
    EXPECT_TRUE(weft::test::eventually([] { return asked() == kThreads; }));
    auto [ctx, cancel] = weft::with_cancel(weft::context());
    look_up(kLeave, ctx, leave);
    EXPECT_TRUE(weft::test::eventually(all_wait(kThreads + kLeave)));
    cancel();
    leave.wait();
    EXPECT_EQ(asked(), kThreads);
    answer();
    EXPECT_EQ(net::resolver::lookup("slow.test:81"), std::vector{endpoint("127.0.0.1:81")});
    stay.wait();
    EXPECT_EQ(asked(), kThreads + 1);
  });
}

// Some leave from between those who stay: these are answered, each of them.
TEST_P(Resolver, IsAskedForThoseWhoStay) {
  run([&] {
    weft::wait_group stay, leave;
    look_up(kThreads, stay);
    EXPECT_TRUE(weft::test::eventually([] { return asked() == kThreads; }));
    auto [ctx, cancel] = weft::with_cancel(weft::context());
    constexpr int kEach = 20;
    for (int i = 0; i < kEach; ++i) {
      look_up(1, ctx, leave);
      look_up(1, stay);
    }
    EXPECT_TRUE(weft::test::eventually(all_wait(kThreads + 2 * kEach)));
    cancel();
    leave.wait();
    answer();
    stay.wait();
    EXPECT_EQ(asked(), kThreads + kEach);
  });
}

}  // namespace
