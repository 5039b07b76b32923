#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the tests that failed in a run of `meson test` once more, one at a time: most of them wait
for real leases to expire while other tests load the machine. A test that passes by itself is
reported and counted as such (count.py); one that fails again has failed. If it is called again, it
repeats those that have failed each time so far.

    again.py BUILD LOGBASE [WORDS-OF-MESON-TEST...]
    again.py --self-test

Decides what is repeated: nothing, if so many programs failed that the machine cannot be the reason.
Failures that a slow machine cannot cause are not repeated either: those of the suites that do not
wait for time (NEVER), a crash, a report of a sanitizer or valgrind (except for leaks of a program in
which an assertion failed, or a test was repeated, since longjmp leaves what they had allocated), two
holders of one lock, a fencing token that decreased, a broken rule of callbacks, a mutation that was
not caught. The last outcomes are stored in `<log>.again` next to each log.
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
JUMPED = re.compile(r"^\[  FAILED  \] |^(?:repeated|slow): ", re.M)  # of cmocka and of stage.c


def failures(path):
    passed = {entry["name"] for entry in repeated(path) if entry["result"] in PASSES}
    return [entry for entry in read(path)
            if entry["result"] not in PASSES | SKIPS and entry["name"] not in passed]


def repeated(path):
    return read(path + ".again") if os.path.exists(path + ".again") else []


def proof(entry):
    """Returns what shows that the failure cannot be the machine's fault, or ""."""
    suites = entry["name"].split(" / ")[0].split(":")[-1].split("+")
    if NEVER & set(suites):
        return "tests of this suite do not wait for time"
    if entry["returncode"] < 0 and entry["result"] != "TIMEOUT":
        return f"signal {-entry['returncode']}"
    said = "\n".join(entry.get(stream, "") for stream in ("stdout", "stderr"))
    found = PROOF.search(said) or not JUMPED.search(said) and LEAK.search(said)
    if not found:
        return ""
    return said[said.rfind("\n", 0, found.end() - 1) + 1:].split("\n", 1)[0]


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


def self_test():
    """Looks at failures that a slow machine can cause, and at others."""
    def of(said, name="lockwire:integration+wire / guard", code=1, result="FAIL"):
        return proof({"name": name, "result": result, "returncode": code, "stderr": said})

    leak = "==7== 72 (48 direct, 24 indirect) bytes in 1 blocks are definitely lost"
    sanitizer = "==7==ERROR: LeakSanitizer: detected memory leaks"
    assert of("", "lockwire:unit / link") and of("", code=-11).endswith(" 11")
    assert not of("", code=-15, result="TIMEOUT")
    for line in (leak, sanitizer, "==7== Invalid read of size 4", "I1: two hold x",
                 "==7==ERROR: AddressSanitizer: heap-use-after-free"):
        assert of("a\n" + line + "\nb") == line, line
    for jump in ("[  FAILED  ] a_test", "repeated: a_test", "slow: a_test"):
        assert not of(f"a\n{jump}\n{leak}") and not of(f"{jump}\n{sanitizer}\n"), jump
        assert of(f"{jump}\n==7== Invalid read of size 4")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    build, base, *words = sys.argv[1:]
    good, any_failed = True, False
    for path in glob.glob(os.path.join(build, "meson-logs", glob.escape(base) + "*.json")):
        failed = failures(path)
        any_failed = any_failed or bool(failed)
        proven = {entry["name"]: proof(entry) for entry in failed + repeated(path) if proof(entry)}
        names = [entry["name"] for entry in failed if entry["name"] not in proven]
        if len(failed) > AT_MOST:
            print(f"again.py: {len(failed)} programs failed: not the machine's fault")
            good = False
            continue
        for entry in failed:
            if entry["name"] in proven:
                print(f"again.py: not the machine's fault: {entry['name']}: "
                      f"{proven[entry['name']]}")
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
