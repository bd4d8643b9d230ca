// A goroutine that meets the guard of its stack is reported by name:
//
//   runtime: goroutine stack exceeds 245760-byte limit
//   runtime: sp=0x7f3a60003ff8 stack=[0x7f3a60004000, 0x7f3a60040000]
//   fatal error: stack overflow
//
//   goroutine 7 [running]:
//   …
//
// Problem. All that the kernel says is SIGSEGV, and there is no stack left to handle it on. So Ms have a
// stack for handlers (os/signal_stack.h), and a fault in, or a stack pointer below, the guard of the
// goroutine that runs here is an overflow. Any other fault goes to whoever handled it before weft started. If
// nobody did, it ends the process as the kernel would have done, with a core file where those are wanted; only
// that the goroutine and its stack are named first:
//
//   SIGSEGV: segmentation violation
//   PC=0x401216 sigcode=1 addr=0x0
//
//   goroutine 7 [running]:
//   …
//
// A thread of the runtime that uses its own stack up, outside of any goroutine, dies likewise:
//
//   runtime: the stack of a thread is used up: m=3 tid=4711 sp=0x7f3a5fffdff8
//   fatal error: stack overflow outside of goroutines
//
//   goroutine 0 gp=nil m=3 mp=0x… [idle]:
//   …
//
// A program that installs a handler of its own later has the last word, and loses the report.
//
// Go: runtime/stack.go newstack, "goroutine stack exceeds"
#pragma once

namespace weft::rt {

// Takes SIGSEGV and SIGBUS. Once, while booting.
void report_stack_overflows() noexcept;

}  // namespace weft::rt
