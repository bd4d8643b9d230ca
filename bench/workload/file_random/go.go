package main

import (
	"encoding/binary"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"weft/bench/report"
)

const (
	block  = 64 << 10
	blocks = 4096 // in the file
)

func alignedBlock() []byte {
	b := make([]byte, block+4096)
	return b[(4096-uintptr(unsafe.Pointer(&b[0]))%4096)%4096:][:block]
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// A file that exists for as long as it is open.
func makeFile() *os.File {
	named, err := os.CreateTemp("/var/tmp", "weft-bench-")
	must(err)
	f, err := os.OpenFile(named.Name(), os.O_RDWR|syscall.O_DIRECT, 0)
	must(err)
	named.Close()
	os.Remove(named.Name())
	b := alignedBlock()
	x := uint64(1)
	for i := int64(0); i < blocks; i++ {
		for at := 0; at < block; at += 8 {
			x = report.Work(x, 1)
			binary.LittleEndian.PutUint64(b[at:], x)
		}
		_, err = f.WriteAt(b, i*block)
		must(err)
	}
	must(f.Sync())
	return f
}

func main() {
	size := report.Sizes("TASKS BLOCKS")
	tasks, each := size[0], size[1]
	f := makeFile()
	var finished sync.WaitGroup
	finished.Add(tasks)
	t := time.Now()
	for i := 0; i < tasks; i++ {
		go func(i int) {
			b := alignedBlock()
			x := uint64(i) + 1
			for k := 0; k < each; k++ {
				x = report.Work(x, 1)
				_, err := f.ReadAt(b, int64((x>>16)%blocks)*block)
				must(err)
			}
			finished.Done()
		}(i)
	}
	finished.Wait()
	report.PerOp("ns_per_block", t, tasks*each)
	report.Value("threads", report.StatusNumber("Threads"))
}
