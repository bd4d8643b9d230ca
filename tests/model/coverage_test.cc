// No order may escape: every WEFT_ORDER of the modelled headers belongs to a protocol, and every other
// one in src/ is listed here, with the reason why it needs none.
#include <gtest/gtest.h>

#include "model/protocol.h"

namespace weft::model {
namespace {

// One word published once, with what it points to: a release store (or an exchange that succeeds) and
// acquire loads of the same word, nothing that depends on a second one. And reference counts: every
// drop is acq_rel, and the last one destroys. Anything with a second variable or a second step is a
// protocol, and gets a model.
const std::vector<exemption> kExempt{
    {"base/fatal.cc", "CR1", "hooks, one word each, set once and read by whoever crashes"},
    {"chan/chan.cc", "CR1", "reference count of a channel's handles"},
    {"debug/loaded_file.cc", "MF1", "the key of a slot, stored once when its fields are filled"},
    {"debug/traceback.cc", "TB1", "a hook, one word, set once"},
    {"sched/boot.cc", "BT1", "one flag, stored once when the runtime is made"},
    {"sync/context.cc", "CX1", "the address of a channel, put there once, by whoever is first"},
    {"sync/context.cc", "CX4", "reference count of a callback"},
    {"sync/context.cc", "CX5", "the address of an attachment, put there once, by whoever is first"},
    {"sync/rethrow.cc", "KE1",
     "one word, exchanged, with the box that it points to; TSan builds only"},
    {"time/after_func.cc", "AF1", "reference count of a timer's callable"},
    {"time/chan_timer.cc", "CR1", "reference count of a channel's handles; never the last one"},
    {"time/timer.cc", "TH1", "the address of a channel, put there once, by whoever is first"},
};

TEST(Coverage, EverySiteBelongsToAProtocol) { expect_all_sites_covered(all_protocols()); }

TEST(Coverage, NoOrderInTheSourcesEscapes) {
  expect_all_orders_accounted_for(all_protocols(), kExempt);
}

}  // namespace
}  // namespace weft::model
