# SPDX-License-Identifier: MIT
"""Ports of 127.0.0.1 that are reserved until this process ends.

A program that listens there must set SO_REUSEADDR, as redis-server does."""
import errno
import socket

BUS = 10000  # a cluster's node listens for the other nodes this much above its port
_keepers = []


def keep(port=0, host="127.0.0.1"):
    """Returns a socket that reserves this port, or any; None if in use. It must not listen. If the
    machine has no such address, it reserves nothing."""
    try:
        keeper = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError:
        return socket.socket()
    try:
        keeper.bind((host, port))  # before SO_REUSEADDR: fails if the port is in use
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except (OSError, OverflowError) as error:
        if getattr(error, "errno", None) == errno.EADDRNOTAVAIL:
            return keeper
        keeper.close()
        return None
    return keeper


def keep_with_bus():
    """Returns two sockets: for a cluster node's port, and for its port for the other nodes."""
    for _ in range(100):
        keeper = keep()
        other = keeper and keep(keeper.getsockname()[1] + BUS)
        if other:
            return keeper, other
        if keeper:
            keeper.close()
    raise AssertionError("no ports are free")


def free_port_with_bus():
    """Returns a port for a cluster's node."""
    keepers = keep_with_bus()
    _keepers.extend(keepers)
    return keepers[0].getsockname()[1]


def free_port():
    keeper = keep()
    if keeper is None:
        raise AssertionError("no port is free")
    _keepers.append(keeper)
    return keeper.getsockname()[1]
