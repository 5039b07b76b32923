# SPDX-License-Identifier: MIT
"""Ports of 127.0.0.1 that are nobody else's until this process ends.

Must not know who listens there: whoever does says SO_REUSEADDR, as redis-server does."""
import socket

_keepers = []


def free_port():
    keeper = socket.socket()
    keeper.bind(("127.0.0.1", 0))  # first alone: nobody else may have it
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _keepers.append(keeper)
    return keeper.getsockname()[1]
