package main

import (
	"syscall"
	"time"

	"weft/bench/report"
)

func main() {
	calls := report.Sizes("CALLS")[0]
	t := time.Now()
	for i := 0; i < calls; i++ {
		syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0)
	}
	report.PerOp("raw_ns", t, calls)
	t = time.Now()
	for i := 0; i < calls; i++ {
		syscall.Syscall(syscall.SYS_GETPID, 0, 0, 0)
	}
	report.PerOp("announced_ns", t, calls)
}
