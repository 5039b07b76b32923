# SPDX-License-Identifier: MIT
"""Tests what is derived from a failover's events and grants, with known answers.

    python3 test_failover.py"""
import os
import sys
import types
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../../test/lib")]
import deployment  # noqa: E402
import failover  # noqa: E402
import guard  # noqa: E402
import sentinel_cost  # noqa: E402

KIND = deployment.Deployment
MS = 1_000_000


def client(granted=(), failed=(), ended=None):
    """Returns a client with these reports; times in ms."""
    made = failover.Client.__new__(failover.Client)
    made.granted = [at * MS for at in granted]
    made.failed = [(at * MS, "no") for at in failed]
    made.ended, made.version = ended, "1"
    return made


def death(grant_ms=None, kept=None):
    one = {"kept": kept, "error": "gone"}
    if grant_ms is not None:
        one.update(grant_ms=grant_ms, failed=2)
    return {"events": {name: 1000 for name in KIND.EVENTS}, "clients": {"a": one}}


class Told(unittest.TestCase):
    def test_an_answer_of_the_dead_master_is_no_grant_of_the_new_one(self):
        told = client(granted=[99, 101, 2600, 2610])
        self.assertEqual(told.first_after(1500 * MS), 2600 * MS)

    def test_what_failed_before_the_death_and_after_the_grant_is_not_its_fault(self):
        told = failover._told(client(failed=[50, 150, 250, 3000]), 100 * MS, 2600 * MS)
        self.assertEqual((told["grant_ms"], told["failed"]), (2500, 2))

    def test_one_that_is_not_granted_says_why(self):
        self.assertEqual(failover._told(client(ended="it fell"), 0, None)["error"], "it fell")
        self.assertIn("no grant", failover._told(client(), 0, None)["error"])


class Events(unittest.TestCase):
    def events(self, *heard):
        made = deployment.Events([])
        made.heard = list(heard)
        return made

    def test_only_the_masters_count(self):
        events = self.events(
            (3, 0, "+sdown", "slave 127.0.0.1:1 127.0.0.1 1 @ the-master 127.0.0.1 2"),
            (9, 1, "+sdown", "master the-master 127.0.0.1 2"),
            (7, 0, "+sdown", "master the-master 127.0.0.1 2"))
        self.assertEqual(events.times("+sdown"), [7, 9])

    def test_all_sentinels_have_to_tell_of_a_switch(self):
        events = self.events((3, 0, "+switch-master", "the-master 127.0.0.1 1 127.0.0.1 2"))
        events.links = [types.SimpleNamespace()] * 2
        self.assertRaises(failover.Failed, events.await_switch, 0)
        events.heard.append((4, 1, "+switch-master", "the-master 127.0.0.1 1 127.0.0.1 2"))
        events.await_switch(0)


class Tables(unittest.TestCase):
    def line(self, *rounds):
        return failover.table(list(rounds), KIND)[-1]

    def test_medians_and_ranges(self):
        self.assertEqual(self.line(death(1500, True), death(3000, False), death(2000, True)),
                         "| a | 2.00 (1.50 to 3.00) | 1000 (500 to 2000) | 2 (2 to 2) | 2 of 3 |")

    def test_without_a_grant(self):
        self.assertIn("a (1 of 2 without a grant)", self.line(death(1500), death()))
        self.assertIn("| - | - | - |", self.line(death()))

    def test_an_idle_client_is_what_ten_add(self):
        idle = {"": {"master": [100, 0, 0, 3]}, "u": {"master": [100 + 10 * 8, 0, 0, 23]}}
        each = sentinel_cost._each(idle, "u", "master")
        self.assertEqual((each[0], each[3]), (8 * 60 / sentinel_cost.IDLE_S, 2))


def guarded(held, lost):
    """Returns a client with these locks; times in ms."""
    made = guard.Client.__new__(guard.Client)
    made.held = {lock: at * MS for lock, at in enumerate(held)}
    made.lost = {lock: at * MS for lock, at in enumerate(lost)}
    return made


class Guard(unittest.TestCase):
    def test_a_lock_has_two_owners_until_the_first_has_lost_it(self):
        owner, waiter = guarded([10, 11, 12], [300, 200, 400]), guarded([250, 250, 250], [])
        self.assertEqual(guard.overlaps(owner, waiter), [50 * MS, 150 * MS])

    def test_the_table_counts_locks_and_deaths(self):
        def death(overlaps, longest_ms):
            one = {"locks": 8, "overlaps": overlaps, "longest_ms": longest_ms,
                   "grant_ms": 3000}
            return {"events": {KIND.SWITCH: 1000}, "kinds": dict.fromkeys(guard.KINDS, one)}
        line = guard.table([death(3, 200), death(0, 0)], KIND)[2]
        self.assertEqual(line, "| without the guard | 3 of 16 | 1 of 2 | 0.200 (0.200 to 0.200)"
                         " | 3.00 (3.00 to 3.00) | 2.00 (2.00 to 2.00) |")


if __name__ == "__main__":
    unittest.main()
