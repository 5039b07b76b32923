#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What LW_MUTEX and one foreign client see of each other on the same key.

Owns the scenes with one foreign client of the `SET name token NX PX` family: which of them may
take the lock, when a waiter finds it free, and what Redis stores. The server's monitor shows the
time of each request, so that no verdict depends on the machine's speed.

Usual course: `holders.py --lockwire PROGRAM --cache DIR redis-py`.
"""
import asks
import peers
import scene
from scene import LEASE_MS


class Excluded(scene.Scene):
    """While one of the two holds, the other's request is refused."""

    def test_lockwire_is_told_busy_while_a_peer_holds(self):
        peer, lockwire = self.peer(), self.lockwire()
        token = peer.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        remaining = int(lockwire.ask(f"acquire {self.name} 10000 0", "busy"))
        self.assertGreater(remaining, 0)
        self.assertLessEqual(remaining, LEASE_MS)
        self.assertIn(token, self.server("GET", self.name))
        self.assertEqual(peer.ask("release", "released", "gone"), "released")

    def test_a_peer_cannot_take_what_lockwire_holds_and_can_after_its_release(self):
        peer, lockwire = self.peer(), self.lockwire()
        token = lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        for _ in range(10):
            peer.ask(f"acquire {self.name} {LEASE_MS} 0", "busy")
        peer.ask(f"acquire {self.name} {LEASE_MS} 100", "timeout")
        self.assertEqual(self.server("GET", self.name), token)
        self.assertEqual(lockwire.ask("release", "released", "gone"), "released")
        peer.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        self.assertEqual(lockwire.notes, [])

    def test_a_waiting_peer_gets_it_after_lockwires_release(self):
        peer, lockwire = self.peer(), self.lockwire()
        lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        peer.send(f"acquire {self.name} {LEASE_MS} -1")
        lockwire.ask("release", "released")
        peer.answer("held")

    def test_no_peer_slips_in_while_lockwire_hands_over(self):
        """B waits before the peer does, which polls all the time. A hands over to B."""
        peer, a, b = self.peer(), self.lockwire(), self.lockwire()
        for _ in range(20):
            a.ask(f"acquire {self.name} {LEASE_MS} -1", "held")
            self.wait_in_queue(b)
            peer.send(f"acquire {self.name} {LEASE_MS} -1")
            a.ask("release", "released")
            b.answer("held")
            self.assertFalse(peer.answered(), peer.lines)
            b.ask("release", "released")
            peer.answer("held")
            peer.ask("release", "released")


class Format(scene.Scene):
    """The key and its value in Redis."""

    def test_the_key_is_as_set_with_nx_and_px_leaves_it(self):
        lockwire = self.lockwire()
        token = lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        self.server("SET", "other", token, "NX", "PX", LEASE_MS)
        self.assertEqual(self.server("TYPE", self.name), "string")
        self.assertEqual(self.server("DUMP", self.name), self.server("DUMP", "other"))
        remaining = self.server("PTTL", self.name)
        self.assertGreater(remaining, 0)
        self.assertLessEqual(remaining, LEASE_MS)
        lockwire.ask("release", "released")
        self.assertEqual(self.server("EXISTS", self.name), 0)

    def test_a_lock_gained_by_waiting_looks_the_same(self):
        peer, lockwire = self.peer(), self.lockwire()
        peer.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        self.wait_in_queue(lockwire)
        peer.ask("release", "released")
        token = lockwire.answer("held")
        self.server("SET", "other", token, "NX", "PX", LEASE_MS)
        self.assertEqual(self.server("DUMP", self.name), self.server("DUMP", "other"))
        self.assertGreater(self.server("PTTL", self.name), 0)

    def test_waiting_leaves_the_holders_key_alone(self):
        peer, lockwire, monitor = self.peer(), self.lockwire(), self.monitor()
        peer.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        before = self.server("DUMP", self.name)
        self.wait_in_queue(lockwire)
        self.await_asks(monitor, 2, lockwire)
        self.assertEqual(self.server("DUMP", self.name), before)
        lines = self.told(monitor)
        self.assertEqual(asks.lease_changes(lines, self.name), [])


class Found(scene.Scene):
    """A foreign release wakes no waiter of lockwire's. The waiter's next poll gets the lock."""

    def test_a_release_is_found_within_a_poll_delay(self):
        peer, lockwire, monitor = self.peer(), self.lockwire(), self.monitor()
        peer.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        self.wait_in_queue(lockwire)
        self.await_asks(monitor, 2, lockwire)
        peer.ask("release", "released")
        self.released_and_found(monitor, lockwire)

    def test_a_holder_without_ttl_is_waited_for(self):
        """No TTL is redis-py's default. lw_lock_retry_ms returns -1 then."""
        if self.foreign != "redis-py":
            self.skipTest("this peer always sets a TTL")
        peer, lockwire, monitor = self.peer(), self.lockwire(), self.monitor()
        peer.ask(f"acquire {self.name} 0 0", "held")
        self.assertEqual(self.server("PTTL", self.name), -1)
        self.assertEqual(lockwire.ask(f"acquire {self.name} 10000 0", "busy"), "-1")
        self.wait_in_queue(lockwire)
        self.await_asks(monitor, 4, lockwire)
        self.assertEqual(self.server("PTTL", self.name), -1)
        peer.ask("release", "released")
        self.released_and_found(monitor, lockwire)

    def test_an_extension_is_waited_out(self):
        if self.foreign in peers.NO_EXTENSION:
            self.skipTest("this peer cannot extend on demand")
        peer, lockwire, monitor = self.peer(), self.lockwire(), self.monitor()
        peer.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        self.wait_in_queue(lockwire)
        extended = peer.ask(f"extend {2 * LEASE_MS}", "extended", "gone")
        self.assertEqual(extended, "extended")
        self.assertGreater(self.server("PTTL", self.name), LEASE_MS)
        self.await_asks(monitor, 2, lockwire)
        peer.ask("release", "released")
        self.released_and_found(monitor, lockwire)


class Crashed(scene.Scene):
    """After a holder dies, the lock stays held only until its lease ends."""

    def test_a_dead_peers_lock_is_found_when_its_lease_has_ended(self):
        peer, lockwire = self.peer(), self.lockwire()
        peer.ask(f"acquire {self.name} 2000 0", "held")
        peer.kill()
        lockwire.send(f"acquire {self.name} {LEASE_MS} -1")
        lockwire.answer("held")
        self.assertEqual(self.server.info("stats", "expired_keys"), 1)

    def test_a_peer_gets_a_dead_lockwire_process_lock_when_its_lease_has_ended(self):
        peer, lockwire = self.peer(), self.lockwire()
        lockwire.ask(f"acquire {self.name} 2000 0", "held")
        lockwire.kill()
        peer.send(f"acquire {self.name} {LEASE_MS} -1")
        peer.answer("held")
        self.assertEqual(self.server.info("stats", "expired_keys"), 1)

    def test_a_dead_waiter_hinders_no_peer(self):
        """The dead waiter is still in the queue. A peer does not know the queue and takes the
        free key."""
        peer, holder, waiter = self.peer(), self.lockwire(), self.lockwire()
        holder.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        self.wait_in_queue(waiter)
        waiter.kill()
        holder.ask("release", "released")
        peer.send(f"acquire {self.name} {LEASE_MS} -1")
        peer.answer("held")


if __name__ == "__main__":
    scene.main(peers.STRING_PEERS)
