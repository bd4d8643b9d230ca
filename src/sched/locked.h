// See locked.cc.
#pragma once

#include "sched/spawn.h"

namespace weft::rt {

// The calling plain thread becomes an M for as long as the goroutine lives, which has been prepared
// but not started, and which runs here and nowhere else.
void run_on_this_thread(detail::spawn_slot slot, const main_start& how);

// The same, but only until the goroutine first parks, yields or ends, and without anybody else: no other thread is
// made for it. False, and nothing is done: it is not the first goroutine of the process.
bool begin_on_this_thread(detail::spawn_slot slot, const main_start& how);

}  // namespace weft::rt
