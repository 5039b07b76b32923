# SPDX-License-Identifier: MIT
"""Ports of 127.0.0.1 that are nobody else's until this process ends.

Must not know who listens there: whoever does says SO_REUSEADDR, as redis-server does."""
import socket

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


def free_port():
    keeper = keep()
    if keeper is None:
        raise AssertionError("no port is free")
    _keepers.append(keeper)
    return keeper.getsockname()[1]
