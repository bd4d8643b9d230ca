// A timer that calls something in a goroutine of its own. See after_func.cc.
#pragma once

#include <cstdint>

namespace weft::rt {

struct func_timer;

bool stop_func_timer(func_timer* t);
bool reset_func_timer(func_timer* t, std::int64_t due);
void drop_func_timer(func_timer* t) noexcept;

}  // namespace weft::rt
