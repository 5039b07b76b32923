#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""redis-py's `Lock`, or lockwire_client.py's, as a peer of the interop tests.

Owns at most one lock, and obeys the commands that ../peers.py describes. Usual course: a
line on stdin, one or two calls, a line on stdout. Started as `peer.py SOCKET`, or as
`peer.py SOCKET SCRIPTS CLAIM_MS` for lockwire_client.py, with the folder of the scripts.
"""
import os
import sys
import time

import redis
from redis.exceptions import LockError, LockNotOwnedError

import lockwire_client

POLL_S = 0.005


def say(*words):
    print(*words, flush=True)


def now_us():
    return time.monotonic_ns() // 1000


class Peer:
    def __init__(self, path):
        self.redis = redis.Redis(unix_socket_path=path)
        self.redis.ping()
        self.title = "redis-py " + redis.__version__
        self.lock = None

    def acquire(self, name, lease_ms, wait_ms):
        """A lease of 0 is this library's default: no TTL."""
        lock = self.redis.lock(name, timeout=lease_ms / 1000 or None, sleep=POLL_S)
        if wait_ms == 0:
            won = lock.acquire(blocking=False)
        else:
            won = lock.acquire(blocking_timeout=None if wait_ms < 0 else wait_ms / 1000)
        if won:
            self.lock = lock
            return "held " + lock.local.token.decode()
        return "busy -" if wait_ms == 0 else "timeout"

    def release(self):
        lock, self.lock = self.lock, None
        try:
            lock.release()
        except LockNotOwnedError:
            return "gone"
        return "released"

    def extend(self, lease_ms):
        try:
            self.lock.extend(lease_ms / 1000, replace_ttl=True)
        except LockNotOwnedError:
            return "gone"
        return "extended"

    def round(self, name, lease_ms, hold_ms, path, locked):
        asked = now_us()
        if locked:
            self.acquire(name, lease_ms, -1)
        say("held -")
        with open(path, "r+") as counter:
            value = int(counter.read()) + 1
            time.sleep(hold_ms / 1000)
            counter.seek(0)
            counter.write(f"{value:020}\n")
        done = now_us()
        return f"wrote {value} {asked} {done} {self.release() if locked else 'released'}"

    def obey(self, command, *words):
        if command == "acquire":
            return self.acquire(words[0], int(words[1]), int(words[2]))
        if command == "release":
            return self.release()
        if command == "extend":
            return self.extend(int(words[0]))
        if command == "fence":
            return f"fence {self.lock.fence}"
        if command == "round":
            name, lease_ms, hold_ms, path, mode = words
            return self.round(name, int(lease_ms), int(hold_ms), path, mode == "lock")
        return "error unknown command: " + command


class LockwirePeer(Peer):
    def __init__(self, path, scripts, claim_ms):
        super().__init__(path)
        self.title = "lockwire_client.py"
        self.client = lockwire_client.Client(path, scripts, int(claim_ms),
                                             os.environ.get("LOCKWIRE_TEST_PREFIX", ""))

    def acquire(self, name, lease_ms, wait_ms):
        lock = lockwire_client.Lock(self.client, name, lease_ms)
        if lock.acquire(wait_ms):
            self.lock = lock
            return "held " + lock.token
        return "busy -" if wait_ms == 0 else "timeout"

    def release(self):
        lock, self.lock = self.lock, None
        return "released" if lock.release() else "gone"

    def extend(self, lease_ms):
        self.lock.lease_ms = lease_ms
        return "extended" if self.lock.renew() else "gone"


def serve(peer):
    say("ready", peer.title)
    for line in iter(sys.stdin.readline, ""):
        try:
            say(peer.obey(*line.split()))
        except (LockError, redis.RedisError, OSError) as error:
            say("error", repr(error).replace("\n", " "))


if __name__ == "__main__":
    serve((Peer if len(sys.argv) == 2 else LockwirePeer)(*sys.argv[1:]))
