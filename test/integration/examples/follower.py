#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""src/examples/follower.c: it prints the address of whoever leads, at each change.

Usual course: there is no leader; one holds the lock, with its address as a note; it is gone.
"""
import unittest

from scene import ExampleTest


class Follower(ExampleTest):
    source = "follower.c"

    @staticmethod
    def arguments():
        return ("boss",)

    def lead(self, address):
        """Writes what a leader with this note has in Redis."""
        token = "3f2b8a52-96d5-4c1f-a2b0-0d3c5f7e9a11:1:2000-"
        self.server("SET", "lockwire:2:holder:{boss}", f"{token} 1 - - - - {address}", "PX", "60000")
        self.server("SET", "boss", token, "PX", "60000")

    def test_it_follows_the_leader(self):
        follower = self.start(*self.arguments())
        self.assertEqual(self.line_of(follower.stdout), "no leader\n")
        self.lead("http://one:8080")
        self.assertEqual(self.line_of(follower.stdout), "http://one:8080\n")
        self.lead("http://two:8080")
        self.assertEqual(self.line_of(follower.stdout), "http://two:8080\n")
        self.server("DEL", "boss")
        self.assertEqual(self.line_of(follower.stdout), "no leader\n")

    def test_a_server_that_is_away_is_waited_for(self):
        follower = self.start(*self.arguments())
        self.assertEqual(self.line_of(follower.stdout), "no leader\n")
        self.server.kill()
        self.assertIn("follower: no server can process", self.line_of(follower.stderr))

    def test_a_bad_name(self):
        code, _, err = self.end_of(self.start("lockwire:boss"))
        self.assertEqual(code, 1)
        self.assertIn("lockwire:", err)


del ExampleTest  # its tests are for the subclasses
if __name__ == "__main__":
    unittest.main()
