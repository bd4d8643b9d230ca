package main

import (
	"sync"
	"time"

	"weft/bench/report"
)

func batch(wg *sync.WaitGroup, tasks int) {
	wg.Add(tasks)
	for i := 0; i < tasks; i++ {
		go func() { wg.Done() }()
	}
	wg.Wait()
}

func main() {
	size := report.Sizes("TASKS ROUNDS")
	tasks, rounds := size[0], size[1]
	var wg sync.WaitGroup
	batch(&wg, tasks)
	t := time.Now()
	for r := 0; r < rounds; r++ {
		batch(&wg, tasks)
	}
	report.PerOp("ns_per_task", t, tasks*rounds)
}
