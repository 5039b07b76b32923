// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
)

const lease = 1000

// Writes a history line by line, as the campaigns do.
type scribe struct {
	lines []string
	lock  string
}

func (s *scribe) note(time int64, client int, what string, shared bool, until int64,
	fence uint64, value uint32) {

	s.lines = append(s.lines, fmt.Sprintf(`{"time": %d, "lock": %q, "client": %d, `+
		`"operation": 1, "what": %q, "shared": %t, "until": %d, "lease": %d, `+
		`"fence": %d, "value": %d}`, time, s.lock, client, what, shared, until, lease, fence,
		value))
}

func (s *scribe) asks(time int64, client int, shared bool) {
	s.note(time, client, "begin", shared, time, 0, 0)
}

func (s *scribe) granted(time int64, client int, shared bool, fence uint64) {
	s.note(time, client, "granted", shared, time+lease, fence, 0)
}

// Adopts the hold of client 0.
func (s *scribe) adopts(time int64, client int, what string, fence uint64) {
	s.note(time, client, what, false, time+lease, fence, 0)
	last := len(s.lines) - 1
	s.lines[last] = strings.TrimSuffix(s.lines[last], "}") +
		`, "of_client": 0, "of_operation": 1}`
}

// Makes client 0 hold the lock, and detach it at 100.
func (s *scribe) detaches(until int64) {
	s.asks(0, 0, false)
	s.granted(1, 0, false, 1)
	s.note(100, 0, "detached", false, until, 1, 0)
}

func (s *scribe) touched(time int64, client int, until int64) {
	s.note(time, client, "touched", false, until, 0, 0)
}

func (s *scribe) ended(time int64, client int) {
	s.note(time, client, "ended", false, time, 0, 0)
}

func (s *scribe) reads(time int64, client int, fence uint64, value uint32) {
	s.note(time, client, "reads", false, 0, fence, 0)
	s.note(time, client, "read", false, 0, fence, value)
}

func (s *scribe) writes(time int64, client int, fence uint64, value uint32, answer string) {
	s.note(time, client, "writes", false, 0, fence, value)
	if answer != "" {
		s.note(time, client, answer, false, 0, fence, value)
	}
}

func (s *scribe) loses(from, to int64) {
	s.note(from, 9, "loss begins", false, 0, 0, 0)
	s.note(to, 9, "loss ends", false, 0, 0, 0)
}

