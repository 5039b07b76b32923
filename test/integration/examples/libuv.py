#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""src/examples/libuv.c: a program on libuv's loop whose locks live in a thread.

Usual course: the lock is granted, the program works and releases; a second process is granted
the lock then, with a larger fencing token.
"""
import re
import signal
import unittest

from scene import ExampleTest
from support import until


class Libuv(ExampleTest):
    source = "libuv.c"

    @staticmethod
    def arguments():
        return ("job",)

    def fence_of(self, program):
        line = self.line_of(program.stdout)
        found = re.fullmatch(r"granted with fence (\d+)\n", line)
        self.assertTrue(found, line)
        return int(found[1])

    def test_it_works_and_releases(self):
        program = self.start(*self.arguments(), "1")
        self.fence_of(program)
        self.assertEqual(self.end_of(program), (0, "released\n", ""))
        self.assertEqual(self.server("EXISTS", "job"), 0)

    def test_the_next_one_gets_it(self):
        first = self.start(*self.arguments(), "3600000")
        fence = self.fence_of(first)
        second = self.start(*self.arguments(), "1")
        until(lambda: self.server("ZCARD", "lockwire:2:queue:{job}"), "it waits")
        first.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(first), (0, "released\n", ""))
        self.assertGreater(self.fence_of(second), fence)
        self.assertEqual(self.end_of(second)[0], 0)

    def test_a_loss_stops_the_job(self):
        program = self.start(*self.arguments(), "3600000")
        self.fence_of(program)
        self.server("SET", "job", "somebody else", "PX", "100")
        code, out, err = self.end_of(program)
        self.assertEqual((code, out), (1, "released\n"))
        self.assertEqual(err, "libuv: lost: the lock is not held\n")

    def test_a_bad_name(self):
        code, out, err = self.end_of(self.start("lockwire:job"))
        self.assertEqual((code, out), (1, "not granted\n"))
        self.assertTrue(err)


del ExampleTest  # its tests are for the subclasses
if __name__ == "__main__":
    unittest.main()
