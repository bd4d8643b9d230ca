package main

import (
	"runtime/debug"
	"sync"
	"time"

	"weft/bench/report"
)

func main() {
	tasks := report.Sizes("TASKS")[0]
	debug.FreeOSMemory()
	rss, tables := report.StatusBytes("VmRSS"), report.StatusBytes("VmPTE")
	var parked, gate, gone sync.WaitGroup
	parked.Add(tasks)
	gate.Add(1)
	gone.Add(tasks)
	t := time.Now()
	for i := 0; i < tasks; i++ {
		go func() {
			parked.Done()
			gate.Wait()
			gone.Done()
		}()
	}
	parked.Wait()
	report.PerOp("ns_per_spawn", t, tasks)
	report.Value("rss_bytes_per_task", (report.StatusBytes("VmRSS")-rss)/float64(tasks))
	report.Value("pte_bytes_per_task", (report.StatusBytes("VmPTE")-tables)/float64(tasks))
	gate.Done()
	gone.Wait()
}
