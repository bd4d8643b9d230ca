// SIGQUIT, as in Go: a report of everything, then exit status 2.
//
//   SIGQUIT: quit
//   PC=0x55d0c3a01234 m=3 sigcode=0
//
//   goroutine 7 gp=0x… m=3 mp=0x… [running]:        what the signal has interrupted
//   …
//   goroutine 1 gp=0x… m=nil [chan receive]:        all the others
//   …
//   rax    0x0                                      registers
//
// Only if nobody else wants the signal: a program that handles or ignores it when the runtime starts
// keeps it, and one that takes it later has the last word.
//
// Go: runtime/signal_unix.go sighandler [DG-4]
#pragma once

namespace weft::rt {

// Once, while booting.
void report_on_quit() noexcept;

}  // namespace weft::rt
