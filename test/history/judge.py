#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Judges histories of the fault campaigns by an independent checker.

    judge.py --cache DIR [--only PATTERN] PROGRAM [WORDS...]
    judge.py --cache DIR --kept FOLDER
    judge.py --cache DIR --models

Runs the campaigns of a program of test/fault (WORDS are its arguments, PATTERN selects its tests
as LOCKWIRE_TEST does), or takes the histories that campaigns have left in a folder
(LOCKWIRE_HISTORY_DIR). The program in go/ judges the histories; its own tests try it with good and
bad ones. This file has the expected results. A campaign's history must be Ok in every respect,
also if servers lost their state or processes were stopped. A history with the lock disabled
(canary_*) must be Illegal in every respect. Anything else fails, including Unknown.

Example: `judge.py --cache DIR build/test/fault/fault_campaign smoke`.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "interop"))
import toolchain  # noqa: E402

RESPECTS = ("mutex", "numbers", "register")


def expected(name, respect):
    """Returns the expected result: "None" for the register of Redisson's locks, which have no
    fencing tokens."""
    if name.startswith("canary_"):
        return "Illegal"
    return "None" if respect == "register" and name.endswith("__redisson") else "Ok"


def judge(folder, histories):
    """Returns how many are not as expected."""
    done = subprocess.run([folder / "program", *histories], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, check=True)
    wrong = 0
    for line in done.stdout.splitlines():
        name, *words = line.split()
        name = name.removesuffix(".jsonl")
        found = dict(zip(words[::2], words[1::2]))
        bad = [respect for respect in RESPECTS if found[respect] != expected(name, respect)]
        print(line + (" <- not as it must be: " + ", ".join(bad) if bad else ""))
        wrong += bool(bad)
    return wrong


def play(words, only, kept):
    """Returns true if the campaigns pass by their own checks."""
    environment = {**os.environ, "LOCKWIRE_HISTORY_DIR": kept}
    if only:
        environment["LOCKWIRE_TEST"] = only
    done = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)
    if done.returncode:
        print(done.stdout[-8000:])
    return done.returncode == 0


def report(folder, kept):
    histories = sorted(pathlib.Path(kept).rglob("*.jsonl"))
    if not histories:
        sys.exit(f"failed: there is no history in {kept}")
    wrong = judge(folder, histories)
    print(f"{len(histories)} histories judged, {wrong} not as they must be")
    return wrong


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--cache", required=True, help="where the judge is built")
    parser.add_argument("--only", help="the names of the tests that are played")
    parser.add_argument("--kept", help="a folder of histories")
    parser.add_argument("--models", action="store_true", help="the judge's own tests")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if bool(options.kept) + options.models + bool(options.program) != 1:
        parser.error("a program, or --kept, or --models")
    return options


def main():
    options = parse()
    try:
        folder = toolchain.prepare("go", options.cache, HERE / "go")
    except toolchain.Missing as missing:
        toolchain.leave(missing)
    if options.models:
        toolchain.built("go", "test", "-mod=readonly", ".", cwd=folder,
                        env=toolchain.go_environment(folder))
        return
    if options.kept:
        sys.exit(report(folder, options.kept) > 0)
    with tempfile.TemporaryDirectory(prefix="lockwire-histories-") as kept:
        content = play(options.program, options.only, kept)
        wrong = report(folder, kept)
    if not content:
        sys.exit("failed: a campaign by its own judgement")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
