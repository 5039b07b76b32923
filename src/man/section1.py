#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes lockwire(1) from the command's --help, so that the two cannot differ.

Adds what --help has no room for: examples, and a comparison with flock(1).

    section1.py COMMAND VERSION     writes scdoc's source to the standard output

src/tool/usage.c describes the form of --help. A group (a heading with options, exit codes or
prose) becomes a subsection. What all subcommands have in common stands once, at the end, and a
group that an earlier subcommand has as well is only referred to.
"""
import re
import subprocess
import sys

HEADING = re.compile(r"([A-Z][A-Za-z ]+):")
OPTION = re.compile(r"  (-[^\s:][^:]*?)(?:   *(\S.*))?")
CODE = re.compile(r"(?:^|  +)(\d+(?: \+ n)?) +(\S.*?)(?=  +\d|$)")
CODE_LINE = re.compile(r" {2,5}\d+(?: \+ n)?  ?\S.*")
TEXT = " " * 17 # before the text of an option
URL_FORM = re.compile(r"[a-z-]+:(?:/| \()") # begins a line of its own in the text of --redis
HEAD = """lockwire(1) "lockwire {version}" "User Commands"

# NAME

lockwire - run commands while holding a distributed lock in Redis, and manage such locks

# SYNOPSIS
"""
TAIL = """# EXAMPLES

All of them find the server, the same one on each host, in the environment:

	export LOCKWIRE_URL=redis://redis.example.com

A job that runs on one of many hosts at a time, and waits at most ten minutes for its turn (for a
job that runs once a night, see examples/lockwire-nightly.service):

	lockwire run nightly --wait 10m -- ./backup.sh

Four scans at a time, on any number of hosts:

	lockwire run scanner --shared --permits 4 -- ./scan.sh

A scheduler that runs on one host, and on another one as soon as the first is down:

	lockwire lead scheduler -- ./scheduler

A shell with a temporary server, which the commands in the shell find in LOCKWIRE_URL:

	lockwire run try --redis embedded: -- bash

A deployment whose reason everyone sees in *lockwire status deploy*:

	lockwire run deploy --note "release 4.2" -- ./deploy.sh

A night job that gives way to a deployment, and releases the lock when it has ended:

	lockwire run nightly -- ./backup.sh &
	lockwire yield nightly && lockwire run nightly -- ./deploy.sh

What is wrong with a server, its configuration or an account:

	lockwire doctor --redis redis://daemon@redis.example.com --password-file FILE

# EMBEDDED SERVERS

*--redis embedded:* starts a redis-server or valkey-server without persistence. It listens on a unix
socket in a directory of its own (mode 0700, in TMPDIR or /tmp). When *lockwire* exits, the server
is stopped and the directory removed, on Linux also if *lockwire* is killed.

# OUTAGES

If the server refuses the password, the database or the service at the first connection, the command
exits with 77 at once; with sentinels only if all of them refuse. If a server has several addresses,
the failure that got farthest counts.

Later failures are outages: *run*, *lead*, *hold*, *take* and *watch* keep retrying. A password file is read
again for each login, so a password may be replaced in the meantime. *lead* exits with 77 once its logins
have been refused for the time of *--lease*, unless *--keep-trying* is given. If a wait ends during
an outage, the cause determines the exit code: 69 if no server could be reached, or if the server
could not process the request (for example, it was loading, out of memory or a replica, or a guard
was closed), and 77 if the server refused. If the process can open no more files or sockets, it exits with
71 at once. A failure that repeats is logged once, then once a minute with a count.

If one of the file descriptors 0 to 2 is closed, *lockwire* and COMMAND have /dev/null in its place,
open for reading only: what they write there fails.

# COMPARISON WITH FLOCK(1)

The exit status of the command, the ways to wait (*-n*, *-w*), one holder or many (*-x*, *-s*), and
*-E* are the same. Processes that the command leaves behind keep the lock, too. The differences:

- *flock* excludes processes of one machine; *lockwire run* excludes those of all machines that
  reach the server. Without the server no command is started.
- A lock of *flock* cannot be lost. A lock of *lockwire* can, if the server is unreachable for a
  whole lease, or if an operator breaks the lock. The command is then terminated, as it is if
  *lockwire* itself is killed or stopped for too long; with *flock* it continues.
- The command has a process group of its own (except with *--direct*). A daemon that it starts, and
  that has left its session, does not keep the lock.
- Waiters are served first come, first served. A fencing token allows a resource to reject late
  writes.
