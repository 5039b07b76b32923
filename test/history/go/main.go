// SPDX-License-Identifier: MIT

// Judges histories of the fault campaigns by porcupine, a checker of linearizability that
// nobody here wrote. Owns the reading of histories and three models; must not know lockwire,
// nor our own checker.
//
//	judge FILE...    for each a line: FILE mutex RESULT numbers RESULT register RESULT ...
//
//	mutex      the lock: one holder, or several readers
//	numbers    the same, and each grant's number is larger than those that it excludes had
//	register   what the lock guards, and its numbers: it refuses smaller ones than it has
//	           seen, and no update is lost
//
// RESULT is Ok, Illegal, or Unknown where porcupine has not come to an end in time, or None
// where there is nothing to judge. The exit code tells whether all could be read.
//
// A hold is two operations. To take the lock happens at one moment between asking, or sending
// the command that got it, and being told; to end it at the moment up to which it is claimed:
// the end that its process recorded, or the last moment until which it was known to believe,
// if that comes first. So of a process that died, its deadline as it last knew it. Askings
// that failed, or were never answered, claim nothing. A hold that was detached goes on until
// the time that its process recorded, or an adoption of it was begun. One that is adopted holds
// until then without a break: to adopt is one operation, which needs the hold and takes its
// place. What is forgiven is what
// test/fault/history.h forgives: two holds between whose grants state was lost on purpose. The
// register is forgiven nothing.
//
// Happy path: readHistory, porcupine.CheckOperationsTimeout for each model, a line.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/anishathalye/porcupine"
)

const limit = 60 * time.Second // of one model and history; they take a fraction of a second

type verdict struct {
	mutex, numbers, register porcupine.CheckResult
}

const none = porcupine.CheckResult("None")

func check(model porcupine.Model, operations []porcupine.Operation) porcupine.CheckResult {
	if len(operations) == 0 {
		return none
	}
	return porcupine.CheckOperationsTimeout(model, operations, limit)
}

func (h *history) judge() verdict {
	lock, register := h.lockOperations(), h.registerOperations()
	return verdict{check(mutexModel, lock), check(numberedModel, lock),
		check(registerModel, register)}
}

func judge(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	history, err := readHistory(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	begun := time.Now()
	found := history.judge()
	return fmt.Sprintf("%s mutex %s numbers %s register %s holds %d accesses %d seconds %.2f",
		filepath.Base(path), found.mutex, found.numbers, found.register,
		len(history.lockOperations())/2, len(history.accesses),
		time.Since(begun).Seconds()), nil
}

func main() {
	failed := len(os.Args) < 2
	for _, path := range os.Args[1:] {
		line, err := judge(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			failed = true
			continue
		}
		fmt.Println(line)
	}
	if failed {
		os.Exit(1)
	}
}
