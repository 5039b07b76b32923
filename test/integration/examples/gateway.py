#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""src/examples/gateway.c: of two requests with one key exactly one is worked on.

Happy path: the first request holds the lock, its copy gets 409 and a Retry-After; the first
is answered, and a later copy learns that it was paid before.
"""
import http.client
import os
import signal
import unittest

from ports import free_port
from scene import ExampleTest
from support import LIMIT, until


class Gateway(ExampleTest):
    source = "gateway.c"

    def arguments(self, port=1):
        return str(port), self.folder

    def serve(self):
        """Its process and port. Somebody may take the port in between: then another one."""
        for _ in range(10):
            port = free_port()
            process = self.start(*self.arguments(port))
            until(lambda: process.poll() is not None or self.answers(port), "it listens")
            if process.poll() is None:
                return process, port
        self.fail(process.stderr.read())

    @staticmethod
    def send(port, key):
        """A request whose answer nobody has read yet."""
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
        link.request("POST", "/", headers={"Idempotency-Key": key} if key else {})
        return link

    @staticmethod
    def answer(link):
        response = link.getresponse()
        response.read()
        link.close()
        return response.status, response.reason, response.headers["Retry-After"]

    def ask(self, port, key):
        return self.answer(self.send(port, key))

    def answers(self, port):
        try:
            return self.ask(port, None)[0] == 400
        except OSError:
            return False

    def finish(self, process):
        process.send_signal(signal.SIGTERM)
        code, out, err = self.end_of(process)
        self.assertEqual((code, out, err), (0, "", ""))

    def test_two_requests_with_one_key(self):
        (process, port), (another, other) = self.serve(), self.serve()
        first = self.send(port, "1f0c")
        until(lambda: self.server("EXISTS", "pay:1f0c"), "it is in work")
        for each in (port, other):
            code, _, later = self.ask(each, "1f0c")
            self.assertEqual(code, 409)
            self.assertIn(int(later), range(1, 31))
        self.assertFalse(os.path.exists(self.path("1f0c")))
        self.assertEqual(self.answer(first), (200, "Paid", None))
        until(lambda: not self.server("EXISTS", "pay:1f0c"), "it is released")
        self.assertEqual(self.ask(other, "1f0c"), (200, "Paid before", None))
        self.assertTrue(os.path.exists(self.path("1f0c")))
        self.finish(process)
        self.finish(another)

    def test_both_at_once(self):
        process, port = self.serve()
        answers = [self.answer(link) for link in [self.send(port, "2") for _ in range(2)]]
        self.assertEqual(sorted(code for code, *_ in answers), [200, 409])
        self.finish(process)

    def test_a_client_that_goes_finds_it_paid(self):
        process, port = self.serve()
        link = self.send(port, "3")
        until(lambda: self.server("EXISTS", "pay:3"), "it is in work")
        link.close()
        until(lambda: self.ask(port, "3") == (200, "Paid before", None), "it is paid")
        self.finish(process)

    def test_no_server(self):
        process, port = self.serve()
        self.server.kill()
        until(lambda: self.ask(port, "4")[0] == 503, "nobody can tell")
        self.assertEqual(self.ask(port, "4")[2], "1")
        self.assertFalse(os.path.exists(self.path("4")))
        self.finish(process)

    def test_a_lock_that_was_taken_away_is_not_released(self):
        """Its next renewal would have told it, after a third of the lease."""
        process, port = self.serve()
        link = self.send(port, "5")
        until(lambda: self.server("EXISTS", "pay:5"), "it is in work")
        self.server("SET", "pay:5", "somebody else")
        self.assertEqual(self.answer(link), (200, "Paid", None))
        self.assertEqual(self.server("GET", "pay:5"), "somebody else")
        self.finish(process)

    def test_ended_while_it_works(self):
        process, port = self.serve()
        link = self.send(port, "6")
        until(lambda: self.server("EXISTS", "pay:6"), "it is in work")
        self.finish(process)
        self.assertRaises((http.client.HTTPException, OSError), self.answer, link)
        self.assertFalse(os.path.exists(self.path("6")))
        self.assertEqual(self.server("EXISTS", "pay:6"), 0)

    def test_bad_keys(self):
        process, port = self.serve()
        for key in (None, "../x", "A", "x" * 65):
            self.assertEqual(self.ask(port, key)[0], 400)
        self.finish(process)


del ExampleTest  # it has tests for those who inherit
if __name__ == "__main__":
    unittest.main()
