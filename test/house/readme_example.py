#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles the README's embedding example exactly as it is there, and runs it at a throw-away
Redis. src/examples/readme.c must be the same after its opening comment.

Usage: readme_example.py README.md EXAMPLE.c CC INCLUDE_DIR LIBRARY_DIR LOCKWIRE_COMMAND
       [CFLAGS...]

Takes the one ```c block, compiles it, runs it by `lockwire run --redis embedded: -- a.out`, and
checks its lines. If the example cannot start, it must print the reason.
"""
import os
import re
import subprocess
import sys
import tempfile


def example(readme):
    with open(readme, encoding="utf-8") as file:
        blocks = re.findall(r"^```c\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)
    if len(blocks) != 1:
        sys.exit(f"{readme}: {len(blocks)} C blocks, expected one")
    lines = sum(line != "" for line in blocks[0].split("\n"))
    if lines > 40:
        sys.exit(f"{readme}: the example has grown to {lines} lines")
    return blocks[0]


def program_of(source):
    """Returns the text after the comments at the beginning of the file."""
    with open(source, encoding="utf-8") as file:
        return re.sub(r"\A(/\*.*?\*/\n)+", "", file.read(), flags=re.DOTALL)


def refusal(program, environment):
    done = subprocess.run([program], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    return done.returncode, done.stdout


def main():
    readme, installed, cc, include, library, command, *flags = sys.argv[1:]
    if program_of(installed) != example(readme):
        sys.exit(f"{installed} is not as in {readme}")
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "daemon.c"), os.path.join(folder, "daemon")
        with open(source, "w", encoding="utf-8") as file:
            file.write(example(readme))
        subprocess.run([*cc.split(), *flags, "-std=c11", "-Wall", "-Wextra", "-Werror",
                        f"-I{include}", source, "-o", program, f"-L{library}",
                        f"-Wl,-rpath,{library}", "-llockwire", "-levent_core"], check=True)
        done = subprocess.run([command, "run", "readme", "--redis", "embedded:", "--", program],
                              stdout=subprocess.PIPE, text=True, timeout=120, check=False)
        unset = {name: os.environ[name] for name in os.environ if name != "LOCKWIRE_URL"}
        refusals = refusal(program, unset), refusal(program, unset | {"LOCKWIRE_URL": "localhost"})
    print(done.stdout, end="")
    expected = re.compile(r"job:42 is ours, fencing token [1-9]\d*\n")
    if done.returncode != 0 or not expected.fullmatch(done.stdout):
        sys.exit(f"exit status {done.returncode}, output as above")
    if any(refused != (1, "daemon: LOCKWIRE_URL is missing or invalid\n") for refused in refusals):
        sys.exit(f"without a URL, and with a bad one: {refusals}")


main()
