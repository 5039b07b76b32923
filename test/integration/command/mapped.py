#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`lockwire --map` at sentinels and clusters that announce addresses which the test cannot reach:
192.0.2.1 (TEST-NET) or names below .invalid. Needs real servers, except for the sentinel that
announces an unreachable master, which a real sentinel could not watch.

In the usual case the command works through the map, fails over, and reports both addresses. Without
the map it fails.
"""
import contextlib
import json
import re
import subprocess
import unittest

from clustered import Clustered
from ports import free_port
from resp import RedisError
from sentinel import OldSentinel
from support import COMMAND, ToolTest, until
from watched import SERVICE, Sentinel, Watched

TEST_NET = "192.0.2.1"
QUICK = ("--wait", "1s")


class MapTest(ToolTest):
    def ask(self, code, *words):
        got, out, err = self.end_of(self.spawn(COMMAND, *words))
        self.assertEqual(got, code, f"{words}: {out}{err}")
        return out + err

    def holder(self, *words):
        """Starts a command that holds "job" until the file `stop` exists, and then ends with 5."""
        process = self.spawn(COMMAND, "run", "job", *words, "--", "sh", "-c",
                             "echo > held; while [ ! -e stop ]; do sleep 0.02; done; exit 5",
                             cwd=self.folder)
        self.wait_for_file("held", process)
        return process

    def release(self):
        with open(self.path("stop"), "w", encoding="ascii"):
            pass


class AnnouncingSentinel(OldSentinel):
    """Reports a master at this host and port, of this config-epoch."""

    def __init__(self, host, port):
        super().__init__(port, 1000)
        self.announce(host, port, 1)

    def announce(self, host, port, epoch):
        self.fields = ["ip", host, "port", port, "flags", "master", "config-epoch", epoch,
                       "role-reported", "master", "role-reported-time", 1000]


class UnreachableMaster(MapTest):
    def setUp(self):
        super().setUp()
        self.servers = [self.redis(), self.redis()]
        self.ports = [server.listen() for server in self.servers]
        self.sentinel = AnnouncingSentinel(TEST_NET, 6379)
        self.addCleanup(self.sentinel.end)
        self.environment["LOCKWIRE_URL"] = (
            f"valkey-sentinel://127.0.0.1:{self.sentinel.server_address[1]}/{SERVICE}")
        self.map = ("--map", f"{TEST_NET}:6379=127.0.0.1:{self.ports[0]}",
                    "--map", f"{TEST_NET}:6380=127.0.0.1:{self.ports[1]}")

    def test_both_addresses_are_shown(self):
        both = f"{TEST_NET}:6379 (mapped to 127.0.0.1:{self.ports[0]})"
        said = self.ask(0, "run", "job", *self.map, "--", COMMAND, "status", "job", "--wide",
                        *self.map)
        self.assertIn(f"job: 1 holder\nservice {SERVICE}, master {both} for ", said)
        code, out, err = self.end_of(self.spawn(COMMAND, "status", "job", "--json", *self.map))
        self.assertEqual(code, 1, err)
        seen = json.loads(out)
        self.assertEqual((seen["server"], seen["role"]), (both, "master"))
        self.assertEqual((seen["master"]["host"], seen["master"]["port"]), (TEST_NET, 6379))

    def test_every_subcommand(self):
        token = self.ask(0, "take", "job", *self.map).split()[0] # warnings follow on other lines
        token = self.ask(0, "take", "job", "--token", token, *self.map).split()[0]
        self.ask(75, "run", "job", "-n", *self.map, "--", "true")
        hold = self.spawn(COMMAND, "hold", "job", "-n", *self.map, stdin=subprocess.PIPE)
        self.assertEqual(self.end_of(hold)[0], 75)
        self.assertIn("job", self.ask(0, "list", *self.map))
        watch = self.spawn(COMMAND, "watch", "job", *self.map)
        self.assertIn("holds mutex", self.line_of(watch.stdout))
        self.ask(0, "release", "job", token, *self.map)
        self.ask(3, "lead", "job", *self.map, "--", "sh", "-c", "exit 3")
        self.ask(0, "take", "job", *self.map)
        self.ask(0, "break", "job", *self.map)

    def test_pairs_in_one_option_and_a_whole_host(self):
        self.ask(1, "status", "job", "--map",
                 f"{TEST_NET}=nowhere.invalid,{TEST_NET}:6379=127.0.0.1:{self.ports[0]}")
        self.sentinel.announce(TEST_NET, self.ports[0], 1)
        self.ask(1, "status", "job", "--map", f"{TEST_NET}=localhost")

    def test_the_hosts_in_the_url_are_not_mapped(self):
        self.ask(1, "status", "job", *self.map, "--map",
                 f"127.0.0.1:{self.sentinel.server_address[1]}={TEST_NET}:1")

    def test_a_switch(self):
        process = self.holder(*self.map, "--lease", "20s")
        self.servers[1]("REPLICAOF", "127.0.0.1", self.ports[0])
        until(lambda: self.servers[1]("EXISTS", "job") == 1, "the lock is replicated")
        self.servers[1]("REPLICAOF", "NO", "ONE")
        self.sentinel.announce(TEST_NET, 6380, 2)
        line = process.stderr.readline()
        while "the master is now" not in line:
            self.assertNotEqual(line, "")
            line = process.stderr.readline()
        self.assertIn(f"{TEST_NET}:6380 (mapped to 127.0.0.1:{self.ports[1]}), "
                      f"was {TEST_NET}:6379", line)
        self.release()
        self.assertEqual(self.end_of(process)[0], 5)
        self.assertEqual(self.servers[1]("EXISTS", "job"), 0)

    def test_a_server_that_is_away(self):
        self.servers[0].kill()
        said = self.ask(69, "run", "job", *QUICK, *self.map, "--", "true")
        self.assertRegex(said, rf"127\.0\.0\.1:{self.ports[0]}.*\(mapped from {TEST_NET}:6379\)")

    def test_who_announced_an_address_that_the_url_does_not_have(self):
        port, sentinel = free_port(), self.sentinel.server_address[1]
        self.sentinel.announce("127.0.0.1", port, 1)
        said = f"(announced by sentinel 127.0.0.1:{sentinel}; address_map or --map replaces it)"
        for words in (("run", "job", "-n", "--", "true"), ("status", "job"), ("list",)):
            self.assertIn(f"connecting to 127.0.0.1:{port}: Connection refused {said}",
                          self.ask(69, *words))
        self.assertNotIn("announced by", self.ask(69, "status", "job", "--redis",
                                                  f"redis://127.0.0.1:{port}"))

    def test_a_server_that_is_no_master(self):
        self.servers[0]("REPLICAOF", "127.0.0.1", self.ports[1])
        said = self.ask(69, "run", "job", *QUICK, *self.map, "--", "true")
        self.assertIn(f"{TEST_NET}:6379 (mapped to 127.0.0.1:{self.ports[0]}) is not the master", said)


class RealSentinels(MapTest):
    """The client has to use 127.0.0.2, although the sentinels watch, and announce, 127.0.0.1. A
    second sentinel, which the URL does not list, announces itself as 192.0.2.1."""

    def setUp(self):
        super().setUp()
        self.watched = Watched()
        self.addCleanup(self.watched.stop)
        for server in (self.watched.master, self.watched.replica):
            server("CONFIG", "SET", "bind", "127.0.0.1 127.0.0.2")
        self.second = Sentinel(self.watched.master_port, f"sentinel announce-ip {TEST_NET}")
        self.addCleanup(self.second.stop)
        self.environment["LOCKWIRE_URL"] = self.watched.url
        self.map = []
        for port in (self.watched.master_port, self.watched.replica_port):
            self.map += ("--map", f"127.0.0.1:{port}=127.0.0.2:{port}")
        self.map += ("--map", f"{TEST_NET}:{self.second.port}=127.0.0.1:{self.second.port}")

    def local_addresses(self, server):
        """Returns the server's addresses to which lockwire's clients are connected."""
        return {field.split("=")[1].split(":")[0]
                for line in server("CLIENT", "LIST").splitlines() if "name=lockwire" in line
                for field in line.split() if field.startswith("laddr=")}

    def test_a_failover(self):
        process = self.holder(*self.map)
        self.assertEqual(self.local_addresses(self.watched.master), {"127.0.0.2"})
        self.watched.fail_over()

        def arrived():
            try:
                return self.local_addresses(self.watched.replica) == {"127.0.0.2"}
            except OSError:
                return False  # a sentinel closes all connections of a server that it promotes

        until(arrived, "the client is at the new master")
        said = self.ask(0, "status", "job", "--wide", *self.map)
        port = self.watched.replica_port
        self.assertIn(f"master 127.0.0.1:{port} (mapped to 127.0.0.2:{port})", said)
        self.release()
        self.assertEqual(self.end_of(process)[0], 5)

    def test_a_sentinel_that_the_url_does_not_list(self):
        until(lambda: TEST_NET in str(self.watched.sentinels[0]("SENTINEL", "SENTINELS", SERVICE)),
              "the listed sentinel knows the other one")
        process = self.holder(*self.map)
        until(lambda: "name=lockwire" in self.second("CLIENT", "LIST"),
              "the client is connected to the other sentinel")
        self.release()
        self.assertEqual(self.end_of(process)[0], 5)


class AnotherInstallation(MapTest):
    """A map that leads to a master which the sentinels do not watch."""

    def setUp(self):
        super().setUp()
        self.other = self.redis()
        self.other_port = self.other.listen()
        self.watched = Watched()
        self.addCleanup(self.watched.stop)
        self.environment["LOCKWIRE_URL"] = self.watched.url

    def until_other_is_older(self):
        """Waits until the sentinel has sent the replica INFO some time after the start of the other
        server, which could else be the replica that has restarted."""
        sentinel = self.watched.sentinels[0]
        with contextlib.suppress(RedisError):  # before Redis 7.0 this takes up to 10 s
            sentinel("SENTINEL", "DEBUG", "INFO-PERIOD", 100)

        def is_older():
            age = int(sentinel.says("REPLICAS", "info-refresh")) / 1000
            uptime = re.search(r"^uptime_in_seconds:(\d+)", self.other("INFO", "server"), re.M)
            return int(uptime[1]) - age > 3

        until(is_older, "the sentinel has asked the replica since the other server started")
        with contextlib.suppress(RedisError):
            sentinel("SENTINEL", "DEBUG", "INFO-PERIOD", 10000)

    def map_to_other(self, port):
        return "--map", f"127.0.0.1:{port}=127.0.0.1:{self.other_port}"

    def test_no_lock_is_granted_there(self):
        port = self.watched.master_port
        self.ask(0, "run", "job", "--", "true")
        said = self.ask(69, "run", "job", *QUICK, *self.map_to_other(port), "--", "true")
        self.assertIn(f"127.0.0.1:{port} (mapped to 127.0.0.1:{self.other_port}) is not the process "
                      "that the sentinels know as the master", said)
        self.assertEqual(self.other("EXISTS", "job"), 0)

    def test_none_is_granted_there_after_a_failover(self):
        port = self.watched.replica_port
        self.watched.until_known()
        self.until_other_is_older()
        holder = self.holder(*self.map_to_other(port))
        waiter = self.spawn(COMMAND, "run", "job", *self.map_to_other(port), "--", "true")
        until(lambda: self.watched.master("EXISTS", "lockwire:2:queue:{job}"), "the waiter queues")
        self.watched.fail_over()
        for line in waiter.stderr:
            if f"127.0.0.1:{port} (mapped to 127.0.0.1:{self.other_port}) is not the process" in line:
                break
        else:
            self.fail("the waiter has ended")
        self.assertEqual(self.other("EXISTS", "job"), 0)
        waiter.terminate()
        self.end_of(waiter)
        self.release()
        self.end_of(holder)
        self.assertEqual(self.other("EXISTS", "job"), 0)


class Cluster(MapTest):
    """The nodes announce names that have no address."""

    def setUp(self):
        super().setUp()
        self.cluster = Clustered(replicas=3)
        self.addCleanup(self.cluster.stop)
        if not self.cluster.nodes[0]("CONFIG", "GET", "cluster-preferred-endpoint-type"):
            self.skipTest("nodes have names since Redis 7.0")
        self.map = []
        for number, node in enumerate(self.cluster.nodes):
            node("CONFIG", "SET", "cluster-announce-hostname", f"node-{number}.invalid")
            node("CONFIG", "SET", "cluster-preferred-endpoint-type", "hostname")
            self.map += ("--map", f"node-{number}.invalid:{node.port}=127.0.0.1:{node.port}")
        for node in self.cluster.nodes:
            until(lambda node=node: "?" not in str(node("CLUSTER", "SLOTS"))
                  and str(node("CLUSTER", "SLOTS")).count(".invalid") >= 6, "the names are known")
        self.environment["LOCKWIRE_URL"] = self.cluster.url
        self.slot = self.cluster.slot("job")

    def name_of(self, node):
        return f"node-{self.cluster.nodes.index(node)}.invalid:{node.port}"

    def test_the_hosts_in_the_url_are_not_mapped(self):
        seed, owner = self.cluster.nodes[0], self.cluster.owner(self.slot)
        self.ask(1, "status", "job", "--redis", f"redis-cluster://{seed.address}",
                 "--map", f"{seed.address}={TEST_NET}:1",
                 "--map", f"{self.name_of(owner)}=localhost:{owner.port}")

    def test_a_failover_and_a_slot_that_moves(self):
        self.assertRegex(self.ask(69, "run", "job", "--wait", "0", "--", "true"),
                         r"\(announced by node 127\.0\.0\.1:\d+; address_map or --map replaces it\)")
        process = self.holder(*self.map, "--lease", "6s")
        old = self.cluster.owner(self.slot)
        self.assertIn(f"redis {self.name_of(old)} (mapped to {old.address}), master",
                      self.ask(0, "status", "job", "--wide", *self.map))
        other = next(node for node in self.cluster.masters if node is not old)
        self.cluster.move(self.slot, other)  # the renewal is redirected there
        until(lambda: other("PTTL", "job") > 5000, "renewed there")
        self.cluster.fail_over(self.cluster.replicas[self.cluster.masters.index(other)])
        new = self.cluster.owner(self.slot)
        self.assertIsNot(new, other)
        until(lambda: new("PTTL", "job") > 5000, "renewed there")
        self.release()
        self.assertEqual(self.end_of(process)[0], 5)
        self.assertIn(f"redis {self.name_of(new)} (mapped to {new.address}), master",
                      self.ask(1, "status", "job", "--wide", *self.map))


class Refused(MapTest):
    def test_maps_that_are_none(self):
        for scheme in ("redis-sentinel://h/s", "valkey-cluster://h"):
            for words, told in ((("a",), 'address_map: pair 1 "a": the "=" is missing'),
                                (("",), 'address_map: pair 1 "": it is empty'),
                                (("a:1=b:1", "a:1=c:1"),
                                 'pair 2 "a:1=c:1": the left side is also that of pair 1'),
                                (("a:1=b:1,c=d", "d=a"), 'pair 2 "c=d": the right side is the left'),
                                (("a=a",), "the left side of this pair itself")):
                maps = [word for text in words for word in ("--map", text)]
                self.assertIn(told, self.ask(64, "status", "job", "--redis", scheme, *maps))

    def test_with_a_single_server(self):
        for words in (("run", "job", "--", "true"), ("take", "job"), ("release", "job", "token")):
            self.assertIn("--map needs a URL that begins with redis-sentinel://, rediss-sentinel://, "
                          "redis-cluster:// or rediss-cluster:// (or with valkey in place of redis)\n",
                          self.ask(64, words[0], "--map", "a=b", "--redis", "valkeys://h", *words[1:]))

    def test_too_many(self):
        self.assertIn("more than 256 times",
                      self.ask(64, "status", "job", *["--map", "a=b"] * 257))

    def test_max_hold_is_still_abbreviated(self):
        for option in ("--m", "--ma"):
            self.assertIn("--max-hold '1ms'", self.ask(64, "run", "job", option, "1ms", "--", "true"))


if __name__ == "__main__":
    unittest.main()
