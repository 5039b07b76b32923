#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows which failures of the stage's tests are repeated (test/lib/stage.h, asserts.h).

    stage_rules.py PROGRAM

PROGRAM is stage_rules.c, most of whose tests fail.
"""
import re
import subprocess
import sys
import unittest

# What a failure shows behind the file and the line.
TEXTS = {
    "true": "not true: seven == 8",
    "false": "not false: seven == 7",
    "null": "not null: red",
    "non_null": "null: nothing",
    "pointers": "not the same: red, nothing",
    "memory": 'not the same: red, "rot"',
    "numbers": "seven: 7 != -8",
    "other_numbers": "seven: 7 == 7",
    "strings": 'red: "red" != "blue"',
    "other_strings": 'red: "red" == "red"',
    "below": "seven: 7 is not in 8..9",
    "above": "seven: 7 is not in -2..6",
    "message": "7 is red",
}


class StageRules(unittest.TestCase):
    program = sys.argv.pop()

    @classmethod
    def setUpClass(cls):
        done = subprocess.run([cls.program], capture_output=True, text=True, timeout=200)
        cls.code, cls.said = done.returncode, done.stdout + "\n" + done.stderr

    def outcome(self, name):
        """Returns the outcome of this test, and how often it was repeated."""
        outcomes = re.findall(rf"^\[ *(OK|FAILED|SKIPPED) *\] {name}$", self.said, re.M)
        return outcomes[:1], len(re.findall(rf"^repeated: {name}$", self.said, re.M))

    def test_all_asserts_hold_if_they_are_true(self):
        self.assertEqual(self.outcome("passes"), (["OK"], 0))

    def test_a_failure_is_not_repeated_without_a_reason(self):
        for name in (*TEXTS, "stage"):
            with self.subTest(name):
                self.assertEqual(self.outcome("fails_" + name), (["FAILED"], 0))

    def test_a_failure_after_a_still_loop_is_repeated(self):
        for name in (*TEXTS, "stage"):
            with self.subTest(name):
                self.assertEqual(self.outcome("repeats_" + name), (["OK"], 1))

    def test_a_failure_shows_place_and_values(self):
        for name, text in TEXTS.items():
            for test in ("fails_" + name, "repeats_" + name):
                with self.subTest(test):
                    self.assertRegex(self.said, rf"(?m)^{test}: \S*stage_rules\.c:\d+: "
                                     + re.escape(text) + "$")

    def test_it_fails_at_last(self):
        self.assertEqual(self.outcome("fails_at_last"), (["FAILED"], 2))
        for cause in ("it_stalls_itself", "the_loop_is_blocked", "an_event_never_comes"):
            with self.subTest(cause):
                self.assertEqual(self.outcome("fails_if_" + cause), (["FAILED"], 0))
        self.assertEqual(self.outcome("repeats_what_came_too_late"), (["OK"], 1))

    def test_a_skip_for_slowness_is_named(self):
        outcome, repeats = self.outcome("is_too_slow")
        self.assertEqual(outcome, ["SKIPPED"])
        self.assertGreater(repeats, 1)
        self.assertEqual(re.findall("^slow: .*$", self.said, re.M), ["slow: is_too_slow"])

    def test_the_program_has_failed(self):
        self.assertEqual(self.code, len(TEXTS) + 5)


if __name__ == "__main__":
    unittest.main()
