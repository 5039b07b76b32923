// SPDX-License-Identifier: MIT

// Package workloads runs the bench's workloads over peers written in Go. It owns the command
// line, the goroutines and the rows, and is independent of the lock.
//
//	PROGRAM U|D|L|N|H|X|F --url URL [--slots N] [--seconds S] [--name KEY] [--variant V]
//	        [--retry-ms MS] [--lease-ms MS] [--hold-us US] [--pause-us US]
//	        [--rows FILE]
//
// Usual course: a peer calls Main with a function that acquires. Each slot is a goroutine. The
// rows (slot, asked, granted, released, done: 64-bit ns of CLOCK_MONOTONIC) and one line of JSON
// are written at the end.
package workloads

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const holders = 16 // goroutines that acquire the locks to hold

// Options are the options of the command line.
type Options struct {
	Workload, URL, Name, Variant, Rows string
	Slots                              int
	Seconds                            float64
	Retry, Lease, Hold, Pause          time.Duration // Retry 0: the peer's default
}

// Address splits the URL for net.Dial: tcp and host:port, or unix and a path.
func (o *Options) Address() (network, address string) {
	if path, found := strings.CutPrefix(o.URL, "unix://"); found {
		return "unix", path
	}
	return "tcp", strings.TrimPrefix(o.URL, "redis://")
}

// Sentinels returns the hosts and the service of redis-sentinel://host:port,host:port/service,
// or nothing for other URLs.
func (o *Options) Sentinels() (hosts []string, service string) {
	rest, found := strings.CutPrefix(o.URL, "redis-sentinel://")
	if !found {
		return nil, ""
	}
	list, service, _ := strings.Cut(rest, "/")
	return strings.Split(list, ","), service
}

// Nodes returns the hosts of redis-cluster://host:port,host:port, or nil for other URLs.
func (o *Options) Nodes() []string {
	list, found := strings.CutPrefix(o.URL, "redis-cluster://")
	if !found {
		return nil
	}
	return strings.Split(list, ",")
}

// Members returns the hosts of redis-quorum://host:port,host:port,host:port, or nil for other
// URLs.
func (o *Options) Members() []string {
	list, found := strings.CutPrefix(o.URL, "redis-quorum://")
	if !found {
		return nil
	}
	return strings.Split(list, ",")
}

// Acquire waits for a lock and returns the function that releases it.
type Acquire func(name string) (release func() error, err error)

type row [5]int64

type slot struct {
	rows    []row
	current row
	mutex   sync.Mutex // of current and rows, which main reads at the end
}

func clock(id uintptr) int64 {
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&now)), 0)
	return now.Nano()
}

var (
	clockBase   = time.Now()
	clockOffset = clock(1) // CLOCK_MONOTONIC
)

func now() int64 { return clockOffset + int64(time.Since(clockBase)) }

func say(line map[string]any) {
	text, _ := json.Marshal(line)
	fmt.Println(string(text))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

func readOptions() *Options {
	var o Options
	var retry, lease, hold, pause int
	flags := flag.NewFlagSet("peer", flag.ExitOnError)
	flags.StringVar(&o.URL, "url", "", "redis://host:port or unix:///path")
	flags.StringVar(&o.Name, "name", "bench", "key")
	flags.StringVar(&o.Variant, "variant", "", "")
	flags.StringVar(&o.Rows, "rows", "", "file")
	flags.IntVar(&o.Slots, "slots", 1, "")
	flags.Float64Var(&o.Seconds, "seconds", 1, "")
	flags.IntVar(&retry, "retry-ms", 0, "0: the peer's default")
	flags.IntVar(&lease, "lease-ms", 30000, "")
	flags.IntVar(&hold, "hold-us", 0, "")
	flags.IntVar(&pause, "pause-us", 0, "mean time before a slot asks again")
	if len(os.Args) < 2 || len(os.Args[1]) != 1 || !strings.Contains("UDLNHXF", os.Args[1]) {
		fail(fmt.Errorf("usage: peer U|D|L|N|H|X|F --url URL [OPTION...]"))
	}
	o.Workload = os.Args[1]
	flags.Parse(os.Args[2:])
	o.Retry = time.Duration(retry) * time.Millisecond
	o.Lease = time.Duration(lease) * time.Millisecond
	o.Hold = time.Duration(hold) * time.Microsecond
	o.Pause = time.Duration(pause) * time.Microsecond
	return &o
}

func (s *slot) once(o *Options, acquire Acquire, name string) error {
	s.mutex.Lock()
	s.current[1], s.current[2] = now(), 0
	s.mutex.Unlock()
	release, err := acquire(name)
	if err != nil {
		return err
	}
	granted := now()
	if o.Hold > 0 {
		s.mutex.Lock()
		s.current[2] = granted
		s.mutex.Unlock()
		time.Sleep(o.Hold)
	}
	released := now()
	err = release()
	s.mutex.Lock()
	s.current[2], s.current[3], s.current[4] = granted, released, now()
	s.rows = append(s.rows, s.current)
	s.current = row{s.current[0]}
	s.mutex.Unlock()
	return err
}

func (s *slot) run(o *Options, acquire Acquire, over *atomic.Bool, errors *atomic.Int64) {
	name := o.Name
	if o.Workload == "U" {
		name = fmt.Sprintf("%s:%d", name, s.current[0])
	}
	for !over.Load() {
		if err := s.once(o, acquire, name); err != nil {
			if errors.Add(1) == 1 {
				fmt.Fprintln(os.Stderr, "first error:", err)
			}
			if errors.Load() > 100 {
				return
			}
		}
		if o.Workload == "D" {
			return
		}
		if o.Pause > 0 {
			time.Sleep(o.Pause/2 + rand.N(o.Pause))
		}
	}
}

func writeRows(o *Options, slots []*slot) int {
	var rows []row
	for _, s := range slots {
		s.mutex.Lock()
		rows = append(rows, s.rows...)
		if s.current[1] != 0 {
			rows = append(rows, s.current)
		}
		s.mutex.Unlock()
	}
	if o.Rows != "" {
		file, err := os.Create(o.Rows)
		if err != nil {
			fail(err)
		}
		buffer := bufio.NewWriterSize(file, 1<<20)
		binary.Write(buffer, binary.LittleEndian, rows)
		if err := buffer.Flush(); err != nil {
			fail(err)
		}
		file.Close()
	}
	return len(rows)
}

// hold acquires one lock (X) or many (H) and keeps them until standard input ends.
func hold(o *Options, acquire Acquire, input *bufio.Reader) {
	say(map[string]any{"ready": 1})
	input.ReadString('\n')
	if o.Workload == "X" {
		if _, err := acquire(o.Name); err != nil {
			fail(err)
		}
		say(map[string]any{"granted_us": time.Now().UnixMicro()})
	} else {
		holdMany(o, acquire)
		say(map[string]any{"held": o.Slots})
	}
	io.Copy(io.Discard, input)
	os.Exit(0)
}

func holdMany(o *Options, acquire Acquire) {
	var group sync.WaitGroup
	for worker := range holders {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := worker; i < o.Slots; i += holders {
				if _, err := acquire(fmt.Sprintf("%s:%d", o.Name, i)); err != nil {
					fail(err)
				}
			}
		}()
	}
	group.Wait()
}

