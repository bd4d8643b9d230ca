package main

import (
	"time"

	"weft/bench/report"
)

func node(parent chan int, first, leaves int) {
	if leaves == 1 {
		parent <- first
		return
	}
	children := make(chan int)
	for i := 0; i < 10; i++ {
		go node(children, first+i*(leaves/10), leaves/10)
	}
	sum := 0
	for i := 0; i < 10; i++ {
		sum += <-children
	}
	parent <- sum
}

func main() {
	leaves := report.Sizes("LEAVES")[0]
	result := make(chan int)
	t := time.Now()
	go node(result, 0, leaves)
	if <-result != leaves*(leaves-1)/2 {
		panic("wrong sum")
	}
	report.Value("wall_ms", float64(time.Since(t).Nanoseconds())/1e6)
}
