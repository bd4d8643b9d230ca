// Who reaps the programs that nobody waits for any more.
#pragma once

namespace weft::process {

/// A program of this process that may still run is reaped when it ends. Takes the pidfd, or -1, where there are none.
/// Without a thread it stays as a zombie until this process ends. Blocks: M, up to 210 ms, if threads are short.
void leave_to_reaper(int pid, int pidfd) noexcept;

}  // namespace weft::process
