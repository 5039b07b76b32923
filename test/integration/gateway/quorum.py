#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The gateway at redis-quorum://: a server dies while gifts are given, and comes back without
its data; no request fails, and each gift is given once. Also its health and its statistics
without a majority.

Usual course: requests at two gateways, one server is killed and started again.
"""
import re
import threading
import unittest

import gifts
from quorum_servers import quorum_restart, quorum_start
from support import ToolTest, until


class QuorumTest(gifts.GatewayTest):
    def setUp(self):
        ToolTest.setUp(self)
        quorum_start(self)
        self.server = self.servers[1]  # the server that stays up
        self.ledger = self.path("ledger")

    def start(self, *options, **more):
        self.server.url = self.url
        return super().start(*options, **more)

    def metric(self, port, name):
        found = re.search(rf"^lockwire_{name} ([0-9.]+)$", self.ask(port, "GET", "/metrics").text, re.M)
        self.assertTrue(found, name)
        return float(found[1])


class Gifts(QuorumTest):
    def test_one_server_dies_and_returns_while_gifts_are_given(self):
        ports = [self.start("--work", "5", name=name)[1] for name in ("a", "b")]
        users, answers = 150, []

        def client(number):
            """Requests the gift of each user at both gateways. Every second client waits."""
            wait = "?wait=60000" if number % 2 else ""
            for step in range(users):
                user = f"u{step}"
                answers.append((user, number % 2, self.ask(ports[(step + number // 2) % 2], "POST",
                                                           f"/gift/{user}{wait}")))

        threads = [threading.Thread(target=client, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: len(self.lines()) >= 30, "gifts are given")
        self.servers[0].kill()
        enough = min(len(self.lines()) + 30, users)
        until(lambda: len(self.lines()) >= enough, "gifts are given with two servers")
        quorum_restart(self.servers[0])
        for thread in threads:
            thread.join()
        given = [user for user, _, answer in answers
                 if answer.code == 200 and not answer.json()["already"]]
        self.assertEqual(sorted(given), sorted(f"u{n}" for n in range(users)))
        self.assertEqual(sorted(line[0] for line in self.lines()), sorted(given))
        for _, waited, answer in answers:
            self.assertIn(answer.code, (200,) if waited else (200, 409), answer.text)
        newest = {}
        for user, fence, *_ in self.lines(self.path("grants")):
            self.assertGreater(int(fence), newest.get(user, 0), "a fence must grow")
            newest[user] = int(fence)
        for port in ports:
            self.assertEqual(self.metric(port, "link_up"), 1)
            until(lambda port=port: self.metric(port, "reconnects_total") > 0,
                  "the server is used again")
        self.assertTrue(self.ask(ports[0], "POST", "/gift/last").json()["fence"] > 1 << 50)
        until(lambda: self.servers[0]("EXISTS", "lockwire:fence"), "it votes")


class Health(QuorumTest):
    SAMPLE = gifts.Metrics.SAMPLE

    def test_without_a_majority_every_server_is_listed(self):
        _, port = self.start()
        self.servers[0].kill()
        self.servers[2].kill()
        until(lambda: self.ask(port, "GET", "/healthz").code == 503, "the link is down")
        why = self.ask(port, "GET", "/healthz").json()["why"]
        for host in self.hosts:
            self.assertIn(host, why)
        answer = self.ask(port, "POST", "/gift/anna")
        self.assertEqual(answer.code, 503)
        self.assertGreaterEqual(int(answer.headers["Retry-After"]), 1)
        self.assertEqual(self.metric(port, "link_up"), 0)
        quorum_restart(self.servers[0])
        until(lambda: self.ask(port, "GET", "/healthz").code == 200, "the link is up again")
        self.assertEqual(self.ask(port, "POST", "/gift/anna").code, 200)

    def test_statistics(self):
        """Commands count at every server; locks count once."""
        _, port = self.start("--work", "60000")
        until(lambda: self.metric(port, "subscription_up") == 1, "messages arrive")
        commands = self.metric(port, "commands_total")
        first = self.send(port, "/gift/anna")
        until(lambda: self.metric(port, "held") == 1, "it is in work")
        self.send(port, "/gift/anna?wait=60000")
        until(lambda: self.metric(port, "waiting") == 1, "a copy waits")
        until(lambda: self.metric(port, "commands_total") >= commands + 3,
              "every server was asked")
        self.assertEqual(self.metric(port, "granted_total"), 1)
        self.assertEqual(self.metric(port, "guard_left_seconds"), 0)
        first.close()
        until(lambda: self.metric(port, "released_total") == 1, "the client has gone")
        gifts.Metrics.read(self, port)  # the whole text is well-formed

    def test_servers_that_have_just_started(self):
        for server in self.servers[:2]:
            server("DEL", "lockwire:guard")
        _, port = self.start()
        answer = self.ask(port, "POST", "/gift/anna")
        self.assertEqual(answer.code, 503)
        self.assertIn("the server was restarted or is new; no locks for ", answer.text)
        self.assertGreater(self.metric(port, "guard_left_seconds"), 10)
        self.assertGreaterEqual(self.metric(port, "guarded_total"), 2)


if __name__ == "__main__":
    unittest.main()
