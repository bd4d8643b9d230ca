package main

import (
	"runtime"
	"sync"
	"time"

	"weft/bench/report"
)

func main() {
	size := report.Sizes("TASKS TOTAL")
	tasks, total := size[0], size[1]
	var ready, start, finished sync.WaitGroup
	ready.Add(tasks)
	start.Add(1)
	finished.Add(tasks)
	for i := 0; i < tasks; i++ {
		go func() {
			ready.Done()
			start.Wait()
			for j := 0; j < total/tasks; j++ {
				runtime.Gosched()
			}
			finished.Done()
		}()
	}
	ready.Wait()
	t := time.Now()
	start.Done()
	finished.Wait()
	report.PerOp("ns_per_yield", t, total)
}
