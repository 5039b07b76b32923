#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The gateway: each user's gift is given exactly once, in any order of requests; and its
answers, its health and its statistics.

Usual course: the first request works and is answered 200; a copy in between gets 409, or with
?wait its turn and then "already".
"""
import http.client
import json
import os
import re
import resource
import signal
import socket
import threading
import time
import unittest

from support import GATEWAY, LIMIT, ToolTest, until


class Answer:
    def __init__(self, response):
        self.code = response.status
        self.headers = response.headers
        self.text = response.read().decode()

    def json(self):
        return json.loads(self.text)


class GatewayTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.ledger = self.path("ledger")

    def start(self, *options, name="port", grants=True):
        """Starts a gateway. Returns the process and its port."""
        if grants:
            options += ("--grants", self.path("grants"))
        process = self.spawn(
            GATEWAY, "--ledger", self.ledger, "--listen", "127.0.0.1:0", "--port-file",
            self.path(name), "--redis", self.server.url, *options)
        port = int(self.wait_for_file(name))
        until(lambda: self.ask(port, "GET", "/healthz").code == 200, "the link is up")
        return process, port

    @staticmethod
    def connect(port):
        return http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)

    def ask(self, port, method, path):
        link = self.connect(port)
        try:
            link.request(method, path)
            return Answer(link.getresponse())
        finally:
            link.close()

    def send(self, port, path):
        """Sends a POST, and leaves its answer unread."""
        link = self.connect(port)
        self.addCleanup(link.close)
        link.request("POST", path)
        return link

    def lines(self, path=None):
        try:
            with open(path or self.ledger, encoding="ascii") as file:
                return [line.split() for line in file]
        except FileNotFoundError:
            return []

    def until_held(self, user):
        until(lambda: self.server("EXISTS", f"gift:{user}"), f"the lock of {user} is held")

    def until_queued(self, user, count=1):
        queue = f"lockwire:2:queue:{{gift:{user}}}"
        until(lambda: self.server("ZCARD", queue) == count, f"{count} wait for {user}")


class Guarded(GatewayTest):
    def test_a_request_that_meets_a_closed_guard_gets_the_reason(self):
        _, port = self.start("--guard", "15000", "--lease", "3000")
        for path in ("/gift/anna", "/gift/anna?wait=500"):
            answer = self.ask(port, "POST", path)
            self.assertEqual(answer.code, 503)
            self.assertRegex(answer.text, "the server was restarted or is new; no locks for [0-9]+ s more")
        self.assertEqual(self.ask(port, "POST", "/gift/anna?wait=60000").code, 200)


class Gifts(GatewayTest):
    def test_the_first_request_gives(self):
        _, port = self.start()
        answer = self.ask(port, "POST", "/gift/anna")
        self.assertEqual(answer.code, 200)
        self.assertIs(answer.json()["already"], False)
        [(user, fence, _, _)] = self.lines()
        self.assertEqual((user, int(fence)), ("anna", answer.json()["fence"]))

    def test_a_later_one_finds_it_given_at_the_other_gateway_too(self):
        _, port = self.start()
        _, other = self.start(name="other")
        given = self.ask(port, "POST", "/gift/anna").json()
        for each in (port, other, port):
            answer = self.ask(each, "POST", "/gift/anna?wait=60000") # an answer precedes the release
            self.assertEqual(answer.code, 200)
            self.assertEqual(answer.json(), dict(given, already=True))
        self.assertEqual(len(self.lines()), 1)

    def test_a_copy_meanwhile_is_refused_by_both_gateways(self):
        _, port = self.start("--work", "60000", "--lease", "30000")
        _, other = self.start(name="other")
        self.send(port, "/gift/anna")
        self.until_held("anna")
        for each in (port, other):
            answer = self.ask(each, "POST", "/gift/anna")
            self.assertEqual(answer.code, 409)
            self.assertIn(int(answer.headers["Retry-After"]), range(1, 31))

    def test_a_copy_may_wait_for_its_turn_at_both_gateways(self):
        _, port = self.start("--work", "1000")
        _, other = self.start(name="other")
        first = self.send(port, "/gift/anna")
        self.until_held("anna")
        copies = [self.send(each, "/gift/anna?wait=60000") for each in (port, other, other)]
        self.assertIs(json.loads(first.getresponse().read())["already"], False)
        for copy in copies:
            response = copy.getresponse()
            self.assertEqual(response.status, 200)
            self.assertGreaterEqual(int(response.headers["X-Waited-Ms"]), 0)
            self.assertIs(json.loads(response.read())["already"], True)
        self.assertEqual(len(self.lines()), 1)

    def test_a_wait_that_ends_is_refused(self):
        _, port = self.start("--work", "60000")
        self.send(port, "/gift/anna")
        self.until_held("anna")
        begin = time.monotonic()
        answer = self.ask(port, "POST", "/gift/anna?wait=200")
        self.assertEqual(answer.code, 409)
        self.assertGreaterEqual(int(answer.headers["Retry-After"]), 1)
        self.assertGreaterEqual(time.monotonic() - begin, 0.2)

    def test_exactly_once_over_two_gateways(self):
        ports = [self.start("--work", "5", name=name)[1] for name in ("a", "b")]
        users, copies, answers = 30, 8, []

        def client(number):
            links = [self.connect(port) for port in ports]
            for step in range(users):
                user, link = f"u{(step + number) % users}", links[(step + number // 2) % 2]
                wait = "?wait=60000" if number % 2 else ""
                link.request("POST", f"/gift/{user}{wait}")
                answers.append((user, number % 2, Answer(link.getresponse())))
            for link in links:
                link.close()

        threads = [threading.Thread(target=client, args=(n,)) for n in range(copies)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(answers), users * copies)
        given = [user for user, _, answer in answers
                 if answer.code == 200 and not answer.json()["already"]]
        self.assertEqual(sorted(given), sorted({f"u{n}" for n in range(users)}))
        self.assertEqual(sorted(line[0] for line in self.lines()), sorted(given))
        for _, waited, answer in answers:
            self.assertIn(answer.code, (200,) if waited else (200, 409))
        newest = {}
        for user, fence, *_ in self.lines(self.path("grants")):
            self.assertGreater(int(fence), newest.get(user, 0), "a fence must grow")
            newest[user] = int(fence)
        self.assertEqual(len(newest), users)

    def test_bad_requests(self):
        _, port = self.start()
        for method, path, code in (("POST", "/gift/", 400), ("POST", "/gift/a%20b", 400),
                                   ("POST", "/gift/" + "x" * 65, 400),
                                   ("POST", "/gift/a/b", 400),
                                   ("POST", "/gift/a?wait=soon", 400),
                                   ("POST", "/gift/a?wait=-1", 400),
                                   ("POST", "/gift/a?wait=600001", 400),
                                   ("GET", "/gift/a", 405), ("POST", "/metrics", 405),
                                   ("GET", "/", 404)):
            answer = self.ask(port, method, path)
            self.assertEqual(answer.code, code, path)
            self.assertTrue(answer.json()["error"])
        self.assertEqual(self.lines(), [])
        self.assertEqual(self.lines(self.path("grants")), [])


class Accidents(GatewayTest):
    def test_a_client_that_goes_while_its_gift_is_in_work(self):
        _, port = self.start("--work", "60000")
        _, other = self.start(name="other")
        gone = self.send(port, "/gift/anna")
        self.until_held("anna")
        gone.close()
        until(lambda: not self.server("EXISTS", "gift:anna"), "the lock is released")
        answer = self.ask(other, "POST", "/gift/anna")
        self.assertEqual((answer.code, answer.json()["already"]), (200, False))
        self.assertEqual(self.ask(port, "GET", "/healthz").code, 200)

    def test_clients_that_go_while_they_wait(self):
        _, port = self.start("--work", "60000")
        _, other = self.start(name="other")
        first = self.send(port, "/gift/anna")
        self.until_held("anna")
        waiters = [self.send(other, "/gift/anna?wait=60000") for _ in range(5)]
        self.until_queued("anna")
        for waiter in waiters:
            waiter.close()
        until(lambda: not self.server("EXISTS", "lockwire:2:queue:{gift:anna}"),
              "the queue is left")
        first.close()
        until(lambda: not self.server("EXISTS", "gift:anna"), "the lock is released")
        self.assertEqual(self.lines(), [])
        self.assertEqual(self.ask(other, "GET", "/healthz").code, 200)

    def test_clients_that_come_and_go(self):
        """A leak, or an answer to a freed connection, would end a sanitized gateway."""
        process, port = self.start("--work", "5")
        for i in range(300):
            link = self.send(port, f"/gift/u{i // 6}?wait=60000")
            if i % 3:
                link.close()
            else:
                self.assertEqual(link.getresponse().status, 200)
        until(lambda: not self.server("KEYS", "gift:*"), "all is released")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(process)[0], 0)

    def test_requests_sent_ahead_on_one_connection(self):
        _, port = self.start("--work", "50")
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as link:
            request = b"POST /gift/%s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
            link.sendall(request % b"a" + request % b"b" + request % b"a")
            got = b""
            while got.count(b"HTTP/1.1 200") < 3:
                more = link.recv(4096)
                self.assertTrue(more, got)
                got += more
        self.assertEqual(sorted(line[0] for line in self.lines()), ["a", "b"])

    def test_the_lock_lost_during_the_work(self):
        _, port = self.start("--work", "60000", "--lease", "600")
        first = self.send(port, "/gift/anna")
        self.until_held("anna")
        self.server("SET", "gift:anna", "somebody else")
        response = first.getresponse()
        self.assertEqual(response.status, 503)
        self.assertEqual(self.lines(), [])
        self.assertEqual(self.server("GET", "gift:anna"), "somebody else")

    def test_health_and_gifts_without_a_server_and_with_one_again(self):
        _, port = self.start()
        self.server.kill()
        until(lambda: self.ask(port, "GET", "/healthz").code == 503, "the link is down")
        health = self.ask(port, "GET", "/healthz").json()
        self.assertEqual(health["link"], "down")
        self.assertTrue(health["why"])
        answer = self.ask(port, "POST", "/gift/anna")
        self.assertEqual(answer.code, 503)
        self.assertGreaterEqual(int(answer.headers["Retry-After"]), 1)
        self.server.start()
        until(lambda: self.ask(port, "GET", "/healthz").code == 200, "the link is up again")
        self.assertEqual(self.ask(port, "POST", "/gift/anna").code, 200)

    def test_sigterm_finishes_what_is_in_work_and_sends_away_what_waits(self):
        process, port = self.start("--work", "500")
        _, other = self.start("--work", "60000", name="other")
        self.send(other, "/gift/berta")
        self.until_held("berta")
        waits = self.send(port, "/gift/berta?wait=60000")
        self.until_queued("berta")
        works = self.send(port, "/gift/anna")
        # asks the gateway, not Redis, which grants the lock before the gateway knows
        until(lambda: "\nlockwire_held 1\n" in self.ask(port, "GET", "/metrics").text,
              "the lock of anna is held")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(waits.getresponse().status, 503)
        self.assertEqual(works.getresponse().status, 200)
        self.assertEqual(self.end_of(process)[0], 0)
        self.assertEqual([line[0] for line in self.lines()], ["anna"])
        self.assertEqual(self.server("EXISTS", "gift:anna",
                                     "lockwire:2:queue:{gift:berta}"), 0)

    def test_sigterm_while_idle(self):
        process, _ = self.start()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(process)[0], 0)

    def test_bad_options(self):
        for words, said in (((), "usage"), (("--ledger", "x", "--work", "5ms"), "--work"),
                            (("--ledger", "x", "--listen", "nowhere"), "--listen"),
                            (("--ledger", "x", "--listen", "127.0.0.1:65536"), "--listen"),
                            (("--ledger", "x", "--what"), "usage"),
                            (("--ledger", "x"), "use --redis URL, or set LOCKWIRE_URL")):
            code, _, err = self.end_of(self.spawn(GATEWAY, *words, cwd=self.folder))
            self.assertEqual(code, 64, words)
            self.assertIn(said, err)
        code, _, err = self.end_of(self.spawn(GATEWAY, "--ledger", "/nonexistent/x",
                                              "--redis", self.server.url))
        self.assertEqual(code, 1)
        self.assertIn("/nonexistent/x", err)


class Ledgers(GatewayTest):
    """A torn line is no gift, and damages no other line."""

    def gift(self, port, user, already):
        answer = self.ask(port, "POST", f"/gift/{user}")
        self.assertEqual(answer.code, 200, answer.text)
        self.assertIs(answer.json()["already"], already, user)

    def whole_lines(self):
        """Returns the users of the whole lines, sorted."""
        with open(self.ledger, encoding="ascii") as file:
            return sorted(line.split()[0] for line in file
                          if re.fullmatch(r"\S+ \d+ \d+ \d+\.\d{3}\n", line))

    def messages(self, process):
        process.send_signal(signal.SIGTERM)
        return self.end_of(process)[2]

    def test_a_line_that_does_not_fit(self):
        process, port = self.start(grants=False)
        _, other = self.start(grants=False, name="other")
        self.gift(port, "anna", False)
        length = os.path.getsize(self.ledger)
        # The file is full after one byte of the next line, inside it, or one byte before its
        # end.
        for number, room in enumerate((1, 20, length)):
            fails, follows = f"bert{number}", f"carl{number}"
            fits = os.path.getsize(self.ledger) + room
            kept = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (fits, kept[1]))
            answer = self.ask(port, "POST", f"/gift/{fails}")
            self.assertEqual(answer.code, 503)
            self.assertEqual(answer.json()["error"], "File too large")
            self.assertEqual(os.path.getsize(self.ledger), fits)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, kept)
            self.gift(other, follows, False)
            self.gift(port, fails, False)
            for each in (port, other):
                self.gift(each, fails, True)
                self.gift(each, follows, True)
        self.assertEqual(self.whole_lines(), ["anna", "bert0", "bert1", "bert2", "carl0",
                                              "carl1", "carl2"])
        self.assertIn("the ledger: File too large", self.messages(process))

    def test_a_torn_last_line_at_the_start(self):
        for number, torn in enumerate(("b", "berta 7 12", "berta 7 12 1795000000.123")):
            with open(self.ledger, "w", encoding="ascii") as file:
                file.write("anna 6 12 1795000000.122\n" + torn)
            process, port = self.start(grants=False, name=f"port{number}")
            for user in ("berta", "carl"):
                self.gift(port, user, False)
            for user in ("anna", "berta", "carl"):
                self.gift(port, user, True)
            self.assertEqual(self.whole_lines(), ["anna", "berta", "carl"])
            self.assertIn("its last line was torn", self.messages(process))

    def test_a_line_of_a_torn_one_and_a_question_mark_alone(self):
        """The ledger is as a writer leaves it that was stopped while it ended a torn line."""
        with open(self.ledger, "w", encoding="ascii") as file:
            file.write("anna 6 12 1795000000.122?")
        _, port = self.start(grants=False)
        self.gift(port, "anna", False)
        self.assertEqual(self.whole_lines(), ["anna"])


class Bounds(GatewayTest):
    """Limits on what unknown clients can make the gateway keep."""

    def dial(self, port):
        link = socket.create_connection(("127.0.0.1", port), timeout=LIMIT)
        self.addCleanup(link.close)
        return link

    def answer_to(self, port, request):
        link = self.dial(port)
        link.sendall(request)
        return link.recv(4096)

    def test_a_body_that_is_too_long(self):
        _, port = self.start()
        request = b"POST /gift/%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
        fits, exceeds = b"x" * 1024, b"x" * 1025
        self.assertIn(b" 200 ", self.answer_to(port, request % (b"a", 1024, fits)))
        self.assertIn(b" 413 ", self.answer_to(port, request % (b"b", 1025, exceeds)))
        self.assertIn(b" 413 ", self.answer_to(
            port, b"POST /gift/c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"401\r\n" + exceeds + b"\r\n0\r\n\r\n"))
        self.assertEqual([line[0] for line in self.lines()], ["a"])
        self.assertEqual(self.ask(port, "GET", "/healthz").code, 200)

    def test_headers_that_are_too_long(self):
        _, port = self.start()
        request = b"POST /gift/%s HTTP/1.1\r\nContent-Length: 0\r\nX: %s\r\n\r\n"
        self.assertIn(b" 200 ", self.answer_to(port, request % (b"a", b"x" * 4096)))
        self.assertIn(b" 400 ", self.answer_to(port, request % (b"b", b"x" * 9000)))
        self.assertEqual([line[0] for line in self.lines()], ["a"])

    def test_an_idle_connection_ends_and_a_busy_one_does_not(self):
        _, port = self.start("--idle", "200", "--work", "1000")
        silent, slow = self.dial(port), self.dial(port)
        slow.sendall(b"POST /gift/anna HTTP/1.1\r\nHost:")
        for link in (silent, slow):
            self.assertEqual(link.recv(4096), b"")
        # the work takes five times as long; on a slow machine a connection may be idle before
        # its request
        self.assertTrue(any(self.is_served_to_its_end(port, user) for user in b"abcdefgh"))

    def is_served_to_its_end(self, port, user):
        """Returns true if the request is answered in full. The connection is idle after that,
        and the gateway ends it."""
        busy = self.dial(port)
        try:
            busy.sendall(b"POST /gift/%c HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" % user)
            with busy.makefile("rb") as answer:
                return b" 200 " in answer.readline() and answer.read() != b""
        except (BrokenPipeError, ConnectionResetError):
            return False


class Metrics(GatewayTest):
    SAMPLE = re.compile(r'^([a-z_]+)(?:\{([a-z]+)="([^"]+)"((?:,[a-z]+="[^"]+")*)\})? ([0-9.]+)$')

    def read(self, port):
        """Returns all samples. Every line must be a sample, or a comment on one that follows."""
        answer = self.ask(port, "GET", "/metrics")
        self.assertEqual(answer.code, 200)
        self.assertTrue(answer.headers["Content-Type"].startswith("text/plain"))
        self.assertTrue(answer.text.endswith("\n"))
        samples, types = {}, {}
        for line in answer.text.splitlines():
            if line.startswith("# TYPE "):
                types[line.split()[2]] = line.split()[3]
            elif not line.startswith("# HELP "):
                match = self.SAMPLE.match(line)
                self.assertTrue(match, line)
                name, _, value, _, number = match.groups()
                family = re.sub("_(bucket|sum|count)$", "", name)
                self.assertIn(types.get(name, types.get(family)),
                              ("counter", "gauge", "histogram"), line)
                self.assertNotIn((name, value), samples)
                samples[name, value] = float(number)
        return samples

    def check(self, port, *expected):
        samples = self.read(port)
        for name, value, number in expected:
            self.assertEqual(samples[name, value], number, (name, value))

    def test_they_tell_what_is_going_on(self):
        _, port = self.start("--work", "60000")
        first = self.send(port, "/gift/anna")
        self.until_held("anna")
        self.assertEqual(self.ask(port, "POST", "/gift/anna").code, 409)
        self.check(port, ("lockwire_held", None, 1), ("lockwire_busy_total", None, 1),
                   ("gateway_requests_total", "busy", 1), ("lockwire_link_up", None, 1))
        first.close()
        until(lambda: self.read(port)["lockwire_held", None] == 0, "the lock is released")
        self.check(port, ("lockwire_granted_total", None, 1),
                   ("lockwire_released_total", None, 1),
                   ("gateway_requests_total", "gone", 1))

    def test_they_tell_what_was_done(self):
        _, port = self.start()
        for path in ("/gift/anna", "/gift/anna?wait=60000", "/gift/%"):
            self.ask(port, "POST", path)
        self.check(port, ("lockwire_granted_total", None, 2), ("lockwire_busy_total", None, 0),
                   ("lockwire_lost_total", "deadline", 0),
                   ("lockwire_wait_seconds_count", None, 2),
                   ("gateway_requests_total", "given", 1),
                   ("gateway_requests_total", "already", 1),
                   ("gateway_requests_total", "rejected", 1))
        self.assertGreater(self.read(port)["lockwire_commands_total", None], 2)
        self.assertNotIn("lockwire_master", self.ask(port, "GET", "/metrics").text)

    def test_the_histogram_is_one(self):
        _, port = self.start("--work", "20")
        links = [self.send(port, "/gift/anna?wait=60000") for _ in range(6)]
        for link in links:
            self.assertEqual(link.getresponse().status, 200)
        samples = self.read(port)
        buckets = [(float(value), number) for (name, value), number in samples.items()
                   if name == "lockwire_wait_seconds_bucket"]
        self.assertEqual(buckets, sorted(buckets))
        self.assertEqual([n for _, n in buckets], sorted(n for _, n in buckets))
        self.assertEqual(buckets[-1], (float("inf"), 6))
        self.assertGreater(samples["lockwire_wait_seconds_sum", None], 0.01)


if __name__ == "__main__":
    unittest.main()
