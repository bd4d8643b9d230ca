package main

import (
	"sync"
	"time"

	"weft/bench/report"
)

func recv2(c []chan int) (v int) {
	select {
	case v = <-c[0]:
	case v = <-c[1]:
	}
	return
}

func recv8(c []chan int) (v int) {
	select {
	case v = <-c[0]:
	case v = <-c[1]:
	case v = <-c[2]:
	case v = <-c[3]:
	case v = <-c[4]:
	case v = <-c[5]:
	case v = <-c[6]:
	case v = <-c[7]:
	}
	return
}

func main() {
	size := report.Sizes("CASES TRIPS")
	cases, trips := size[0], size[1]
	recv := recv8
	if cases == 2 {
		recv = recv2
	} else {
		cases = 8
	}
	var there, back []chan int
	for i := 0; i < cases; i++ {
		there, back = append(there, make(chan int)), append(back, make(chan int))
	}
	var finished sync.WaitGroup
	finished.Add(1)
	go func() {
		for i := 0; i < trips; i++ {
			v := recv(there)
			back[v%cases] <- v
		}
		finished.Done()
	}()
	t := time.Now()
	for i := 0; i < trips; i++ {
		there[i%cases] <- i
		recv(back)
	}
	report.PerOp("ns_per_roundtrip", t, trips)
	finished.Wait()
}
