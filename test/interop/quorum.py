#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lockwire's quorum and a foreign client that locks at a majority, at the same servers.

The client sets the key of its resource at each server, as one of the `SET name token NX PX` family
does at one, and holds a lock if a majority of the servers granted it. Each test has three servers,
and again five. Either side is refused while the other one holds, also with a minority of the
servers dead, and takes over after a release or at the end of a lease. No release or extension by
an old token changes a vote of lockwire's. Waiters of lockwire's hand over to each other past the
client, and are not starved by it.

Usual course: `quorum.py --lockwire PROGRAM --cache DIR redsync`.
"""
import threading
import time

import asks
import peers
import private_redis
import scene
from scene import LEASE_MS

SHORT_LEASE_MS = 2000
HAND_OVERS = 10
HOLD_S = 0.01
PAUSE_S = 0.3 # between two holds of a competing peer


class Quorum(scene.Scene):
    count = 3

    def make_server(self):
        return private_redis.PrivateQuorum(self.count)

    def values(self):
        return [server("GET", self.name) for server in self.server]

    def await_values(self, count):
        """Waits until `count` of the running servers have a holder."""
        self.eventually(lambda: sum(value is not None for value in self.values()) == count,
                        f"{count} servers have the key")

    def lockwire(self):
        """Returns a client that is connected to all servers, so that each request goes to all."""
        before = [self.connections(server) for server in self.server]
        peer = super().lockwire()
        self.eventually(lambda: all(self.connections(server) >= count + 2 for count, server
                                    in zip(before, self.server)), "it is connected")
        return peer

    @staticmethod
    def connections(server):
        return server("CLIENT", "LIST").count("name=lockwire")

    def acquire(self, peer, lease_ms=LEASE_MS, wait_ms=-1):
        return peer.ask(f"acquire {self.name} {lease_ms} {wait_ms}", "held")

    def peer_holds(self, peer):
        """Acquires the lock for the peer, and returns its token. (pottery asks a minority of the
        servers after it has the lock.)"""
        token = self.acquire(peer)
        self.await_values(self.count)
        return token

    def lockwire_holds(self, peer, lease_ms=LEASE_MS):
        """Acquires the lock for lockwire. Returns the votes: the keys' values at all running
        servers."""
        self.acquire(peer, lease_ms)
        self.await_values(len(list(self.server)))
        return self.values()

    def release(self, peer):
        self.assertEqual(peer.ask("release", "released", "gone"), "released")

    def wait_everywhere(self, peer):
        peer.send(f"acquire {self.name} {LEASE_MS} -1")
        for server in self.server:
            self.eventually(
                lambda server=server: server("ZCARD", asks.queue_of(self.name)) == 1,
                "it waits at every server")


class Excluded(Quorum):
    def test_lockwire_is_refused_while_a_peer_holds(self):
        peer, lockwire = self.peer(), self.lockwire()
        token = self.acquire(peer, wait_ms=0)
        self.assertGreaterEqual(self.values().count(token), self.server.majority)
        remaining = int(lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "busy"))
        self.assertGreater(remaining, 0)
        self.assertLessEqual(remaining, LEASE_MS)
        lockwire.ask(f"acquire {self.name} {LEASE_MS} 300", "timeout")
        self.assertGreaterEqual(self.values().count(token), self.server.majority)
        self.release(peer)
        self.acquire(lockwire)
        self.release(lockwire)

    def test_a_peer_is_refused_while_lockwire_holds(self):
        peer, lockwire = self.peer(), self.lockwire()
        votes = self.lockwire_holds(lockwire)
        for _ in range(10):
            peer.ask(f"acquire {self.name} {LEASE_MS} 0", "busy")
        peer.ask(f"acquire {self.name} {LEASE_MS} 100", "timeout")
        self.assertEqual(self.values(), votes)
        self.assertEqual(lockwire.notes, [])
        self.release(lockwire)
        self.acquire(peer)
        self.release(peer)

    def test_both_are_refused_with_a_minority_dead(self):
        if self.foreign in peers.NEEDS_ALL:
            self.skipTest("this peer needs all servers")
        peer, lockwire = self.peer(), self.lockwire()
        self.server.kill_minority()
        for _ in range(3):
            token = self.acquire(peer)
            self.assertEqual(self.values().count(token), self.server.majority)
            lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "busy")
            self.release(peer)
            votes = self.lockwire_holds(lockwire)
            peer.ask(f"acquire {self.name} {LEASE_MS} 0", "busy")
            self.assertEqual(self.values(), votes)
            self.release(lockwire)

    def test_a_minority_that_a_peer_left_behind_is_no_lock(self):
        """Simulates a peer that died while it asked the servers one after the other."""
        peer, lockwire = self.peer(), self.lockwire()
        for server in self.server.minority():
            server("SET", self.name, "left behind", "NX", "PX", LEASE_MS)
        for _ in range(3):
            self.acquire(lockwire)
            peer.ask(f"acquire {self.name} {LEASE_MS} 0", "busy")
            self.release(lockwire)
            self.acquire(peer)
            lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "busy")
            self.release(peer)

    def test_a_bare_majority_of_a_peer_is_a_lock(self):
        """While the peer holds, a waiter of lockwire's has the votes of the other servers, but
        not the lock."""
        peer, lockwire = self.peer(), self.lockwire()
        token = self.peer_holds(peer)
        for server in self.server.minority():
            server("DEL", self.name)
        lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "busy")
        lockwire.send(f"acquire {self.name} {LEASE_MS} -1")
        self.await_values(self.count)
        self.assertEqual(self.values().count(token), self.server.majority)
        self.assertEqual(peer.ask(f"extend {LEASE_MS}", "extended", "gone"), "extended")
        self.assertFalse(lockwire.answered(), lockwire.lines)
        self.release(peer)
        lockwire.answer("held")
        self.release(lockwire)

    def test_fencing_tokens_rise_with_holds_of_a_peer_in_between(self):
        peer, lockwire, fences = self.peer(), self.lockwire(), [0]
        for _ in range(10):
            self.acquire(lockwire)
            fences.append(int(lockwire.ask("fence", "fence")))
            self.release(lockwire)
            self.acquire(peer)
            self.release(peer)
        self.assertEqual(fences, sorted(set(fences)))


class TakenOver(Quorum):
    def test_a_waiting_lockwire_gets_it_after_the_peers_release(self):
        peer, lockwire = self.peer(), self.lockwire()
        self.peer_holds(peer)
        self.wait_everywhere(lockwire)
        self.assertFalse(lockwire.answered(), lockwire.lines)
        released_s = time.monotonic()
        self.release(peer)
        lockwire.answer("held")
        print(f"    {self.foreign}'s release found after {time.monotonic() - released_s:.2f} s")
        self.assertEqual(self.server.info("stats", "expired_keys"), 0)
        self.release(lockwire)

    def test_a_waiting_peer_gets_it_after_lockwires_release(self):
        peer, lockwire = self.peer(), self.lockwire()
        self.acquire(lockwire)
        peer.send(f"acquire {self.name} {LEASE_MS} -1")
        self.release(lockwire)
        peer.answer("held")
        self.assertEqual(self.server.info("stats", "expired_keys"), 0)
        self.release(peer)

    def test_lockwire_gets_a_dead_peers_lock_at_the_end_of_its_lease(self):
        peer, lockwire = self.peer(), self.lockwire()
        self.acquire(peer, SHORT_LEASE_MS)
        free = self.values().count(None)  # a peer may die before it has asked every server
        peer.kill()
        self.acquire(lockwire)
        self.assertGreaterEqual(self.server.info("stats", "expired_keys"),
                                self.server.majority - free)
        self.release(lockwire)

    def test_a_peer_gets_a_dead_lockwires_lock_at_the_end_of_its_lease(self):
        peer, lockwire = self.peer(), self.lockwire()
        self.lockwire_holds(lockwire, SHORT_LEASE_MS)
        lockwire.kill()
        self.acquire(peer)
        self.assertGreaterEqual(self.server.info("stats", "expired_keys"), self.server.majority)
        self.release(peer)


class Undisturbed(Quorum):
    def test_an_old_tokens_extension_and_release_change_no_vote(self):
        """The peer's keys are deleted, so the peer believes that it holds the lock that lockwire
        now has."""
        peer, lockwire = self.peer(), self.lockwire()
        self.peer_holds(peer)
        for server in self.server:
            server("DEL", self.name)
        votes = self.lockwire_holds(lockwire)
        self.assertEqual(peer.ask(f"extend {10 * LEASE_MS}", "extended", "gone"), "gone")
        for server in self.server:
            self.assertLessEqual(server("PTTL", self.name), LEASE_MS)
        self.assertEqual(peer.ask("release", "released", "gone"), "gone")
        self.assertEqual(self.values(), votes)
        self.assertEqual(lockwire.notes, [])
        self.release(lockwire)


class Queued(Quorum):
    def test_no_peer_slips_in_while_lockwire_hands_over(self):
        """B waits at every server before the peer does, which tries all the time. A hands over
        to B at all of them."""
        peer, a, b = self.peer(), self.lockwire(), self.lockwire()
        for _ in range(HAND_OVERS):
            self.lockwire_holds(a)
            self.wait_everywhere(b)
            peer.send(f"acquire {self.name} {LEASE_MS} -1")
            self.release(a)
            b.answer("held")
            self.assertFalse(peer.answered(), peer.lines)
            self.release(b)
            peer.answer("held")
            self.release(peer)
            self.await_values(0)

    def test_a_dead_waiter_hinders_no_peer(self):
        peer, holder, waiter = self.peer(), self.lockwire(), self.lockwire()
        self.lockwire_holds(holder)
        self.wait_everywhere(waiter)
        waiter.kill()
        self.release(holder)
        self.acquire(peer)
        self.release(peer)

    def compete(self, peer, stop, holds):
        while not stop.is_set():
            self.acquire(peer, SHORT_LEASE_MS)
            holds.append(peer)
            time.sleep(HOLD_S)
            peer.ask("release", "released", "gone")
            stop.wait(PAUSE_S)

    def test_peers_that_compete_do_not_starve_a_waiter(self):
        """Each of two peers acquires the lock again soon after it has released it. The waiter
        finds the lock free at one server after the other, and keeps its votes. (Without the
        peers' pause, only chance decides how long that takes.)"""
        lockwire, stop, holds = self.lockwire(), threading.Event(), []
        threads = [threading.Thread(target=self.compete, args=(self.peer(), stop, holds))
                   for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            self.eventually(lambda: len(holds) >= 10, "they compete")
            before, asked_s = len(holds), time.monotonic()
            self.acquire(lockwire)
            print(f"    held after {time.monotonic() - asked_s:.2f} s, and {len(holds) - before}"
                  f" holds of {self.foreign}")
            self.release(lockwire)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(lockwire.notes, [])


def of_five(case):
    return type(case.__name__ + "OfFive", (case,), {"count": 5})


ExcludedOfFive = of_five(Excluded)
TakenOverOfFive = of_five(TakenOver)
UndisturbedOfFive = of_five(Undisturbed)
QueuedOfFive = of_five(Queued)

if __name__ == "__main__":
    scene.main(peers.MAJORITY_PEERS)
