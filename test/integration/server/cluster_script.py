# SPDX-License-Identifier: MIT
"""Tests scripts/cluster and test/lib/clustered.py, the two other ways to start a cluster: the
cluster works, and nothing is left behind."""
import os
import sys
import unittest

from clustered import SLOTS, Clustered
from support import ToolTest, alive, until

SCRIPT = os.environ["LOCKWIRE_SCRIPTS"] + "/cluster"
ASKS = """
import os, socket, sys
for node in os.environ["LOCKWIRE_NODES"].split():
    host, port = node.split(":")
    with socket.create_connection((host, port)) as link:
        link.sendall(b"CLUSTER INFO\\r\\nROLE\\r\\nQUIT\\r\\n")
        text = link.makefile().read()
    print(node, "cluster_state:ok" in text, "cluster_known_nodes:6" in text,
          "master" if "\\nmaster\\n" in text else "replica")
print(os.environ["LOCKWIRE_NODE_PIDS"])
print(os.environ["LOCKWIRE_URL"])
sys.exit(int(sys.argv[1]))
"""


class Script(ToolTest):
    def test_it_has_six_nodes_and_leaves_nothing(self):
        self.environment["TMPDIR"] = self.folder
        code, out, err = self.end_of(self.spawn(SCRIPT, sys.executable, "-c", ASKS, "7"))
        *nodes, pids, url = out.splitlines()
        self.assertEqual((code, err), (7, ""))
        self.assertEqual([node.split()[1:] for node in nodes],
                         [["True", "True", "master"]] * 3 + [["True", "True", "replica"]] * 3)
        addresses = [node.split()[0] for node in nodes]
        self.assertEqual(len(set(addresses)), 6)
        self.assertEqual(url, "redis-cluster://" + ",".join(addresses))
        self.assertEqual(len(pids.split()), 6)
        self.assertFalse([pid for pid in pids.split() if alive(pid)])
        self.assertEqual(os.listdir(self.folder), [])

    def test_it_wants_a_command(self):
        code, _, err = self.end_of(self.spawn(SCRIPT))
        self.assertEqual(code, 64)
        self.assertTrue(err.startswith("usage: scripts/cluster COMMAND"))


class Bed(ToolTest):
    def cluster(self, **more):
        cluster = Clustered(**more)
        self.addCleanup(cluster.stop)
        return cluster

    def test_a_slot_moves(self):
        cluster = self.cluster(replicas=0)
        slot = cluster.slot("job")
        owner = cluster.owner(slot)
        to = next(node for node in cluster.nodes if node is not owner)
        owner("MSET", "{job}1", 1, "{job}2", 2)
        cluster.begin(slot, to)
        cluster.carry(slot, to, "{job}1")
        with self.assertRaisesRegex(Exception, f"ASK {slot} {to.address}"):
            owner("GET", "{job}1")
        self.assertEqual(owner("GET", "{job}2"), "2")
        cluster.carry(slot, to)
        cluster.end(slot, to)
        self.assertEqual(to("MGET", "{job}1", "{job}2"), ["1", "2"])

    def test_masters_are_replaced(self):
        cluster = self.cluster()
        first, second = cluster.masters[:2]
        cluster.fail_over(cluster.replicas[0], "TAKEOVER")
        self.assertIs(cluster.owner(0), cluster.replicas[0])
        cluster.fail_over(first)
        self.assertIs(cluster.owner(0), first)
        cluster.kill(second)
        until(lambda: cluster.owner(SLOTS // 2) is cluster.replicas[1], "its replica has them")
        cluster.until_well()


if __name__ == "__main__":
    unittest.main()
