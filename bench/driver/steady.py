# SPDX-License-Identifier: MIT
"""Counts per pair that do not depend on the machine's speed: allocations, and instructions under
callgrind. Both are differences of two runs of different length, so that costs that occur once
are excluded. Independent of the comparison.

Usual course: allocations(program), instructions(program); `more` are further arguments."""
import contextlib
import json
import os
import re
import subprocess
import tempfile

from server import Server

KINDS = ["uncontended", "parallel", "handover"]
FEW, MANY = 1000, 5000
LIMIT_S = 100


def _run(argv):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=LIMIT_S)
    if done.returncode:
        raise RuntimeError("%s: %s" % (argv[0], done.stderr.decode()[-400:]))
    return done.stdout.decode()


def allocations(program, more=()):
    """Returns the allocations per pair, after the warm-up: {kind: {all, ours}}."""
    found = {}
    for kind in KINDS:
        with Server() as server:
            said = json.loads(_run([program, kind, server.url(True), str(MANY), *more]))
        found[kind] = {"all": round(said["allocations"] / said["pairs"], 2),
                       "ours": round(said["ours"] / said["pairs"], 2)}
    return found


def _costs(path):
    """Returns the instructions in a callgrind file: all, and those of the library's own code."""
    names, library, total, ours, call = {}, False, 0, 0, False
    with open(path) as file:
        for line in file:
            if line.startswith("ob="):
                number, name = re.match(r"ob=\((\d+)\)(?: (.*))?", line).groups()
                names.setdefault(number, name or "")
                library = "liblockwire" in names[number]
            elif line.startswith(("cob=", "cobj=")):
                number, name = re.match(r"cobj?=\((\d+)\)(?: (.*))?", line).groups()
                names.setdefault(number, name or "")
            elif line.startswith("calls="):
                call = True  # the next line's cost is the called function's
            elif line[0] in "0123456789+-*":
                cost = int(line.split()[-1])
                if not call:
                    total += cost
                    ours += cost if library else 0
                call = False
    return total, ours


@contextlib.contextmanager
def _alone():
    with Server() as server:
        yield server.url(True)


def _callgrind(program, kind, pairs, place, more):
    with place() as url, tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out")
        _run(["valgrind", "--tool=callgrind", "--callgrind-out-file=" + path, program, kind,
              url, str(pairs), *more])
        return _costs(path)


def instructions(program, place=_alone, more=()):
    """Returns the client's instructions per pair: {kind: {all, ours}}. `place` is a context
    manager that yields a URL without keys; by default that of a new server."""
    found = {}
    for kind in KINDS:
        few, many = (_callgrind(program, kind, pairs, place, more) for pairs in (FEW, MANY))
        per_pair = [(b - a) / (MANY - FEW) for a, b in zip(few, many)]
        found[kind] = {"all": round(per_pair[0]), "ours": round(per_pair[1])}
    return found
