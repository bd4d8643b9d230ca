package main

import (
	"sync"
	"time"

	"weft/bench/report"
)

func main() {
	size := report.Sizes("TASKS MILLISECONDS")
	tasks, ms := size[0], size[1]
	var gate, finished sync.WaitGroup
	gate.Add(1)
	finished.Add(tasks)
	for i := 0; i < tasks; i++ {
		go func() {
			gate.Wait()
			finished.Done()
		}()
	}
	time.Sleep(time.Duration(ms/25) * time.Millisecond)
	cpuMs := report.CPUMs()
	time.Sleep(time.Duration(ms) * time.Millisecond)
	report.Value("cpu_ms_per_5s", (report.CPUMs()-cpuMs)*5000/float64(ms))
	gate.Done()
	finished.Wait()
}
