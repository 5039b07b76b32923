#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes lockwire(1) of what the command says of itself, so that the two cannot part.

Owns the page's form, and what `--help` has no room for: examples, and how it differs from
flock(1). Options that all subcommands have in the same words stand once, below all of them.

    section1.py COMMAND VERSION     writes scdoc's lines to the standard output

Happy path: ask for each `--help`; a line that begins with two blanks and a hyphen begins an
option, one with a number and two blanks is an exit code, one with two blanks stands as it is, all
else is prose.
"""
import re
import subprocess
import sys

OPTION = re.compile(r"  (-[^\s:][^:]*?)(?:   *(\S.*))?")
CODE = re.compile(r"(?:^|  +)(\d+(?: \+ n)?) +(\S.*?)(?=  +\d|$)")
CODE_LINE = re.compile(r" {2,5}\d+(?: \+ n)?  ?\S.*")
HEAD = """lockwire(1) "lockwire {version}" "User Commands"

# NAME

lockwire - run commands under a distributed lock in Redis, and look after such locks

# SYNOPSIS
"""
TAIL = """# EXAMPLES

A job that runs on one host of many at a time, and waits ten minutes for its turn at the most (for
once a night see examples/lockwire-nightly.service):

	lockwire run nightly --wait 10m -- ./backup.sh

Four scans at a time, on however many hosts:

	lockwire run scanner --shared --permits 4 -- ./scan.sh

A scheduler that runs on one host, and on another one as soon as that is gone:

	lockwire lead scheduler -- ./scheduler

A shell with a temporary server, which the commands in it find in LOCKWIRE_URL:

	lockwire run try --redis embedded: -- bash

# EMBEDDED SERVERS

*--redis embedded:* starts a redis-server or valkey-server without persistence. It listens on a unix
socket in a directory of its own (mode 0700, in TMPDIR or /tmp). Server and directory go away when
*lockwire* ends, also if it is killed (on Linux).

# OUTAGES

A password, a database or a service that is refused at the first connection ends the command with 77,
and with sentinels only where all of them refuse. If a server has several addresses, the failure that
got farthest counts. Later it is an outage as any other: *run*, *lead*, *hold* and *watch* go on trying,
and a wait that ends meanwhile ends with the code of its cause: 69 if no server could be reached or the
server could not serve the lock (loading, a replica, a cluster without its slot), 77 if the server
refused. 71 comes at once if the process can open no more files or sockets. A failure that repeats is
told once, then once a minute with its number. A descriptor from 0 to 2 that is closed is /dev/null, for the command
that is run as well.

# BESIDE FLOCK(1)

The same are the command's exit status, how it waits (*-n*, *-w*), one holder or many (*-x*, *-s*),
*-E*, and that processes which the command leaves behind go on holding the lock. Otherwise:

*flock* excludes on one machine, *lockwire run* wherever the server can be reached; without it
nothing starts.

A lock of flock's cannot be lost. This one can, if the server is away for a lease, or somebody breaks
it: the command is ended then, as it is if lockwire itself is killed or stopped for long, where flock's
works on.

The command has a process group of its own (but for *--direct*). A daemon that it starts, and that has
left its session, does not keep the lock.

Who asked first is let in first. Late writers are told by a fencing token, where the resource looks
at it.

There is no lock on a descriptor of a script's (*lockwire hold* serves for that), no *-c* (say sh -c),
*-o*, *-u*.

# SEE ALSO

*lockwire*(7), *lockwire.h*(3), *flock*(1)
"""


def plain(text):
    text = re.sub(r"([\\*_`|<>\[\]#])", r"\\\1", text)
    return re.sub(r"^([-.:=+~&])", r"\\\1", text)


def ask(command, *words):
    return subprocess.run([command, *words, "--help"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout


class Help:
    """One --help: its usage, and in order its options, its codes and its paragraphs."""

    def __init__(self, text):
        usage, text = text.split("\n\n", 1)
        self.usage = [line.replace("usage: ", "").strip() for line in usage.split("\n")]
        self.parts = [] # (kind, name, words)
        kind = None
        for line in text.split("\n"):
            option = OPTION.fullmatch(line)
            if not line.strip():
                kind = None
            elif CODE_LINE.fullmatch(line):
                self.parts += [["code", code, words] for code, words in CODE.findall(line)]
                kind = None
            elif option:
                self.parts.append(["option", option.group(1), option.group(2) or ""])
                kind = "option"
            elif kind == "option" and line.startswith("       ") or kind == "words":
                self.parts[-1][2] = (self.parts[-1][2] + " " + line.strip()).strip()
            elif line.startswith("  ") and kind in (None, "literal"):
                if kind is None:
                    self.parts.append(["literal", "", ""])
                self.parts[-1][2] += line + "\n"
                kind = "literal"
            else:
                self.parts.append(["words", "", line.strip()])
                kind = "words"
        at = next((i for i, part in enumerate(self.parts) if part[0] == "code"), 0)
        codes = sorted((part for part in self.parts if part[0] == "code"),
                       key=lambda part: (len(part[1]), int(part[1].split()[0])))
        self.parts[at:at + len(codes)] = codes # they stand side by side in two columns


def written(kind, name, words):
    if kind == "words":
        return [plain(words), ""]
    if kind == "literal":
        return ["```", words + "```", ""]
    if kind == "code":
        return [f"*{plain(name)}* {plain(words)}++"]
    return [f"*{plain(name)}*", "", "\t" + plain(words), ""] if words else [f"*{plain(name)}*", ""]


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: section1.py COMMAND VERSION")
    command = sys.argv[1]
    first = ask(command)
    names = [name for name, told in re.findall(r"^  ([a-z]+)  +(\S.*)", first, re.M)]
    helps = {name: Help(ask(command, name)) for name in names}
    common = [part for part in helps[names[0]].parts if part[0] == "option" and
              all(part in helped.parts for helped in helps.values())]
    lines = [HEAD.format(version=sys.argv[2])]
    for helped in helps.values():
        lines += ["*" + plain(helped.usage[0]) + "*", ""]
    lines += ["*lockwire --help* | *--version*", ""]
    for name, helped in helps.items():
        lines += ["# LOCKWIRE " + name.upper(), "", "*" + plain(helped.usage[0]) + "*", ""]
        for part, after in zip(helped.parts, [*helped.parts[1:], ("end", "", "")]):
            if part not in common:
                lines += written(*part)
            if part[0] == "code" != after[0]:
                lines[-1] = lines[-1].removesuffix("++") + "\n"
    lines += ["# OPTIONS OF ALL", ""]
    for part in common:
        lines += written(*part)
    for option, told in re.findall(r"^  (-[^ ].*?)  +(\S.*)", first, re.M):
        if not any(option in part[1] for part in common):
            lines += written("option", option, told)
    print("\n".join(lines) + "\n" + TAIL, end="")


main()
