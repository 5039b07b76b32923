# SPDX-License-Identifier: MIT
"""Tests the plan of bench/quorum, and what bench/quorum derives from its rows, with known answers.

    python3 test_quorum.py"""
import argparse
import os
import sys
import types
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../../test/lib")]
import programs  # noqa: E402
import quorum  # noqa: E402
from quorum import DEAD, STATES, WELL, Place  # noqa: E402


def servers(*ports):
    return [types.SimpleNamespace(port=port) for port in ports]


class Plan(unittest.TestCase):
    def planned(self, **more):
        options = argparse.Namespace(**{
            "states": STATES, "servers": [3], "waiters": [50], "seconds": 1, "rounds": 2,
            "peer_rounds": 1, "only": ["pairs", "contended"], **more})
        found = programs.own("build", {"name": "x", "compares": None, "tls": False}, False)[0]
        for peer in programs.peers("build", ["redsync"]):
            found += peer.subjects()
        place = types.SimpleNamespace(
            place=lambda count, state: Place(servers(*range(count)), state, range(count)))
        return quorum.plan(options, found, place)

    def test_an_url_lists_the_servers(self):
        self.assertEqual(Place(servers(1, 2, 3), DEAD, [9, 2, 3]).url,
                         "redis-quorum://127.0.0.1:9,127.0.0.1:2,127.0.0.1:3")
        self.assertEqual(Place(servers(1), WELL, [1]).url, "redis://127.0.0.1:1")

    def test_without_contention_all_servers_are_well(self):
        pairs = [(place.label, case.size) for place, case in self.planned()
                 if case.workload == "U"]
        self.assertEqual(pairs, [("N=%d, all well" % count, size)
                                 for count in (1, 3) for size in quorum.SIZES])

    def test_a_single_server_has_no_peers(self):
        for place, case in self.planned():
            labels = [subject.label for subject in case.subjects]
            self.assertEqual("redsync default" in labels, len(place.servers) > 1)

    def test_waiters_are_many_clients_too(self):
        found = [case.subjects for _, case in self.planned(only=["contended"])
                 if case.workload == "L"]
        self.assertEqual(len(found), len(STATES))
        for subjects in found:
            self.assertEqual([subject.label for subject in subjects],
                             ["lockwire default", "lockwire clients", "redsync default",
                              "redsync 10ms"])


class Verdicts(unittest.TestCase):
    def row(self, repeat=1, subject=quorum.JUDGED, **figures):
        return {"section": "L", "size": 500, "processes": 2, "repeat": repeat,
                "subject": subject, "label": quorum.label_of(subject, "N=3, all well"),
                "figures": {"rate": 1000, "gap_p50_us": 300, "of_mean": 1.5, "overlaps": 0,
                            "without": 0, "errors": 0, **figures}}

    def verdicts(self, *rows):
        return [met for met, _, _ in quorum.judge(rows)]

    def test_each_expectation(self):
        self.assertEqual(self.verdicts(self.row()), [True] * 3)
        self.assertEqual(self.verdicts(self.row(rate=699)), [False, True, True])
        self.assertEqual(self.verdicts(self.row(gap_p50_us=1001)), [True, False, True])
        self.assertEqual(self.verdicts(self.row(of_mean=3.01)), [True, True, False])

    def test_medians_are_judged(self):
        self.assertEqual(self.verdicts(self.row(1, of_mean=9), self.row(2), self.row(3)),
                         [True] * 3)

    def test_others_are_not_judged(self):
        self.assertEqual(self.verdicts(self.row(subject="redsync default", rate=1)), [])

    def test_two_owners_and_starved_waiters_are_found(self):
        self.assertTrue(quorum.safe([self.row(), self.row(subject="redsync 10ms", without=9)]))
        self.assertFalse(quorum.safe([self.row(), self.row(2, overlaps=1)]))
        self.assertFalse(quorum.safe([self.row(without=1)]))
        self.assertFalse(quorum.safe([{"subject": "lockwire default", "error": "it fell"}]))

    def test_the_table_says_what_went_wrong(self):
        lines = quorum.tables([self.row(overlaps=2)])
        self.assertEqual(lines[5], "| W=500, N=3, all well, lockwire clients | 1000 | 0.30 | - |"
                         " - | 1.50 | - | 0 |")
        self.assertIn("W=500, N=3, all well, lockwire clients: TWO HELD AT ONCE, 2 times", lines)


if __name__ == "__main__":
    unittest.main()
