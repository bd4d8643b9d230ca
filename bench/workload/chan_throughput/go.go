package main

import (
	"sync"
	"time"

	"weft/bench/report"
)

func main() {
	size := report.Sizes("PAIRS ITEMS")
	pairs, items := size[0], size[1]
	c := make(chan int, 128)
	var finished sync.WaitGroup
	finished.Add(2 * pairs)
	t := time.Now()
	for p := 0; p < pairs; p++ {
		go func() {
			for i := 0; i < items/pairs; i++ {
				c <- i
			}
			finished.Done()
		}()
		go func() {
			for i := 0; i < items/pairs; i++ {
				<-c
			}
			finished.Done()
		}()
	}
	finished.Wait()
	report.PerOp("ns_per_item", t, items)
}
