#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`lockwire --guard` at a server that has just started, and so grants no locks for the guard
time: run and lead report why they wait, and exit with 69 if they may not wait that long. If the
server grants no locks for another reason than time, they exit with 77.
"""
import unittest

from support import COMMAND, PREFIX, ToolTest
from terminal import CTRL_C, Terminal

GUARD = ("--guard", "15s", "--lease", "3s", "--grace", "1s")
WHY = r"the server was restarted or is new; no locks for 1[0-9] s more"
SHOWN = r"no locks for [0-9]+s more: the server "
OTHER = f"this server's guard time is 20000 ms (key {PREFIX}lockwire:guard), not 15000: use the same"


class GuardTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.environment["LOCKWIRE_URL"] = self.server.url

    def start(self, subcommand, *options):
        return self.spawn(COMMAND, subcommand, *GUARD, *options, "job", "--", "echo", "mine")


class Waiting(GuardTest):
    def test_a_run_that_may_not_wait_so_long_exits_with_the_reason(self):
        for wait in ("0", "500ms"):
            code, out, err = self.end_of(self.start("run", "--wait", wait))
            self.assertEqual((code, out), (69, ""))
            self.assertRegex(err, rf"^lockwire: cannot lock 'job': the server cannot process the "
                                  rf"request now: {WHY}\n$")

    def test_run_and_lead_report_why_they_wait(self):
        for subcommand in ("run", "lead"):
            process = self.start(subcommand, "--verbose")
            self.assertRegex(self.line_of(process.stderr), rf"^lockwire: job: waiting; {SHOWN}was restarted, promoted or exchanged, or is new to the guard\n$")
            process.terminate()
            process.wait()

    def test_in_a_terminal_as_well(self):
        shell = Terminal(("dash", "-i"), self.folder,
                         dict(self.environment, TERM="dumb", PS1="ready> ", ENV="/dev/null",
                              lockwire=COMMAND))
        self.addCleanup(shell.close)
        shell.expect("ready> ")
        for subcommand in ("run", "lead"):
            shell.line(f'"$lockwire" {subcommand} {" ".join(GUARD)} job -- echo mine')
            shell.expect(rf"\rlockwire: job: waiting [0-9]+s; {SHOWN}")
            shell.type(CTRL_C)
            shell.expect("ready> ")

    def test_the_wait_ends_with_the_guard_time(self):
        code, out, err = self.end_of(self.start("run"))
        self.assertEqual((code, out), (0, "mine\n"))
        self.assertRegex(err, rf"^lockwire: job: waiting; {SHOWN}.*\n$")


class Refused(GuardTest):
    def setUp(self):
        super().setUp()
        self.server("SET", "lockwire:guard", "another 20000 0", "PX", 600000)

    def test_a_run_ends_at_once_with_another_guard_time(self):
        for options in ((), ("--wait", "0"), ("--wait", "60s")):
            code, out, err = self.end_of(self.start("run", *options))
            self.assertEqual((code, out), (77, ""))
            self.assertIn(f"lockwire: cannot lock 'job': refused by the server: {OTHER}", err)

    def test_a_leader_reports_it_and_tries_again(self):
        process = self.start("lead")
        self.assertIn(OTHER, self.line_of(process.stderr))
        self.assertIsNone(process.poll())

    def test_status_shows_it(self):
        status = self.spawn(COMMAND, "status", "--guard", "15s", "job")
        self.assertIn("guard     20.0s; no lock is granted to clients with another time: "
                      "use ?guard=20000ms\n",
                      self.end_of(status)[1])


if __name__ == "__main__":
    unittest.main()
