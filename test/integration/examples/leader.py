#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""src/examples/leader.c: one process leads; when it is ended or killed, another one does.

Usual course: the first prints that it leads, and is killed; then the second prints that, with a
larger fencing token.
"""
import re
import signal
import unittest

from scene import ExampleTest
from support import until


class Leader(ExampleTest):
    source = "leader.c"

    @staticmethod
    def arguments():
        return ("boss",)

    def start_waiting(self):
        follower = self.start(*self.arguments())
        until(lambda: self.server("ZCARD", "lockwire:2:queue:{boss}"), "it waits")
        return follower

    def fence_of(self, leader):
        """Returns the fencing token in the leader's next line about a finished job."""
        while (line := self.line_of(leader.stdout)).startswith("begun "):
            pass
        found = re.fullmatch(r"leading with fence (\d+)\n", line)
        self.assertTrue(found, line)
        return int(found[1])

    def test_who_is_ended_hands_over_at_once(self):
        first = self.start(*self.arguments())
        fence = self.fence_of(first)
        second = self.start_waiting()
        first.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(first)[0], 0)
        self.assertGreater(self.fence_of(second), fence)
        second.send_signal(signal.SIGTERM)
        code, _, err = self.end_of(second)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(self.server("EXISTS", "boss"), 0)

    def test_who_is_killed_is_followed(self):
        first = self.start(*self.arguments())
        fence = self.fence_of(first)
        second = self.start_waiting()
        first.kill()
        self.assertGreater(self.fence_of(second), fence)

    def test_who_lost_it_says_so_and_leads_again(self):
        leader = self.start(*self.arguments())
        fence = self.fence_of(leader)
        self.server("SET", "boss", "somebody else", "PX", "100")
        self.assertIn("no longer: the lock is not held", self.line_of(leader.stderr))
        until(lambda: self.fence_of(leader) > fence, "it leads again")

    def test_a_stop_first_finishes_the_job_at_hand(self):
        leader = self.start(*self.arguments(), "1000")
        begun = re.fullmatch(r"begun with fence (\d+)\n", self.line_of(leader.stdout))
        leader.send_signal(signal.SIGTERM)
        code, out, err = self.end_of(leader)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, f"leading with fence {begun[1]}\n")
        self.assertEqual(self.server("EXISTS", "boss"), 0)

    def test_a_request_for_the_lock_is_like_a_stop(self):
        """The message is that of `lockwire yield`."""
        leader = self.start(*self.arguments(), "1000")
        begun = re.fullmatch(r"begun with fence (\d+)\n", self.line_of(leader.stdout))
        token = self.server("GET", "boss")
        reached = [self.server("PUBLISH", channel, f"y {token} boss")
                   for channel in self.server("PUBSUB", "CHANNELS") if channel.endswith(token[:36])]
        self.assertEqual(reached, [1])
        code, out, err = self.end_of(leader)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, f"leading with fence {begun[1]}\n")
        self.assertEqual(self.server("EXISTS", "boss"), 0)

    def test_a_lost_lock_drops_the_job_at_hand(self):
        leader = self.start(*self.arguments(), "3600000")
        self.assertIn("begun", self.line_of(leader.stdout))
        self.server("SET", "boss", "somebody else", "PX", "100")
        self.assertIn("no longer: the lock is not held", self.line_of(leader.stderr))
        self.assertIn("begun", self.line_of(leader.stdout))

    def test_it_warns_while_it_is_at_risk(self):
        leader = self.start(*self.arguments())
        self.fence_of(leader)
        self.server.pause()
        until(lambda: "at risk" in self.line_of(leader.stderr), "it warns")
        self.server.resume()
        until(lambda: (self.server("PTTL", "boss") or 0) > 1400, "it is renewed, or led again")
        leader.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(leader)[0], 0)

    def test_a_bad_name(self):
        code, _, err = self.end_of(self.start("lockwire:boss"))
        self.assertEqual(code, 1)
        self.assertIn("lockwire:", err)


del ExampleTest  # its tests are for the subclasses
if __name__ == "__main__":
    unittest.main()
