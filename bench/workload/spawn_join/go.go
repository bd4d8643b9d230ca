package main

import (
	"sync"
	"time"

	"weft/bench/report"
)

func spawnAndJoin(tasks int) {
	var wg sync.WaitGroup
	for i := 0; i < tasks; i++ {
		wg.Add(1)
		go func() { wg.Done() }()
		wg.Wait()
	}
}

func main() {
	tasks := report.Sizes("TASKS")[0]
	spawnAndJoin(tasks / 10)
	t := time.Now()
	spawnAndJoin(tasks)
	report.PerOp("ns_per_task", t, tasks)
}
