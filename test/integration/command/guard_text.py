#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The guard time as a text: `?guard=TIME` in URLs and `--guard TIME` agree, a command that acquires
nothing leaves the guard record alone, and an invalid command connects to no server.

Usual course: a command with the URL of empty servers, then a look at their keys.
"""
import unittest

import guard_record
from ports import free_port
from support import COMMAND, ToolTest

RECORD = "lockwire:guard"
SHORT = ("--lease", "3s", "--grace", "1s")
TOKEN = "3f2b8a52-96d5-4c1f-a2b0-0d3c5f7e9a11:1:10000-"


class GuardText(ToolTest):
    def ask(self, code, *words):
        got, out, err = self.end_of(self.spawn(COMMAND, *words))
        self.assertEqual(got, code, f"{words}: {out}{err}")
        return out + err


class OneServer(GuardText):
    def setUp(self):
        super().setUp()
        self.server = self.redis()

    def url(self, guard):
        return f"{self.server.url}?guard={guard}"

    def record(self):
        return self.server("GET", RECORD)

    def test_run_uses_the_time_of_the_url(self):
        guard_record.open_now(self.server, 20000)
        self.assertEqual("mine\n", self.ask(0, "run", "job", *SHORT, "--redis", self.url("20s"),
                                            "--", "echo", "mine"))
        self.assertIn("server's guard time is 20000 ms", self.ask(77, "run", "job", *SHORT, "--redis",
                                                self.url("15s"), "--", "true"))

    def test_the_option_and_the_url_may_have_the_same_time(self):
        guard_record.open_now(self.server, 20000)
        self.ask(0, "run", "job", *SHORT, "--redis", self.url("20s"), "--guard", "20000ms", "--",
                 "true")

    def test_two_times_are_refused_before_there_is_a_connection(self):
        for option, guard, shown in (("20s", "15s", ("20000ms", "15000ms")),
                                     ("none", "15s", ("none", "15000ms")),
                                     ("20s", "none", ("20000ms", "none"))):
            out = self.ask(64, "run", "job", *SHORT, "--redis", self.url(guard), "--guard", option,
                           "--", "true")
            self.assertIn(f"--guard {shown[0]} differs from guard={shown[1]} in the URL", out)
        self.assertEqual(0, self.server("DBSIZE"))

    def test_none_is_no_guard(self):
        for words in (("--redis", self.url("none")),
                      ("--redis", self.server.url, "--guard", "none"),
                      ("--redis", self.url("none"), "--guard", "none")):
            self.ask(0, "run", "job", "--wait", "0", *words, "--", "true")
            self.assertIsNone(self.record())

    def test_a_lease_must_fit_the_time_of_the_url(self):
        self.assertIn("--lease 30000ms is too long for guard=15000ms: use --lease 3000ms or less, "
                      "or guard=42000ms or more",
                      self.ask(64, "run", "job", "--redis", self.url("15s"), "--", "true"))
        self.assertIn("--redisson cannot be used with a guard",
                      self.ask(64, "run", "job", "--redisson", *SHORT, "--redis", self.url("15s"),
                               "--", "true"))

    def test_a_command_that_acquires_nothing_writes_no_record(self):
        url = self.url("15s")
        socket = f"{self.server.url}?guard=15s&db=0", f"{self.server.url}?db=0&guard=15s"
        for where in ((url,), (socket[0],), (socket[1],), (self.server.url, "--guard", "15s")):
            for code, *words in ((0, "list"), (1, "yield", "job"), (1, "break", "job"), (70, "release", "job", TOKEN)):
                self.ask(code, *words, "--redis", *where)
            self.ask(69, "status", "job", "--redis", *where)
            watch = self.spawn(COMMAND, "watch", "job", "--json", "--redis", *where)
            self.assertIn('"name":"job"', self.line_of(watch.stdout))
            self.assertIsNone(self.record())
            self.reap(watch)

    def test_the_database_of_a_socket_stays(self):
        self.server("EVAL", "redis.call('SELECT', 3) "
                            "redis.call('SET', KEYS[1], ARGV[1], 'PX', 600000)", 1, "job", TOKEN)
        for query in ("?db=3&guard=15s", "?guard=15s&db=3"):
            self.assertIn("job", self.ask(0, "list", "--redis", self.server.url + query))


class Quorum(GuardText):
    """At three empty servers, with which no client has ever used a guard."""

    def setUp(self):
        super().setUp()
        self.servers = [self.redis() for _ in range(3)]
        hosts = []
        for server in self.servers:
            port = free_port()
            server("CONFIG", "SET", "port", str(port))
            hosts.append(f"127.0.0.1:{port}")
        self.environment["LOCKWIRE_URL"] = "redis-quorum://" + ",".join(hosts)
        self.connections = [self.received(server) for server in self.servers]

    @staticmethod
    def received(server):
        lines = server("INFO", "stats").splitlines()
        return int(next(line for line in lines
                        if line.startswith("total_connections_received:")).split(":")[1])

    def test_an_invalid_command_connects_to_no_server(self):
        run = ("--", "true")
        for words in (("watch", "job"), ("release", "job", TOKEN), ("break", "lockwire:job"),
                      ("yield", "lockwire:job"),
                      ("take", "job"), ("run", "job", "--exclusive", *run),
                      ("run", "job", "--guard", "none", *run), ("run", "lockwire:job", *run),
                      ("run", "job", "--lease", "40s", *run), ("status", "lockwire:job")):
            self.ask(64, *words)
        after = [self.received(server) for server in self.servers]
        self.assertEqual(after, [before + 1 for before in self.connections]) # by received()
        self.assertEqual([0, 0, 0], [server("DBSIZE") for server in self.servers])

    def test_a_command_that_acquires_nothing_writes_no_record(self):
        for words in (("status", "job"), ("list",), ("yield", "job"), ("break", "job")):
            self.end_of(self.spawn(COMMAND, *words))
        self.assertEqual([None] * 3, [server("GET", RECORD) for server in self.servers])


if __name__ == "__main__":
    unittest.main()
