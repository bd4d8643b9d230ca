// Package report is workload/report.h for the Go twins: arguments, clock and result lines.
package report

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Sizes sets GOMAXPROCS from the first argument and returns the others; usage names them.
func Sizes(usage string) []int {
	if len(os.Args) != 2+len(strings.Fields(usage)) {
		fmt.Fprintf(os.Stderr, "usage: %s PROCS %s\n", os.Args[0], usage)
		os.Exit(2)
	}
	numbers := make([]int, len(os.Args)-1)
	for i, text := range os.Args[1:] {
		numbers[i], _ = strconv.Atoi(text)
	}
	runtime.GOMAXPROCS(numbers[0])
	return numbers[1:]
}

// Value prints one figure.
func Value(metric string, value float64) { fmt.Printf("%s %.4f\n", metric, value) }

// PerOp prints the time since start divided by ops, in nanoseconds.
func PerOp(metric string, start time.Time, ops int) {
	Value(metric, float64(time.Since(start).Nanoseconds())/float64(ops))
}

// Percentiles prints metric_p50 and metric_p99 of the values, which it sorts; there must be one.
func Percentiles(metric string, values []float64) {
	sort.Float64s(values)
	at := func(percent int) float64 { return values[(len(values)-1)*percent/100] }
	Value(metric+"_p50", at(50))
	Value(metric+"_p99", at(99))
}

// Median prints the one in the middle of an odd number of values, which it sorts; there must be one.
func Median(metric string, values []float64) {
	sort.Float64s(values)
	Value(metric, values[len(values)/2])
}

// Work is arithmetic of which each step needs the one before, about a nanosecond each.
//
//go:noinline
func Work(x uint64, steps int) uint64 {
	for i := 0; i < steps; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

// CPUMs is the processor time that the process has had, all threads together, in milliseconds.
func CPUMs() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
}

// StatusBytes is a field of /proc/self/status in bytes.
func StatusBytes(field string) float64 { return StatusNumber(field) * 1024 }

// StatusNumber is the number in a field of /proc/self/status.
func StatusNumber(field string) float64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, found := strings.CutPrefix(s.Text(), field+":"); found {
			number, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return number
		}
	}
	return 0
}
