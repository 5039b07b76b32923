#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`lockwire` at redis-cluster://, with real nodes: run, status, watch and break find a lock at
the node of its slot, also if the slot has just moved. A server that is not part of a cluster is
reported.

Usual course: a run holds; its slot moves, its master is replaced; status and watch go on to show
the lock.
"""
import json
import signal
import unittest

from clustered import Clustered
from ports import free_port
from support import COMMAND, LIMIT, ToolTest, until

QUEUE = "lockwire:2:queue:{job}"
NAMES = ("a", "b", "c", "job", "{tag}1", "{tag}2", "x", "queue{")


class ClusterTest(ToolTest):
    replicas = 0

    def setUp(self):
        super().setUp()
        self.cluster = Clustered(replicas=self.replicas)
        self.addCleanup(self.cluster.stop)
        self.environment["LOCKWIRE_URL"] = self.cluster.url
        self.slot = self.cluster.slot("job")

    def ask(self, code, *words):
        got, out, err = self.end_of(self.spawn(COMMAND, *words))
        self.assertEqual(got, code, f"{words}: {out}{err}")
        return out + err

    def holder(self, mark, *words, code=5):
        """Starts a command that holds "job" until the file `stop` exists."""
        process = self.spawn(COMMAND, "run", "job", *words, "--", "sh", "-c",
                             f"echo > {mark}; while [ ! -e stop ]; do sleep 0.02; done; exit {code}",
                             cwd=self.folder)
        return process

    def end_command(self):
        with open(self.path("stop"), "w", encoding="ascii"):
            pass

    def owner(self):
        return self.cluster.owner(self.slot)

    def other(self):
        return next(node for node in self.cluster.masters if node is not self.owner())

    def status(self):
        code, out, err = self.end_of(self.spawn(COMMAND, "status", "job", "--json"))
        self.assertIn(code, (0, 1), err)
        seen = json.loads(out)
        self.assertEqual(code, 0 if seen["holders"] else 1)
        return seen

    def waits(self, process, count=1):
        if not self.cluster.is_sharded:
            self.skipTest("who waits has no place")
        until(lambda: self.owner()("ZCARD", QUEUE) == count, "it waits")
        return process


class Names(ClusterTest):
    def test_any_name_at_any_node(self):
        for name in NAMES:
            said = self.ask(0, "run", name, "--", "sh", "-c",
                            f"exec {COMMAND} status '{name}'")
            self.assertIn(f"{name}: 1 holder", said)
            self.assertIn(f"{name}: free", self.ask(1, "status", name))
        self.assertEqual(len({self.cluster.owner(self.cluster.slot(name)) for name in NAMES}), 3)

    def test_what_it_runs_finds_the_same_cluster(self):
        self.assertIn(self.cluster.url,
                      self.ask(0, "run", "job", "--", "sh", "-c", "echo $LOCKWIRE_URL"))

    def test_valkey_in_the_url(self):
        url = self.cluster.url.replace("redis", "valkey", 1)
        for name in NAMES:
            said = self.ask(0, "run", name, "--redis", url, "--", COMMAND, "status", name)
            self.assertIn(f"{name}: 1 holder", said)
        self.assertIn('database "x" is not a number',
                      self.ask(64, "status", "job", "--redis", url + "/x"))

    def test_who_waits_is_handed_the_lock(self):
        first = self.holder("first")
        self.wait_for_file("first", first)
        second = self.waits(self.spawn(COMMAND, "run", "job", "--wait", "1m", "--", "true"))
        seen = self.status()
        self.assertEqual((len(seen["holders"]), len(seen["waiters"])), (1, 1))
        self.end_command()
        self.assertEqual(self.end_of(first)[0], 5)
        self.assertEqual(self.end_of(second)[0], 0)

    def test_readers_and_a_writer(self):
        for i in range(2):
            self.holder(f"reader{i}", "--shared", "--owner", f"r{i}")
            self.wait_for_file(f"reader{i}")
        self.assertEqual({holder["owner"] for holder in self.status()["holders"]}, {"r0", "r1"})
        self.ask(75, "run", "job", "--exclusive", "--owner", "w", "--wait", "0", "--", "true")
        self.end_command()


class Watch(ClusterTest):
    def test_it_tells_of_the_node_that_the_name_leads_to(self):
        process = self.spawn(COMMAND, "watch", "job", "--interval", "20ms")
        self.assertRegex(process.stdout.readline(), "job: free$")
        node = self.owner()

        def told(what):
            line = process.stdout.readline()
            while what not in line:
                self.assertIsNone(process.poll(), line)
                line = process.stdout.readline()

        node.pause()
        told(" no answer, the last one was ")
        node.resume()
        told(f" answers: redis 127.0.0.1:{node.port}, master\n")
        node.kill()
        told(" no connection: ")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(LIMIT), 0)


class Moving(ClusterTest):
    replicas = 3

    def test_a_slot_moves_below_all_of_them(self):
        first = self.holder("first")
        self.wait_for_file("first", first)
        second = self.waits(self.spawn(COMMAND, "run", "job", "--wait", "1m", "--", "true"))
        watch = self.spawn(COMMAND, "watch", "job", "--interval", "20ms")
        self.assertRegex(watch.stdout.readline(), "holds ")
        token = self.status()["holders"][0]["token"]
        self.cluster.move(self.slot, self.other())
        self.waits(second)
        self.assertEqual(self.status()["holders"][0]["token"], token)
        self.end_command()
        self.assertEqual(self.end_of(first)[0], 5)
        self.assertEqual(self.end_of(second)[0], 0)
        lines = []
        while not lines or not lines[-1].endswith("job: free\n"):
            lines.append(watch.stdout.readline())
            self.assertIsNone(watch.poll(), lines)
        self.assertNotIn("no connection", "".join(lines))
        watch.send_signal(signal.SIGTERM)
        self.assertEqual(watch.wait(LIMIT), 0)

    def test_asked_for_where_it_is(self):
        """Its holder never waited, so that it has no other reason to subscribe to the slot."""
        if not self.cluster.is_sharded:
            self.skipTest("no holder is asked")
        first = self.holder("first", "--on-yield", "echo >> asked")
        self.wait_for_file("first", first)
        until(lambda: self.end_of(self.spawn(COMMAND, "yield", "job"))[0] == 0, "it is reached")
        self.wait_for_file("asked")
        self.cluster.move(self.slot, self.other())
        until(lambda: self.end_of(self.spawn(COMMAND, "yield", "job"))[0] == 0,
              "it is reached at the other node")
        self.end_command()
        code, _, err = self.end_of(first)
        self.assertEqual((code, err.count("asked to release 'job'")), (5, 2))

    def test_looked_at_and_broken_while_it_moves(self):
        """A request for one key is answered by whichever node has the key."""
        first = self.holder("first", "--wait", "0")
        self.wait_for_file("first", first)
        to = self.other()
        self.cluster.begin(self.slot, to)
        second = self.spawn(COMMAND, "run", "job", "--wait", "1m", "--", "true")
        self.assertEqual(len(self.status()["holders"]), 1)
        self.cluster.carry(self.slot, to)
        self.assertEqual(len(self.status()["holders"]), 1)
        self.ask(0, "break", "job")
        self.assertEqual(self.end_of(first)[0], 70)
        self.assertEqual(self.end_of(second)[0], 0)
        self.cluster.end(self.slot, to)
        self.assertIn("job: free", self.ask(1, "status", "job"))

    def test_its_master_is_replaced(self):
        first = self.holder("first")
        self.wait_for_file("first", first)
        old = self.owner()
        self.cluster.fail_over(self.cluster.replicas[self.cluster.masters.index(old)])
        self.assertIsNot(self.owner(), old)
        until(lambda: self.status()["holders"], "it is shown")
        self.end_command()
        self.assertEqual(self.end_of(first)[0], 5)
        self.assertIn("job: free", self.ask(1, "status", "job"))


class NoCluster(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.url = f"redis-cluster://127.0.0.1:{self.server.listen()}"

    def ask(self, code, *words):
        got, out, err = self.end_of(self.spawn(COMMAND, *words))
        self.assertEqual(got, code, f"{words}: {out}{err}")
        return out + err

    def test_a_plain_server(self):
        for words in (("status", "job"), ("watch", "job"), ("break", "job"),
                      ("run", "job", "--", "true")):
            command, *rest = words
            self.assertRegex(self.ask(77, command, "--redis", self.url, *rest),
                             "the server rejected the connection: .* cluster support disabled")

    def test_one_that_is_away_may_be_better_tomorrow(self):
        self.assertIn("no connection to the server",
                      self.ask(69, "status", "job", "--redis",
                               f"{self.url},127.0.0.1:{free_port()}"))

    def test_a_database(self):
        self.assertIn("database", self.ask(64, "status", "job", "--redis", f"{self.url}/x"))

    def test_one_node_of_a_cluster_behind_another_scheme(self):
        cluster = Clustered(replicas=0)
        self.addCleanup(cluster.stop)
        elsewhere = next(node for node in cluster.nodes
                         if node is not cluster.owner(cluster.slot("job")))
        said = self.ask(77, "run", "job", "--redis", f"redis://{elsewhere.address}", "--", "true")
        self.assertIn("redis-cluster:// or rediss-cluster:// (or with valkey in place of redis)", said)
        self.assertRegex(said, "cannot lock 'job': refused by the server: (MOVED|CROSSSLOT) ")


if __name__ == "__main__":
    unittest.main()
