// No order may escape: every WEFT_ORDER of the modelled headers belongs to a protocol, and every other
// one in src/ and include/ is listed here, with the reason why it needs none.
#include <gtest/gtest.h>

#include "model/protocol.h"

namespace weft::model {
namespace {

// One word published once, with what it points to: a release store (or an exchange that succeeds) and
// acquire loads of the same word, nothing that depends on a second one. And reference counts: every
// drop is acq_rel, and the last one destroys. Anything with a second variable or a second step is a
// protocol, and gets a model.
const std::vector<exemption> kExempt{
    {"base/asymmetric_fence.h", "", "fences of the seam; models have their own"},
    {"base/atomic.h", "", "the seam itself; models have their own"},
    {"base/fatal.cc", "CR1", "hooks, one word each, set once and read by whoever crashes"},
    {"base/tsan_mutant.cc", "", "what a header's release is in builds that can take it away"},
    {"chan/chan.cc", "CR1", "reference count of a channel's handles"},
    {"debug/elf_image.cc", "MF1", "the key of a slot, stored once when its fields are filled"},
    {"debug/source.cc", "SC2", "the key of an answer, stored once when it is complete"},
    {"gmp/border.h", "", "for the compiler only: a handler of signals is on the same thread"},
    {"poll/epoll.cc", "BR1",
     "one word, exchanged on both sides; what it is about is looked for under sched.lock"},
    {"poll/io_uring.cc", "RG1", "a bit, set once when the ring that it stands for is complete"},
    {"poll/poll_desc.cc", "PT1", "the address of a chunk, stored once when its records are made"},
    {"sched/idle.cc", "PM1", "the address of an M, stored when it is set up; read by sysmon"},
    {"sched/borrow.cc", "PM1", "… whose P may be borrowed, under sched.lock"},
    {"sched/retake.cc", "PM1", "… and compared again under sched.lock"},
    {"sched/world.cc", "PM1", "… as in idle.cc, while the world is stopped"},
    {"sched/boot.cc", "BT1", "one flag, stored once when the runtime is made"},
    {"sync/context.cc", "CX1", "the address of a channel, put there once, by whoever is first"},
    {"sync/context.cc", "CX4", "reference count of a callback"},
    {"sync/context.cc", "CX5", "the address of an attachment, put there once, by whoever is first"},
    {"sync/rethrow.cc", "KE1",
     "one word, exchanged, with the box that it points to; TSan builds only"},
    {"time/after_func.cc", "AF1", "reference count of a timer's callable"},
    {"time/chan_timer.cc", "CR1", "reference count of a channel's handles; never the last one"},
    {"time/timer.cc", "TH1", "the address of a channel, put there once, by whoever is first"},
    {"weft/condition_variable.h", "", "CV1, as cond_core::quiet(), which is modelled"},
    {"weft/mutex.h", "", "MX1, as mutex_core::lock_fast(), which is modelled"},
    {"weft/mutex.h", "MX1", "as mutex_core::unlock_fast(), which is modelled"},
    {"weft/once.h", "", "reference count of a once_func's copies"},
};

// … or is exempt.
TEST(Coverage, EverySiteBelongsToAProtocol) {
  std::vector<protocol> needless;
  for (const exemption& e : kExempt) needless.push_back({"none", {e.file}, {e.label}, {}});
  std::vector<const protocol*> all = all_protocols();
  for (const protocol& p : needless) all.push_back(&p);
  expect_all_sites_covered(all);
}

TEST(Coverage, EveryMutantIsTried) { expect_all_mutants_tried(all_protocols()); }

TEST(Coverage, NoOrderInTheSourcesEscapes) {
  expect_all_orders_accounted_for(all_protocols(), kExempt);
}

}  // namespace
}  // namespace weft::model
