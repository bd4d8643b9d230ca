package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"weft/bench/report"
)

func main() {
	size := report.Sizes("TASKS MILLISECONDS ANNOUNCED") // Go announces every call
	tasks, ms := size[0], size[1]
	var stop atomic.Bool
	var computing, blocking sync.WaitGroup
	for i := 0; i < runtime.GOMAXPROCS(0); i++ {
		computing.Add(1)
		go func() {
			x := uint64(1)
			for !stop.Load() {
				x = report.Work(x, 1000)
			}
			if x == 0 {
				panic("the compiler could leave the work out otherwise")
			}
			computing.Done()
		}()
	}
	t := time.Now()
	for i := 0; i < tasks; i++ {
		blocking.Add(1)
		go func() {
			ts := syscall.NsecToTimespec(int64(ms) * 1e6)
			syscall.Nanosleep(&ts, nil)
			blocking.Done()
		}()
	}
	blocking.Wait()
	report.Value("wall_ms", float64(time.Since(t).Nanoseconds())/1e6)
	report.Value("threads", report.StatusNumber("Threads"))
	stop.Store(true)
	computing.Wait()
}
