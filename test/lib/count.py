#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the tests in the JSON logs of `meson test`, and prints `N passed, N failed`.

Reads what cmocka and unittest print, since one program contains many tests; a program that prints
neither counts as one test. A program that failed without naming the tests that failed, by a crash
or a time-out, counts as one failure. For a program that failed and was run again by itself
(again.py) the second outcome counts, and is reported. Exits with 1 if a test failed, or if there
is nothing to count.
"""
import json
import os
import re
import sys

CMOCKA_PASSED = re.compile(r"^\[  PASSED  \] (\d+) test\(s\)", re.M)
CMOCKA_FAILED = re.compile(r"^\[  FAILED  \] (\d+) test\(s\)", re.M)
CMOCKA_NAME = re.compile(r"^\[  FAILED  \] ([a-z_]\w*)$", re.M)
UNITTEST_NAME = re.compile(r"^(?:FAIL|ERROR): (\w+)", re.M)
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in ", re.M)
UNITTEST_ENDED = re.compile(r"^(?:OK|FAILED) ?\((.*)\)$", re.M)
PASSES = {"OK", "EXPECTEDFAIL"}
SKIPS = {"SKIP"}


def total(pattern, text):
    return sum(int(count) for count in pattern.findall(text))


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
    text = entry.get("stdout", "") + "\n" + entry.get("stderr", "")
    passed, failed = unittest(text)
    passed += total(CMOCKA_PASSED, text)
    failed += total(CMOCKA_FAILED, text)
    if entry["result"] not in PASSES:
        return max(passed, 0), max(failed, 1)
    return (passed, failed) if passed + failed else (1, 0)


def which_failed(entry):
    """Returns the names of the tests that failed, if the program prints them."""
    text = entry.get("stdout", "") + "\n" + entry.get("stderr", "")
    return set(CMOCKA_NAME.findall(text) + UNITTEST_NAME.findall(text))


def read(path):
    with open(path, encoding="utf-8", errors="replace") as log:
        return [json.loads(line) for line in log if line.strip()]


def outcomes(path):
    """Returns the last outcome of each program."""
    again = {}
    if os.path.exists(path + ".again"):
        again = {entry["name"]: entry for entry in read(path + ".again")}
    for name, entry in again.items():
        if entry["result"] in PASSES:
            print(f"failed among others, passed by itself: {path}: {name}")
    return [again.get(entry["name"], entry) for entry in read(path)]


def main():
    passed = failed = 0
    for path in sys.argv[1:]:
        try:
            entries = outcomes(path)
        except (OSError, ValueError) as error:
            print(f"count.py: {path}: {error}")
            failed += 1
            continue
        for entry in entries:
            more_passed, more_failed = count(entry)
            passed += more_passed
            failed += more_failed
            if entry["result"] in SKIPS:
                print(f"skipped: {entry['name']}")
            if more_failed:
                which = ", ".join(sorted(which_failed(entry)))
                print(f"failed: {path}: {entry['name']} ({entry['result']}) {which}".rstrip())
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
