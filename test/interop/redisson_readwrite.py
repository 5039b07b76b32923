#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What LW_EXCLUSIVE, LW_SHARED and the real Redisson's locks see of each other on a name.

All are hashes. Our read-write lock and Redisson's both have a field `mode`, but with different
values: each is foreign to the other. Owns the consequences: neither is granted while the other
holds, even if both only read; neither changes the fields that the other wrote; each finds the
other's release by polling.

Usual course: `redisson_readwrite.py --lockwire PROGRAM --cache DIR redisson`.
"""
import asks
import scene
from scene import LEASE_MS

MODES = ("exclusive", "shared")
READWRITE = ("read", "write")
KINDS = ("lock", "spin", "fenced", "fair") + READWRITE
LOOKS = {"EXISTS", "HGET", "PTTL", "TYPE"}  # commands that change nothing
SHORT_MS = 3000


class Scene(scene.Scene):
    tcp = True
    queue = asks.READWRITE

    def ours(self, mode):
        return self.start("lockwire-" + mode)

    def choose(self, redisson, kind):
        redisson.ask("kind " + kind, "kind")

    def hash(self):
        fields = self.server("HGETALL", self.name)
        return dict(zip(fields[::2], fields[1::2]))

    def expire(self):
        """Waits until the holder's lease has expired."""
        self.eventually(lambda: not self.server("EXISTS", self.name), "the lease ends")

    def each(self, kinds=READWRITE):
        """Yields every pair, and prints it first: if the test fails, the last line names the
        pair."""
        for mode in MODES:
            for kind in kinds:
                print(f"    {mode}, {kind}")
                yield mode, kind


class Theirs(Scene):
    """Redisson holds the lock."""

    def test_it_is_busy_named_in_the_log_and_only_looked_at(self):
        redisson, monitor = self.peer(), self.monitor()
        for mode, kind in self.each(KINDS):
            lockwire = self.ours(mode)
            self.choose(redisson, kind)
            redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
            theirs, before = self.hash(), len(self.told(monitor))
            remaining = int(lockwire.ask(f"acquire {self.name} 10000 0", "busy"))
            self.assertGreater(remaining, 0)
            self.assertLessEqual(remaining, LEASE_MS)
            lockwire.noted("hash")
            self.assertIn(self.name, lockwire.notes[0])
            self.assertEqual(self.hash(), theirs)
            told = asks.commands(self.told(monitor)[before:], self.name)
            self.assertLessEqual(told, LOOKS)
            self.assertIn("HGET", told)
            redisson.ask("release", "released")

    def test_waiting_leaves_it_alone_and_its_unlock_is_found_by_polling(self):
        for mode, kind in self.each():
            redisson, lockwire, monitor = self.peer(), self.ours(mode), self.monitor()
            self.choose(redisson, kind)
            for _ in range(2):
                redisson.ask(f"acquire {self.name} {LEASE_MS} -1", "held")
            theirs = self.hash()
            self.assertEqual(theirs.pop("mode"), kind)
            self.assertEqual(list(theirs.values()), ["2"])
            self.wait_in_queue(lockwire)
            self.await_asks(monitor, 2, lockwire)
            self.assertEqual(list(self.hash().values()).count("2"), 1)
            redisson.ask("release", "released")  # one of two levels
            self.await_asks(monitor, len(self.our_asks(monitor.lines)) + 1, lockwire)
            self.assertEqual(sorted(self.hash().values()), ["1", kind])
            redisson.ask("release", "released")
            self.released_and_found(monitor, lockwire)
            self.assertEqual(lockwire.ask("release", "released", "gone"), "released")

    def test_our_late_release_and_renewal_leave_it_alone(self):
        """Our lock was force-released, and Redisson holds the name since then."""
        redisson = self.peer()
        for mode, kind in self.each():
            for late in ("release", f"extend {LEASE_MS}"):
                lockwire = self.ours(mode)
                self.choose(redisson, kind)
                lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
                self.server("DEL", self.name)
                redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
                theirs = self.hash()
                lockwire.ask(late, "gone")
                self.assertEqual(self.hash(), theirs)
                self.assertLessEqual(self.server("PTTL", self.name), LEASE_MS)
                redisson.ask("release", "released")