// take acquires and releases one lock, and prints the failure if there is one.
func take(acquire Acquire, name string) {
	release, err := acquire(name)
	if err == nil {
		say(map[string]any{"granted_ns": now()})
		err = release()
	}
	if err != nil {
		say(map[string]any{"failed": err.Error()})
	}
}

// failOver holds one lock and takes others one after the other (F), until standard input
// ends.
func failOver(o *Options, acquire Acquire, input *bufio.Reader) {
	say(map[string]any{"ready": 1, "version": versions()})
	input.ReadString('\n')
	if _, err := acquire(o.Name); err != nil {
		fail(err)
	}
	say(map[string]any{"held": 1})
	go func() {
		io.Copy(io.Discard, input)
		os.Exit(0)
	}()
	for i := 0; ; i++ {
		take(acquire, fmt.Sprintf("%s:%d", o.Name, i))
		time.Sleep(o.Pause/2 + rand.N(o.Pause+1))
	}
}

func warmUp(o *Options, acquire Acquire) {
	for i := 0; i < 100; i++ {
		release, err := acquire(fmt.Sprintf("%s:warm:%d", o.Name, os.Getpid()))
		if err == nil {
			err = release()
		}
		if err != nil {
			fail(err)
		}
	}
}

// Main runs the workload of the command line, over the locks of `open`.
func Main(open func(*Options) (Acquire, error)) {
	syscall.RawSyscall(syscall.SYS_PRCTL, 1, uintptr(syscall.SIGKILL), 0)
	o := readOptions()
	acquire, err := open(o)
	if err != nil {
		fail(err)
	}
	input := bufio.NewReader(os.Stdin)
	if o.Workload == "X" || o.Workload == "H" {
		hold(o, acquire, input)
	}
	if o.Workload == "F" {
		failOver(o, acquire, input)
	}
	warmUp(o, acquire)
	slots := make([]*slot, o.Slots)
	for i := range slots {
		slots[i] = &slot{rows: make([]row, 0, 1024), current: row{int64(i)}}
	}
	say(map[string]any{"ready": 1})
	if _, err := input.ReadString('\n'); err != nil {
		fail(err)
	}
	var over atomic.Bool
	var errors atomic.Int64
	var group sync.WaitGroup
	start, cpu := now(), clock(2) // CLOCK_PROCESS_CPUTIME_ID
	for _, s := range slots {
		group.Add(1)
		go func() { s.run(o, acquire, &over, &errors); group.Done() }()
	}
	finished := make(chan struct{})
	go func() { group.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-time.After(time.Duration(o.Seconds * float64(time.Second))):
	}
	over.Store(true)
	cpu = clock(2) - cpu
	end := now()
	say(map[string]any{"workload": o.Workload, "variant": o.Variant, "slots": o.Slots,
		"start_ns": start, "seconds": float64(end-start) / 1e9, "cpu_us": cpu / 1000,
		"rows": writeRows(o, slots), "errors": errors.Load(), "version": versions()})
}

// versions returns the versions of the modules that the program's go.mod requires directly.
func versions() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var parts []string
	for _, module := range info.Deps {
		for _, wanted := range []string{"redsync", "redislock", "rueidis", "go-redis"} {
			if strings.Contains(module.Path, "/"+wanted) {
				name := module.Path[strings.Index(module.Path, "/"+wanted)+1:]
				parts = append(parts, name+" "+module.Version)
				break
			}
		}
	}
	return strings.Join(parts, ", ")
}
