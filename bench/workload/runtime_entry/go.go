package main

import (
	"syscall"
	"time"

	"weft/bench/report"
)

func main() {
	entries := report.Sizes("ENTRIES")[0]
	entries /= 10 // each of these is a system call
	t := time.Now()
	for i := 0; i < entries; i++ {
		syscall.Syscall(syscall.SYS_GETPID, 0, 0, 0)
	}
	announced := time.Since(t)
	t = time.Now()
	for i := 0; i < entries; i++ {
		syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0)
	}
	raw := time.Since(t)
	report.Value("ns_per_entry", float64((announced-raw).Nanoseconds())/float64(entries))
}
