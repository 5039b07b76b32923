# SPDX-License-Identifier: MIT
"""The cores of a measurement's server and of its clients. Independent of what is measured.

All clients of a measurement get the same cores, by taskset, which pins all their threads. SPLIT
needs two cores: missing() returns the reason on a machine that has only one."""
import os

FREE, SPLIT, ONE = "free", "split", "one"  # any cores; one core for each side; one for both


def _usable():
    return sorted(os.sched_getaffinity(0))


def missing(placement):
    """Returns the reason why the placement cannot be measured here, or None."""
    return "there is only one core" if placement == SPLIT and len(_usable()) < 2 else None


def _pinned(core):
    return ["taskset", "-c", str(core)]


def server(placement):
    """Returns the first words of the command that runs the server there."""
    return [] if placement == FREE else _pinned(_usable()[0])


def clients(placement):
    """Returns the first words of the command that runs each client there."""
    return [] if placement == FREE else _pinned(_usable()[-1 if placement == SPLIT else 0])
