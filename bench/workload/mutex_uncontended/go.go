package main

import (
	"sync"
	"time"

	"weft/bench/report"
)

var counter int

func main() {
	pairs := report.Sizes("PAIRS")[0]
	var mutex sync.Mutex
	t := time.Now()
	for i := 0; i < pairs; i++ {
		mutex.Lock()
		counter++
		mutex.Unlock()
	}
	report.PerOp("ns_per_pair", t, pairs)
}
