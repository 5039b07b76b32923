#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares what users read about results with the table of outcomes (src/base/outcome.h).

    outcomes.py SOURCE-FOLDER LOCKWIRE
    outcomes.py --self-test

Fails if
  - an lw_error of the public header is not in the table exactly once;
  - the header's section WHAT A RESULT MEANS gives an outcome other errors than the table, or does
    not list each error of a server that is "not now";
  - an exit code in the --help of a subcommand is not the table's for what stands beside it, or a
    code that each subcommand can end with is missing. (lockwire(1) is made from --help.)
`--self-test` shows that each rule can fail.
"""
import os
import re
import subprocess
import sys

# What --help says of an exit code, by outcome.
HELP = {
    "INVALID": r"usage error",
    "NOT_NOW": r"no server can do it now",
    "LOST": r"the lock was lost|lost before the release|--token does not hold, or"
            r"|TOKEN does not hold the lock",
    "SYSTEM": r"system error",
    "BUSY": r"lock busy, or wait timed out|held, but no holder was reached",
    "NEVER": r"refused by the server",
}
ALWAYS = ("INVALID", "NOT_NOW", "SYSTEM", "NEVER")
# The words of the header for an outcome.
HEADER = {"not now": "NOT_NOW", "never": "NEVER", "unknown": "UNKNOWN", "busy": "BUSY",
          "lost": "LOST"}
SECTION = re.compile(r" \* WHAT A RESULT MEANS, in every call\n \*\n(.*?)\n \*\n", re.S)
CODE = re.compile(r"(?:^| {3,})(\d+) +(\S.*?)(?= {3,}|$)", re.M)


def read_table(text):
    """Returns the exit codes by outcome, the outcomes by lw_error, and the errors of a server
    that are one word."""
    codes = {name: int(code) for name, code in
             re.findall(r"X\((\w+), (\d+), (?:true|false), ", text)}
    outcomes = re.findall(r"X\((LW_\w+), (\w+)\)", text)
    words = re.findall(r'X\("([A-Z]+)", ', text)
    return codes, outcomes, words


def check_header(header, outcomes, words):
    faults = []
    errors = re.findall(r"X\((LW_\w+), -?\d+, ", header)
    if sorted(errors) != sorted(error for error, _ in outcomes):
        faults.append(f"the table has {sorted(outcomes)}, the header {sorted(errors)}")
    section = SECTION.search(header)
    entries = re.split(r"^ \*   (?=\w)", section.group(1), flags=re.M)[1:] if section else []
    seen = {}
    for entry in entries:
        name = next((name for name in HEADER if entry.startswith(name + " ")), None)
        if name is None:
            faults.append(f"the header has an unknown outcome: {entry!r}")
        else:
            seen[name] = entry
    for name, outcome in HEADER.items():
        found = set(re.findall(r"\bLW_E\w+", seen.get(name, "")))
        expected = {error for error, of in outcomes if of == outcome}
        if name == "busy":
            found.discard("LW_OK")
        if found != expected:
            faults.append(f"the header gives {name!r} {sorted(found)}, not {sorted(expected)}")
    faults += [f"the header does not list {word} as not now" for word in words
               if not re.search(rf"\b{word}\b", seen.get("not now", ""))]
    return faults


def check_help(subcommand, text, codes):
    part = text.partition("Exit codes:\n")[2].partition("\n\n")[0]
    listed, faults = {}, []
    for code, what in CODE.findall(part):
        for outcome, words in HELP.items():
            if re.match(words, what):
                listed[outcome] = int(code)
    for outcome, code in listed.items():
        if code != codes[outcome]:
            faults.append(f"{subcommand} --help: {outcome} is {code}, not {codes[outcome]}")
    known = {codes[outcome] for outcome in listed}
    faults += [f"{subcommand} --help: {code} stands beside {what!r}" for code, what
               in CODE.findall(part) if int(code) in codes.values() and int(code) not in known]
    faults += [f"{subcommand} --help: no code for {outcome}" for outcome in ALWAYS
               if outcome not in listed]
    return faults


def self_test():
    table = ('X(OK, 0, false, "")  X(BUSY, 75, true, "") X(NOT_NOW, 69, true, "")\n'
             'X(NEVER, 77, false, "") X(INVALID, 64, false, "") X(LOST, 70, false, "")\n'
             'X(SYSTEM, 71, false, "") X(UNKNOWN, 69, true, "")\n'
             'X(LW_EBUSY, BUSY) X(LW_ECONN, NOT_NOW) X(LW_EREDIS, NEVER)\n'
             'X(LW_ELOST, LOST) X(LW_EUNKNOWN, UNKNOWN) X("OOM", TRANSIENT, "")\n')
    header = ("X(LW_EBUSY, -1, x) X(LW_ECONN, -2, x) X(LW_EREDIS, -3, x) X(LW_ELOST, -4, x)\n"
              "X(LW_EUNKNOWN, -5, x)\n"
              " * WHAT A RESULT MEANS, in every call\n *\n *   not now   LW_ECONN: OOM\n"
              " *   never     LW_EREDIS\n *   unknown   LW_EUNKNOWN\n *   busy      LW_EBUSY\n"
              " *   lost      LW_ELOST\n *\n")
    text = ("Exit codes:\n  0 if, or:\n   64  usage error           75  lock busy, or wait timed out\n"
            "   69  no server can do it now        77  refused by the server\n"
            "   71  system error (x)\n\n")
    codes, outcomes, words = read_table(table)
    wrong = check_header(header, outcomes, words) + check_help("run", text, codes)
    missed = [change for change in (("LW_ECONN: OOM", "LW_ECONN: LOADING"),
                                    ("LW_EREDIS\n", "LW_EREDIS, LW_ECONN\n"),
                                    (" *   lost      LW_ELOST\n", ""),
                                    ("X(LW_ELOST, -4, x)", "X(LW_ELOST, -4, x) X(LW_ENEW, -6, x)"))
              if change[0] not in header or not check_header(header.replace(*change), outcomes, words)]
    missed += [change for change in (("69  no", "77  no"), ("   71  system error (x)\n", ""),
                                     ("75  lock busy", "75  whatever"))
               if change[0] not in text or not check_help("run", text.replace(*change), codes)]
    if wrong or missed:
        sys.exit(f"outcomes.py: not caught: {missed}; wrongly caught: {wrong}")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def main(source, command):
    codes, outcomes, words = read_table(read(source, "src", "base", "outcome.h"))
    faults = check_header(read(source, "include", "lockwire.h"), outcomes, words)

    def ask(*words):
        return subprocess.run([command, *words, "--help"], stdout=subprocess.PIPE, text=True,
                              check=True).stdout
    subcommands = re.findall(r"^(?:usage:)? +lockwire ([a-z]+) (?!\[SUB)", ask(), re.M)
    for subcommand in subcommands:
        faults += check_help(subcommand, ask(subcommand), codes)
    if faults:
        sys.exit("outcomes.py: " + "; ".join(faults))
    print(f"{len(outcomes)} errors, {len(words)} states, {len(subcommands)} subcommands")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    else:
        main(*sys.argv[1:])
