# SPDX-License-Identifier: MIT
"""Finds the requests of lockwire in the lines of a server's monitor.

Owns the shape of those lines. Independent of the peers. A poll or a release is one script with
the name's queue among its keys. The commands that a script calls are in lines marked `lua`.
"""
import os
import re



PREFIX = os.environ.get("LOCKWIRE_TEST_PREFIX", "")  # of lockwire's clients
MUTEX, READWRITE = "queue", "rwqueue"


def queue_of(name, kind=MUTEX):
    return PREFIX + "lockwire:2:" + kind + ":{" + name + "}"


def asks(lines, name, kind=MUTEX):
    """Returns the server's times, in seconds, of lockwire's scripts for this name."""
    marker = f'"{queue_of(name, kind)}"'
    return [float(line.split()[0]) for line in lines
            if marker in line and " lua] " not in line and '"EVAL' in line.upper()]


def deletion(lines, name):
    """Returns the number of the last line in which a script deleted the name."""
    found = [number for number, line in enumerate(lines)
             if " lua] " in line and f'"del" "{name}"' in line.lower()]
    return found[-1]


def commands(lines, name):
    """Returns the commands, in capitals, that scripts called with this name as the first
    argument."""
    found = (re.search(r' lua] "(\w+)" "' + re.escape(name) + '"', line) for line in lines)
    return {match[1].upper() for match in found if match}


def lease_changes(lines, name):
    """Returns the lines in which a client changed the expiry of the name."""
    return [line for line in lines
            if any(f'"{word}" "{name}"' in line.lower()
                   for word in ("pexpire", "expire", "pexpireat", "persist"))]
