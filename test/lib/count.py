#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the tests in the JSON logs of `meson test`, and prints `N passed, N failed`.

    count.py [--alone-most N] [--ledger FILE] LOG...
    count.py --self-test

Reads what cmocka and unittest print, since one program contains many tests; a program that prints
neither counts as one test. A program that failed without naming the tests that failed, by a crash
or a time-out, counts as one failure. For a program that failed and was run again by itself
(again.py) the second outcome counts. The last lines name the programs that passed only by
themselves, and the tests that were skipped or played again because the machine was slow (stage.h
and stalls.py say what they print). If more than N programs passed only by themselves, that is a
failure, too.

The ledger keeps the name of each such program, so that a name which returns in a later run is
reported with the number of earlier runs. Exits with 1 if a test failed, or if there is nothing to
count.
"""
import argparse
import json
import os
import re
import sys
import tempfile
import time

CMOCKA_PASSED = re.compile(r"^\[  PASSED  \] (\d+) test\(s\)", re.M)
CMOCKA_FAILED = re.compile(r"^\[  FAILED  \] (\d+) test\(s\)", re.M)
CMOCKA_NAME = re.compile(r"^\[  FAILED  \] ([a-z_]\w*)$", re.M)
UNITTEST_NAME = re.compile(r"^(?:FAIL|ERROR): (\w+)", re.M)
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in ", re.M)
UNITTEST_ENDED = re.compile(r"^(?:OK|FAILED) ?\((.*)\)$", re.M)
SLOW = re.compile(r"^(slow|repeated): (\S+)$", re.M)
PASSES = {"OK", "EXPECTEDFAIL"}
SKIPS = {"SKIP"}


def total(pattern, text):
    return sum(int(count) for count in pattern.findall(text))


def printed(entry):
    return entry.get("stdout", "") + "\n" + entry.get("stderr", "")


def unittest(text):
    """Returns how many tests of Python's unittest passed and failed."""
    failed = skipped = 0
    for details in UNITTEST_ENDED.findall(text):
        counts = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", details)}
        failed += sum(counts.get(key, 0)
                      for key in ("failures", "errors", "successes"))
        skipped += counts.get("skipped", 0)
    return total(UNITTEST_RAN, text) - failed - skipped, failed


def count(entry):
    if entry["result"] in SKIPS:
        return 0, 0
    text = printed(entry)
    passed, failed = unittest(text)
    passed += total(CMOCKA_PASSED, text)
    failed += total(CMOCKA_FAILED, text)
    if entry["result"] not in PASSES:
        return max(passed, 0), max(failed, 1)
    return (passed, failed) if passed + failed else (1, 0)


def which_failed(entry):
    """Returns the names of the tests that failed, if the program prints them."""
    text = printed(entry)
    return set(CMOCKA_NAME.findall(text) + UNITTEST_NAME.findall(text))


def read(path):
    with open(path, encoding="utf-8", errors="replace") as log:
        return [json.loads(line) for line in log if line.strip()]


def outcomes(path):
    """Returns the last outcome of each program, and which passed only by themselves."""
    again = {}
    if os.path.exists(path + ".again"):
        again = {entry["name"]: entry for entry in read(path + ".again")}
    entries = read(path)
    alone = [entry["name"] for entry in entries if entry["name"] in again
             and again[entry["name"]]["result"] in PASSES]
    return [again.get(entry["name"], entry) for entry in entries], alone


def report(what, names):
    if names:
        print(f"{what}: {len(names)} ({', '.join(sorted(names))})")


def remember(ledger, names):
    """Adds the names to the ledger, and reports those that it has already."""
    os.makedirs(os.path.dirname(ledger), exist_ok=True)
    with open(ledger, "a+", encoding="utf-8") as file:
        file.seek(0)
        earlier = [line.split(" ", 1)[1].strip() for line in file if " " in line]
        for name in sorted(names):
            if name in earlier:
                print(f"passed only by itself in earlier runs, too ({earlier.count(name)}): {name}")
            file.write(f"{time.strftime('%Y-%m-%d')} {name}\n")


def count_all(paths, alone_most=None, ledger=None):
    """Prints what is not plainly passed; returns how many tests passed and failed."""
    passed = failed = 0
    alone, slow = [], {"slow": [], "repeated": []}
    for path in paths:
        try:
            entries, some = outcomes(path)
        except (OSError, ValueError) as error:
            print(f"count.py: {path}: {error}")
            failed += 1
            continue
        alone += some
        for entry in entries:
            more_passed, more_failed = count(entry)
            passed += more_passed
            failed += more_failed
            for kind, name in SLOW.findall(printed(entry)):
                slow[kind].append(name)
            if entry["result"] in SKIPS:
                print(f"skipped: {entry['name']}")
            if more_failed:
                which = ", ".join(sorted(which_failed(entry)))
                print(f"failed: {path}: {entry['name']} ({entry['result']}) {which}".rstrip())
    report("played again because the loop or the machine stood still", slow["repeated"])
    report("skipped because the machine was slow", slow["slow"])
    report("passed only by themselves", alone)
    if ledger and alone:
        remember(ledger, alone)
    if alone_most is not None and len(alone) > alone_most:
        print(f"failed: more than {alone_most} programs passed only by themselves")
        failed += 1
    return passed, failed


def self_test():
    """Counts two logs that this makes, one with a program that was repeated."""
    with tempfile.TemporaryDirectory() as folder:
        def log(name, *entries):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                for test, result, said in entries:
                    file.write(json.dumps({"name": test, "result": result, "stdout": said,
                                           "returncode": result != "OK"}) + "\n")
            return path

        cmocka = "slow: a_test\n[  PASSED  ] 3 test(s).\n"
        one = log("one", ("a", "OK", cmocka), ("b", "FAIL", "[  FAILED  ] 1 test(s)"),
                  ("c", "SKIP", ""))
        ledger = os.path.join(folder, "kept", "ledger")
        assert count_all([one], 0) == (3, 1)
        log("one.again", ("b", "OK", "[  PASSED  ] 4 test(s).\n"))
        assert count_all([one], 1, ledger) == (7, 0)
        assert count_all([one], 0, ledger) == (7, 1)
        assert open(ledger, encoding="utf-8").read().count(" b\n") == 2
        two = log("two", ("d", "OK", "FAILED (failures=1)\nRan 5 tests in 1s\n"),
                  ("e", "TIMEOUT", ""))
        assert count_all([two]) == (4, 2)
        assert count_all([os.path.join(folder, "none")]) == (0, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--alone-most", type=int)
    parser.add_argument("--ledger")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("logs", nargs="*")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return
    passed, failed = count_all(options.logs, options.alone_most, options.ledger)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
