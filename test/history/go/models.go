// SPDX-License-Identifier: MIT

package main

import (
	"sort"

	"github.com/anishathalye/porcupine"
)

// ---- the lock: its holders, and their fencing tokens ----

// A grant happens at one moment between the request and the callback. It counts losses of
// state: `begun` had begun at the callback, and `over` had certainly ended when Redis granted.
type grant struct {
	lock        string
	id          int
	shared      bool
	fence       uint64
	begun, over int
	adopts      bool // it takes the place of the hold `of`
	of          int
}

// The end of a hold is one moment, too: belief ends there at the latest.
type release struct {
	lock string
	id   int
}

// The state of a lock without faults.
type lockState struct {
	numbers      bool    // fencing tokens are checked, too
	holders      []grant // in order of id
	reads, wrote uint64  // the largest fencing token of a shared and of an exclusive hold
}

// Returns true if `one` may have been granted before a loss and `other` reported after it.
func straddle(one, other grant) bool {
	return one.over < other.begun
}

func excludes(one, other grant) bool {
	return !(one.shared && other.shared) && !straddle(one, other) && !straddle(other, one)
}

// Returns true if the grant's fencing token is larger than those of all holds that it excludes.
// Redisson's locks have none (0). A grant that was made before a loss and reported after it may
// come after larger ones.
func (s lockState) hasGrown(one grant) bool {
	before := s.wrote
	if !one.shared && s.reads > before {
		before = s.reads
	}
	return !s.numbers || one.fence == 0 || one.fence > before || straddle(one, one)
}

func (s lockState) take(one grant) (bool, lockState) {
	if one.adopts {
		holds, others := s.drop(release{id: one.of})
		if !holds && !straddle(one, one) {
			return false, s
		}
		s = others
	}
	for _, holder := range s.holders {
		if excludes(holder, one) {
			return false, s
		}
	}
	if !s.hasGrown(one) {
		return false, s
	}
	next := s
	if one.shared && one.fence > next.reads {
		next.reads = one.fence
	} else if !one.shared && one.fence > next.wrote {
		next.wrote = one.fence
	}
	next.holders = append(append([]grant{}, s.holders...), one)
	sort.Slice(next.holders, func(i, j int) bool {
		return next.holders[i].id < next.holders[j].id
	})
	return true, next
}

func (s lockState) drop(one release) (bool, lockState) {
	for i, holder := range s.holders {
		if holder.id == one.id {
			next := s
			next.holders = append(append([]grant{}, s.holders[:i]...), s.holders[i+1:]...)
			return true, next
		}
	}
	return false, s
}

func sameLockState(a, b interface{}) bool {
	one, other := a.(lockState), b.(lockState)
	if one.reads != other.reads || one.wrote != other.wrote ||
		len(one.holders) != len(other.holders) {
		return false
	}
	for i := range one.holders {
		if one.holders[i].id != other.holders[i].id {
			return false
		}
	}
	return true
}

func lockModel(numbers bool) porcupine.Model {
	return porcupine.Model{
		Partition: byLock,
		Init:      func() interface{} { return lockState{numbers: numbers} },
		Equal:     sameLockState,
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			if one, ok := input.(grant); ok {
				return state.(lockState).take(one)
			}
			return state.(lockState).drop(input.(release))
		},
	}
}

var (
	mutexModel    = lockModel(false)
	numberedModel = lockModel(true)
)

// ---- the register that fences protect ----

type registerState struct {
	fence uint64 // the largest seen
	value uint32
}

// A reader leaves its fencing token. A writer with a smaller one than the largest seen is
// refused. Every client writes the value it read plus one. So a value that is not the next one
// is written only if an update is lost: if two clients had the same fencing token, or were
// admitted with falling ones.
func (s registerState) after(one access) registerState {
	if one.fence < s.fence {
		return s
	}
	s.fence = one.fence
	if one.write {
		s.value = one.value
	}
	return s
}

func (s registerState) step(one access) (bool, registerState) {
	switch one.answer {
	case "read":
		return one.value == s.value, s.after(one)
	case "written":
		return one.fence >= s.fence && one.value == s.value+1, s.after(one)
	case "refused":
		return one.fence < s.fence, s
	}
	return true, s.after(one) // its process died: the access was done here, or after all others
}

var registerModel = porcupine.Model{
	Partition: byLock,
	Init:      func() interface{} { return registerState{} },
	Step: func(state, input, _ interface{}) (bool, interface{}) {
		return state.(registerState).step(input.(access))
	},
}

// ---- both ----

// Locks are independent of each other, and so are the registers that they guard.
func byLock(operations []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, one := range operations {
		var lock string
		switch input := one.Input.(type) {
		case grant:
			lock = input.lock
		case release:
			lock = input.lock
		case access:
			lock = input.lock
		}
		parts[lock] = append(parts[lock], one)
	}
	all := make([][]porcupine.Operation, 0, len(parts))
	for _, part := range parts {
		all = append(all, part)
	}
	return all
}
