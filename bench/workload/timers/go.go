package main

import (
	"sync"
	"time"

	"weft/bench/report"
)

func main() {
	size := report.Sizes("TASKS MILLISECONDS")
	tasks, longest := size[0], int64(size[1])*1e6
	sleep := make([]time.Duration, tasks)
	x := uint64(7)
	for i := range sleep {
		x = report.Work(x, 1)
		sleep[i] = time.Duration(int64(x>>16) % longest)
	}
	lateUs := make([]float64, tasks)
	var finished sync.WaitGroup
	finished.Add(tasks)
	cpuMs := report.CPUMs()
	for i := 0; i < tasks; i++ {
		go func(i int) {
			t := time.Now()
			time.Sleep(sleep[i])
			lateUs[i] = float64((time.Since(t) - sleep[i]).Nanoseconds()) / 1e3
			finished.Done()
		}(i)
	}
	finished.Wait()
	report.Value("cpu_ms", report.CPUMs()-cpuMs)
	report.Percentiles("late_us", lateUs)
}
