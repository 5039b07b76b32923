# SPDX-License-Identifier: MIT
"""What lockwire asks the server for, read from the monitor's lines.

Owns the shape of those lines. Must not know the peers. A poll or a release is one script
with the name's queue among its keys; what a script itself does stands in lines marked
`lua`.
"""


def queue_of(name):
    return "lockwire:2:queue:{" + name + "}"


def asks(lines, name):
    """The server's times, in seconds, of lockwire's scripts for this name."""
    marker = f'"{queue_of(name)}"'
    return [float(line.split()[0]) for line in lines
            if marker in line and " lua] " not in line and '"EVAL' in line.upper()]


def deletion(lines, name):
    """The number of the line in which a script deleted the name, the last one if many."""
    found = [number for number, line in enumerate(lines)
             if " lua] " in line and f'"del" "{name}"' in line.lower()]
    return found[-1]


def lease_changes(lines, name):
    """The lines in which anybody changed when the name ends."""
    return [line for line in lines
            if any(f'"{word}" "{name}"' in line.lower()
                   for word in ("pexpire", "expire", "pexpireat", "persist"))]
