#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Histories of the fault campaigns, judged by a checker that nobody here wrote.

    judge.py --cache DIR [--only PATTERN] PROGRAM [WORDS...]
    judge.py --cache DIR --kept FOLDER
    judge.py --cache DIR --models

Plays the campaigns of a program of test/fault (its words, its tests' names as in
LOCKWIRE_TEST), or takes what some have kept in a folder (LOCKWIRE_HISTORY_DIR); go/ judges
what they recorded, and its own tests show it good and bad histories. Owns what must come
out: a campaign's history is Ok in every respect, those without state and those with stopped
processes included; one that was played with the lock disabled (canary_*) is Illegal in
every respect. Anything else fails: Unknown, too.

Happy path: `judge.py --cache DIR build/test/fault/fault_campaign smoke`.
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
    """None: there is nothing to be judged, for Redisson's locks have no numbers."""
    if name.startswith("canary_"):
        return "Illegal"
    return "None" if respect == "register" and name.endswith("__redisson") else "Ok"


def judge(folder, histories):
    """How many are not as they must be."""
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
    """True if the campaigns themselves are content."""
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
