package main

import (
	"time"

	"weft/bench/report"
)

func main() {
	ops := report.Sizes("OPS")[0]
	t := time.Now()
	for i := 0; i < ops; i++ {
		timer := time.NewTimer(time.Hour)
		if !timer.Stop() {
			panic("it was not pending")
		}
	}
	report.PerOp("ns_per_op", t, ops)
}
