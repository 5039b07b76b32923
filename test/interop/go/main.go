// SPDX-License-Identifier: MIT

// The peers of the interop tests that are written in Go: redsync and bsm/redislock. Owns the
// commands that ../peers.py describes, the counter file and the rounds. Independent of lockwire
// and of the library that makes the lock.
//
// Usual course: a line on stdin, a call of the library, a line on stdout.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"
)

const poll = 5 * time.Millisecond

// A library of locks, reduced to what the commands need. Each peer holds at most one lock. A
// negative `wait` is unlimited.
type locker interface {
	acquire(name string, lease, wait time.Duration) (token string, won bool, err error)
	release() (held bool, err error)
	extend(lease time.Duration) (held bool, err error)
}

func nowMicroseconds() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return now.Nano() / 1000
}

func milliseconds(text string) (time.Duration, error) {
	number, err := strconv.ParseInt(text, 10, 64)
	return time.Duration(number) * time.Millisecond, err
}

func acquire(locks locker, words []string) (string, error) {
	lease, err := milliseconds(words[1])
	if err != nil {
		return "", err
	}
	wait, err := milliseconds(words[2])
	if err != nil {
		return "", err
	}
	token, won, err := locks.acquire(words[0], lease, wait)
	switch {
	case err != nil:
		return "", err
	case won:
		return "held " + token, nil
	case wait == 0:
		return "busy -", nil
	}
	return "timeout", nil
}

func release(locks locker) (string, error) {
	held, err := locks.release()
	if held {
		return "released", err
	}
	return "gone", err
}

func extend(locks locker, words []string) (string, error) {
	lease, err := milliseconds(words[0])
	if err != nil {
		return "", err
	}
	held, err := locks.extend(lease)
	if held {
		return "extended", err
	}
	return "gone", err
}

// Adds one to the number in the file, with a pause between reading and writing.
func count(path string, pause time.Duration) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	value, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, err
	}
	time.Sleep(pause)
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	if _, err = fmt.Fprintf(file, "%020d\n", value+1); err != nil {
		return 0, err
	}
	return value + 1, file.Close()
}

func round(locks locker, words []string) (string, error) {
	pause, err := milliseconds(words[2])
	if err != nil {
		return "", err
	}
	locked := words[4] == "lock"
	asked := nowMicroseconds()
	if locked {
		if _, err := acquire(locks, []string{words[0], words[1], "-1"}); err != nil {
			return "", err
		}
	}
	fmt.Println("held -")
	value, err := count(words[3], pause)
	if err != nil {
		return "", err
	}
	done := nowMicroseconds()
	outcome := "released"
	if locked {
		if outcome, err = release(locks); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("wrote %d %d %d %s", value, asked, done, outcome), nil
}

func obey(locks locker, words []string) (string, error) {
	switch {
	case words[0] == "acquire" && len(words) == 4:
		return acquire(locks, words[1:])
	case words[0] == "release" && len(words) == 1:
		return release(locks)
	case words[0] == "extend" && len(words) == 2:
		return extend(locks, words[1:])
	case words[0] == "round" && len(words) == 6:
		return round(locks, words[1:])
	}
	return "", fmt.Errorf("unknown command: %q", words)
}

// Returns the version of the module that go.mod pins.
func version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return dependency.Version
			}
		}
	}
	return "of an unknown version"
}

// Drops the log entries of go-redis about a dead master.
type silent struct{}

func (silent) Printf(context.Context, string, ...interface{}) {}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: peer redsync|redislock SOCKET...")
		os.Exit(64)
	}
	redis.SetLogger(silent{})
	var clients []*redis.Client
	for _, socket := range os.Args[2:] {
		client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket,
			MaxRetries: -1, DialerRetries: 1}) // a dead master must not delay the others' votes
		if err := client.Ping(context.Background()).Err(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		clients = append(clients, client)
	}
	var locks locker
	if os.Args[1] == "redsync" {
		locks = newRedsync(clients)
		fmt.Println("ready redsync", version("github.com/go-redsync/redsync/v4"))
	} else {
		locks = newRedislock(clients[0])
		fmt.Println("ready redislock", version("github.com/bsm/redislock"))
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer, err := obey(locks, strings.Fields(lines.Text()))
		if err != nil {
			answer = "error " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println(answer)
	}
}
