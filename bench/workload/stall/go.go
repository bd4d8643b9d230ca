package main

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"weft/bench/report"
)

func main() {
	size := report.Sizes("CALLS MILLISECONDS") // Go announces every call
	calls, ms := size[0], size[1]
	var left atomic.Int32
	left.Store(int32(runtime.GOMAXPROCS(0)))
	for i := 0; i < runtime.GOMAXPROCS(0); i++ {
		go func() {
			for k := 0; k < calls; k++ {
				ts := syscall.NsecToTimespec(int64(ms) * 1e6)
				syscall.Nanosleep(&ts, nil)
				runtime.Gosched()
			}
			left.Add(-1)
		}()
	}
	var longest time.Duration
	for last := time.Now(); left.Load() != 0; {
		runtime.Gosched()
		now := time.Now()
		longest = max(longest, now.Sub(last))
		last = now
	}
	report.Value("longest_ms", float64(longest.Nanoseconds())/1e6)
}
