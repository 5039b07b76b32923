# SPDX-License-Identifier: MIT
"""Tests what bench/cluster derives from names, nodes' views and lists, with known answers.

    python3 test_cluster.py"""
import os
import sys
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../../test/lib")]
import deaths  # noqa: E402
import footprint  # noqa: E402
import places  # noqa: E402
import rates  # noqa: E402

OLD, NEW, OTHER = "a" * 40, "b" * 40, "c" * 40


class Names(unittest.TestCase):
    def test_a_key_is_where_redis_says(self):
        # CLUSTER KEYSLOT: 12739, 12182 and 5061
        self.assertEqual([places.master_of(key, 3) for key in ("123456789", "foo", "bar")],
                         [2, 2, 0])

    def test_even_names_are_even(self):
        for key in ("{name}", "rueidislock:0:{name}"):
            for slots in (16, 256):
                name = places.own_name(places.even_name(key, slots), 0)
                at = [places.master_of("%s:%d" % (key.format(name=name), i), 3)
                      for i in range(slots)]
                self.assertLessEqual(max(map(at.count, range(3))) - slots // 3, 1)


class Views(unittest.TestCase):
    """A death, as views of a node: id, flags, master, epoch, link, slots, as Node.view returns
    them."""

    def view(self, old, new):
        return [(OLD, *old), (NEW, *new), (OTHER, "master", "-", "2", "connected", "8192-16383")]

    def test_before_it(self):
        said = deaths.said(self.view(("master", "-", "1", "connected", "0-8191"),
                                     ("slave", OLD, "1", "connected")), OLD, 7)
        self.assertEqual(said, (False, OLD))

    def test_who_is_only_suspected_is_not_down(self):
        said = deaths.said(self.view(("master,fail?", "-", "1", "connected", "0-8191"),
                                     ("slave", OLD, "1", "connected")), OLD, 7)
        self.assertEqual(said, (False, OLD))

    def test_after_it(self):
        said = deaths.said(self.view(("master,fail", "-", "1", "connected"),
                                     ("master", "-", "4", "connected", "0-6", "7", "8-8191")),
                           OLD, 7)
        self.assertEqual(said, (True, NEW))


class Connections(unittest.TestCase):
    def test_who_asks_and_other_servers_are_none(self):
        text = "\n".join(["id=3 addr=127.0.0.1:1 flags=N tot-mem=100 cmd=get",
                          "id=4 addr=/s:0 flags=U tot-mem=9 cmd=client|list",
                          "id=5 addr=127.0.0.1:2 flags=S tot-mem=9 cmd=replconf",
                          "id=6 addr=127.0.0.1:3 flags=P tot-mem=50 cmd=ssubscribe"])
        self.assertEqual(footprint.connections(text), {"3": 100, "6": 50})


class Rates(unittest.TestCase):
    def row(self, repeat, place, **more):
        return dict({"section": "U", "size": 16, "processes": 1, "subject": "x",
                     "label": rates.label_of("x", place), "repeat": repeat}, **more)

    def test_ratios_are_of_the_same_round(self):
        found = []
        for repeat, (alone, one) in enumerate([(100, 90), (1000, 950), (10, 9.9)], 1):
            found.append(self.row(repeat, places.SERVER, figures={"rate": alone}))
            found.append(self.row(repeat, places.ONE, figures={"rate": one}))
        line = rates.table(found)[2]
        self.assertIn("| 0.95 | - |", line)
        self.assertTrue(line.startswith("| pairs/s, C=16, x | 100 +-495% | - | 90 "), line)

    def test_a_master_with_a_replica_is_compared_with_its_like(self):
        found = [self.row(1, place, figures={"rate": rate, "replica_cpu_us": 2})
                 for place, rate in ((places.SERVER, 100), (places.REPLICATED, 80),
                                     (places.ONE, 72), (places.ALL, 60))]
        heading, _, line, *others = rates.table(found)
        self.assertIn("| one master, of one with a replica | three masters, of one with a replica "
                      "| one with a replica, of the server |", heading)
        self.assertTrue(line.endswith("| 0.72 | 0.90 | 0.75 | 0.80 |"), line)
        self.assertTrue([other for other in others if other.startswith("| the replicas' CPU")])

    def test_what_failed_is_told(self):
        found = [self.row(1, places.ONE, error="it fell"), self.row(2, places.ONE, figures={})]
        self.assertEqual(rates.table(found)[-1],
                         "U x, one master of the cluster: 1 of 2 failed: it fell")


if __name__ == "__main__":
    unittest.main()
