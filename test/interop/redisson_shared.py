#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One lock, held by turns by LW_REDISSON and by the real Redisson's RLock.

Owns what the two see of each other: which is kept out, what Redis stores, which release wakes
which waiter (the server's monitor shows the time of each request), and that a lock that Redisson
has re-entered stays busy until its last unlock. Contended rounds are in contend.py.

Usual course: `redisson_shared.py --lockwire PROGRAM --cache DIR redisson`.
"""
import time

import peers
import scene
from scene import LEASE_MS

WITHOUT_POLL_S = 8  # an unwoken waiter tries later: lockwire's after 10 s, Redisson's at the TTL


class Scene(scene.Scene):
    tcp = True

    def lockwire(self):
        return self.start("lockwire-redisson")

    def setUp(self):
        super().setUp()
        self.channel = "redisson_lock__channel:{" + self.name + "}"

    def hash(self):
        fields = self.server("HGETALL", self.name)
        return dict(zip(fields[::2], fields[1::2]))

    def asks(self, lines):
        """Returns the times, in seconds, of the tries to take the lock. lockwire's script reads
        the TYPE first, Redisson's checks whether the key exists. (A script that is sent again,
        as a text, is one try.)"""
        return [float(line.split()[0]) for line in lines
                if f' lua] "TYPE" "{self.name}"' in line
                or f' lua] "exists" "{self.name}"' in line]

    def published(self, lines):
        """Returns the number of the line with the message to the channel."""
        found = [number for number, line in enumerate(lines)
                 if ' lua] "PUBLISH"' in line and self.channel in line]
        self.assertEqual(len(found), 1, lines)
        return found[0]

    def wait(self, waiter, monitor, lease_ms=LEASE_MS):
        """Waits until the waiter has tried, subscribed, and tried again."""
        before = len(self.asks(self.told(monitor)))
        waiter.send(f"acquire {self.name} {lease_ms} -1")
        self.eventually(lambda: self.server("PUBSUB", "NUMSUB", self.channel)[1] == 1,
                        "it listens")
        self.eventually(lambda: len(self.asks(monitor.lines)) >= before + 2,
                        "it tries again")
        self.assertFalse(waiter.answered(), waiter.lines)

    def woken(self, waiter, monitor, before):
        """Checks that the channel woke the waiter: it tried once after the message, and not
        between the start of the wait and the message."""
        waiter.answer("held")
        lines = self.told(monitor)
        at = self.published(lines)
        self.assertEqual(self.asks(lines[before:at]), [])
        later = self.asks(lines[at:])
        self.assertEqual(len(later), 1, "tries after the release: " + repr(lines[at:]))
        took_s = later[0] - float(lines[at].split()[0])
        self.assertLess(took_s, WITHOUT_POLL_S)
        print(f"    woken after {took_s * 1000:.1f} ms")


class Shared(Scene):
    def test_each_keeps_the_other_out(self):
        redisson, lockwire = self.peer(), self.lockwire()
        field = redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        remaining = int(lockwire.ask(f"acquire {self.name} 10000 0", "busy"))
        self.assertGreater(remaining, 0)
        self.assertLessEqual(remaining, LEASE_MS)
        self.assertEqual(self.hash(), {field: "1"})
        redisson.ask("release", "released")
        lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        (field, holds), = self.hash().items()
        self.assertRegex(field, "^[0-9a-f-]{36}:[0-9]+$")
        self.assertEqual(holds, "1")
        redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "busy")
        redisson.ask(f"acquire {self.name} {LEASE_MS} 100", "timeout")
        self.assertEqual(self.hash(), {field: "1"})
        self.assertEqual(lockwire.ask("release", "released", "gone"), "released")
        redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        self.assertEqual(lockwire.notes, [])

    def test_redissons_unlock_wakes_lockwire(self):
        redisson, lockwire, monitor = self.peer(), self.lockwire(), self.monitor()
        redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        self.wait(lockwire, monitor)
        before = len(self.told(monitor))
        redisson.ask("release", "released")
        self.woken(lockwire, monitor, before)

    def test_lockwires_release_wakes_redisson(self):
        redisson, lockwire, monitor = self.peer(), self.lockwire(), self.monitor()
        lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        self.wait(redisson, monitor)
        before = len(self.told(monitor))
        lockwire.ask("release", "released")
        self.woken(redisson, monitor, before)

    def test_redisson_re_enters_its_own(self):
        redisson, lockwire, monitor = self.peer(), self.lockwire(), self.monitor()
        redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        self.assertEqual(redisson.ask(f"count {self.name}", "count"), "2")
        self.wait(lockwire, monitor)
        redisson.ask("release", "released")
        self.assertEqual(redisson.ask(f"count {self.name}", "count"), "1")
        self.assertFalse(lockwire.answered(), lockwire.lines)
        redisson.ask("release", "released")
        lockwire.answer("held")

    def test_redissons_watchdog_is_waited_out(self):
        """Redisson renews a lock without a lease after a third of the watchdog's time."""
        redisson, lockwire, monitor = self.peer(), self.lockwire(), self.monitor()
        redisson.ask(f"acquire {self.name} 0 0", "held")
        self.wait(lockwire, monitor)
        self.eventually(lambda: self.renewals(monitor) >= 3, "Redisson renews")
        self.assertFalse(lockwire.answered(), lockwire.lines)
        self.assertLessEqual(self.server("PTTL", self.name), peers.REDISSON_WATCHDOG_MS)
        redisson.ask("release", "released")
        lockwire.answer("held")

    def renewals(self, monitor):
        return sum(f'"pexpire" "{self.name}"' in line.lower() for line in monitor.lines)

    def test_a_lock_that_was_forced_open_is_not_released_twice(self):
        redisson, lockwire = self.peer(), self.lockwire()
        lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        self.server("DEL", self.name)
        field = redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        self.assertEqual(lockwire.ask("release", "released", "gone"), "gone")
        self.assertEqual(self.hash(), {field: "1"})

    def test_whoever_dies_is_outlived_by_its_lease_alone(self):
        redisson, lockwire = self.peer(), self.lockwire()
        redisson.ask(f"acquire {self.name} 2000 0", "held")
        redisson.kill()
        lockwire.ask(f"acquire {self.name} 2000 -1", "held")
        other = self.peer()
        lockwire.kill()
        other.ask(f"acquire {self.name} {LEASE_MS} -1", "held")

    def test_a_dead_holders_lease_is_found_when_it_ends(self):
        redisson, lockwire = self.peer(), self.lockwire()
        self.server("HSET", self.name, "dead:1", 1)
        self.server("PEXPIRE", self.name, 3000)
        ends = time.monotonic() + 3
        for peer in (redisson, lockwire):
            peer.send(f"acquire {self.name} {LEASE_MS} -1")
        self.eventually(lambda: redisson.answered() or lockwire.answered(), "it is found")
        late_ms = (time.monotonic() - ends) * 1000
        first, second = ((lockwire, redisson) if lockwire.answered()
                         else (redisson, lockwire))
        first.answer("held")
        first.ask("release", "released")
        second.answer("held")
        print(f"    {first.title} was first, {late_ms:.1f} ms after the lease's end")

    def test_one_thread_has_its_share_beside_eight_slots(self):
        redisson, lockwire = self.peer(), self.lockwire()
        lockwire.ask(f"slots 8 {self.name} {LEASE_MS} 1", "started")
        took_ms = redisson.ask(f"grants {self.name} {LEASE_MS} 1 40", "took")
        grants = int(lockwire.ask("stop", "stopped"))
        print(f"    40 grants in {took_ms} ms, beside {grants}")
        self.assertLess(grants, 1000)  # 3,600 and more if no release leaves the lock to Redisson


