// SPDX-License-Identifier: MIT

// Runs miniredis, the in-memory server that Go projects test with, at a port of 127.0.0.1. It
// writes the port, and ends when its standard input does. miniredis expires keys only when it is
// called with the time that has passed, so this program calls it all the time.
package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
)

const tick = 10 * time.Millisecond

func main() {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(server.Port())
	go func() {
		last := time.Now()
		for range time.Tick(tick) {
			now := time.Now()
			server.FastForward(now.Sub(last))
			last = now
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	server.Close()
}