class Ours(Scene):
    """lockwire holds the lock."""

    def test_none_of_its_locks_is_granted_or_changes_it(self):
        redisson = self.peer()
        for mode, kind in self.each(KINDS):
            lockwire = self.ours(mode)
            self.choose(redisson, kind)
            lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
            ours = self.hash()
            self.assertRegex(ours["mode"], "^2 1 ")
            redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "busy")
            redisson.ask(f"acquire {self.name} {LEASE_MS} 100", "timeout")
            self.assertEqual(self.hash(), ours)
            self.assertGreater(self.server("PTTL", self.name), 0)
            self.assertEqual(lockwire.ask("release", "released", "gone"), "released")
            redisson.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
            redisson.ask("release", "released")

    def test_its_late_unlock_leaves_ours_alone(self):
        """Redisson's lease has expired, and lockwire holds the name since then."""
        redisson = self.peer()
        for mode, kind in self.each():
            lockwire = self.ours(mode)
            self.choose(redisson, kind)
            redisson.ask(f"acquire {self.name} 100 0", "held")
            self.expire()
            lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
            ours = self.hash()
            redisson.ask("release", "gone")
            self.assertEqual(self.hash(), ours)
            self.assertEqual(lockwire.ask("release", "released", "gone"), "released")

    def test_its_watchdog_leaves_ours_alone(self):
        """The watchdog still renews a lock that was force-released, and finds ours."""
        redisson, monitor = self.peer(), self.monitor()
        for mode, kind in self.each():
            lockwire = self.ours(mode)
            self.choose(redisson, kind)
            redisson.ask(f"acquire {self.name} 0 0", "held")
            self.server("DEL", self.name)
            lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
            ours, before = self.hash(), len(self.told(monitor))
            self.eventually(lambda: asks.commands(monitor.lines[before:], self.name),
                            "the watchdog looks")
            told = asks.commands(self.told(monitor)[before:], self.name)
            self.assertLessEqual(told, LOOKS | {"HEXISTS"})
            self.assertEqual(self.hash(), ours)
            self.assertEqual(lockwire.ask("release", "released", "gone"), "released")

    def test_who_waits_there_finds_our_release_when_the_lease_it_was_told_is_over(self):
        """lockwire does not publish on Redisson's channel."""
        redisson = self.peer()
        for mode, kind in self.each():
            lockwire, monitor = self.ours(mode), self.monitor()
            self.choose(redisson, kind)
            lockwire.ask(f"acquire {self.name} {SHORT_MS} 0", "held")
            channel = "redisson_rwlock:{" + self.name + "}"
            redisson.send(f"acquire {self.name} {LEASE_MS} -1")
            self.eventually(lambda: self.server("PUBSUB", "NUMSUB", channel)[1] == 1,
                            "it listens")
            self.eventually(lambda: len(self.their_asks(monitor.lines)) >= 2,
                            "it tries again")
            lockwire.ask("release", "released")
            redisson.answer("held")
            lines = self.told(monitor)
            before, after = self.their_asks(lines)[-2:]
            self.assertGreater(after - before, SHORT_MS / 1000 / 2)  # no message woke it
            print(f"    asked anew after {after - before:.1f} s of {SHORT_MS / 1000:.0f} s")
            redisson.ask("release", "released")

    def their_asks(self, lines):
        """Returns the times, in seconds, at which Redisson tried to take the lock, with or
        without success."""
        return [float(line.split()[0]) for line in lines
                if f' lua] "hget" "{self.name}" "mode"' in line]

    def test_whoever_dies_is_outlived_by_its_lease_alone(self):
        for mode, kind in self.each():
            redisson, lockwire = self.peer(), self.ours(mode)
            self.choose(redisson, kind)
            lockwire.ask(f"acquire {self.name} 1000 0", "held")
            lockwire.kill()
            redisson.ask(f"acquire {self.name} 1000 -1", "held")
            redisson.kill()
            other = self.ours(mode)
            other.ask(f"acquire {self.name} {LEASE_MS} -1", "held")
            other.ask("release", "released")

    def test_forced_open_by_it_an_rlock_takes_ours_along_a_read_write_lock_does_not(self):
        redisson = self.peer()
        for mode, kind in self.each(("lock",) + READWRITE):
            lockwire = self.ours(mode)
            self.choose(redisson, kind)
            lockwire.ask(f"acquire {self.name} {LEASE_MS} 0", "held")
            redisson.ask(f"force {self.name}", "forced")
            left = "gone" if kind == "lock" else "released"
            self.assertEqual(self.server("EXISTS", self.name), int(left == "released"))
            lockwire.ask("release", left)


if __name__ == "__main__":
    scene.main(["redisson"])
