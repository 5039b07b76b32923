#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The gateway at redis-sentinel://, with a real sentinel: the master dies while gifts are given,
and each gift is still given once; the answers to requests in between; and the statistics.

Usual course: requests at two gateways, the master is killed, and clients that were answered 503
try again.
"""
import threading
import time
import unittest

import gifts
from support import GATEWAY, LIMIT, ToolTest, until
from watched import SERVICE, Watched


class SentinelTest(gifts.GatewayTest):
    def setUp(self):
        ToolTest.setUp(self)
        self.server = self.watched = Watched()
        self.addCleanup(self.watched.stop)
        self.ledger = self.path("ledger")

    def metrics(self, port):
        return self.ask(port, "GET", "/metrics").text

    def follows(self, port, master_port):
        return (f'lockwire_master_info{{service="{SERVICE}",host="127.0.0.1",'
                f'port="{master_port}"}} 1\n' in self.metrics(port))


class Failover(SentinelTest):
    def test_the_master_dies_while_gifts_are_given(self):
        ports = [self.start("--work", "5", name=name)[1] for name in ("a", "b")]
        users, answers, failed, over = 400, [], [], threading.Event()

        def client(number):
            """Requests the gift of each user at both gateways, and retries if the answer allows
            it."""
            for step in range(users):
                if over.is_set() and step > 40:
                    return
                user = f"u{step}"
                wait = "?wait=30000" if number % 2 else ""
                end = time.monotonic() + LIMIT
                while True:
                    answer = self.ask(ports[(step + number) % 2], "POST", f"/gift/{user}{wait}")
                    answers.append((user, answer))
                    if answer.code == 200 or time.monotonic() > end:
                        break
                    self.assert_later(answer, failed)
                    time.sleep(0.02)

        threads = [threading.Thread(target=client, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: len(self.lines()) >= 10, "gifts are given")
        self.watched.kill_master()
        before = len(self.lines())
        until(lambda: len(self.lines()) > before + 10 or not threads[0].is_alive(),
              "gifts are given again")
        over.set()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        given = [user for user, answer in answers
                 if answer.code == 200 and not answer.json()["already"]]
        self.assertEqual(len(given), len(set(given)), "given twice")
        self.assertEqual(sorted(line[0] for line in self.lines()), sorted(given))
        self.assertEqual({user for user, _ in answers}, set(given), "all have it")
        newest = {}
        for user, fence, *_ in self.lines(self.path("grants")):
            self.assertGreater(int(fence), newest.get(user, 0), "a fence must grow")
            newest[user] = int(fence)
        for port in ports:
            self.assertIn("\nlockwire_failovers_total 1\n", self.metrics(port))
            self.assertTrue(self.follows(port, self.watched.replica_port))

    @staticmethod
    def assert_later(answer, failed):
        """Checks that the answer is 409 (a copy is in work) or 503 (no master), with
        Retry-After."""
        if answer.code not in (409, 503) or int(answer.headers["Retry-After"]) < 1:
            failed.append((answer.code, answer.text))

    def test_who_asks_once_is_sent_away_and_who_waits_waits(self):
        """No replica is promoted, since the master is not yet marked down."""
        _, port = self.start()
        self.watched.until_known()
        self.watched.master.kill()
        until(lambda: self.ask(port, "GET", "/healthz").code == 503, "the link is down")
        waits = self.send(port, "/gift/anna?wait=60000")
        answer = self.ask(port, "POST", "/gift/berta")
        self.assertEqual(answer.code, 503)
        self.assertGreaterEqual(int(answer.headers["Retry-After"]), 1)
        self.watched.call_down_soon()
        self.assertEqual(waits.getresponse().status, 200)
        self.assertEqual([line[0] for line in self.lines()], ["anna"])

    def test_who_works_meanwhile_gives(self):
        _, port = self.start("--work", "3000")
        works = self.send(port, "/gift/anna")
        until(lambda: self.watched.replica("EXISTS", "gift:anna"), "it is in work")
        self.watched.fail_over()
        until(lambda: self.follows(port, self.watched.replica_port), "it is followed")
        self.assertEqual(works.getresponse().status, 200)
        self.assertEqual([line[0] for line in self.lines()], ["anna"])
        until(lambda: not self.watched.replica("EXISTS", "gift:anna"), "it is released there")

    def test_a_lock_that_the_new_master_does_not_know_gives_nothing(self):
        """Simulates that the last write did not reach the new master."""
        _, port = self.start("--work", "60000")
        works = self.send(port, "/gift/anna")
        until(lambda: self.watched.replica("EXISTS", "gift:anna"), "it is in work")
        self.watched.until_known()
        self.watched.replica("CONFIG", "SET", "replica-read-only", "no")
        self.watched.replica("DEL", "gift:anna")
        self.watched.kill_master()
        self.assertEqual(works.getresponse().status, 503)
        self.assertEqual(self.lines(), [])


class Statistics(SentinelTest):
    SAMPLE = gifts.Metrics.SAMPLE

    def test_the_master_and_since_when(self):
        _, port = self.start()
        self.assertTrue(self.follows(port, self.watched.master_port))
        text = self.metrics(port)
        self.assertIn("\nlockwire_failovers_total 0\n", text)
        self.assertRegex(text, r"\nlockwire_master_seconds \d+\.\d{3}\n")
        gifts.Metrics.read(self, port)  # the whole text is well-formed


class Mapped(SentinelTest):
    """The servers are announced at 127.0.0.1, but the gateway has to use 127.0.0.2."""

    def assert_connected_to(self, server, address):
        clients = [line for line in server("CLIENT", "LIST").splitlines()
                   if "name=gateway" in line]
        self.assertTrue(clients and all(f" laddr={address}:" in line for line in clients), clients)

    def test_a_failover(self):
        pairs = []
        for server, port in ((self.watched.master, self.watched.master_port),
                             (self.watched.replica, self.watched.replica_port)):
            server("CONFIG", "SET", "bind", "127.0.0.1 127.0.0.2")
            pairs.append(f"127.0.0.1:{port}=127.0.0.2:{port}")
        _, port = self.start("--map", ",".join(pairs))
        self.assertEqual(self.ask(port, "POST", "/gift/anna").code, 200)
        self.assert_connected_to(self.watched.master, "127.0.0.2")
        self.watched.fail_over()
        until(lambda: self.follows(port, self.watched.replica_port), "it is followed")
        self.assertEqual(self.ask(port, "POST", "/gift/berta?wait=60000").code, 200)
        self.assert_connected_to(self.watched.replica, "127.0.0.2")

    def test_bad_ones(self):
        for words, said in (
                (("--map", ""), 'address_map: pair 1 "": it is empty'),
                (("--map", "a=b,a=c"), "the left side is also that of pair 1"),
                (("--map", "a=b", "--redis", "redis://h"), "address_map needs a URL that begins"),
                (("--redis", "redis-sentinel://h"), "the service is missing")):
            code, _, err = self.end_of(self.spawn(GATEWAY, "--ledger", self.ledger, "--redis",
                                                  self.watched.url, *words))
            self.assertEqual(code, 1, err)
            self.assertIn(said, err)


if __name__ == "__main__":
    unittest.main()
