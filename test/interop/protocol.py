#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lockwire and a client in Python that was written from scripts/lua/README.md alone.

Each test has the library and that client in either role. They exclude each other, queue behind
each other, hand over to each other, draw rising fencing tokens, skip each other's dead waiters,
and keep their locks by renewals. The server's monitor shows whether a hand-over came by message:
then the waiter sent no request between the release and the grant.

Usual course: `protocol.py --lockwire PROGRAM --cache DIR protocol-py`.
"""
import functools

import asks
import peers
import scene
from scene import LEASE_MS

OURS, THEIRS = "lockwire", "protocol-py"
BOTH_WAYS = ((OURS, THEIRS), (THEIRS, OURS))
ROUNDS = 8      # hand-overs each way
BY_MESSAGE = 5  # the least number of them by message: a poll may be due at the moment of a release
SHORT_LEASE_MS = 6000


def both_ways(test):
    """Runs the test twice, with lockwire first and with the other one first, each on its own
    name."""
    @functools.wraps(test)
    def run(self):
        for first, second in BOTH_WAYS:
            with self.subTest(first=first):
                self.name = peers.PREFIX + "stock-" + first
                test(self, self.start(first), self.start(second))
    return run


class Protocol(scene.Scene):
    def acquire(self, peer, lease_ms=LEASE_MS):
        peer.ask(f"acquire {self.name} {lease_ms} -1", "held")

    def fence(self, peer):
        return int(peer.ask("fence", "fence"))

    def release(self, peer):
        self.assertEqual(peer.ask("release", "released", "gone"), "released")

    def server_s(self):
        seconds, us = self.server("TIME")
        return int(seconds) + int(us) / 1e6

    def hand_over(self, holder, waiter, monitor):
        """Queues the waiter, releases, and checks that the waiter gets the lock. Returns the
        seconds from the release to the grant, or None if the waiter sent a request in between."""
        self.wait_in_queue(waiter)
        before, released_s = len(self.told(monitor)), self.server_s()
        holder.send("release")
        token, held_s = waiter.answer("held"), self.server_s()
        self.assertEqual(holder.answer("released", "gone"), "released")
        lines = [line for line in self.told(monitor)[before:] if token in line]
        return None if self.our_asks(lines) else held_s - released_s

    def kill_waiter(self, waiter):
        """Kills the waiter, and waits until the server has noticed that its connections are
        gone. Returns its channel."""
        token = self.server("ZRANGE", asks.queue_of(self.name), 0, -1)[0]
        channel = f"{peers.PREFIX}lockwire:2:{token[:36]}"
        self.assertEqual(self.server("PUBSUB", "NUMSUB", channel)[1], 1)
        waiter.kill()
        self.eventually(lambda: self.server("PUBSUB", "NUMSUB", channel)[1] == 0,
                        "its connections are gone")
        return channel


class Excluded(Protocol):
    @both_ways
    def test_each_keeps_the_other_out(self, holder, other):
        self.acquire(holder)
        for _ in range(10):
            other.ask(f"acquire {self.name} {LEASE_MS} 0", "busy")
        other.ask(f"acquire {self.name} {LEASE_MS} 100", "timeout")
        self.eventually(lambda: not self.server("EXISTS", asks.queue_of(self.name)),
                        "it has left the queue")
        self.release(holder)
        other.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        self.release(other)

    def test_fencing_tokens_rise_across_both(self):
        ours, theirs, fences = self.lockwire(), self.peer(), []
        for _ in range(20):
            for peer in (ours, theirs):
                self.acquire(peer)
                fences.append(self.fence(peer))
                self.release(peer)
        self.assertGreater(fences[0], 1 << 50)
        self.assertEqual(fences, sorted(set(fences)))


class HandedOver(Protocol):
    @both_ways
    def test_by_message_with_a_larger_fencing_token(self, holder, waiter):
        monitor, took = self.monitor(), []
        for _ in range(ROUNDS):
            self.acquire(holder)
            fence = self.fence(holder)
            took.append(self.hand_over(holder, waiter, monitor))
            self.assertGreater(self.fence(waiter), fence)
            self.release(waiter)
        took = [seconds for seconds in took if seconds is not None]
        self.assertGreaterEqual(len(took), BY_MESSAGE)
        print(f"    handed over to {waiter.title} after {min(took) * 1000:.1f} ms")
        self.assertLess(min(took), scene.LONGEST_POLL_S / 3)

    def test_in_the_order_of_the_queue(self):
        """Waiters of both clients queue alternately, and get the lock in that order."""
        names = (OURS, THEIRS, OURS, THEIRS)
        holder, *waiters = [self.start(name) for name in names]
        self.acquire(holder)
        for position, waiter in enumerate(waiters, 1):
            self.wait_in_queue(waiter, position=position)
        for waiter in waiters:
            self.release(holder)
            waiter.answer("held")
            self.assertFalse(any(other.answered() for other in waiters))
            holder = waiter
        self.release(holder)
        self.assertEqual(self.server("EXISTS", self.name, asks.queue_of(self.name)), 0)

    @both_ways
    def test_past_a_dead_waiter(self, holder, dead):
        """A release skips a dead waiter: it spends no claim window on it, and publishes nothing
        to it."""
        monitor, waiter = self.monitor(), self.start(holder.title)
        self.acquire(holder)
        self.wait_in_queue(dead)
        self.wait_in_queue(waiter, position=2)
        channel = self.kill_waiter(dead)
        self.release(holder)
        waiter.answer("held")
        self.assertEqual([line for line in self.told(monitor)
                          if f'"PUBLISH" "{channel}"' in line], [])
        self.assertEqual(self.server.info("stats", "expired_keys"), 0)
        self.release(waiter)


class Renewed(Protocol):
    def outlives(self, holder, other):
        """Checks that the hold outlives its lease, or the claim window of its hand-over."""
        token = self.server("GET", self.name)
        until_s = self.server_s() + 1.5 * SHORT_LEASE_MS / 1000
        self.eventually(lambda: self.server_s() > until_s, "its lease has passed")
        self.assertEqual(self.server("GET", self.name), token)
        other.ask(f"acquire {self.name} {LEASE_MS} 0", "busy")
        self.assertEqual(holder.notes, [])
        self.release(holder)

    @both_ways
    def test_a_hold_outlives_its_first_lease(self, holder, other):
        self.acquire(holder, SHORT_LEASE_MS)
        self.outlives(holder, other)

    @both_ways
    def test_a_hold_by_message_outlives_its_claim_window(self, holder, waiter):
        """The lease is the claim window here, since it is the shorter of the two."""
        self.acquire(holder)
        self.wait_in_queue(waiter, SHORT_LEASE_MS)
        self.release(holder)
        waiter.answer("held")
        self.outlives(waiter, holder)


if __name__ == "__main__":
    scene.main([THEIRS])
