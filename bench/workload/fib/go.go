package main

import (
	"sync"
	"time"

	"weft/bench/report"
)

func fib(n int) int {
	if n < 2 {
		return n
	}
	var a int
	var other sync.WaitGroup
	other.Add(1)
	go func() {
		a = fib(n - 1)
		other.Done()
	}()
	b := fib(n - 2)
	other.Wait()
	return a + b
}

func main() {
	n := report.Sizes("N")[0]
	expected, next := 0, 1
	for i := 0; i < n; i++ {
		expected, next = next, expected+next
	}
	t := time.Now()
	result := fib(n)
	report.PerOp("ns_per_task", t, next-1)
	if result != expected {
		panic("wrong number")
	}
}
