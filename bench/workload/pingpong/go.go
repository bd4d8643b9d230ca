package main

import (
	"sync"
	"time"

	"weft/bench/report"
)

func main() {
	trips := report.Sizes("TRIPS")[0]
	there, back := make(chan int), make(chan int)
	var finished sync.WaitGroup
	finished.Add(1)
	go func() {
		for i := 0; i < trips; i++ {
			back <- <-there
		}
		finished.Done()
	}()
	t := time.Now()
	for i := 0; i < trips; i++ {
		there <- i
		<-back
	}
	report.PerOp("ns_per_roundtrip", t, trips)
	finished.Wait()
}
