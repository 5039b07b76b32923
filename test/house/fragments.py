#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles each fragment of the manual (src/man/fragments) and runs it at a throw-away Redis.

    fragments.py FOLDER CC INCLUDE LIBRARY LOCKWIRE

Also checks that a page shows each, and the shown lines are at most 69 columns wide (a page of 80
has 11 before them). Without one of the libraries of other event loops the test is skipped, except
with CI=true: `scripts/setup ci` installs all of them.
"""
import os
import re
import subprocess
import sys
import tempfile

# What a fragment needs besides libevent: its name, and the package for pkg-config.
LIBRARIES = {"glib.c": "glib-2.0", "qt.cpp": "Qt5Core"}
OTHERS = {"libev.c": ["-lev"], "asio.cpp": []} # they have no package, but a header
HEADERS = {"libev.c": "ev.h", "asio.cpp": "asio.hpp"}
LIMIT_S = 120
SKIPPED = 77
SHOWN = re.compile(r"^/\* shown: \*/\n(.*?)^/\* until here \*/$", re.M | re.S)


def missing(what):
    print(f"fragments.py: {what} is missing; scripts/setup ci installs it", file=sys.stderr)
    sys.exit(1 if os.environ.get("CI", "") not in ("", "false") else SKIPPED)


def flags(name):
    if name in HEADERS and not os.path.exists(f"/usr/include/{HEADERS[name]}"):
        missing(HEADERS[name])
    if name not in LIBRARIES:
        return OTHERS.get(name, [])
    done = subprocess.run(["pkg-config", "--cflags", "--libs", LIBRARIES[name]], text=True,
                          stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        missing(LIBRARIES[name])
    return [word.replace("-I", "-isystem") if word.startswith("-I") else word
            for word in done.stdout.split()]


def problems(folder, name, cc, include, library, command):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        text = file.read()
    shown = SHOWN.findall(text)
    if len(shown) != 1:
        yield "shows nothing, or more than one part"
    for line in "".join(shown).splitlines():
        if len(line) > 69:
            yield f"too wide for a page: {line}"
    if name.endswith(".h"):
        return
    compiler = ["g++", "-fPIC", "-std=c++17", "-Wall", "-Wextra"] if name.endswith(".cpp") else \
        [*cc.split(), "-std=gnu11", "-Wall", "-Wextra", "-Werror"]
    with tempfile.TemporaryDirectory() as here:
        program = os.path.join(here, "fragment")
        words = [*compiler, f"-I{include}", f"-I{folder}", os.path.join(folder, name), "-o", program,
                 f"-L{library}", f"-Wl,-rpath,{library}", "-llockwire", "-levent_core", "-pthread",
                 *flags(name)]
        if subprocess.run(words, check=False).returncode != 0:
            yield "does not compile"
            return
        done = subprocess.run([command, "run", "fragment", "--redis", "embedded:", "--", program],
                              timeout=LIMIT_S, check=False)
        if done.returncode != 0:
            yield f"ends with {done.returncode}"


def main():
    if len(sys.argv) != 6:
        sys.exit("usage: fragments.py FOLDER CC INCLUDE LIBRARY LOCKWIRE")
    folder = sys.argv[1]
    wrong = 0
    for name in sorted(set(os.listdir(folder)) - {"common.h", ".clang-format"}):
        print(name, flush=True)
        for problem in problems(folder, name, *sys.argv[2:]):
            print(f"fragments.py: {name}: {problem}")
            wrong += 1
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
