#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""src/examples/gateway.c: of two requests with one key exactly one is worked on.

Usual course: the first request holds the lock, and its copy waits; the first is answered, and
then the copy is answered that it was paid before. If a test needs a wait or work that does not
end by itself, it lasts LONG.
"""
import http.client
import os
import signal
import unittest

from ports import free_port
from quorum_servers import quorum_start
from scene import ExampleTest
from support import LIMIT, until
from watched import Watched

LONG = "3600000"
QUEUE = "lockwire:2:queue:{{pay:{}}}"


class Gateway(ExampleTest):
    source = "gateway.c"

    def arguments(self, port=1, *more):
        return str(port), self.folder, *more

    def serve(self, *more, options=(), **environment):
        """Returns the process and its port. If another process takes the port in between, tries
        another one."""
        for _ in range(10):
            port = free_port()
            process = self.start(*options, *self.arguments(port, *more), **environment)
            until(lambda: process.poll() is not None or self.answers(port), "it listens")
            if process.poll() is None:
                return process, port
        self.fail(process.stderr.read())

    @staticmethod
    def send(port, key):
        """Sends a request, and leaves its answer unread."""
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
        (process, port), (another, other) = self.serve(LONG), self.serve(LONG)
        first = self.send(port, "1f0c")
        until(lambda: self.server("EXISTS", "pay:1f0c"), "it is in work")
        copies = [self.send(each, "1f0c") for each in (port, other)]
        self.assertEqual(self.answer(first), (200, "Paid", None))
        for copy in copies:
            self.assertEqual(self.answer(copy), (200, "Paid before", None))
        until(lambda: not self.server("EXISTS", "pay:1f0c"), "it is released")
        self.assertEqual(self.ask(other, "1f0c"), (200, "Paid before", None))
        self.assertTrue(os.path.exists(self.path("1f0c")))
        self.finish(process)
        self.finish(another)

    def test_a_server_of_a_quorum_dies_during_the_work(self):
        quorum_start(self)
        self.server.url = self.url  # for serve()
        (process, port), (another, other) = self.serve(LONG, "500"), self.serve(LONG, "500")
        first = self.send(port, "1f0c")
        until(lambda: self.servers[1]("EXISTS", "pay:1f0c"), "it is in work")
        copy = self.send(other, "1f0c")
        until(lambda: self.servers[1]("EXISTS", QUEUE.format("1f0c")), "its copy waits")
        self.servers[0].kill()
        self.assertEqual(self.answer(first), (200, "Paid", None))
        self.assertEqual(self.answer(copy), (200, "Paid before", None))
        until(lambda: not self.servers[1]("EXISTS", "pay:1f0c"), "it is released")
        self.finish(process)
        self.finish(another)

    def test_both_at_once(self):
        process, port = self.serve(LONG)
        answers = [self.answer(link) for link in [self.send(port, "2") for _ in range(2)]]
        self.assertEqual(sorted(reason for _, reason, _ in answers), ["Paid", "Paid before"])
        self.finish(process)

    def test_the_limit_of_the_wait(self):
        """Retry-After depends on the time of the work, not on the holder's lease of an hour."""
        process, port = self.serve("100", "2500")
        self.server("SET", "pay:7", "somebody else", "PX", 3600000)
        self.assertEqual(self.ask(port, "7"), (409, "In work", "3"))
        until(lambda: not self.server("EXISTS", QUEUE.format("7")), "it left the queue")
        self.finish(process)

    def test_a_client_that_goes_while_it_waits_leaves_the_queue(self):
        process, port = self.serve(LONG)
        self.server("SET", "pay:8", "somebody else", "PX", 3600000)
        links = [self.send(port, "8") for _ in range(3)]
        until(lambda: self.server("EXISTS", QUEUE.format("8")), "they wait")
        for link in links:
            link.close()
        until(lambda: not self.server("EXISTS", QUEUE.format("8")), "none waits")
        self.finish(process)

    def test_a_client_that_goes_during_the_work_ends_it(self):
        (process, port), (another, other) = self.serve(LONG, LONG), self.serve(LONG, LONG)
        link = self.send(port, "3")
        until(lambda: self.server("EXISTS", "pay:3"), "it is in work")
        waiting = self.send(other, "3")
        until(lambda: self.server("EXISTS", QUEUE.format("3")), "its copy waits")
        first = self.server("GET", "pay:3")[:36]
        link.close()
        until(lambda: (self.server("GET", "pay:3") or first)[:36] != first, "its copy is in work")
        waiting.close()
        until(lambda: not self.server("EXISTS", "pay:3"), "it is released")
        self.assertFalse(os.path.exists(self.path("3")))
        self.finish(process)
        self.finish(another)

    def test_clients_that_come_and_go(self):
        """A leak, or an answer to a freed connection, would end a sanitized gateway."""
        process, port = self.serve(LONG, "5")
        for i in range(300):
            link = self.send(port, str(i % 7))
            if i % 3:
                link.close()
            else:
                self.assertEqual(self.answer(link)[0], 200)
        until(lambda: not self.server("KEYS", "pay:*"), "all is released")
        self.finish(process)

    def test_no_server(self):
        process, port = self.serve()
        self.server.kill()
        until(lambda: self.ask(port, "4")[0] == 503, "nobody can tell")
        self.assertEqual(self.ask(port, "4")[2], "1")
        self.assertFalse(os.path.exists(self.path("4")))
        self.finish(process)

    def test_a_lock_that_was_taken_away_is_not_released(self):
        """The gateway would notice the loss at its next renewal, after a third of the lease."""
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

    def test_a_map_of_what_a_sentinel_announces(self):
        """The master is announced at 127.0.0.1, but the client has to use 127.0.0.2."""
        watched = Watched()
        self.addCleanup(watched.stop)
        watched.master("CONFIG", "SET", "bind", "127.0.0.1 127.0.0.2")
        pair = f"127.0.0.1:{watched.master_port}=127.0.0.2:{watched.master_port}"
        process, port = self.serve(LONG, options=("--map", f"192.0.2.1=192.0.2.2,{pair}"),
                                   env={"LOCKWIRE_URL": watched.url})
        self.assertEqual(self.ask(port, "9")[0], 200)
        clients = [line for line in watched.master("CLIENT", "LIST").splitlines()
                   if "name=gateway" in line]
        self.assertTrue(clients and all(" laddr=127.0.0.2:" in line for line in clients), clients)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(process)[0], 0)

    def test_bad_maps(self):
        for pairs, said in (("a", 'address_map: pair 1 "a": the "=" is missing'),
                            ("a=b", "address_map needs a URL that begins with redis-sentinel://")):
            url = "redis-sentinel://h/s" if "=" not in pairs else self.server.url
            code, _, err = self.end_of(self.start("--map", pairs, *self.arguments(),
                                                  env={"LOCKWIRE_URL": url}))
            self.assertEqual(code, 1)
            self.assertIn(said, err)

    def test_bad_keys(self):
        process, port = self.serve()
        for key in (None, "../x", "A", "x" * 65):
            self.assertEqual(self.ask(port, key)[0], 400)
        self.finish(process)


del ExampleTest  # its tests are for the subclasses
if __name__ == "__main__":
    unittest.main()
