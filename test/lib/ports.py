# SPDX-License-Identifier: MIT
"""Ports of 127.0.0.1 that are nobody else's until this process ends.

Must not know who listens there: whoever does says SO_REUSEADDR, as redis-server does."""
import socket

BUS = 10000  # above a node's port is where the others reach it, in every version
_keepers = []


def keep(port=0):
    """A socket that has this port, or any; None if somebody else has it. It must not listen."""
    keeper = socket.socket()
    try:
        keeper.bind(("127.0.0.1", port))  # first alone: nobody else may have it
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except (OSError, OverflowError):
        keeper.close()
        return None
    return keeper


def keep_with_bus():
    """Two sockets: of a cluster's node's port, and of its port for the other nodes."""
    for _ in range(100):
        keeper = keep()
        other = keeper and keep(keeper.getsockname()[1] + BUS)
        if other:
            return keeper, other
        if keeper:
            keeper.close()
    raise AssertionError("no ports are free")


def free_port_with_bus():
    """The port of a cluster's node."""
    keepers = keep_with_bus()
    _keepers.extend(keepers)
    return keepers[0].getsockname()[1]


def free_port():
    keeper = keep()
    if keeper is None:
        raise AssertionError("no port is free")
    _keepers.append(keeper)
    return keeper.getsockname()[1]
