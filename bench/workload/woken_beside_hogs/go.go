package main

import (
	"encoding/binary"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"weft/bench/report"
)

const tick = int64(time.Millisecond)

var started = time.Now()

func now() int64 { return int64(time.Since(started)) }

func sinceUs(t int64) float64 { return float64(now()-t) / 1e3 }

// A timer of the kernel's: nothing in this process makes its news.
func newsOfATimer(ticks int) (late []float64) {
	const nonblock, cloexec = 0x800, 0x80000
	fd, _, e := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, 1, nonblock|cloexec, 0)
	if e != 0 {
		panic(e)
	}
	every := [2]syscall.Timespec{syscall.NsecToTimespec(tick), syscall.NsecToTimespec(tick)}
	begin := now() + tick
	if _, _, e := syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&every)), 0, 0, 0); e != 0 {
		panic(e)
	}
	file := os.NewFile(fd, "timerfd")
	defer file.Close()
	seen := int64(0)
	for len(late) < ticks {
		var fired [8]byte
		if _, err := file.Read(fired[:]); err != nil {
			panic(err)
		}
		late = append(late, sinceUs(begin+seen*tick))
		seen += int64(binary.LittleEndian.Uint64(fired[:]))
	}
	return
}

func main() {
	ticks := report.Sizes("TICKS")[0]
	var stop, sends atomic.Bool
	sent := make(chan int64, 1)
	var all sync.WaitGroup
	procs := runtime.GOMAXPROCS(0)
	all.Add(procs)
	for i := 0; i < procs; i++ {
		go func() {
			x, last := uint64(1), now()
			for !stop.Load() {
				x = report.Work(x, 1000)
				if i == 0 && sends.Load() && now()-last >= tick {
					last = now()
					select {
					case sent <- last:
					default:
					}
				}
			}
			if x == 0 {
				panic("the compiler could leave the work out otherwise")
			}
			all.Done()
		}()
	}
	news := newsOfATimer(ticks)
	var woken []float64
	sends.Store(true)
	for len(woken) < ticks {
		woken = append(woken, sinceUs(<-sent))
	}
	stop.Store(true)
	all.Wait()
	report.Percentiles("news_us", news)
	report.Percentiles("woken_us", woken)
}
