// The corpus of mistakes: each of these programs is broken as users' programs are, and must be told so.
#include <gtest/gtest.h>
#include <ostream>
#include <string>
#include <vector>

#include "crash/expect.h"
#include "fiber/sanitizer.h"
#include "support/patience.h"

namespace {

using namespace crash;  // NOLINT: their words throughout

struct mistake {
  const char* program;
  std::vector<std::string> environment;
  int status;
  std::vector<std::string> patterns;  // all of them, anywhere
};
std::ostream& operator<<(std::ostream& out, const mistake& m) { return out << m.program; }

const std::string kDeadlock = "^fatal error: all goroutines are asleep - deadlock!\n\ngoroutine ";
const std::string kCheck = "WEFTDEBUG=lockcheck=1";

std::string waits(const std::string& reason) {
  return "\nwaits:\n(\t.*\n)*\tgoroutine [0-9]+: " + reason;
}

const mistake kMistakes[] = {
    {"mistake_send_without_receiver",
     {},
     2,
     {kDeadlock, waits("chan send of 0x[0-9a-f]+, made by ")}},
    {"mistake_buffer_full", {}, 2, {kDeadlock, "goroutine 1 \\[chan send\\]:\n"}},
    {"mistake_range_over_unclosed",
     {},
     2,
     {kDeadlock, "\\[chan receive\\]:\n", "\\[sync.WaitGroup.Wait\\]:\n"}},
    {"mistake_forgotten_done",
     {},
     2,
     {kDeadlock,
      waits("sync.WaitGroup.Wait of 0x[0-9a-f]+ \\(on the stack of goroutine 1, (in|made by) "
            "mistake_forgotten_done.*\\)")}},
    {"mistake_done_twice", {}, 2, {"^panic: sync: negative WaitGroup counter\n"}},
    {"mistake_locked_twice",
     {},
     2,
     {kDeadlock,
      waits(
          "sync.Mutex.Lock of 0x[0-9a-f]+ \\(mistake::accounts\\), for .*, held by goroutine 1\n"),
      "\ncycle: goroutine 1 waits for goroutine 1\n"}},
    {"mistake_locked_twice",
     {kCheck},
     2,
     {"^WARNING: weft: goroutine 1 locks mutex 0x[0-9a-f]+ \\(mistake::accounts\\), which it holds",
      "held by goroutine 1 since ", "\ncycle: goroutine 1 waits for goroutine 1\n"}},
    {"mistake_locked_twice_with_a_context",
     {kCheck},
     2,
     {"^WARNING: weft: goroutine 1 locks mutex 0x[0-9a-f]+ \\(mistake::accounts\\), which it holds",
      "\ncycle: goroutine 1 waits for goroutine 1\n"}},
    {"mistake_locks_crossed",
     {kCheck},
     2,
     {"WARNING: weft: lock order inversion\n",
      "\ncycle: goroutine 1 waits for goroutine ([0-9]+) waits for goroutine 1\n"}},
    {"mistake_locks_crossed",
     {},
     2,
     {waits(
          "sync.Mutex.Lock of 0x[0-9a-f]+ \\(mistake::accounts\\), for .*, held by goroutine 1\n"),
      "goroutine 1: sync.Mutex.Lock of 0x[0-9a-f]+ \\(mistake::journal\\), for .*, held by "
      "goroutine ([0-9]+)\n(\t.*\n)*"
      "cycle: goroutine 1 waits for goroutine \\1 waits for goroutine 1\n$"}},
    {"mistake_locks_in_two_orders",
     {kCheck},
     0,
     {"^WARNING: weft: lock order inversion\n"
      "\tgoroutine 1 locks 0x[0-9a-f]+ \\(mistake::accounts\\) at mistake::lock_both.*\n"
      "\twhile it holds 0x[0-9a-f]+ \\(mistake::journal\\), locked at mistake::lock_both.*\n"
      "\tthe other way round, by goroutine 1 at mistake::lock_both.*\n$"}},
    {"mistake_locks_in_two_orders", {}, 0, {"^$"}},
    {"mistake_lock_on_the_heap",
     {kCheck},
     2,
     {waits("sync.Mutex.Lock of 0x[0-9a-f]+ \\(made by mistake_lock_on_the_heap.*\\), for")}},
    {"mistake_lock_of_a_thread",
     {kCheck},
     2,
     {waits(
         "sync.Mutex.Lock of 0x[0-9a-f]+ \\(first locked at mistake_lock_of_a_thread.*\\), for")}},
    {"mistake_group_on_the_heap",
     {kCheck},
     2,
     {waits("sync.WaitGroup.Wait of 0x[0-9a-f]+ \\(made by mistake_group_on_the_heap.*"
            "/mistakes.cc:[0-9]+( \\+0x[0-9a-f]+)?\\), for")}},
    {"mistake_condition_on_the_heap",
     {},
     2,
     {waits("sync.Cond.Wait of 0x[0-9a-f]+ \\(made by .*queue.*/mistakes.cc:[0-9]+( "
            "\\+0x[0-9a-f]+)?\\), for")}},
    {"mistake_latch_on_the_heap",
     {kCheck},
     2,
     {waits("latch wait of 0x[0-9a-f]+ \\(made by mistake_latch_on_the_heap.*\\), for")}},
    {"mistake_barrier_on_the_heap",
     {kCheck},
     2,
     {waits("barrier wait of 0x[0-9a-f]+ \\(made by mistake_barrier_on_the_heap.*\\), for")}},
    {"mistake_semaphore_on_the_heap",
     {kCheck},
     2,
     {waits("semacquire of 0x[0-9a-f]+ \\(made by mistake_semaphore_on_the_heap.*\\), for")}},
    {"mistake_shared_on_the_heap",
     {kCheck},
     2,
     {waits("sync.RWMutex.Lock of 0x[0-9a-f]+ \\(made by mistake_shared_on_the_heap.*\\), for .*, "
            "read by goroutine [0-9]+ since mistake_shared_on_the_heap.*\n")}},
    {"locks_at_one_address_under_check", {kCheck}, 0, {"^$"}},
    {"mistake_writer_crossed",
     {kCheck},
     2,
     {"WARNING: weft: lock order inversion\n",
      waits("sync.RWMutex.RLock of 0x[0-9a-f]+ \\(mistake::prices\\), for .*, held by goroutine 1 "
            "since shared_crossed.*\n"),
      "\ncycle: goroutine 1 waits for goroutine ([0-9]+) waits for goroutine 1\n"}},
    {"mistake_writer_crossed",
     {},
     2,
     {waits("sync.RWMutex.RLock of 0x[0-9a-f]+ \\(mistake::prices\\), for .*, held by goroutine "
            "1\n"),
      "\ncycle: goroutine 1 waits for goroutine ([0-9]+) waits for goroutine 1\n$"}},
    {"mistake_reader_crossed",
     {kCheck},
     2,
     {"WARNING: weft: lock order inversion\n",
      waits("sync.RWMutex.Lock of 0x[0-9a-f]+ \\(mistake::prices\\), for .*, read by goroutine 1 "
            "since shared_crossed.*\n"),
      "\ncycle: goroutine 1 waits for goroutine ([0-9]+) waits for goroutine 1\n"}},
    {"mistake_one_of_many_readers",
     {kCheck},
     2,
     {waits("sync.RWMutex.Lock of 0x[0-9a-f]+ \\(mistake::prices\\), for .*(, read by goroutine "
            "[0-9]+ since mistake_one_of_many_readers.*){4}, and by 2 more\n"),
      "\ncycle: goroutine 1 waits for goroutine ([0-9]+) waits for goroutine 1\n$"}},
    {"mistake_reads_again_behind_a_writer",
     {kCheck},
     2,
     {"^WARNING: weft: goroutine 1 locks mutex 0x[0-9a-f]+ \\(mistake::prices\\) for reading, "
      "which "
      "it reads already: a writer who comes in between stops both\n"
      "\tlocked for reading at mistake_reads_again_behind_a_writer.*\n"
      "\tagain at mistake_reads_again_behind_a_writer.*\n",
      waits("sync.RWMutex.RLock of 0x[0-9a-f]+ \\(mistake::prices\\), for .*, read by goroutine 1 "
            "since .*, which is to be written by goroutine ([0-9]+) since .*\n"),
      "\ncycle: goroutine 1 waits for goroutine ([0-9]+) waits for goroutine 1\n"}},
    {"mistake_reads_twice",
     {kCheck},
     0,
     {"^WARNING: weft: goroutine 1 locks mutex .* for reading, which it reads "
      "already.*\n.*\n.*\n$"}},
    {"mistake_reads_twice", {}, 0, {"^$"}},
    {"mistake_partial_deadlock_of_readers",
     {kCheck},
     0,
     {"\npartial deadlock:\n(\t.*\n){3}cycle: goroutine ([0-9]+) waits for goroutine [0-9]+ waits "
      "for "
      "goroutine [0-9]+ waits for goroutine \\2\n$"}},
    {"mistake_shared_in_two_orders",
     {kCheck},
     0,
     {"^WARNING: weft: lock order inversion\n"
      "\tgoroutine 1 locks 0x[0-9a-f]+ \\(mistake::accounts\\) at mistake_shared_in_two_orders.*\n"
      "\twhile it holds 0x[0-9a-f]+ \\(mistake::prices\\), locked at .*\n"
      "\tthe other way round, by goroutine 1 at mistake_shared_in_two_orders.*\n$"}},
    {"mistake_shared_in_two_orders", {}, 0, {"^$"}},
    {"shared_under_check", {kCheck}, 0, {"^$"}},
    {"mistake_unlock_forgotten", {kCheck}, 2, {"held by goroutine [0-9]+ since "}},
    {"mistake_unlock_forgotten",
     {},
     2,
     {waits("sync.Mutex.Lock of .*, held by goroutine ([2-9]|[0-9]{2,}), which has ended\n$")}},
    {"owner_whose_stack_lives_on",
     {},
     2,
     {"\tgoroutine ([0-9]+): sync.Mutex.Lock of .*, held by goroutine (?!\\1,)[0-9]+, which has "
      "ended\n$"}},
    {"owner_is_a_plain_thread", {}, 2, {waits("sync.Mutex.Lock of .*, held by a plain thread\n$")}},
    {"owner_is_a_thread_that_ran_goroutines",
     {},
     2,
     {waits("sync.Mutex.Lock of .*, held by a plain thread\n$")}},
    {"owner_waits_in_place",
     {},
     2,
     {"\tgoroutine 1: thread join of goroutine ([0-9]+), for .*\n"
      "(\t.*\n)*\tgoroutine \\1: sync.Mutex.Lock of .*\\(owners::till\\), for .*, held by "
      "goroutine "
      "1\n",
      "\tgoroutine [0-9]+: sync.Mutex.Lock of .*\\(owners::ledger\\), for .*, held by goroutine "
      "([2-9]|[0-9]{2,})\n(\t.*\n)*cycle: goroutine 1 waits for goroutine \\1 waits for goroutine "
      "1\n$"}},
    {"owner_after_other_ways_to_lock",
     {},
     2,
     {"\nwaits:\n(\t.*\n)*"
      "(\tgoroutine [0-9]+: sync.(RW)?Mutex.R?Lock of .*, held by goroutine 1\n){9}"}},
    {"owner_after_a_condition",
     {},
     2,
     {"\nwaits:\n(\t.*\n)*"
      "(\tgoroutine [0-9]+: sync.Mutex.Lock of .*, held by goroutine 1\n){3}"}},
    {"mistake_joins_each_other",
     {},
     2,
     {waits("thread join of goroutine [0-9]+"),
      "\ncycle: goroutine [0-9]+ waits for goroutine [0-9]+ waits for goroutine [0-9]+\n"}},
    {"mistake_leaked_receiver",
     {},
     0,
     {"\\[chan receive \\(leaked\\)\\] \\{name: orphan\\}:\n", "\\[chan receive\\]:\n"}},
    {"mistake_only_seems_leaked",
     {},
     0,
     {"goroutine 2 \\[chan receive\\]:\n", "goroutine 3 \\[chan receive\\]:\n"}},
    {"mistake_leaked_in_select",
     {},
     0,
     {"\\[select \\(leaked\\)\\] \\{name: orphan\\}:\n", "\\[select\\] \\{name: patient\\}:\n"}},
    {"mistake_select_for_ever",
     {},
     2,
     {kDeadlock, waits("select, for [0-9.]+s\n"
                       "\t\tchan receive of 0x[0-9a-f]+, made by mistake_select_for_ever.*\n"
                       "\t\tchan send of 0x[0-9a-f]+, made by mistake_select_for_ever.*\n")}},
    {"mistake_partial_deadlock",
     {kCheck},
     0,
     {"\npartial deadlock:\n"
      "\tgoroutine ([0-9]+): sync.Mutex.Lock of 0x[0-9a-f]+ \\(mistake::[a-z]+\\).*, held by "
      "goroutine "
      "([0-9]+) since mistake_partial_deadlock.*\n"
      "\tgoroutine \\2: sync.Mutex.Lock of 0x[0-9a-f]+ .*, held by goroutine \\1 since .*\n"
      "cycle: goroutine \\1 waits for goroutine \\2 waits for goroutine \\1\n"}},
    {"mistake_partial_deadlock",
     {},
     0,
     {"\npartial deadlock:\n"
      "\tgoroutine ([0-9]+): sync.Mutex.Lock of 0x[0-9a-f]+ \\(mistake::[a-z]+\\).*, held by "
      "goroutine ([0-9]+)\n"
      "\tgoroutine \\2: sync.Mutex.Lock of 0x[0-9a-f]+ .*, held by goroutine \\1\n"
      "cycle: goroutine \\1 waits for goroutine \\2 waits for goroutine \\1\n"}},
    {"condition_under_check", {kCheck}, 0, {"^$"}},
    {"mistake_waits_with_another_lock",
     {kCheck},
     0,
     {"^WARNING: weft: lock order inversion\n"
      "\tgoroutine 1 locks 0x[0-9a-f]+ \\(mistake::accounts\\) at "
      "mistake_waits_with_another_lock.*\n"
      "\twhile it holds 0x[0-9a-f]+ \\(mistake::journal\\)"}},
    {"all_stripes_under_check",
     {kCheck},
     0,
     {"^WARNING: weft: lock order inversion\n"
      "\tgoroutine 1 locks 0x[0-9a-f]+ \\(mistake::accounts\\) at "
      "all_stripes_under_check.*\n.*\n.*\n$"}},
    {"mistake_parks_with_std_mutex",
     {kCheck},
     0,
     {"^WARNING: weft: goroutine 1 parks while it holds the std::mutex 0x[0-9a-f]+ "
      "\\(mistake::plain\\)\n"}},
    {"mistake_parks_with_std_mutex", {}, 0, {"^$"}},
    {"mistake_parks_with_member_mutex",
     {kCheck},
     0,
     {"^WARNING: weft: goroutine 1 parks while it holds the std::mutex 0x[0-9a-f]+\n"}},
    {"mistake_parks_beside_std_mutex",
     {kCheck},
     0,
     {"^WARNING: weft: goroutine 1 parks while it holds the std::mutex .*\n(\t?[^W\n].*\n)*$"}},
    {"mistake_wait_without_notify", {}, 2, {kDeadlock, "\\[sync.Cond.Wait\\]:\n"}},
    {"mistake_latch_one_short", {}, 2, {kDeadlock, "\\[latch wait\\]:\n"}},
    {"mistake_barrier_one_short", {}, 2, {kDeadlock, "\\[barrier wait\\]:\n"}},
    {"mistake_promise_not_kept", {}, 2, {kDeadlock, "\\[future wait\\]:\n"}},
    {"mistake_semaphore_not_released", {}, 2, {kDeadlock, "\\[semacquire\\]:\n"}},
    {"mistake_reader_becomes_writer",
     {},
     2,
     {kDeadlock, "\\[sync.RWMutex.Lock\\]:\n",
      ", read by 1 \\(WEFTDEBUG=lockcheck=1 would say by whom\\)\n"}},
    {"mistake_reader_becomes_writer",
     {kCheck},
     2,
     {"^WARNING: weft: goroutine 1 locks mutex 0x[0-9a-f]+ \\(mistake::prices\\), which it holds "
      "already\n\tlocked for reading at mistake_reader_becomes_writer.*\n\tagain at .*\n",
      "\ncycle: goroutine 1 waits for goroutine 1\n"}},
    {"mistake_ring_of_channels", {}, 2, {kDeadlock, waits("chan receive of ")}},
    {"mistake_group_waits_for_itself", {}, 2, {kDeadlock}},
    {"mistake_nested_panic_text", {}, 2, {"^panic: first line\n\tsecond line\n\ngoroutine 1 "}},
    {"panic_std_exception", {}, 2, {"^panic: std::out_of_range: "}},
    {"panic_send_on_closed", {}, 2, {"^panic: send on closed channel\n"}},
    {"panic_close_of_closed", {}, 2, {"^panic: close of closed channel\n"}},
    {"panic_close_of_nil", {}, 2, {"^panic: close of nil channel\n"}},
    {"deadlock_nil_chan_receive", {}, 2, {kDeadlock, "\\[chan receive \\(nil chan\\)\\]:\n"}},
    {"deadlock_select", {}, 2, {kDeadlock, "\\[select\\]:\n"}},
    {"terminate_joinable_thread", {}, 2, {"^panic: "}},
    {"terminate_noexcept", {}, 2, {"^panic: "}},
    {"go_nil_function", {}, 2, {"^fatal error: go of nil func value\n"}},
    {"goexit_main", {}, 2, {"^fatal error: no goroutines \\(main called runtime.Goexit\\)"}},
    {"mutex_unlock", {}, 2, {"^fatal error: sync: unlock of unlocked mutex\n"}},
    {"stop_and_block", {}, 2, {"^fatal error: scheduling point inside stop_the_world\n"}},
};

class Mistake : public testing::TestWithParam<mistake> {};

TEST_P(Mistake, IsReported) {
  const mistake& m = GetParam();
  if (weft::test::emulated() && m.program == std::string("mistake_parks_with_member_mutex")) {
    GTEST_SKIP() << "an emulator's rt_sigprocmask() does not tell what is readable";
  }
  const outcome o = run({.program = m.program, .environment = m.environment});
  EXPECT_EQ(o.exit_status, m.status) << o.err;
  EXPECT_FALSE(o.hung);
  for (const std::string& pattern : m.patterns) EXPECT_TRUE(matches(o, pattern));
}

std::string name_of(const testing::TestParamInfo<mistake>& test) {
  return std::string(test.param.program) + (test.param.environment.empty() ? "" : "_lockcheck");
}

INSTANTIATE_TEST_SUITE_P(, Mistake, testing::ValuesIn(kMistakes), name_of);

TEST(MistakeOnce, APlaceIsReportedOnce) {
  if (weft::test::emulated())
    GTEST_SKIP() << "an emulator's rt_sigprocmask() does not tell what is readable";
  const outcome o = run_program("mistake_parks_with_std_mutex_often", {"WEFTDEBUG=lockcheck=1"});
  EXPECT_EQ(o.exit_status, 0);
  EXPECT_EQ(count(o.err, "WARNING: weft: goroutine 1 parks while it holds"), 2U) << o.err;
}

// What it looks through is the program's own.
TEST(HeldMutexes, AreSearchedForOnlyInWhatIsThere) {
  if (weft::test::emulated())
    GTEST_SKIP() << "an emulator's rt_sigprocmask() does not tell what is readable";
  const outcome closed = run_program("parks_beside_a_closed_page", {"WEFTDEBUG=lockcheck=1"});
  EXPECT_EQ(closed.exit_status, 0) << closed.err;
  EXPECT_EQ(count(closed.err, "WARNING: weft: goroutine 1 parks while it holds"), 1U) << closed.err;
  const outcome unloaded = run_program("parks_beside_dlclose", {"WEFTDEBUG=lockcheck=1"});
  EXPECT_EQ(unloaded.exit_status, 0) << unloaded.err;
  EXPECT_EQ(unloaded.err, "");
}

TEST(PartialDeadlock, IsNotSeenWhereSomebodyMayGiveUp) {
  const outcome o = run_program("readers_behind_a_writer_with_a_limit", {"WEFTDEBUG=lockcheck=1"});
  EXPECT_EQ(o.exit_status, 0) << o.err;
  EXPECT_EQ(count(o.err, "partial deadlock"), 0U) << o.err;
}

TEST(MistakeOnTheStack, LargeArray) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "the sanitizer has its own stack check";
  const outcome o = run_program("mistake_large_array_on_the_stack");
  EXPECT_CRASH(o,
               "^runtime: goroutine stack exceeds [0-9]+-byte limit\n.*\nfatal error: stack "
               "overflow\n");
}

}  // namespace
