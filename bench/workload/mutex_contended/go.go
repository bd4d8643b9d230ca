package main

import (
	"sync"
	"time"

	"weft/bench/report"
)

func main() {
	const tasks = 8
	each := report.Sizes("SECTIONS")[0] / tasks
	var mutex sync.Mutex
	x := uint64(1)
	var finished sync.WaitGroup
	t := time.Now()
	for task := 0; task < tasks; task++ {
		finished.Add(1)
		go func() {
			for i := 0; i < each; i++ {
				mutex.Lock()
				x = report.Work(x, 90)
				mutex.Unlock()
			}
			finished.Done()
		}()
	}
	finished.Wait()
	report.PerOp("ns_per_section", t, each*tasks)
	if x != report.Work(1, 90*each*tasks) {
		panic("a section was lost")
	}
}
