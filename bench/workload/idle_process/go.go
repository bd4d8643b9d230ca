package main

import (
	"fmt"
	"net"
	"sync"

	"weft/bench/report"
)

func main() {
	tasks := report.Sizes("TASKS")[0]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	var gate, finished sync.WaitGroup
	gate.Add(1)
	finished.Add(tasks)
	for i := 0; i < tasks; i++ {
		go func() {
			gate.Wait()
			finished.Done()
		}()
	}
	fmt.Println(l.Addr())
	l.Accept()
	gate.Done()
	finished.Wait()
}
