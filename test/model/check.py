#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks a model with spin, and that spin refuses each wrong variant of the model.

Usage: check.py MODEL. Exits with 77 (skipped) if spin is missing, except in CI.

Explores the right model exhaustively, once for safety and, if it makes a liveness claim, once for
liveness with fairness. Then explores each wrong variant, which must be refused with the complaint
listed here.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

# For each model: the options of the right one, and the complaints about each wrong variant: (of the
# safety run, of the liveness run).
MODELS = {
    "handover.pml": (
        [["-DLATE=1", "-DLOST=1"], ["-DLATE=0", "-DLOST=1", "-DROUNDS=2"]],
        {
            "-DWRONG_DELETE": ("invalid end state", "acceptance cycle"),
            "-DWRONG_HEAD": (None, "acceptance cycle"),
            "-DWRONG_RECEIPT": ("assertion violated", "assertion violated"),
        }),
    "detach.pml": (
        [[]],
        {
            "-DWRONG_TOKEN": ("assertion violated", None),
            "-DWRONG_COMPARE": ("assertion violated", None),
            "-DWRONG_ANSWER": ("assertion violated", None),
        }),
    "guard.pml": (
        [[], ["-DCHANGE"]],
        {
            "-DWRONG_UPTIME": ("assertion violated", None),
            "-DWRONG_IDENTITY": ("assertion violated", None),
            "-DWRONG_TIMER": ("assertion violated", None),
            "-DWRONG_FROM": ("assertion violated", None),
            "-DWRONG_ALONE": ("assertion violated", None),
            "-DWRONG_HASTE": ("assertion violated", None),
        }),
}


def run(command, folder):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout


def explore(model, options, safety, folder):
    """Returns the complaint (or None) and the number of states."""
    said = run(["spin", *options, "-a", model], folder)
    if not os.path.exists(os.path.join(folder, "pan.c")):
        sys.exit(f"spin could not read {model} with {options}:\n{said}")
    kind = ["-DSAFETY", "-DNOCLAIM"] if safety else ["-DNFAIR=6"]
    said = run(["cc", "-O2", "-w", "-DCOLLAPSE", *kind, "-o", "pan", "pan.c"], folder)
    if said:
        sys.exit(f"pan.c does not compile:\n{said}")
    said = run(["./pan", "-m1000000", "-w24", *([] if safety else ["-a", "-f"])], folder)
    states = re.search(r"^\s*(\d+) states, stored", said, re.MULTILINE)
    errors = re.search(r"errors: (\d+)", said)
    if not states or not errors or "max search depth too small" in said:
        sys.exit(f"the search did not end:\n{said}")
    complaint = re.search(r"^pan:\d*:? (.*?) \(at depth", said, re.MULTILINE)
    if (errors.group(1) != "0") != bool(complaint):
        sys.exit(f"errors without a reason:\n{said}")
    return complaint and complaint.group(1), int(states.group(1))


def main():
    if not shutil.which("spin"):
        print("spin is not installed (scripts/setup ci installs it)")
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    model = os.path.abspath(sys.argv[1])
    right, wrong = MODELS[os.path.basename(model)]
    with open(model, encoding="utf-8") as file:
        has_liveness = re.search(r"^(?:ltl|never)\b", file.read(), re.MULTILINE) is not None
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for options in right:
            for safety in (True, False) if has_liveness else (True,):
                complaint, states = explore(model, options, safety, folder)
                kind = "safety" if safety else "liveness"
                print(f"right {' '.join(options)} {kind}: {states} states, "
                      f"{complaint or 'holds'}", flush=True)
                failed |= complaint is not None
        for option, expected in wrong.items():
            for safety, wanted in zip((True, False), expected):
                if wanted is None:
                    continue
                complaint, states = explore(model, [option], safety, folder)
                print(f"wrong {option}, {'safety' if safety else 'liveness'}: "
                      f"{complaint or 'NOT REFUSED'} after {states} states", flush=True)
                failed |= wanted not in (complaint or "")
    sys.exit(1 if failed else 0)


main()
