# SPDX-License-Identifier: MIT
"""What lockwire asks the server for, read from the monitor's lines.

Owns the shape of those lines. Must not know the peers. A poll or a release is one script
with the name's queue among its keys; what a script itself does stands in lines marked
`lua`.
"""
import re



MUTEX, READWRITE = "queue", "rwqueue"


def queue_of(name, kind=MUTEX):
    return "lockwire:2:" + kind + ":{" + name + "}"


def asks(lines, name, kind=MUTEX):
    """The server's times, in seconds, of lockwire's scripts for this name."""
    marker = f'"{queue_of(name, kind)}"'
    return [float(line.split()[0]) for line in lines
            if marker in line and " lua] " not in line and '"EVAL' in line.upper()]


def deletion(lines, name):
    """The number of the line in which a script deleted the name, the last one if many."""
    found = [number for number, line in enumerate(lines)
             if " lua] " in line and f'"del" "{name}"' in line.lower()]
    return found[-1]


def commands(lines, name):
    """The commands, in capitals, that scripts gave with this name first."""
    found = (re.search(r' lua] "(\w+)" "' + re.escape(name) + '"', line) for line in lines)
    return {match[1].upper() for match in found if match}


def lease_changes(lines, name):
    """The lines in which anybody changed when the name ends."""
    return [line for line in lines
            if any(f'"{word}" "{name}"' in line.lower()
                   for word in ("pexpire", "expire", "pexpireat", "persist"))]
