// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/anishathalye/porcupine"
)

// One line of a history; test/fault/history.h describes the records. Times are in
// microseconds, of one clock.
type record struct {
	Time      int64
	Lock      string
	Client    int
	Operation int
	What      string
	Shared    bool
	Until     int64
	Lease     int64
	Fence     uint64
	Value     uint32
	// The hold that it adopts; operation 0 if none.
	OfClient    int `json:"of_client"`
	OfOperation int `json:"of_operation"`
}

// One request: from the moment that it began and, if it was granted, until its end.
type hold struct {
	id      int
	lock    string
	client  int
	begin   int64
	granted int64
	ended   int64 // as recorded; never if the process died
	until   int64 // the last moment until which the client was known to believe
	sent    int64 // the earliest time at which the last granting command was sent
	shared  bool
	won     bool
	fence   uint64
	of      *hold // the hold that it adopts, or nil
	adopted bool  // by another hold, which takes its place
	asked   int64 // when the first adoption of it began, which may end it; or never
}

// One read or write of the register. It has no answer if its process died: then it is
// unknown whether it was done.
type access struct {
	lock     string
	client   int
	called   int64
	returned int64
	write    bool
	fence    uint64
	value    uint32
	answer   string // "read", "written", "refused", or "" if there is none
}

// A time in which the test removed the server's keys.
type loss struct {
	begin, end int64
}

const never = math.MaxInt64

type history struct {
	holds    []*hold
	accesses []*access
	losses   []loss
}

// Reads a history. One that contradicts itself, as by an answer without a request, is refused.
type reader struct {
	history
	holds   map[[2]int]*hold
	pending map[[2]int]*access
	last    int64
}

func readHistory(from io.Reader) (*history, error) {
	r := reader{holds: map[[2]int]*hold{}, pending: map[[2]int]*access{}}
	lines := bufio.NewScanner(from)
	for number := 1; lines.Scan(); number++ {
		var one record
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if err := r.take(&one); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	return &r.history, lines.Err()
}

func (r *reader) take(one *record) error {
	who := [2]int{one.Client, one.Operation}
	h := r.holds[who]
	if one.Time < r.last {
		return fmt.Errorf("before the line above it")
	}
	r.last = one.Time
	switch one.What {
	case "loss begins":
		r.losses = append(r.losses, loss{one.Time, never})
		return nil
	case "loss ends":
		if len(r.losses) == 0 {
			return fmt.Errorf("the end of no loss")
		}
		r.losses[len(r.losses)-1].end = one.Time
		return nil
	case "begin":
		if h != nil {
			return fmt.Errorf("asked for twice: %v", who)
		}
		h = &hold{id: len(r.history.holds), lock: one.Lock, client: one.Client,
			begin: one.Time, ended: never, shared: one.Shared, asked: never}
		if one.OfOperation != 0 {
			h.of = r.holds[[2]int{one.OfClient, one.OfOperation}]
			if h.of == nil {
				return fmt.Errorf("the adoption of no hold: %v", who)
			}
			if h.of.asked == never {
				h.of.asked = one.Time
			}
		}
		r.holds[who] = h
		r.history.holds = append(r.history.holds, h)
		return nil
	}
	if h == nil {
		return fmt.Errorf("never asked for: %v", who)
	}
	switch one.What {
	case "failed":
		return nil
	case "granted":
		if h.won {
			return fmt.Errorf("granted twice: %v", who)
		}
		h.won, h.granted, h.fence = true, one.Time, one.Fence
		h.until, h.sent = one.Until, one.Until-one.Lease
		if h.of != nil {
			h.of.adopted = true
		}
		return nil
	case "detached": // its token holds until then, whatever the process believes
		h.until = one.Until
		return nil
	case "touched", "ended":
		if one.Until > one.Time { // it believes, and has done so all the time
			h.until = one.Until
		}
		if one.What == "ended" {
			h.ended = one.Time
		}
		return nil
	case "reads", "writes":
		a := &access{lock: one.Lock, client: one.Client, called: one.Time, returned: never,
			write: one.What == "writes", fence: one.Fence, value: one.Value}
		r.pending[who] = a
		r.accesses = append(r.accesses, a)
		return nil
	case "read", "written", "refused":
		a := r.pending[who]
		if a == nil {
			return fmt.Errorf("an answer to no question: %v", who)
		}
		a.returned, a.answer = one.Time, one.What
		if !a.write {
			a.value = one.Value
		}
		delete(r.pending, who)
		return nil
	}
	return fmt.Errorf("unknown: %q", one.What)
}

// Returns the earliest time of the grant: after the request, and after the sending of the
// command to which the deadline belongs.
func (h *hold) earliest() int64 {
	if h.sent > h.begin && h.sent <= h.granted {
		return h.sent
	}
	return h.begin
}

// Returns until when the hold is claimed: the recorded end, or the last moment until which the
// holder was known to believe, if that comes first or the holder died. A detached hold is
// claimed at most until its adoption begins, and by its adopter from then on.
func (h *hold) claimed() int64 {
	end := h.until
	for _, other := range []int64{h.ended, h.asked} {
		if other < end {
			end = other
		}
	}
	return end
}

func (h *history) lockOperations() []porcupine.Operation {
	var operations []porcupine.Operation
	for _, one := range h.holds {
		if !one.won { // the client never believed, whatever the server had granted
			continue
		}
		grant := grant{lock: one.lock, id: one.id, shared: one.shared, fence: one.fence}
		if one.of != nil {
			grant.adopts, grant.of = true, one.of.id
		}
		for _, loss := range h.losses {
			if loss.begin < one.granted {
				grant.begun++
			}
			if loss.end <= one.sent {
				grant.over++
			}
		}
		end := one.claimed()
		operations = append(operations,
			porcupine.Operation{ClientId: one.client, Input: grant,
				Call: one.earliest(), Return: one.granted})
		if !one.adopted {
			operations = append(operations, porcupine.Operation{ClientId: one.client,
				Input: release{lock: one.lock, id: one.id}, Call: end, Return: end})
		}
	}
	return operations
}

func (h *history) registerOperations() []porcupine.Operation {
	var operations []porcupine.Operation
	for _, one := range h.accesses {
		operations = append(operations, porcupine.Operation{ClientId: one.client,
			Input: *one, Call: one.called, Return: one.returned})
	}
	return operations
}
