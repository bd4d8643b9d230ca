// No order may escape: every WEFT_ORDER of the modelled headers belongs to a protocol.
#include <gtest/gtest.h>

#include "model/protocol.h"

namespace weft::model {
namespace {

TEST(Coverage, EverySiteBelongsToAProtocol) { expect_all_sites_covered(all_protocols()); }

}  // namespace
}  // namespace weft::model
