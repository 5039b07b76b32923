#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""pottery's `Redlock`, with one master or several, as a peer of the interop tests.

Obeys the commands as peer.py does, and differs from it only in its lock. Its keys begin with
`redlock:`, which cannot be turned off, so the tests add it to the key's name. Started as
`pottery_peer.py SOCKET...`.
"""
import sys
from importlib import metadata

import redis
from pottery import ExtendUnlockedLock, Redlock, ReleaseUnlockedLock
from redis.backoff import NoBackoff
from redis.retry import Retry

import peer

PREFIX = "redlock:"


class QuickRedlock(Redlock):
    _RETRY_DELAY = 2 * peer.POLL_S  # the longest delay


class PotteryPeer(peer.Peer):
    """The peer. A dead master is an error at once, so that it does not delay the others' votes."""

    def __init__(self, *paths):
        self.masters = [redis.Redis(unix_socket_path=path, retry=Retry(NoBackoff(), 0))
                        for path in paths]
        for master in self.masters:
            master.ping()
        self.title = "pottery " + metadata.version("pottery")
        self.lock = None

    def acquire(self, name, lease_ms, wait_ms):
        if not name.startswith(PREFIX):
            return f"error its keys start with {PREFIX}, this one does not: {name}"
        lock = QuickRedlock(key=name[len(PREFIX):], masters=self.masters,
                            auto_release_time=lease_ms / 1000)
        if wait_ms == 0:
            won = lock.acquire(blocking=False)
        else:
            won = lock.acquire(timeout=-1 if wait_ms < 0 else wait_ms / 1000)
        if won:
            self.lock = lock
            return "held " + lock._uuid
        return "busy -" if wait_ms == 0 else "timeout"

    def release(self):
        lock, self.lock = self.lock, None
        try:
            lock.release()
        except ReleaseUnlockedLock:
            return "gone"
        return "released"

    def extend(self, lease_ms):
        self.lock.auto_release_time = lease_ms / 1000
        try:
            self.lock.extend()
        except ExtendUnlockedLock:
            return "gone"
        return "extended"


if __name__ == "__main__":
    peer.serve(PotteryPeer(*sys.argv[1:]))
