#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the tests that failed in a run of `meson test` once more, one at a time: most of them
wait for real leases to end beside others that keep the machine busy. What passes by itself
is told and counted as such (count.py); what fails again has failed.

    again.py BUILD LOGBASE [WORDS-OF-MESON-TEST...]

Owns the choice of what is run again: not where so many failed that it cannot be the machine, nor
what a slow machine cannot do: a crash, what a sanitizer or valgrind reports (but for leaks after a
failed assertion, which leaves callbacks by a jump), two that hold one lock, a fencing token that
went back, a broken rule of callbacks, a mutation that was not caught. Leaves each log's second
outcomes beside it, in `<log>.again`. Exit code 1 if not all pass."""
import glob
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from count import PASSES, SKIPS, read  # noqa: E402

AT_MOST = 4
PROOF = re.compile(r"ERROR: (?!Leak)\w*Sanitizer: |: runtime error: |^==\d+== [A-Z]"
                   r"|Test failed with exception|I1: two hold |I1: .* beside |I2: |rule \d+: "
                   r"|mutations were caught$", re.M)
LEAK = re.compile(r"ERROR: LeakSanitizer: |^==\d+== [\d,]+ (?:\(.*\) )?bytes in ", re.M)
FAILED = "[  FAILED  ] "  # an assertion, in cmocka's words


def failures(path):
    return [entry for entry in read(path) if entry["result"] not in PASSES | SKIPS]


def proves(entry):
    """That it is not the machine's fault."""
    said = "\n".join(entry.get(stream, "") for stream in ("stdout", "stderr"))
    crashed = entry["returncode"] < 0 and entry["result"] != "TIMEOUT"
    return bool(crashed or PROOF.search(said) or LEAK.search(said) and FAILED not in said)


def play(build, path, names, words):
    """True if all pass."""
    base = "again-" + os.path.basename(path).removesuffix(".json")  # others may be at it, too
    logs = os.path.join(build, "meson-logs", glob.escape(base) + "*")
    for old in glob.glob(logs):
        os.unlink(old)
    done = subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--num-processes",
                           "1", "--logbase", base, "--print-errorlogs", *words,
                           *[name.split(" / ")[-1] for name in names]],
                          stdin=subprocess.DEVNULL)
    for log in glob.glob(logs + ".json"):
        os.replace(log, path + ".again")
    return done.returncode == 0


def main():
    build, base, *words = sys.argv[1:]
    good = True
    for path in glob.glob(os.path.join(build, "meson-logs", glob.escape(base) + "*.json")):
        failed = failures(path)
        names = [entry["name"] for entry in failed if not proves(entry)]
        if len(failed) > AT_MOST:
            print(f"again.py: {len(failed)} programs failed: not the machine's fault")
            good = False
            continue
        for entry in failed:
            if proves(entry):
                print(f"again.py: not the machine's fault: {entry['name']}")
                good = False
        if names:
            print("again, each by itself:", ", ".join(names), flush=True)
            good = play(build, path, names, words) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
