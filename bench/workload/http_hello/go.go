// An HTTP server that says hello, with net/http. Started and asked by driver/.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"

	"weft/bench/report"
)

func main() {
	report.Sizes("")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "Hello, world!")
	}))
}
