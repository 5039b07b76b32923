# SPDX-License-Identifier: MIT
"""The base of the interop tests with a foreign holder: a server, and processes as needed.

Owns their start and end, the waits for lockwire's requests, and the command line. Independent of
the tested peer and of the expectations. Usual course: a class of tests derives from Scene;
main() fetches the peer (the program ends as skipped if that fails) and runs the tests.
"""
import argparse
import sys
import time
import unittest

import asks
import peers
import private_redis
import toolchain

LEASE_MS = 30000   # so long that it does not end during a test
LONGEST_POLL_S = 3  # the longest poll delay of the queue's head
JITTER = 1.1
SLACK_S = 20  # for a slow machine


class Scene(unittest.TestCase):
    place = None
    foreign = None  # the peer's name
    queue = asks.MUTEX
    tcp = False
    cluster = False

    def setUp(self):
        self.server = self.enterContext(self.make_server())
        self.name = peers.PREFIX + peers.NAME_PREFIX.get(self.foreign, "") + "stock"

    def make_server(self):
        return private_redis.PrivateRedis(tcp=self.tcp, cluster=self.cluster)

    def start(self, name):
        peer = peers.start(name, self.server, self.place)
        self.addCleanup(peer.close)
        return peer

    def lockwire(self):
        return self.start("lockwire")

    def peer(self):
        return self.start(self.foreign)

    def monitor(self):
        monitor = self.server.monitor()
        self.addCleanup(monitor.close)
        return monitor

    def eventually(self, true, what):
        deadline = time.monotonic() + peers.LIMIT_S
        while not true():
            self.assertLess(time.monotonic(), deadline, "never: " + what)
            time.sleep(0.005)

    def wait_in_queue(self, lockwire, lease_ms=LEASE_MS, position=1):
        lockwire.send(f"acquire {self.name} {lease_ms} -1")
        queue = asks.queue_of(self.name, self.queue)
        self.eventually(lambda: self.server("ZCARD", queue) >= position, "it waits")

    def our_asks(self, lines):
        return asks.asks(lines, self.name, self.queue)

    def await_asks(self, monitor, count, lockwire):
        """Waits until the monitor has seen `count` polls of lockwire, all without success."""
        self.eventually(lambda: len(self.our_asks(monitor.lines)) >= count,
                        "it polls")
        self.assertFalse(lockwire.answered(), lockwire.lines)

    def told(self, monitor):
        """Returns the lines of all commands that the server received until now."""
        return monitor.told(self.server)

    def released_and_found(self, monitor, lockwire, poll_s=LONGEST_POLL_S):
        """Checks that after the foreign release the next poll, within a poll delay, gets the
        lock."""
        lockwire.answer("held")
        lines = self.told(monitor)
        at = asks.deletion(lines, self.name)
        later = self.our_asks(lines[at:])
        self.assertEqual(len(later), 1, "asks after the release: " + repr(lines[at:]))
        found_s = later[0] - float(lines[at].split()[0])
        self.assertLess(found_s, poll_s * JITTER + SLACK_S)
        print(f"    {self.foreign}'s release found after {found_s:.2f} s "
              f"(poll delay: up to {poll_s * JITTER:.2f} s)")


def main(foreign_choices):
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=foreign_choices)
    parser.add_argument("--lockwire", required=True, help="lockwire's peer program")
    parser.add_argument("--cache", required=True, help="where the peers are built")
    options, rest = parser.parse_known_args()
    private_redis.clean_up_when_ended()
    Scene.place = peers.Place(options.lockwire, options.cache)
    Scene.foreign = options.peer
    with private_redis.PrivateRedis(tcp=True) as server:
        try:
            peer = peers.start(options.peer, server, Scene.place)
        except toolchain.Missing as missing:
            toolchain.leave(missing)
        print("peer: " + peer.version)
        peer.close()
    unittest.main(module="__main__", argv=[sys.argv[0], *rest], verbosity=2)
