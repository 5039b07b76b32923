#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lockwire at miniredis, the in-memory server that Go projects test with. miniredis has another
Lua (gopher-lua), so each script that locks need runs here once in each of its main ways.

Owns the server, a separate program (miniredis/main.go). Usual course: `miniredis.py --lockwire
PROGRAM --cache DIR` acquires mutexes and read-write locks, queues for them, hands them over,
renews and releases them, and leaves only keys that expire.
"""
import argparse
import subprocess
import time
import unittest

import peers
import toolchain
from resp import Link

LEASE_MS = 600000
place = None


class Miniredis(unittest.TestCase):
    def setUp(self):
        folder = toolchain.prepare("go", place.cache, toolchain.HERE / "miniredis")
        process = subprocess.Popen([str(folder / "program")], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        self.port = int(process.stdout.readline())
        self.server = Link(("127.0.0.1", self.port))
        self.addCleanup(self.server.close)

    @staticmethod
    def end(process):
        process.communicate(timeout=peers.LIMIT_S)

    def peer(self, *mode):
        peer = peers.Peer("lockwire", [place.lockwire, f"redis://127.0.0.1:{self.port}",
                                       "2000", *mode], {})
        self.addCleanup(peer.close)
        return peer

    def queued(self, count, kind="queue"):
        """Waits until `count` waiters are queued. An error in a script would keep them from it."""
        deadline = time.monotonic() + peers.LIMIT_S
        while self.server("ZCARD", f"lockwire:2:{kind}:{{x}}") != count:
            self.assertLess(time.monotonic(), deadline, f"{count} never queued")
            time.sleep(0.005)

    def nothing_is_left(self):
        for key in self.server("KEYS", "*"):
            self.assertGreater(self.server("PTTL", key), 0, key)
            self.assertRegex(key, r"\Alockwire:(fence\Z|client:)")

    def test_one_alone(self):
        peer = self.peer()
        for _ in range(3):
            peer.ask(f"acquire x {LEASE_MS} 0", "held")
            peer.ask(f"extend {2 * LEASE_MS}", "extended")
            self.assertGreater(self.server("PTTL", "x"), LEASE_MS)
            peer.ask("release", "released")
        self.nothing_is_left()

    def test_a_contended_mutex_is_handed_over_in_order(self):
        first, second, third = self.peer(), self.peer(), self.peer()
        first.ask(f"acquire x {LEASE_MS} 0", "held")
        self.assertGreater(int(second.ask("acquire x 10000 0", "busy")), 10000)
        second.send(f"acquire x {LEASE_MS} -1")
        self.queued(1)
        third.send(f"acquire x {LEASE_MS} -1")
        self.queued(2)
        first.ask("release", "released")
        second.answer("held")
        self.queued(1)
        self.assertFalse(third.answered(), third.lines)
        second.ask(f"extend {LEASE_MS}", "extended")
        second.ask("release", "released")
        third.answer("held")
        third.ask("release", "released")
        self.nothing_is_left()

    def test_a_waiter_leaves_the_queue_and_comes_again(self):
        first, second = self.peer(), self.peer()
        first.ask(f"acquire x {LEASE_MS} 0", "held")
        second.ask(f"acquire x {LEASE_MS} 300", "timeout")
        self.queued(0)
        second.send(f"acquire x {LEASE_MS} -1")
        self.queued(1)
        first.ask("release", "released")
        second.answer("held")
        second.ask("release", "released")
        self.nothing_is_left()

    def test_the_lease_of_a_killed_holder_ends(self):
        first, second = self.peer(), self.peer()
        first.ask("acquire x 1000 0", "held")
        second.send(f"acquire x {LEASE_MS} -1")
        self.queued(1)
        first.kill()
        second.answer("held")

    def test_many_handles_of_two_clients_take_turns(self):
        """Covers the script that releases a token and requests the lock for the next one."""
        first, second = self.peer(), self.peer()
        for peer in (first, second):
            peer.ask(f"slots 20 x {LEASE_MS} 1", "started")
        deadline = time.monotonic() + peers.LIMIT_S
        tokens = set()
        while len(tokens) < 40:
            self.assertLess(time.monotonic(), deadline, "it is stuck")
            tokens.add(self.server("GET", "x"))
        for peer in (first, second):
            self.assertGreater(int(peer.ask("stop", "stopped").split()[0]), 0)

    def test_a_lock_that_is_another_s_is_not_released(self):
        peer = self.peer()
        peer.ask(f"acquire x {LEASE_MS} 0", "held")
        self.server("SET", "x", "another", "PX", 60000)
        peer.ask("release", "gone")
        self.assertEqual(self.server("GET", "x"), "another")

    def test_a_writer_waits_for_readers_and_they_for_it(self):
        one, other, writer = self.peer("shared"), self.peer("shared"), self.peer("exclusive")
        one.ask(f"acquire x {LEASE_MS} 0", "held")
        other.ask(f"acquire x {LEASE_MS} 0", "held")
        other.ask(f"extend {LEASE_MS}", "extended")
        writer.send(f"acquire x {LEASE_MS} -1")
        self.queued(1, "rwqueue")
        other.ask("release", "released")
        self.assertFalse(writer.answered(), writer.lines)
        one.ask("release", "released")
        writer.answer("held")
        one.send(f"acquire x {LEASE_MS} -1")
        self.queued(1, "rwqueue")
        writer.ask(f"extend {LEASE_MS}", "extended")
        writer.ask("release", "released")
        one.answer("held")
        one.ask("release", "released")
        self.nothing_is_left()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lockwire", required=True)
    parser.add_argument("--cache", required=True)
    options = parser.parse_args()
    global place
    place = peers.Place(options.lockwire, options.cache)
    try:
        toolchain.prepare("go", place.cache, toolchain.HERE / "miniredis")
    except toolchain.Missing as missing:
        toolchain.leave(missing)
    unittest.main(argv=["miniredis.py"])


if __name__ == "__main__":
    main()