class OtherKinds(Scene):
    """Redisson's other kinds of locks on the same name."""

    def excluded(self, kind):
        """Checks that each keeps the other out, and that a waiter finds the lock free after the
        given time."""
        redisson, lockwire = self.peer(), self.lockwire()
        redisson.ask("kind " + kind, "kind")
        redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "busy")
        redisson.ask("release", "released")
        lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "busy")
        self.assertEqual(list(self.hash().values()), ["1"])
        lockwire.ask("release", "released")
        return redisson, lockwire

    def tells(self, redisson):
        """Returns true if Redisson's unlock publishes on the channel."""
        monitor = self.monitor()
        redisson.ask(f"acquire {self.name} {LEASE_MS} -1", "held")
        redisson.ask("release", "released")
        return any(f'lua] "publish" "{self.channel}" ' in line.lower()
                   for line in self.told(monitor))

    def test_a_spin_lock_excludes_and_tells_nobody(self):
        redisson, _ = self.excluded("spin")
        self.assertFalse(self.tells(redisson))

    def test_a_fair_lock_excludes_and_wakes_nobody_else(self):
        redisson, _ = self.excluded("fair")
        self.assertFalse(self.tells(redisson))

    def test_a_fenced_lock_excludes_and_wakes_both_ways(self):
        redisson, lockwire = self.excluded("fenced")
        self.assertTrue(self.tells(redisson))
        monitor = self.monitor()
        lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        self.wait(redisson, monitor)
        lockwire.ask("release", "released")
        redisson.answer("held")

    def beside(self, kind):
        """Returns our field, and the fields of the hash after Redisson has unlocked its lock of
        this kind."""
        redisson, lockwire = self.peer(), self.lockwire()
        redisson.ask("kind " + kind, "kind")
        lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        ours, = self.hash()
        redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        redisson.ask("release", "released")
        return ours, self.hash()

    def test_a_read_lock_is_granted_beside_it_and_deletes_it(self):
        _, left = self.beside("read")
        self.assertEqual(left, {})

    def test_a_write_lock_is_granted_beside_it_and_makes_it_a_read_lock(self):
        ours, left = self.beside("write")
        self.assertEqual(left, {ours: "1", "mode": "read"})


class InACluster(Scene):
    """In a cluster Redisson uses sharded channels, so neither receives the other's messages."""

    cluster = True

    def test_each_excludes_the_other_and_ours_polls(self):
        redisson, lockwire = self.peer(), self.lockwire()
        redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
        lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "busy")
        lockwire.send(f"acquire {self.name} {LEASE_MS} -1")
        lockwire.noted("cluster mode")
        released = time.monotonic()
        redisson.ask("release", "released")
        lockwire.answer("held")
        print(f"    found after {time.monotonic() - released:.1f} s")
        redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "busy")
        self.assertEqual(sum("cluster mode" in note for note in lockwire.notes), 1)


if __name__ == "__main__":
    scene.main(["redisson"])
