#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plays a test again that failed while the machine stood still: the rule of stage.h for tests in
Python. Independent of what is tested.

    stalls.py --self-test

Usual course: a test case derives from Replayed. A thread looks at the clock and at the processes
that the test has started. A test that fails although none of them stood still has failed. Another
one prints "repeated: TEST", which count.py counts, and is played once more, and that decides.
"""
import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

PERIOD_S = 0.2
LATE_S = 0.5   # of the thread itself
DELAY_S = 1.0  # for which one process could run, but had no CPU


def descendants(pid):
    """Yields the processes below this one, as far as the kernel lists children."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                for child in file.read().split():
                    yield child
                    yield from descendants(child)


def delay_of(pid):
    """Returns for how many seconds the process has waited for a CPU, or 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ProcessLookupError):
        return 0


class Watch:
    """What the thread has seen since begin()."""

    def __init__(self):
        self.late_s = self.delay_s = 0
        self.before = {}
        self.thread = None
        self.lock = threading.Lock()

    def begin(self):
        with self.lock:
            self.late_s = self.delay_s = 0
            self.before = {pid: delay_of(pid) for pid in descendants(os.getpid())}
        if self.thread is None:
            self.thread = threading.Thread(target=self.work, daemon=True)
            self.thread.start()

    def work(self):
        due = time.monotonic() + PERIOD_S
        while True:
            time.sleep(PERIOD_S)
            self.look(time.monotonic() - due)
            due = time.monotonic() + PERIOD_S

    def look(self, late_s):
        with self.lock:
            self.late_s = max(self.late_s, late_s)
            for pid in descendants(os.getpid()):
                self.delay_s = max(self.delay_s, delay_of(pid) - self.before.get(pid, 0))

    def evidence(self):
        """Returns how the machine stood still, or ""."""
        with self.lock:
            if self.late_s > LATE_S:
                return f"the test stood still for {self.late_s:.1f} s"
            if self.delay_s > DELAY_S:
                return f"a process had no CPU for {self.delay_s:.1f} s"
        return ""


WATCH = Watch()


class Kept:
    """A result in which failures are kept back. Everything else goes to the true result."""

    def __init__(self, result):
        self.result, self.failures = result, []

    def __getattr__(self, name):
        return getattr(self.result, name)

    def addError(self, *args):
        self.failures.append((self.result.addError, args))

    def addFailure(self, *args):
        self.failures.append((self.result.addFailure, args))

    def addSubTest(self, test, subtest, outcome):
        if outcome is not None:
            self.failures.append((self.result.addSubTest, (test, subtest, outcome)))


class Replayed(unittest.TestCase):
    """A test case whose tests are played again."""

    def run(self, result=None):
        if result is None:
            return super().run()
        WATCH.begin()
        kept = Kept(result)
        super().run(kept)
        evidence = WATCH.evidence() if kept.failures else ""
        if not evidence:
            for function, args in kept.failures:
                function(*args)
            return result
        _, (*_, (_, error, _)) = kept.failures[0]
        print(f"\nrepeated: {self._testMethodName}\n    {evidence}; it failed: {error}",
              file=sys.stderr)
        result.testsRun -= 1
        return super().run(result)


# ---- self-test ----

def see_nothing(_):
    """In place of WATCH.look: the machine on which this runs may stand still as well."""


def stand_still():
    """As on a machine that does: nothing of this process runs for a time."""
    del WATCH.look
    with subprocess.Popen(["sh", "-c", f"sleep {LATE_S + 2 * PERIOD_S}; kill -CONT {os.getpid()}"]):
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(2 * PERIOD_S)
    WATCH.look = see_nothing


class SelfTest(Replayed):
    played = {}

    def times(self):
        self.played[self._testMethodName] = self.played.get(self._testMethodName, 0) + 1
        return self.played[self._testMethodName]

    def test_passes(self):
        self.times()
        WATCH.delay_s = DELAY_S + 1

    def test_fails(self):
        self.times()
        self.fail("as it shall")

    def test_fails_in_a_subtest(self):
        self.times()
        with self.subTest("inner"):
            self.fail("as it shall")

    def test_is_played_again(self):
        if self.times() == 1:
            stand_still()
            self.fail("a time has passed")

    def test_fails_twice(self):
        if self.times() == 1:
            stand_still()
        self.fail("as it shall")

    def test_starved(self):
        if self.times() == 1:
            WATCH.delay_s = DELAY_S + 1
            raise ValueError("no CPU")


def self_test():
    said = io.StringIO()
    WATCH.look = see_nothing
    with contextlib.redirect_stderr(said):
        result = unittest.TextTestRunner(stream=said).run(
            unittest.defaultTestLoader.loadTestsFromTestCase(SelfTest))
    lines = said.getvalue().splitlines()
    assert SelfTest.played == {"test_passes": 1, "test_fails": 1, "test_fails_in_a_subtest": 1,
                               "test_is_played_again": 2, "test_fails_twice": 2,
                               "test_starved": 2}, SelfTest.played
    assert {line for line in lines if line.startswith("repeated: ")} == {
        "repeated: test_is_played_again", "repeated: test_fails_twice", "repeated: test_starved"}
    assert (result.testsRun, len(result.failures), len(result.errors)) == (6, 3, 0), said.getvalue()
    assert delay_of(os.getpid()) > 0
    with subprocess.Popen(["sh", "-c", "cat; :"], stdin=subprocess.PIPE): # cat ends with the pipe
        while len(list(descendants(os.getpid()))) < 2:
            time.sleep(PERIOD_S)


if __name__ == "__main__":
    if sys.argv[1:] != ["--self-test"]:
        sys.exit(__doc__)
    self_test()
