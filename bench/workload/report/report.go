// Package report is workload/report.h for the Go twins: arguments, clock and result lines.
package report

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
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

// StatusBytes is a field of /proc/self/status in bytes.
func StatusBytes(field string) float64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, found := strings.CutPrefix(s.Text(), field+":"); found {
			kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib * 1024
		}
	}
	return 0
}
