#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What LW_MUTEX and the real Redisson's RLock see of each other on the same key.

Their formats differ (a string and a hash), so they do not share the lock: each is foreign to the
other. Owns the consequences for LW_MUTEX: a lock of Redisson's counts as held by a foreign
holder, is never changed, and is found free by polling.

Usual course: `redisson.py --lockwire PROGRAM --cache DIR redisson`.
"""
import asks
import peers
import scene
from scene import LEASE_MS


class Stranger(scene.Scene):
    tcp = True

    def hash(self):
        fields = self.server("HGETALL", self.name)
        return dict(zip(fields[::2], fields[1::2]))

    def test_the_hash_is_busy_and_named_in_the_log(self):
        redisson, lockwire = self.peer(), self.lockwire()
        field = redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        remaining = int(lockwire.ask(f"acquire {self.name} 10000 0", "busy"))
        self.assertGreater(remaining, 0)
        self.assertLessEqual(remaining, LEASE_MS)
        lockwire.noted("hash")
        self.assertIn(self.name, lockwire.notes[0])
        self.assertEqual(self.hash(), {field: "1"})

    def test_waiting_leaves_it_alone_and_its_unlock_is_found_by_polling(self):
        redisson, lockwire, monitor = self.peer(), self.lockwire(), self.monitor()
        field = redisson.ask(f"acquire {self.name} {LEASE_MS} -1", "held")
        redisson.ask(f"acquire {self.name} {LEASE_MS} -1", "held")
        self.wait_in_queue(lockwire)
        self.await_asks(monitor, 2, lockwire)
        self.assertEqual(self.hash(), {field: "2"})
        redisson.ask("release", "released")  # one of two levels
        so_far = len(asks.asks(monitor.lines, self.name))
        self.await_asks(monitor, so_far + 1, lockwire)
        self.assertEqual(self.hash(), {field: "1"})
        redisson.ask("release", "released")
        self.released_and_found(monitor, lockwire)

    def test_its_watchdog_goes_on_undisturbed(self):
        """Redisson renews a lock without a lease after a third of the watchdog's time."""
        redisson, lockwire, monitor = self.peer(), self.lockwire(), self.monitor()
        redisson.ask(f"acquire {self.name} 0 0", "held")
        self.wait_in_queue(lockwire)
        self.eventually(lambda: len(asks.lease_changes(monitor.lines, self.name)) >= 3,
                        "Redisson renews")
        self.assertFalse(lockwire.answered(), lockwire.lines)
        self.assertEqual(redisson.ask(f"count {self.name}", "count"), "1")
        self.assertLessEqual(self.server("PTTL", self.name), peers.REDISSON_WATCHDOG_MS)
        redisson.ask("release", "released")
        self.released_and_found(monitor, lockwire, peers.REDISSON_WATCHDOG_MS / 3000)

    def test_redisson_leaves_lockwires_lock_alone(self):
        """Redisson finds a string instead of a hash, and its caller gets that error."""
        redisson, lockwire = self.peer(), self.lockwire()
        token = lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        error = redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "error")
        self.assertIn("WRONGTYPE", error)
        self.assertEqual(self.server("GET", self.name), token)
        self.assertEqual(lockwire.ask("release", "released", "gone"), "released")
        redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "held")


if __name__ == "__main__":
    scene.main(["redisson"])