func judged(t *testing.T, write func(*scribe)) verdict {
	t.Helper()
	s := scribe{lock: "x"}
	write(&s)
	history, err := readHistory(strings.NewReader(strings.Join(s.lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return history.judge()
}

const (
	ok      = porcupine.Ok
	illegal = porcupine.Illegal
)

func TestModels(t *testing.T) {
	for _, one := range []struct {
		name  string
		want  verdict
		write func(s *scribe)
	}{
		{"one after the other is good", verdict{ok, ok, none}, func(s *scribe) {
			s.asks(0, 0, false)
			s.asks(0, 1, false)
			s.granted(1, 0, false, 1)
			s.ended(500, 0)
			s.granted(500, 1, false, 2)
			s.ended(900, 1)
		}},
		{"two at once are found", verdict{illegal, illegal, none}, func(s *scribe) {
			s.asks(0, 0, false)
			s.asks(0, 1, false)
			s.granted(1, 0, false, 1)
			s.granted(499, 1, false, 2)
			s.ended(500, 0)
			s.ended(900, 1)
		}},
		{"of other locks two are good", verdict{ok, ok, none}, func(s *scribe) {
			s.asks(0, 0, false)
			s.granted(1, 0, false, 1)
			s.lock = "y"
			s.asks(1, 1, false)
			s.granted(499, 1, false, 1)
			s.ended(900, 1)
		}},
		{"a claim ends at its deadline", verdict{ok, ok, none}, func(s *scribe) {
			s.asks(0, 0, false)
			s.asks(0, 1, false)
			s.granted(0, 0, false, 1)
			s.granted(lease, 1, false, 2)
			s.ended(5000, 0)
		}},
		{"one that died claims until its deadline", verdict{illegal, illegal, none},
			func(s *scribe) {
				s.asks(0, 0, false)
				s.asks(0, 1, false)
				s.granted(0, 0, false, 1)
				s.granted(lease-1, 1, false, 2)
			}},
		{"one who still believes is found later", verdict{illegal, illegal, none},
			func(s *scribe) {
				s.asks(0, 0, false)
				s.asks(0, 1, false)
				s.granted(0, 0, false, 1)
				s.granted(lease+1, 1, false, 2)
				s.ended(lease+100, 1)
				s.touched(lease+500, 0, lease+600)
			}},
		{"one who touches without belief is good", verdict{ok, ok, none}, func(s *scribe) {
			s.asks(0, 0, false)
			s.asks(0, 1, false)
			s.granted(0, 0, false, 1)
			s.granted(lease+1, 1, false, 2)
			s.touched(lease+500, 0, lease+500)
		}},
		{"who failed or was never told claims nothing", verdict{ok, ok, none},
			func(s *scribe) {
				s.asks(0, 0, false)
				s.asks(0, 1, false)
				s.asks(0, 2, false)
				s.granted(10, 0, false, 1)
				s.note(20, 1, "failed", false, 20, 0, 0)
			}},
		{"one number for two is found", verdict{ok, illegal, none}, func(s *scribe) {
			s.asks(0, 0, false)
			s.asks(0, 1, false)
			s.granted(0, 0, false, 2)
			s.ended(500, 0)
			s.granted(500, 1, false, 2)
		}},
		{"without numbers they are not looked at", verdict{ok, ok, none},
			func(s *scribe) {
				s.asks(0, 0, false)
				s.asks(0, 1, false)
				s.granted(0, 0, false, 0)
				s.ended(500, 0)
				s.granted(500, 1, false, 0)
			}},
		{"readers read together, in any order", verdict{ok, ok, none}, func(s *scribe) {
			s.asks(0, 0, true)
			s.asks(0, 1, true)
			s.granted(0, 0, true, 2)
			s.granted(100, 1, true, 1)
		}},
		{"a writer among readers is found", verdict{illegal, illegal, none},
			func(s *scribe) {
				s.asks(0, 0, true)
				s.asks(0, 1, false)
				s.granted(0, 0, true, 1)
				s.granted(400, 1, false, 2)
				s.ended(500, 0)
			}},
		{"a reader's number above a later writer's is found", verdict{ok, illegal, none},
			func(s *scribe) {
				s.asks(0, 0, true)
				s.granted(0, 0, true, 5)
				s.ended(100, 0)
				s.asks(150, 1, false)
				s.granted(200, 1, false, 4)
			}},
		{"across a loss two may hold", verdict{ok, ok, none}, func(s *scribe) {
			s.asks(0, 0, false)
			s.granted(0, 0, false, 1)
			s.loses(400, 410)
			s.asks(450, 1, false)
			s.granted(500, 1, false, 2)
			s.ended(800, 0)
		}},
		{"both before the loss are found", verdict{illegal, illegal, none},
			func(s *scribe) {
				s.asks(0, 0, false)
				s.asks(0, 1, false)
				s.granted(0, 0, false, 1)
				s.granted(300, 1, false, 2)
				s.loses(400, 410)
				s.ended(800, 0)
			}},
		{"both after the loss are found", verdict{illegal, illegal, none},
			func(s *scribe) {
				s.loses(400, 410)
				s.asks(1420, 0, false)
				s.asks(1420, 1, false)
				s.granted(1430, 0, false, 1)
				s.granted(1500, 1, false, 2)
				s.ended(1800, 0)
			}},
		{"a third one after the loss is found", verdict{illegal, illegal, none},
			func(s *scribe) {
				s.asks(0, 0, false)
				s.granted(0, 0, false, 1)
				s.loses(400, 410)
				s.asks(1420, 1, false)
				s.asks(1420, 2, false)
				s.touched(1425, 0, 2900)
				s.granted(1430, 1, false, 2)
				s.granted(1440, 2, false, 3)
				s.ended(2000, 1)
			}},
		{"a detached hold ends", verdict{ok, ok, none}, func(s *scribe) {
			s.detaches(400)
			s.asks(150, 1, false)
			s.granted(400, 1, false, 2)
		}},
		{"one beside a detached hold is found", verdict{illegal, illegal, none},
			func(s *scribe) {
				s.detaches(1500)
				s.asks(150, 1, false)
				s.granted(1499, 1, false, 2)
			}},
		{"an adopted hold goes on", verdict{ok, ok, none}, func(s *scribe) {
			s.detaches(1500)
			s.adopts(200, 1, "begin", 0)
			s.adopts(300, 1, "granted", 2)
			s.ended(700, 1)
			s.asks(700, 2, false)
			s.granted(710, 2, false, 3)
		}},
		{"one between a detached hold and its adoption is found",
			verdict{illegal, illegal, none}, func(s *scribe) {
				s.detaches(200)
				s.adopts(150, 1, "begin", 0)
				s.asks(300, 2, false)
				s.granted(310, 2, false, 2)
				s.ended(320, 2)
				s.adopts(1400, 1, "granted", 3)
			}},
		{"an adoption that is given up may end the hold", verdict{ok, ok, none},
			func(s *scribe) {
				s.detaches(900)
				s.adopts(150, 1, "begin", 0)
				s.asks(160, 2, false)
				s.granted(300, 2, false, 2)
				s.ended(350, 2)
				s.adopts(400, 1, "failed", 0)
			}},
		{"a hold adopted twice is found", verdict{illegal, illegal, none},
			func(s *scribe) {
				s.detaches(900)
				s.adopts(150, 1, "begin", 0)
				s.adopts(150, 2, "begin", 0)
				s.adopts(200, 1, "granted", 2)
				s.ended(300, 1)
				s.adopts(400, 2, "granted", 3)
			}},
		{"an adopter's number must grow", verdict{ok, illegal, none}, func(s *scribe) {
			s.detaches(900)
			s.adopts(150, 1, "begin", 0)
			s.adopts(200, 1, "granted", 1)
		}},
		{"each reads what was written, and writes the next", verdict{none, none, ok},
			func(s *scribe) {
				s.asks(0, 0, false)
				s.asks(0, 1, false)
				s.reads(1, 0, 7, 0)
				s.writes(2, 0, 7, 1, "written")
				s.reads(3, 1, 8, 1)
				s.writes(4, 1, 8, 2, "written")
			}},
		{"two with one number lose an update", verdict{none, none, illegal},
			func(s *scribe) {
				s.asks(0, 0, false)
				s.asks(0, 1, false)
				s.reads(1, 0, 7, 0)
				s.reads(2, 1, 7, 0)
				s.writes(3, 0, 7, 1, "written")
				s.writes(4, 1, 7, 1, "written")
			}},
		{"a smaller number is refused", verdict{none, none, ok}, func(s *scribe) {
			s.asks(0, 0, false)
			s.asks(0, 1, false)
			s.reads(1, 0, 7, 0)
			s.reads(2, 1, 8, 0)
			s.writes(3, 0, 7, 1, "refused")
			s.writes(4, 1, 8, 1, "written")
		}},
		{"a smaller number that is let in is found", verdict{none, none, illegal},
			func(s *scribe) {
				s.asks(0, 0, false)
				s.asks(0, 1, false)
				s.reads(1, 1, 8, 0)
				s.writes(2, 0, 7, 1, "written")
			}},
		{"a larger number that is refused is found", verdict{none, none, illegal},
			func(s *scribe) {
				s.asks(0, 0, false)
				s.writes(2, 0, 7, 1, "refused")
			}},
		{"a reading that comes before what was written is found",
			verdict{none, none, illegal}, func(s *scribe) {
				s.asks(0, 0, false)
				s.asks(0, 1, false)
				s.writes(1, 0, 7, 1, "written")
				s.reads(2, 1, 8, 0)
			}},
		{"of one that died it may be written", verdict{none, none, ok},
			func(s *scribe) {
				s.asks(0, 0, false)
				s.asks(0, 1, false)
				s.writes(1, 0, 7, 1, "")
				s.reads(2, 1, 8, 1)
			}},
		{"of one that died it may be not written", verdict{none, none, ok},
			func(s *scribe) {
				s.asks(0, 0, false)
				s.asks(0, 1, false)
				s.writes(1, 0, 7, 1, "")
				s.reads(2, 1, 8, 0)
			}},
		{"of one that died it is not written much later", verdict{none, none, illegal},
			func(s *scribe) {
				s.asks(0, 0, false)
				s.asks(0, 1, false)
				s.writes(1, 0, 7, 1, "")
				s.reads(2, 1, 8, 0)
				s.reads(3, 1, 8, 1)
			}},
	} {
		t.Run(one.name, func(t *testing.T) {
			if got := judged(t, one.write); got != one.want {
				t.Errorf("got %v, want %v", got, one.want)
			}
		})
	}
}

func TestWhatIsNoHistory(t *testing.T) {
	for _, write := range []func(s *scribe){
		func(s *scribe) { s.granted(0, 0, false, 1) },
		func(s *scribe) { s.note(0, 9, "loss ends", false, 0, 0, 0) },
		func(s *scribe) { s.asks(0, 0, false); s.asks(1, 0, false) },
		func(s *scribe) {
			s.asks(0, 0, false)
			s.granted(1, 0, false, 1)
			s.granted(2, 0, false, 2)
		},
		func(s *scribe) { s.asks(1, 0, false); s.asks(0, 1, false) },
		func(s *scribe) { s.asks(0, 0, false); s.note(1, 0, "written", false, 0, 7, 1) },
		func(s *scribe) { s.asks(0, 0, false); s.note(1, 0, "slept", false, 0, 0, 0) },
		func(s *scribe) { s.adopts(1, 1, "begin", 0) },
	} {
		s := scribe{lock: "x"}
		write(&s)
		text := strings.Join(s.lines, "\n")
		if _, err := readHistory(strings.NewReader(text)); err == nil {
			t.Errorf("accepted:\n%s", text)
		}
	}
}
