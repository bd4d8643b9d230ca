package main

import (
	"runtime"
	"sort"
	"syscall"
	"time"

	"weft/bench/report"
)

func lateUs(d time.Duration, sleep func(time.Duration)) float64 {
	t := time.Now()
	sleep(d)
	return float64((time.Since(t) - d).Nanoseconds()) / 1e3
}

func sleepAsThread(d time.Duration) {
	ts := syscall.NsecToTimespec(d.Nanoseconds())
	syscall.Nanosleep(&ts, nil)
}

func median(values []float64) float64 {
	sorted := append([]float64(nil), values...)
	sort.Float64s(sorted)
	return sorted[len(sorted)/2]
}

func main() {
	size := report.Sizes("SLEEPS MICROSECONDS")
	sleeps, d := size[0], time.Duration(size[1])*time.Microsecond
	var goroutine, thread []float64
	threadsTurn, goroutinesTurn, ended := make(chan int), make(chan int), make(chan int)
	go func() {
		runtime.LockOSThread()
		syscall.RawSyscall(syscall.SYS_PRCTL, 29, 1, 0) // PR_SET_TIMERSLACK
		for range threadsTurn {
			thread = append(thread, lateUs(d, sleepAsThread))
			goroutinesTurn <- 1
		}
		close(ended)
	}()
	for i := 0; i < sleeps; i++ {
		threadsTurn <- 1
		<-goroutinesTurn
		goroutine = append(goroutine, lateUs(d, time.Sleep))
	}
	close(threadsTurn)
	<-ended
	report.Value("late_per_thread", median(goroutine)/median(thread))
	report.Percentiles("late_us", goroutine)
}
