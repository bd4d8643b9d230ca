package main

import (
	"runtime"
	"sync"
	"time"

	"weft/bench/report"
)

func main() {
	size := report.Sizes("TASKS ROUNDS")
	tasks, rounds := size[0], size[1]
	var mutex sync.Mutex
	nextRound := sync.NewCond(&mutex)
	round, arrivals := 0, 0
	var seen, finished sync.WaitGroup
	for i := 0; i < tasks; i++ {
		finished.Add(1)
		go func() {
			mutex.Lock()
			for mine := 0; mine < rounds; mine++ {
				arrivals++
				for round == mine {
					nextRound.Wait()
				}
				seen.Done()
			}
			mutex.Unlock()
			finished.Done()
		}()
	}
	allArrived := func(r int) bool {
		mutex.Lock()
		defer mutex.Unlock()
		return arrivals == (r+1)*tasks
	}
	var total time.Duration
	for r := 0; r < rounds; r++ {
		for !allArrived(r) {
			runtime.Gosched()
		}
		time.Sleep(200 * time.Microsecond)
		seen.Add(tasks)
		t := time.Now()
		mutex.Lock()
		round++
		nextRound.Broadcast()
		mutex.Unlock()
		seen.Wait()
		total += time.Since(t)
	}
	finished.Wait()
	report.Value("ns_per_wake", float64(total.Nanoseconds())/float64(rounds*tasks))
}