- There is no lock on a file descriptor of a script (use *lockwire hold*), and no *-c* (use sh -c),
  *-o* or *-u*.

# SEE ALSO

*lockwire*(7), *lockwire-sentinel*(7), *lockwire-cluster*(7), *lockwire-quorum*(7), *lockwire-guard*(7),
*lockwire-redisson*(7), *lockwire.h*(3), *flock*(1)
"""


def plain(text):
    text = re.sub(r"([\\*_`|<>\[\]#])", r"\\\1", text)
    return re.sub(r"^([-.:=+~&])", r"\\\1", text)


def ask(command, *words):
    return subprocess.run([command, *words, "--help"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout


def parse(text):
    """Returns the synopsis of one --help, and its groups: (heading, parts). A part is a kind, a
    name and a text; the first group has no heading."""
    synopsis, text = text.split("\n\n", 1)
    groups = [("", [])]
    kind = None # None: after an empty line
    for line in text.split("\n"):
        parts = groups[-1][1]
        heading, option = HEADING.fullmatch(line), OPTION.fullmatch(line)
        if not line.strip():
            kind = None
        elif heading and kind is None:
            groups.append((heading[1], []))
        elif CODE_LINE.fullmatch(line):
            parts += [["code", code, words] for code, words in CODE.findall(line)]
            kind = "code"
        elif option:
            parts.append(["option", option[1], option[2] or ""])
            kind = "option"
        elif kind == "option" and line.startswith(TEXT):
            form = URL_FORM.match(line.strip()) and "++\n"
            parts[-1][2] = (parts[-1][2] + (form or " ") + line.strip()).strip()
        elif line.startswith("    "):
            if kind != "example":
                parts.append(["example", "", ""])
            parts[-1][2] += line + "\n"
            kind = "example"
        else:
            if kind != "words":
                parts.append(["words", "", ""])
            parts[-1][2] = (parts[-1][2] + " " + line.strip()).strip()
            kind = "words"
    for _, parts in groups: # exit codes stand side by side, in two columns
        at = next((i for i, part in enumerate(parts) if part[0] == "code"), 0)
        codes = sorted((part for part in parts if part[0] == "code"),
                       key=lambda part: (len(part[1]), int(part[1].split()[0])))
        parts[at:at + len(codes)] = codes
    return synopsis.split("\n")[0].replace("usage: ", ""), groups


def written(parts):
    """The source of the parts of one group."""
    lines = []
    for (kind, name, words), after in zip(parts, [*parts[1:], ("", "", "")]):
        if kind == "words":
            lines += [plain(words), ""]
        elif kind == "example":
            lines += ["```", re.sub(r"^    ", "", words, flags=re.M) + "```", ""]
        elif kind == "code":
            lines += [f"*{plain(name)}* {plain(words)}" + ("++" if after[0] == "code" else "\n")]
        else:
            text = "++\n".join(map(plain, words.split("++\n")))
            lines += [f"*{plain(name)}*", "\t" + text, ""]
    return lines


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: section1.py COMMAND VERSION")
    command = sys.argv[1]
    first = ask(command)
    names = re.findall(r"^  ([a-z]+)  +\S", first, re.M)
    helps = {name: parse(ask(command, name)) for name in names}
    common = [group for group in helps[names[0]][1]
              if all(group in groups for _, groups in helps.values())]
    lines = [HEAD.format(version=sys.argv[2])]
    for synopsis, _ in helps.values():
        lines += ["*" + plain(synopsis) + "*", ""]
    lines += ["*lockwire help* \\[SUBCOMMAND\\] | *lockwire --version*", ""]
    seen = [] # (group, the subcommand that has it first)
    for name, (synopsis, groups) in helps.items():
        lines += ["# LOCKWIRE " + name.upper(), "", "*" + plain(synopsis) + "*", ""]
        for group in groups:
            if group in common:
                continue
            heading, parts = group
            earlier = next((before for other, before in seen if other == group), None)
            seen.append((group, name))
            lines += ["## " + heading, ""] if heading else []
            lines += [f"As for *lockwire {earlier}*.", ""] if earlier else written(parts)
    lines += ["# COMMON OPTIONS", ""]
    parts = [part for _, parts in common for part in parts]
    options = [part[1] for part in parts]
    at = max(i for i, part in enumerate(parts) if part[0] == "option") + 1
    others = re.findall(r"^  (-[^ ].*?)  +(\S.*)", first, re.M)
    parts[at:at] = [["option", *found] for found in others if found[0] not in options]
    lines += written(parts)
    print("\n".join(lines) + "\n" + TAIL, end="")


main()
