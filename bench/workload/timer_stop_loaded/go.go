package main

import (
	"time"

	"weft/bench/report"
)

func main() {
	size := report.Sizes("OTHERS OPS")
	others, ops := size[0], size[1]
	var pending []*time.Timer
	for i := 0; i < others; i++ {
		pending = append(pending, time.AfterFunc(time.Hour+time.Duration(i)*time.Millisecond, func() {}))
	}
	t := time.Now()
	for i := 0; i < ops; i++ {
		timer := time.AfterFunc(30*time.Minute, func() {})
		if !timer.Stop() {
			panic("it was not pending")
		}
	}
	report.PerOp("ns_per_op", t, ops)
	for _, timer := range pending {
		timer.Stop()
	}
}
