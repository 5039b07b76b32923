#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`lockwire status` and the guard: it reads the record unasked, writes none, and never calls a lock
free while no client can be granted it. run says why it waits.

Usual course: a record as clients would have left it, then status, as text and as JSON.
"""
import json
import unittest

import guard_record
from ports import free_port
from support import COMMAND, ToolTest

RECORD = "lockwire:guard"
# Writes a record of ARGV[1] ms whose wait ends in ARGV[2] ms; with an ARGV[3] of another server.
WRITE = """
local info, time = redis.call('INFO'), redis.call('TIME')
local id = ARGV[3] or info:match('run_id:(%w+)') .. ':' .. info:match('master_replid2:(%w+)') .. ':'
    .. info:match('second_repl_offset:(-?%d+)')
redis.call('SET', 'lockwire:guard', id .. ' ' .. ARGV[1] .. ' '
           .. string.format('%.0f', time[1] * 1000000 + ARGV[2] * 1000), 'PX', 86400000)
"""
CLOSED = r"no lock can be granted for (1[0-9]|2[0-9])\.[0-9]s: the guard is closed"
WHY = r"closed for (1[0-9]|2[0-9])\.[0-9]s, after a restart, a failover or an exchange, or at its first use"
SHORT = ("--lease", "3s", "--grace", "1s")


def close(server, guard_ms, left_ms, *identity):
    server("EVAL", WRITE, 0, guard_ms, left_ms, *identity)


class StatusTest(ToolTest):
    def ask(self, code, *words):
        got, out, err = self.end_of(self.spawn(COMMAND, *words))
        self.assertEqual(got, code, f"{words}: {out}{err}")
        self.assertEqual("", err)
        return out

    def seen(self, code, *words):
        seen = json.loads(self.ask(code, "status", "job", "--json", *words))
        return seen.get("guard_ms", "absent"), seen.get("guard_left_ms", "absent")


class OneServer(StatusTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.environment["LOCKWIRE_URL"] = self.server.url

    def test_without_a_guard_nothing_is_said_of_it(self):
        self.assertNotIn("guard", self.ask(1, "status", "job"))
        self.assertEqual(("absent", "absent"), self.seen(1))

    def test_an_open_guard_is_named(self):
        guard_record.open_now(self.server, 20000)
        out = self.ask(1, "status", "job")
        self.assertIn("job: free\n", out)
        self.assertIn("\nguard     20.0s\n", out)
        self.assertEqual((20000, 0), self.seen(1))

    def test_a_closed_guard_is_no_free_lock(self):
        close(self.server, 20000, 20000)
        before = self.server("GET", RECORD)
        out = self.ask(69, "status", "job")
        self.assertRegex(out, rf"^job: {CLOSED}\n")
        self.assertRegex(out, rf"\nguard     20\.0s; {WHY}\n")
        guard_ms, left_ms = self.seen(69)
        self.assertEqual(20000, guard_ms)
        self.assertGreater(left_ms, 1)
        self.assertEqual(before, self.server("GET", RECORD))

    def test_a_record_of_another_server_begins_the_whole_time(self):
        close(self.server, 20000, -60000, "0123456789abcdef:0:-1")
        self.assertIn("job: no lock can be granted for ", self.ask(69, "status", "job"))

    def test_without_a_record_the_time_begins_with_the_first_client(self):
        out = self.ask(69, "status", "job", "--guard", "20s")
        self.assertIn("job: no lock can be granted for 20.0s: the guard is closed\n", out)
        self.assertEqual((20000, 20000), self.seen(69, "--guard", "20s"))
        self.assertIsNone(self.server("GET", RECORD))

    def test_a_held_lock_is_held(self):
        close(self.server, 20000, 20000)
        self.server("SET", "job", "3f2b8a52-96d5-4c1f-a2b0-0d3c5f7e9a11:1:10000-", "PX", 600000)
        out = self.ask(0, "status", "job")
        self.assertIn("job: 1 holder\n", out)
        self.assertRegex(out, rf"\nguard     20\.0s; {WHY}\n")

    def test_another_time_is_named(self):
        guard_record.open_now(self.server, 20000)
        said = "no lock can be granted: the guard time is 20.0s, not 15.0s"
        self.assertIn(f"job: {said}\n", self.ask(77, "status", "job", "--guard", "15s"))
        self.assertIn(f"job: {said}\n", self.ask(77, "status", "job", "--redis",
                                                 self.server.url + "?guard=15s"))
        self.assertEqual((20000, None), self.seen(77, "--guard", "15s"))
        self.assertIn("job: free\n", self.ask(1, "status", "job", "--guard", "none"))

    def test_a_longer_time_replaces_one_that_is_waited_for(self):
        close(self.server, 20000, 20000)
        self.assertEqual((20000, 600000), self.seen(69, "--guard", "10m"))
        self.assertEqual((20000, None), self.seen(77, "--guard", "15s"))

    def test_in_a_cluster_a_guard_is_refused(self):
        process = self.spawn(COMMAND, "status", "job", "--redis", "redis-cluster://h?guard=15s")
        code, _, err = self.end_of(process)
        self.assertEqual(64, code)
        self.assertIn("a guard is not supported in a cluster", err)


class Run(StatusTest):
    GUARD = ("--guard", "15s", *SHORT)
    WHY = r"^lockwire: job: waiting; no locks for [0-9]+s more: the server was "

    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.environment["LOCKWIRE_URL"] = self.server.url

    def test_run_says_why_it_waits(self):
        for words in (("run", "job", *self.GUARD, "--", "true"),
                      ("run", "job", "--wait", "60s", *self.GUARD, "--", "true"),
                      ("lead", "job", *self.GUARD, "--", "true"), ("take", "job", *self.GUARD[:4])):
            process = self.spawn(COMMAND, *words)
            self.assertRegex(self.line_of(process.stderr), self.WHY)
            self.reap(process)

    def test_another_time_is_reported_once(self):
        guard_record.open_now(self.server, 20000)
        for wait in ((), ("--wait", "0"), ("--wait", "60s")):
            code, _, err = self.end_of(self.spawn(COMMAND, "run", "job", *wait, *self.GUARD, "--",
                                                  "true"))
            self.assertEqual(77, code)
            self.assertEqual(1, err.count("\n"), err)
            for word in ("20000", "15000", RECORD):
                self.assertIn(word, err)


class Quorum(StatusTest):
    def setUp(self):
        super().setUp()
        self.servers, hosts = [self.redis() for _ in range(3)], []
        for server in self.servers:
            port = free_port()
            server("CONFIG", "SET", "port", str(port))
            hosts.append(f"127.0.0.1:{port}")
        self.environment["LOCKWIRE_URL"] = "redis-quorum://" + ",".join(hosts)

    def test_a_majority_that_is_closed_grants_nothing(self):
        guard_record.open_now(self.servers[0], 20000)
        close(self.servers[1], 20000, 20000)
        close(self.servers[2], 20000, 20000)
        out = self.ask(69, "status", "job")
        self.assertRegex(out, rf"^job: held at 0 of 3 servers; {CLOSED}\n")
        self.assertRegex(out, r"(?m) free$")
        guard_record.open_now(self.servers[1], 20000)
        out = self.ask(1, "status", "job")
        self.assertIn("job: held at 0 of 3 servers\n", out)
        self.assertRegex(out, rf"(?m) {CLOSED}$")

    def test_new_servers_grant_nothing_for_the_whole_time(self):
        self.assertIn("job: held at 0 of 3 servers; no lock can be granted for 45.0s: ",
                      self.ask(69, "status", "job"))

    def test_a_majority_with_another_time_refuses(self):
        guard_record.open_now(self.servers[0], 15000)
        guard_record.open_now(self.servers[1], 20000)
        guard_record.open_now(self.servers[2], 20000)
        self.assertIn("job: held at 0 of 3 servers; no lock can be granted: the guard time is 20.0s, "
                      "not 15.0s\n", self.ask(77, "status", "job", "--guard", "15s"))
        self.assertIn("job: held at 0 of 3 servers\n",
                      self.ask(1, "status", "job", "--guard", "20s"))


if __name__ == "__main__":
    unittest.main()
