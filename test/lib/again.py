#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the tests that failed in a run of `meson test` once more, one at a time: most of them wait
for real leases to expire while other tests load the machine. A test that passes by itself is
reported and counted as such (count.py); one that fails again has failed. If it is called again, it
repeats those that have failed each time so far.

    again.py BUILD LOGBASE [WORDS-OF-MESON-TEST...]

Decides what is repeated: nothing, if so many programs failed that the machine cannot be the reason.
Failures that a slow machine cannot cause are not repeated either: those of the suites that do not
wait for time (NEVER), a crash, a report of a sanitizer or valgrind (except for leaks after a failed
assertion, which leaves callbacks by longjmp), two holders of one lock, a fencing token that
decreased, a broken rule of callbacks, a mutation that was not caught. The last outcomes are stored in `<log>.again` next to each log.
Exit code 1 if not all pass, 2 if no test of the run has failed."""
import glob
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from count import PASSES, SKIPS, read  # noqa: E402

AT_MOST = 8
NEVER = {"unit", "scripts", "sim", "house", "fuzz"}
PROOF = re.compile(r"ERROR: (?!Leak)\w*Sanitizer: |: runtime error: |^==\d+== [A-Z]"
                   r"|Test failed with exception|I1: two hold |I1: .* beside |I2: |rule \d+: "
                   r"|mutations were caught$", re.M)
LEAK = re.compile(r"ERROR: LeakSanitizer: |^==\d+== [\d,]+ (?:\(.*\) )?bytes in ", re.M)
FAILED = "[  FAILED  ] "  # cmocka's line for a failed assertion


def failures(path):
    passed = {entry["name"] for entry in repeated(path) if entry["result"] in PASSES}
    return [entry for entry in read(path)
            if entry["result"] not in PASSES | SKIPS and entry["name"] not in passed]


def repeated(path):
    return read(path + ".again") if os.path.exists(path + ".again") else []


def proves(entry):
    """Returns true if the failure cannot be the machine's fault."""
    if NEVER & set(entry["name"].split(" / ")[0].split(":")[-1].split("+")):
        return True
    said = "\n".join(entry.get(stream, "") for stream in ("stdout", "stderr"))
    crashed = entry["returncode"] < 0 and entry["result"] != "TIMEOUT"
    return bool(crashed or PROOF.search(said) or LEAK.search(said) and FAILED not in said)


def play(build, path, names, words):
    """Runs these tests again; returns true if all pass."""
    base = "again-" + os.path.basename(path).removesuffix(".json")  # other runs may do the same
    logs = os.path.join(build, "meson-logs", glob.escape(base) + "*")
    for old in glob.glob(logs):
        os.unlink(old)
    done = subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--num-processes",
                           "1", "--logbase", base, "--print-errorlogs", *words,
                           *[name.split(" / ")[-1] for name in names]],
                          stdin=subprocess.DEVNULL)
    for log in glob.glob(logs + ".json"):
        earlier = [entry for entry in repeated(path) if entry["name"] not in names]
        with open(path + ".again", "w", encoding="utf-8") as stored:
            stored.writelines(json.dumps(entry) + "\n" for entry in earlier + read(log))
    return done.returncode == 0


def main():
    build, base, *words = sys.argv[1:]
    good, any_failed = True, False
    for path in glob.glob(os.path.join(build, "meson-logs", glob.escape(base) + "*.json")):
        failed = failures(path)
        any_failed = any_failed or bool(failed)
        proven = {entry["name"] for entry in failed + repeated(path) if proves(entry)}
        names = [entry["name"] for entry in failed if entry["name"] not in proven]
        if len(failed) > AT_MOST:
            print(f"again.py: {len(failed)} programs failed: not the machine's fault")
            good = False
            continue
        for entry in failed:
            if entry["name"] in proven:
                print(f"again.py: not the machine's fault: {entry['name']}")
                good = False
        if names:
            print("again, each by itself:", ", ".join(names), flush=True)
            good = play(build, path, names, words) and good
    if not any_failed:
        print(f"again.py: no test of {build} {base} has failed")
        sys.exit(2)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
