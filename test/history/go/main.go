// SPDX-License-Identifier: MIT

// Judges histories of the fault campaigns by porcupine, an independent checker of
// linearizability. It reads the histories and has three models. Independent of lockwire and
// of the project's own checker.
//
//	judge FILE...    for each a line: FILE mutex RESULT numbers RESULT register RESULT ...
//
//	mutex      the lock: one holder, or several readers
//	numbers    the same, and each grant's fencing token is larger than those of the holds
//	           that it excludes
//	register   the register that the lock guards: it refuses fencing tokens smaller than the
//	           largest seen, and no update is lost
//
// RESULT is Ok, Illegal, Unknown if porcupine did not finish in time, or None if there is
// nothing to judge. The exit code is 0 if all files could be read.
//
// A hold is two operations. The grant happens at one moment between the request, or the
// sending of the command that acquired it, and the callback. The end happens at the moment up
// to which the hold is claimed: the end that its process recorded, or the last moment until
// which the process was known to believe, if that comes first. If the process died, that is
// its last known deadline. Requests that failed, or had no result, claim nothing. A detached
// hold lasts until the time that its process recorded, or until an adoption of it begins. An
// adopted hold lasts until then without a gap: an adoption is one operation, which needs the
// hold and takes its place. The exceptions are those of test/fault/history.h: two holds may
// overlap if the test made the server lose state between their grants. The register has no
// exceptions.
//
// Usual course: readHistory, porcupine.CheckOperationsTimeout for each model, one line of
// output.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/anishathalye/porcupine"
)

const limit = 60 * time.Second // for one model and history, which take a fraction of a second

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
