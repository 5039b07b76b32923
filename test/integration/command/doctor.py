#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`lockwire doctor` at real servers: what it finds, with which remedy and exit code, and that it
leaves nothing behind.

Usual course: a server is brought into a state; doctor's findings in JSON are compared.
"""
import json
import os
import re
import unittest

import guard_record
from clustered import Clustered
from ports import free_port
from quorum_servers import quorum_start
from status import Relay
from support import COMMAND, ToolTest, until
from watched import SERVICE, Watched

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../src")
# lockwire(7), ACCOUNTS, with all that is optional
RIGHTS = """-@all +auth +select +client|setname +client|id +info +eval +evalsha +set +get +mget +del
    +exists +type +incr +incrby +pexpire +pexpireat +pttl +time +publish +subscribe +pubsub|numsub
    +zadd +zcard +zrange +zrangebyscore +zrank +zrevrank +zrem +zscore +hset +hsetnx +hget +hgetall
    +hdel +hexists +hkeys +hlen +config|get +client|kill +command|info""".split()


class WrongClock(Relay):
    """The server seems to be in the next century."""

    @staticmethod
    def pump(source, target):
        try:
            while data := source.recv(1 << 20):
                target.sendall(data.replace(b"\nserver_time_usec:1", b"\nserver_time_usec:4"))
        except OSError:
            pass


class DoctorTest(ToolTest):
    def doctor(self, code, url, *words):
        """Returns the findings as a list of (level, text, remedy)."""
        got, out, err = self.end_of(self.spawn(COMMAND, "doctor", *words, "--json", "--redis", url))
        self.assertEqual((code, ""), (got, err), out)
        seen = json.loads(out)
        self.assertEqual(code, seen["exit_code"])
        return [(one["level"], (f"{one['server']}: " if one["server"] else "") + one["text"],
                 one["remedy"]) for one in seen["findings"]]

    def find(self, findings, level, pattern, remedy=None):
        """Checks that one finding has this level, text and remedy."""
        found = [one for one in findings if re.search(pattern, one[1])]
        self.assertEqual([level], [one[0] for one in found], (pattern, findings))
        if remedy is None:
            self.assertIsNone(found[0][2])
        else:
            self.assertRegex(found[0][2], remedy)

    def levels(self, findings):
        return {level for level, _, _ in findings}


class OneServer(DoctorTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()

    def test_a_server_in_order(self):
        findings = self.doctor(0, self.server.url)
        self.assertEqual({"ok"}, self.levels(findings))
        self.find(findings, "ok", r" is (Redis|Valkey) \d+\.\d+")
        self.find(findings, "ok", r"^the clock of .* is \d+ ms (behind|ahead of) this host's$")
        self.find(findings, "ok", r"^redis .*, master$")
        self.find(findings, "ok", "^the maxmemory-policy of .* is noeviction$")
        tried = "acquired, handed over to a waiter, renewed and released in"
        self.find(findings, "ok", rf"^mutex 'lockwire-doctor:\S+': {tried}")
        self.find(findings, "ok", rf"^read-write lock 'lockwire-doctor:\S+:rw': {tried}")

    def test_it_leaves_only_what_expires(self):
        self.doctor(0, self.server.url, "job")
        for key in self.server("KEYS", "*"):
            self.assertRegex(key, "^lockwire:")
            self.assertGreater(self.server("PTTL", key), 0, key)

    def test_the_names_of_two_trials_differ(self):
        """The suffix is random: hosts may have one process id, and one clock."""
        names = set()
        for _ in range(2):
            for _, text, _ in self.doctor(0, self.server.url, "job"):
                names.update(re.findall(r"^mutex '(job:[0-9a-f]{16})'", text))
        self.assertEqual(2, len(names))

    def test_the_output_for_people(self):
        self.server("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        code, out, err = self.end_of(self.spawn(COMMAND, "doctor", "--redis", self.server.url))
        self.assertEqual((0, ""), (code, err))
        self.assertIn(" is allkeys-lru; the server may evict held locks, only noeviction is safe\n"
                      "         -> CONFIG SET maxmemory-policy noeviction\n", out)
        self.assertTrue(out.endswith("\nLocks work here; problems: 1\n"), out)

    def test_no_server(self):
        findings = self.doctor(69, f"redis://127.0.0.1:{free_port()}")
        self.assertEqual(1, len(findings))
        self.find(findings, "fails", "^no connection: .*Connection refused$", "start the server")

    def test_a_replica(self):
        self.server("REPLICAOF", "127.0.0.1", free_port())
        self.find(self.doctor(69, self.server.url), "fails", "READONLY", "URL of the master")

    def test_out_of_memory(self):
        self.server("CONFIG", "SET", "maxmemory", 1)
        self.find(self.doctor(69, self.server.url), "fails", "^mutex '.*' cannot be acquired: the "
                  "server is out of memory: OOM", "raise maxmemory")

    def test_too_few_replicas(self):
        self.server("CONFIG", "SET", "min-replicas-to-write", 1)
        self.find(self.doctor(69, self.server.url), "fails", "^mutex .*NOREPLICAS", "start the replicas")

    def test_a_name_that_is_too_long(self):
        for length, expected in ((482, 0), (505, 64)):
            code, out, err = self.end_of(self.spawn(COMMAND, "doctor", "n" * length, "--redis",
                                                    self.server.url))
            self.assertEqual(expected, code, out + err)
        self.assertEqual(("", "lockwire: with the suffix of the trial's locks, the name is longer "
                              "than 512 bytes\n"), (out, err))

    def test_a_clock_that_is_wrong(self):
        relay = WrongClock(self.server.listen())
        self.addCleanup(relay.close)
        self.find(self.doctor(0, f"redis://127.0.0.1:{relay.port}"), "warning",
                  r"^the clock of \S+ is \d{12,} ms ahead of this host's; fencing tokens may become "
                  "smaller when a server whose clock is behind takes over$",
                  "synchronize the clocks")


class Account(DoctorTest):
    """The rights of an account, which lack one each time."""

    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.port = self.server.listen()
        self.url = f"redis://app:secret@127.0.0.1:{self.port}"
        if "redis_version:6" in self.server("INFO", "server"):
            self.skipTest("such a server has no rights for subcommands")

    def account(self, *rights):
        self.server("ACL", "SETUSER", "app", "reset", "on", ">secret", "~job:*", "~lockwire:*",
                    "resetchannels", "&lockwire:*", *RIGHTS, *rights)

    def test_all_that_is_documented(self):
        self.account()
        self.assertEqual({"ok"}, self.levels(self.doctor(0, self.url, "job:1")))

    def test_a_wrong_password(self):
        self.account(">other", "<secret")
        self.find(self.doctor(77, self.url, "job:1"), "fails",
                  "^the server rejects the connection: .*WRONGPASS", "correct the user")

    def test_a_name_that_is_not_permitted(self):
        self.account()
        self.find(self.doctor(77, self.url), "fails", "^mutex 'lockwire-doctor.* cannot be acquired",
                  "^ACL SETUSER app ~lockwire:\\* and a pattern")

    def test_each_right_that_is_missing_is_named(self):
        for right, code, level, text in (
                ("info", 0, "warning", "^INFO: NOPERM"),
                ("config|get", 0, "warning", "CONFIG GET is not permitted; a configuration that "
                                             "endangers locks is not reported"),
                ("command|info", 0, "warning", "COMMAND INFO is not permitted; locks without"),
                ("client|setname", 0, "warning", "^CLIENT SETNAME: NOPERM"),
                ("client|id", 0, "warning", "^CLIENT ID: NOPERM"),
                ("publish", 0, "warning", "PUBLISH is not permitted; released locks are not"),
                ("pubsub|numsub", 0, "warning", "PUBSUB NUMSUB is not permitted; waiters poll"),
                ("subscribe", 0, "warning", "refused SUBSCRIBE"),
                ("hset", 0, "warning", "^read-write lock '.*' cannot be acquired"),
                ("zadd", 77, "fails", "^mutex '.*' cannot be waited for"),
                ("pexpire", 77, "fails", "^mutex '.*' cannot be"),
                ("evalsha", 77, "fails", "^mutex '.*' cannot be"),
                ("set", 77, "fails", "^mutex '.*' cannot be acquired")):
            with self.subTest(right):
                self.account(f"-{right}")
                # Redis 7.0 does not report which command a script may not execute
                self.find(self.doctor(code, self.url, "job:1"), level, text,
                          f"^(ACL SETUSER app \\+{re.escape(right)}|ACL LOG, .*)$")

    def test_messages_arrive_and_prove_nothing(self):
        """Without INFO it is not known that both connections reach one server."""
        self.account("-info")
        self.find(self.doctor(0, self.url, "job:1"), "warning",
                  "^mutex '.*': a waiter got it by a request of its own, after")

    def test_a_channel_that_is_not_permitted(self):
        for commands in ((), ("+@all",)):
            with self.subTest(commands):
                self.account("resetchannels", *commands)
                findings = self.doctor(0, self.url, "job:1")
                for about in ("refused SUBSCRIBE", "^PUBLISH is not permitted"):
                    self.find(findings, "warning", about, "^ACL SETUSER app &lockwire:\\*$")
                self.find(findings, "warning", "^mutex '.*': a waiter got it by polling")


class Guard(DoctorTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()

    def test_it_is_never_begun(self):
        findings = self.doctor(69, self.server.url + "?guard=20s")
        self.find(findings, "fails", "^guard: 20.0s; closed for 20.0s", "the first client")
        self.find(findings, "ok", "^mutex ")
        self.assertIsNone(self.server("GET", "lockwire:guard"))

    def test_an_open_one(self):
        guard_record.open_now(self.server, 20000)
        before = self.server("GET", "lockwire:guard")
        findings = self.doctor(0, self.server.url + "?guard=20s")
        self.assertEqual({"ok"}, self.levels(findings))
        self.find(findings, "ok", "^guard: 20.0s, open$")
        self.assertEqual(before, self.server("GET", "lockwire:guard"))

    def test_another_time(self):
        guard_record.open_now(self.server, 20000)
        self.find(self.doctor(77, self.server.url + "?guard=45s"), "fails",
                  "^guard: the server's is 20.0s; no lock is granted to clients with another time",
                  "DEL lockwire:guard")
        self.find(self.doctor(77, self.server.url), "fails",
                  "^guard: clients of this server use one of 20.0s", "put guard=20000ms into the URL")
        self.assertEqual({"ok"}, self.levels(self.doctor(0, self.server.url + "?guard=none")))


class WithSentinels(DoctorTest):
    def setUp(self):
        super().setUp()
        self.watched = Watched(sentinels=3)
        self.addCleanup(self.watched.stop)

    def test_a_sentinel_that_is_down_and_no_min_replicas(self):
        dead = self.watched.sentinels[2]
        dead.process.kill()
        dead.process.wait()
        findings = self.doctor(0, self.watched.url)
        for sentinel in self.watched.sentinels[:2]:
            self.find(findings, "ok", f"^sentinel 127.0.0.1:{sentinel.port} reports 127.0.0.1:"
                                      f"{self.watched.master_port} as the master$")
        self.find(findings, "warning", f"^sentinel 127.0.0.1:{dead.port}: .*Connection refused",
                  "start")
        self.find(findings, "warning", "^min-replicas-to-write or min-replicas-max-lag is 0",
                  "min-replicas-to-write 1")

    def test_min_replicas(self):
        self.watched.master("CONFIG", "SET", "min-replicas-to-write", 1)
        self.find(self.doctor(0, self.watched.url), "ok",
                  "^min-replicas-to-write is 1 and min-replicas-max-lag is 10 on the master$")

    def test_a_sentinel_that_the_url_does_not_list(self):
        listed, other = self.watched.sentinels[:2]
        until(lambda: str(other.port) in str(listed("SENTINEL", "SENTINELS", SERVICE)), "they have met")
        url = f"redis-sentinel://127.0.0.1:{listed.port}/{SERVICE}"
        text = f"sentinel 127.0.0.1:{other.port}, not listed in the URL, reports 127.0.0.1:" \
               f"{self.watched.master_port} as the master"

        def found():  # on a machine that is slow the sentinel replies later than doctor waits
            seen = self.doctor(0, url)
            return seen if any(one[1] == text for one in seen) else None
        self.find(until(found, "it is found"), "warning", f"^{text}$", "^add it to the URL: ")

    def test_no_sentinel(self):
        url = f"redis-sentinel://127.0.0.1:{free_port()},127.0.0.1:{free_port()}/{SERVICE}"
        self.find(self.doctor(69, url), "fails", "^no connection: no sentinel reported a usable master",
                  "^start the server, or correct")

    def test_another_service(self):
        findings = self.doctor(77, self.watched.url.replace(SERVICE, "another"))
        self.find(findings, "fails", "^the server rejects the connection: no sentinel reported a usable master",
                  "compare the service's name")


class InCluster(DoctorTest):
    def setUp(self):
        super().setUp()
        self.cluster = Clustered(replicas=0)
        self.addCleanup(self.cluster.stop)

    def handed_over(self):
        """Returns the level of a lock that works: without channels its waiter got it by polling."""
        return "ok" if self.cluster.is_sharded else "warning"

    def test_each_master_is_tried(self):
        for master in self.cluster.masters[:2]:
            master("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
        findings = self.doctor(0, self.cluster.url)
        self.find(findings, "ok", "^the slot map of .* has 3 masters$")
        for master in self.cluster.masters:
            self.find(findings, "ok", f"^redis {master.address}, master$")
        self.assertEqual(3, len([one for one in findings if one[1].startswith("mutex ")]))
        for master in self.cluster.masters[:2]:
            self.find(findings, "warning", f"^the maxmemory-policy of {master.address} is volatile-ttl",
                      "noeviction")

    def test_a_master_that_is_down_in_a_cluster_that_serves_the_other_slots(self):
        for master in self.cluster.masters:
            master("CONFIG", "SET", "cluster-require-full-coverage", "no")
        dead = self.cluster.masters[2]
        self.cluster.kill(dead)
        until(lambda: all("fail" in next(view for view in node.view() if view[0] == dead.id)[1].split(",")
                          for node in self.cluster.running), "it is known to be down")
        findings = self.doctor(69, self.cluster.url)
        self.find(findings, "warning", "^locks cannot be inspected: ", ".")
        self.find(findings, "fails", "^mutex '.*' cannot be acquired: ", "^start ")
        for master in self.cluster.masters[:2]:
            self.find(findings, "ok", f"^redis {master.address}, master$")
        self.assertEqual(2, len([one for one in findings if one[0] == self.handed_over() and
                                 one[1].startswith("mutex ")]))

    def test_a_right_to_inspect_that_is_missing_is_a_warning(self):
        for master in self.cluster.masters:
            master("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-type")
        url = self.cluster.url.replace("://", "://app:secret@")
        findings = self.doctor(0, url)
        self.find(findings, "warning", "^locks cannot be inspected: ", ".")
        self.find(findings, self.handed_over(), "^mutex ")

    def test_a_master_that_is_down(self):
        self.cluster.kill(self.cluster.masters[2])
        until(lambda: all(node.says("cluster", "cluster_state") == "fail"
                          for node in self.cluster.running), "the cluster is down")
        findings = self.doctor(69, self.cluster.url)
        self.find(findings, "warning", "^locks cannot be inspected: CLUSTERDOWN",
                  "^start the nodes that are down; see CLUSTER INFO and CLUSTER NODES$")
        # the trial's name may belong to the node that is down
        self.find(findings, "fails", "^mutex '.*' cannot be acquired: ", "^start the ")


class Quorum(DoctorTest):
    def setUp(self):
        super().setUp()
        quorum_start(self)

    def test_each_server_has_its_lines(self):
        findings = self.doctor(0, self.url)
        self.assertEqual({"ok"}, self.levels(findings))
        for host in self.hosts:
            self.find(findings, "ok", f"^{host}: redis {host}, master$")
            self.find(findings, "ok", f"^{host}: guard: 45.0s, open$")
            self.find(findings, "ok", f"^{host}: mutex ")
        self.find(findings, "ok", "^mutex '.*' of the quorum: acquired, renewed and released")

    def test_an_option_that_is_invalid_is_reported_before_any_line(self):
        for words in (("--redis", self.url + "/?guard=none"),
                      ("--redis", self.url, "--guard", "none")):
            self.assertEqual((64, "", "lockwire: guard_ms LW_GUARD_NONE is not supported by a "
                                      "quorum\n"),
                             self.end_of(self.spawn(COMMAND, "doctor", *words)))

    def test_a_minority_that_is_down(self):
        self.servers[1].kill()
        findings = self.doctor(0, self.url)
        self.find(findings, "fails", f"^{self.hosts[1]}: no connection: ", "start the server")
        self.find(findings, "ok", "^mutex '.*' of the quorum")

    def test_a_majority_that_is_down(self):
        self.servers[0].kill()
        self.servers[1].kill()
        self.find(self.doctor(69, self.url), "fails", "^1 of 3 servers grant locks to a "
                  "client of this quorum now, which is no majority$")

    def test_no_guard_is_begun(self):
        for server in self.servers:
            server("DEL", "lockwire:guard")
        findings = self.doctor(69, self.url)
        for host in self.hosts:
            self.find(findings, "fails", f"^{host}: guard: 45.0s; closed for 45.0s", "first client")
            self.find(findings, "ok", f"^{host}: mutex ")
        self.find(findings, "fails", "^0 of 3 servers grant locks to a client of this quorum now, which "
                  "is no majority$")
        for server in self.servers:
            self.assertIsNone(server("GET", "lockwire:guard"))


class Remedies(unittest.TestCase):
    def test_the_words_of_each_are_in_a_text_of_the_library_or_of_a_server(self):
        """Words of the system are in none."""
        system = {"WRONGPASS", "NOAUTH", "Connection refused"}
        texts = ""
        for folder, _, names in os.walk(SOURCE):
            for name in names:
                if name.endswith((".c", ".h")) and name != "findings.c":
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        texts += re.sub(r'"\s*\n\s*"', "", file.read())
        with open(os.path.join(SOURCE, "tool", "findings.c"), encoding="utf-8") as file:
            table = file.read().split("remedies[] = {", 1)[1].split("};", 1)[0]
        words = re.findall(r'\{"([^"]+)",', table)
        self.assertGreater(len(words), 15)
        self.assertEqual([], [word for word in words if word not in texts and word not in system])


if __name__ == "__main__":
    unittest.main()
