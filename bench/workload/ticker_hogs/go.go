package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"weft/bench/report"
)

type hogs struct {
	stop  atomic.Bool
	steps atomic.Uint64
	all   sync.WaitGroup
}

func (h *hogs) start(n int) {
	h.all.Add(n)
	for i := 0; i < n; i++ {
		go func() {
			x := uint64(1)
			for !h.stop.Load() {
				x = report.Work(x, 10000)
				h.steps.Add(1)
			}
			if x == 0 {
				panic("the compiler could leave the work out otherwise")
			}
			h.all.Done()
		}()
	}
}

func (h *hogs) end() {
	h.stop.Store(true)
	h.all.Wait()
}

// What they get done in a nanosecond while f runs.
func (h *hogs) rateDuring(f func()) float64 {
	before, t := h.steps.Load(), time.Now()
	f()
	return float64(h.steps.Load()-before) / float64(time.Since(t).Nanoseconds())
}

func main() {
	size := report.Sizes("TICKS ROUNDS")
	ticks, rounds := size[0], size[1]
	var beside hogs
	beside.start(runtime.GOMAXPROCS(0))
	time.Sleep(50 * time.Millisecond)
	var late, loss []float64
	for r := 0; r < rounds; r++ {
		alone := beside.rateDuring(func() { time.Sleep(time.Duration(ticks) * time.Millisecond) })
		disturbed := beside.rateDuring(func() {
			for i := 0; i < ticks; i++ {
				t := time.Now()
				time.Sleep(time.Millisecond)
				late = append(late, float64((time.Since(t)-time.Millisecond).Nanoseconds())/1e3)
			}
		})
		loss = append(loss, 100*(1-disturbed/alone))
	}
	beside.end()
	report.Percentiles("late_us", late)
	report.Median("hog_loss_pct", loss)
}
