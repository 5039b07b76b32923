#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`--prefix` and ?prefix= at real servers: an account for the prefix alone is enough, tenants do
not meet, and a prefix with a tag has all keys in one slot, so that an endpoint that refuses keys
of several slots serves locks.

Usual course: the server permits the default user nothing but the prefix, so that every key and
channel without it is an error; what `lockwire doctor` tries, waiters included, then works.
"""
import json
import os
import re
import unittest

from clustered import Clustered
from resp import Link
from support import COMMAND, LIMIT, ToolTest, until


# What is wrong with a cluster that has no channels of slots.
POLLS = re.compile("SPUBLISH is unknown|refused SSUBSCRIBE|got it by polling")


class PrefixTest(ToolTest):
    def run_command(self, code, *words):
        got, out, err = self.end_of(self.spawn(COMMAND, *words))
        self.assertEqual(got, code, f"{words}: {out}{err}")
        return out + err

    def assert_locks_work(self, *words, hands_over=True):
        """Mutex and read-write lock: acquired, handed over to a waiter, renewed and released."""
        report = json.loads(self.run_command(0, "doctor", "--json", *words))
        bad = [found for found in report["findings"] if found["level"] != "ok" and
               (hands_over or not POLLS.search(found["text"]))]
        self.assertEqual(bad, [])

    def hold(self, name, *options):
        mark = f"held{len(os.listdir(self.folder))}"
        process = self.spawn(COMMAND, "run", name, *options, "--", "sh", "-c",
                             f"echo $$ > {mark}; exec sleep 1000", cwd=self.folder)
        self.wait_for_file(mark)
        return process


class Tenants(PrefixTest):
    """A server at which the default user has nothing but the keys and channels of one prefix."""

    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.environment["LOCKWIRE_URL"] = self.server.url
        self.server("ACL", "SETUSER", "admin", "on", ">all", "~*", "&*", "+@all")
        self.server("ACL", "SETUSER", "default", "resetkeys", "~team:*", "resetchannels",
                    "&team:*")

    def ask(self, *words):
        with Link(self.server.socket, LIMIT) as link:
            link("AUTH", "admin", "all")
            return link(*words)

    def open_to_all(self):
        self.ask("ACL", "SETUSER", "default", "~*", "&*")

    def test_an_account_for_the_prefix_alone_is_enough(self):
        self.assert_locks_work("--prefix", "team:")
        self.assert_locks_work("--redis", self.server.url + "?prefix=team:")
        keys = self.ask("KEYS", "*")
        self.assertIn("team:lockwire:fence", keys)
        self.assertEqual([key for key in keys if not key.startswith("team:")], [])
        self.assertIn("ACL SETUSER default ~other:*",
                      self.run_command(77, "doctor", "--prefix", "other:"))

    def test_each_subcommand_has_the_prefix(self):
        with_prefix = ("--prefix", "team:")
        token = self.run_command(0, "take", "x", "--lease", "1h", "--note", "by hand",
                                 *with_prefix).strip()
        self.assertEqual(self.ask("GET", "team:x"), token)
        self.assertTrue(self.ask("GET", "team:lockwire:2:holder:{team:x}").startswith(token))
        state = json.loads(self.run_command(0, "status", "x", "--json", *with_prefix))
        self.assertEqual((state["name"], state["holders"][0]["note"]), ("x", "by hand"))
        listed = self.run_command(0, "list", "--json", *with_prefix).splitlines()
        self.assertEqual([json.loads(line)["name"] for line in listed], ["x"])
        self.assertEqual(self.run_command(0, "list", "y*", "--json", *with_prefix), "")
        self.run_command(75, "run", "x", "-n", *with_prefix, "--", "true")
        self.run_command(0, "release", "x", token, *with_prefix)
        self.assertEqual(self.ask("EXISTS", "team:x"), 0)
        holder = self.hold("x", *with_prefix)
        self.run_command(0, "yield", "x", *with_prefix)
        self.assertIn("asked to release 'x'", self.end_of(holder)[2])
        holder = self.hold("x", *with_prefix)
        self.run_command(0, "break", "x", *with_prefix)
        self.assertNotEqual(self.end_of(holder)[0], 0)  # it learns of that

    def test_a_waiter_is_handed_the_lock(self):
        """Its lease is long, so that it would poll only after many seconds."""
        holder = self.hold("x", "--lease", "1h", "--prefix", "team:")
        waiter = self.spawn(COMMAND, "run", "x", "--lease", "1h", "--prefix", "team:", "--", "true")
        until(lambda: self.ask("ZCARD", "team:lockwire:2:queue:{team:x}") == 1, "it is queued")
        holder.terminate()
        self.assertEqual(self.end_of(waiter)[0], 0)

    def test_tenants_do_not_meet(self):
        self.open_to_all()
        self.hold("x", "--prefix", "team:")
        self.run_command(0, "run", "x", "-n", "--prefix", "other:", "--", "true")
        self.run_command(0, "run", "x", "-n", "--", "true")
        self.assertEqual(self.run_command(0, "list", "--json", "--prefix", "other:"), "")

    def test_a_plain_client_is_excluded_but_has_another_queue_and_counter(self):
        self.open_to_all()
        self.hold("x", "--prefix", "team:")
        self.run_command(75, "run", "team:x", "-n", "--", "true")
        waiter = self.spawn(COMMAND, "run", "team:x", "--", "true")
        until(lambda: self.ask("ZCARD", "lockwire:2:queue:{team:x}") == 1, "it is queued")
        self.assertEqual(self.ask("EXISTS", "team:lockwire:2:queue:{team:x}"), 0)
        state = json.loads(self.run_command(0, "status", "x", "--json", "--prefix", "team:"))
        self.assertEqual((state["holder_total"], state["waiter_total"]), (1, 0))
        self.assertIsNone(waiter.poll())
        self.assertEqual(self.ask("EXISTS", "lockwire:fence", "team:lockwire:fence"), 2)

    def test_prefixes_that_are_refused(self):
        for wrong in ("", "a b", "team*", "{", "}team", "{}:", "lockwire:", "x" * 65):
            self.run_command(64, "status", "x", "--prefix", wrong)
        self.assertIn("differs from prefix=team: in the URL",
                      self.run_command(64, "status", "x", "--prefix", "other:", "--redis",
                                       self.server.url + "?prefix=team:"))
        self.run_command(64, "status", "x{y}", "--prefix", "{team}:")
        self.run_command(64, "status", "wire:fence", "--prefix", "lock")


class OneSlot(PrefixTest):
    """A prefix with a tag, in a cluster, whose nodes refuse keys of several slots."""

    def cluster(self, masters):
        cluster = Clustered(masters=masters, replicas=0)
        self.addCleanup(cluster.stop)
        return cluster

    def test_an_endpoint_that_refuses_keys_of_several_slots(self):
        """All slots are behind one address, and nothing of CLUSTER is permitted, as at managed
        servers. Without the tag the same URL does not work."""
        cluster = self.cluster(1)
        node, sharded = cluster.nodes[0], cluster.is_sharded
        node("ACL", "SETUSER", "default", "-cluster", "-asking", "-readonly",
             *(("-spublish", "-ssubscribe") if sharded else ()),
             "resetkeys", "~{team}:*", "~apart:*", "resetchannels", "&{team}:*",
             "&apart:*")
        url = f"redis://{node.address}"
        self.assert_locks_work("--redis", url + "?prefix={team}:")
        self.assertIn("CROSSSLOT", self.run_command(77, "doctor", "--redis", url + "?prefix=apart:"))

    def test_a_cluster_has_all_keys_at_one_node(self):
        cluster = self.cluster(3)
        owner = cluster.owner(cluster.slot("{team}:x"))
        self.assert_locks_work("--redis", cluster.url, "--prefix", "{team}:",
                               hands_over=cluster.is_sharded)
        self.assertEqual(owner("EXISTS", "{team}:lockwire:fence"), 1)
        for node in cluster.nodes:
            self.assertEqual([key for key in node("KEYS", "*")
                              if node is not owner or not key.startswith("{team}:")], [])

    def test_in_a_cluster_the_slot_follows_the_tag_of_the_name(self):
        cluster = self.cluster(3)
        self.assert_locks_work("--redis", cluster.url, "--prefix", "team:",
                               hands_over=cluster.is_sharded)
        token = self.run_command(0, "take", "x{y}", "--redis", cluster.url, "--prefix",
                                 "team:").splitlines()[0]
        owner = cluster.owner(cluster.slot("y"))
        self.assertEqual(owner("GET", "team:x{y}"), token)


if __name__ == "__main__":
    unittest.main()
