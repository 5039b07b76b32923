#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""src/examples/worker.c: two workers never work at the same time, and a worker's write that
comes too late is refused.

Usual course: two workers, both with several jobs done; in the store the end of each job comes
directly after its beginning.
"""
import signal
import unittest

from scene import ExampleTest
from support import until


class Worker(ExampleTest):
    source = "worker.c"

    def arguments(self, work_ms=10):
        return "job", self.path("store"), str(work_ms)

    def lines(self):
        """Returns (fence, pid, what) of each write."""
        try:
            with open(self.path("store"), encoding="ascii") as file:
                return [(int(fence), int(pid), what)
                        for fence, pid, what in map(str.split, file)]
        except FileNotFoundError:
            return []

    def done_by(self, worker):
        return sum(1 for _, pid, what in self.lines() if (pid, what) == (worker.pid, "done"))

    def finish(self, worker):
        """Ends the worker, and returns its messages."""
        worker.send_signal(signal.SIGTERM)
        code, out, err = self.end_of(worker)
        self.assertEqual((code, out), (0, ""), err)
        return err

    def test_two_take_turns(self):
        workers = [self.start(*self.arguments()) for _ in range(2)]
        until(lambda: all(self.done_by(worker) >= 10 for worker in workers), "both do ten jobs")
        self.assertEqual([self.finish(worker) for worker in workers], ["", ""])
        begun = None
        for line in self.lines():
            if line[2] == "done":
                self.assertEqual(begun, line[:2])
            begun = line[:2]
        fences = [fence for fence, _, what in self.lines() if what == "begins"]
        self.assertEqual(fences, sorted(set(fences)))
        self.assertEqual(self.server("EXISTS", "job"), 0)

    def test_one_that_is_ended_at_work_gives_the_lock_back(self):
        first = self.start(*self.arguments(600000))
        until(self.lines, "it is at work")
        second = self.start(*self.arguments())
        until(lambda: self.server("ZCARD", "lockwire:2:queue:{job}"), "the second waits")
        self.assertEqual(self.finish(first), "")
        until(lambda: self.done_by(second), "the second does its jobs")
        self.assertEqual(self.finish(second), "")
        self.assertEqual(self.done_by(first), 0)

    def test_ended_at_whatever_it_does(self):
        """A worker may be ended while it waits, works or releases. Many short lives cover these
        states."""
        for _ in range(30):
            worker = self.start(*self.arguments(1))
            until(lambda: any(pid == worker.pid for _, pid, _ in self.lines()), "it works")
            self.assertEqual(self.finish(worker), "")
        self.assertEqual(self.server("EXISTS", "job"), 0)

    def test_a_lock_that_is_lost_is_asked_for_anew(self):
        worker = self.start(*self.arguments(600000))
        until(self.lines, "it is at work")
        self.server("SET", "job", "somebody else", "PX", "100")
        self.assertEqual(self.line_of(worker.stderr), "lost: the lock is not held\n")
        until(lambda: len(self.lines()) == 2, "it begins again")
        self.assertEqual([what for *_, what in self.lines()], ["begins", "begins"])
        self.finish(worker)

    def test_the_store_refuses_a_smaller_token(self):
        with open(self.path("store"), "w", encoding="ascii") as file:
            file.write("18446744073709551615 1 begins\n")
        code, _, err = self.end_of(self.start(*self.arguments()))
        self.assertEqual(code, 1)
        self.assertIn("a larger fencing token was here before", err)
        self.assertEqual(len(self.lines()), 1)

    def test_a_bad_name(self):
        code, _, err = self.end_of(self.start("lockwire:job", self.path("store"), "10"))
        self.assertEqual(code, 1)
        self.assertIn("lockwire:", err)


del ExampleTest  # its tests are for the subclasses
if __name__ == "__main__":
    unittest.main()
