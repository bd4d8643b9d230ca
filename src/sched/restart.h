// A system call that the runtime's own signal has ended goes on as if nothing had happened (D3).
#pragma once

#include <cstdint>

namespace weft::rt {

// At the end of a handler, whose context this is: `signal` has interrupted a system call of the user's that is about to
// say EINTR? `spent`: ns since the handler began. Keeps errno. May block, as the call does. Runs on: signal.
void resume_interrupted_call(int signal, void* context, std::int64_t spent) noexcept;

}  // namespace weft::rt
