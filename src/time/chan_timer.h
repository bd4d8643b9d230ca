// A timer that speaks through a channel, and a ticker: one shot, or a period. See chan_timer.cc.
#pragma once

#include <cstdint>

#include "chan/channel.h"

namespace weft::rt {

// A channel of times whose first value comes at `due` (nanotime), and every `period` if that is not 0.
channel* make_time_channel(std::int64_t due, std::int64_t period);

// True: a value was to come, or had not been received. It never will. [T-14]
bool stop_time_channel(channel* c);

// The same, and starts anew. `period` as above.
bool reset_time_channel(channel* c, std::int64_t due, std::int64_t period);

}  // namespace weft::rt
