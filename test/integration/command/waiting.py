#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The output of run, lead and hold while they wait: in a terminal a line that disappears,
elsewhere nothing, or with --verbose a line for each change.

Usual course: another process holds, and the line names it; the lock is free, and the line is
gone.
"""
import fcntl
import os
import re
import signal
import struct
import subprocess
import termios
import unittest

from support import COMMAND, PREFIX, LIMIT, ToolTest, until
from terminal import CTRL_C, Terminal

CTRL_S, CTRL_Q = "\x13", "\x11"
QUEUE = "lockwire:2:queue:{job}"
ERASED = "\r\x1b\\[K"


class WaitingTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.environment["LOCKWIRE_URL"] = self.server.url

    def holder(self, *options):
        process = self.spawn(COMMAND, "run", "job", *options, "--", "sh", "-c",
                             "echo held; exec sleep 1000")
        self.assertEqual(self.line_of(process.stdout), "held\n")
        return process

    def waiter(self, *options):
        before = self.server("ZCARD", QUEUE)
        process = self.spawn(COMMAND, "run", "job", *options, "--", "true")
        until(lambda: self.server("ZCARD", QUEUE) == before + 1, "it queues")
        return process

    def shell(self, columns=200):
        shell = Terminal(("dash", "-i"), self.folder,
                         dict(self.environment, TERM="dumb", PS1="ready> ", ENV="/dev/null",
                              lockwire=COMMAND))
        self.addCleanup(shell.close)
        fcntl.ioctl(shell.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        shell.expect("ready> ")
        return shell

    @staticmethod
    def end(process):
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=LIMIT)


class Quiet(WaitingTest):
    """With --quiet the end of a wait for a busy lock is told by the exit code alone."""

    def test_a_busy_lock_is_not_reported(self):
        self.holder()
        for words in (("run", "job", "-nq", "--", "true"), ("take", "job", "--quiet", "--wait", "3s"),
                      ("hold", "job", "-q", "-n", "-E", "3")):
            process = self.spawn(COMMAND, *words, stdin=subprocess.PIPE)
            process.wait(timeout=60)
            self.assertEqual(self.end_of(process), (3 if "-E" in words else 75, "", ""), words)
        self.waiter()
        self.assertEqual(self.end_of(self.spawn(COMMAND, "run", "job", "-q", "--max-waiting", "1",
                                                "--", "true")), (75, "", ""))

    def test_anything_else_is(self):
        self.server("SET", "job", "for good")
        code, _, err = self.end_of(self.spawn(COMMAND, "run", "job", "-nq", "--", "true"))
        self.assertEqual(code, 75)
        self.assertIn("held without a time limit by the value 'for good'", err)
        code, _, err = self.end_of(self.spawn(COMMAND, "run", "job", "-nq", "--redis",
                                              "unix:///none", "--", "true"))
        self.assertEqual(code, 69)
        self.assertIn("cannot lock 'job': ", err)

    def test_a_terminal_shows_no_status_line(self):
        self.holder()
        shell = self.shell()
        shell.line('"$lockwire" run -q -w 2s job -- true; echo "code $?"')
        self.assertNotIn("lockwire: ", shell.expect("(?s)^.*code 75\r\n")[0])


class MaxWaiting(WaitingTest):
    """With --max-waiting the command exits with 75 at once if that many others wait."""

    def refused(self, subcommand, *options, code=75, count=1):
        more = ("--", "true") if subcommand == "run" else ()
        process = self.spawn(COMMAND, subcommand, "job", *options, "--max-waiting", str(count), *more,
                             stdin=subprocess.PIPE)
        process.wait(timeout=LIMIT)
        got, out, err = self.end_of(process)
        self.assertEqual((got, out, err), (code, "", f"lockwire: cannot lock 'job': {count} or more "
                                                     "others already wait for it\n"))

    def test_a_free_lock_is_acquired(self):
        self.assertEqual(self.end_of(self.spawn(COMMAND, "run", "job", "--max-waiting", "1", "--",
                                                "true"))[0], 0)

    def test_one_may_wait(self):
        holder = self.holder()
        waiter = self.waiter("--max-waiting", "1")
        for subcommand in ("run", "hold"):
            self.refused(subcommand)
            self.refused(subcommand, "--wait", "1h")
            self.refused(subcommand, "-E", "3", code=3)
        second = self.waiter("--max-waiting", "2")
        self.refused("run", count=2)
        self.end(holder)
        for process in (waiter, second):
            self.assertEqual(self.end_of(process)[0], 0)

    def test_many_at_once(self):
        """Of ten waiters that come at the same time two may wait."""
        holder = self.holder()
        crowd = [self.spawn(COMMAND, "run", "job", "--max-waiting", "2", "--", "true")
                 for _ in range(10)]
        until(lambda: sum(process.poll() is not None for process in crowd) == 8, "8 are refused")
        self.assertEqual(self.server("ZCARD", QUEUE), 2)
        self.end(holder)
        codes = sorted(self.end_of(process)[0] for process in crowd)
        self.assertEqual(codes, [0] * 2 + [75] * 8)

    def test_each_kind_of_lock(self):
        for kind in (("-x",), ("-s",), ("--shared", "--permits", "1")):
            queue = "lockwire:2:rwqueue:{job}"
            holder = self.holder("-x")
            first = self.spawn(COMMAND, "run", "job", *kind, "--max-waiting", "1", "--", "true")
            until(lambda: self.server("ZCARD", queue) == 1, "it queues")
            self.refused("run", *kind)
            self.end(holder)
            self.assertEqual(self.end_of(first)[0], 0)

    def test_several_locks(self):
        holder, waiter = self.holder(), self.waiter()
        process = self.spawn(COMMAND, "run", "a", "--and", "job", "--max-waiting", "1", "--", "true")
        code, _, err = self.end_of(process)
        self.assertEqual(code, 75)
        self.assertIn("cannot lock 'job': 1 or more others already wait for it\n", err)
        self.end(waiter)
        self.end(holder)

    def test_lead_tries_again(self):
        holder, waiter = self.holder(), self.waiter()
        leader = self.spawn(COMMAND, "lead", "job", "--max-waiting", "1", "--", "sh", "-c",
                            "echo leads; exec sleep 1000")
        self.assertEqual(self.line_of(leader.stderr),
                         "lockwire: job: max_waiting others already wait; retrying in 1000 ms\n")
        self.end(holder)
        self.assertEqual(self.end_of(waiter)[0], 0)
        self.assertEqual(self.line_of(leader.stdout), "leads\n")
        self.end(leader)


class InTerminal(WaitingTest):
    def test_who_holds_and_the_place_in_the_queue(self):
        holder = self.holder()
        waiters = [self.waiter(), self.waiter()]
        shell = self.shell()
        shell.line('"$lockwire" run job -- echo mine')
        host = re.escape(os.uname().nodename)
        shell.expect(rf"\rlockwire: job: waiting [0-9]+s, place 3 of 3; held by lockwire-run {host} "
                     rf"{holder.pid}, lease [0-9]+s\x1b\[K")
        self.end(waiters[0])
        shell.expect(r"\rlockwire: job: waiting [0-9]+s, place 2 of 2; ")
        self.end(waiters[1])
        shell.expect(r"\rlockwire: job: waiting [0-9]+s, place 1 of 1; ")
        self.end(holder)
        shell.expect(rf"{ERASED}mine\r\n")

    def test_each_subcommand_shows_it(self):
        holder = self.holder("-x")
        shell = self.shell()
        for words in ("run -s job -- echo shown", "lead -s job -- echo shown", "hold -x job"):
            shell.line(f'"$lockwire" {words}')
            shell.expect(r"\rlockwire: job: waiting [0-9]+s, place 1 of 1; held by lockwire-run ")
            shell.type(CTRL_C)
            shell.expect(f"{ERASED}(.|\n)*ready> ")
        self.end(holder)

    def test_a_lock_that_is_free_shows_nothing(self):
        shell = self.shell()
        shell.line('"$lockwire" run job -- echo mine')
        shown = shell.expect("\n(?P<before>.*)mine\r\n")
        self.assertNotIn("\x1b", shown["before"])

    def test_other_messages_stand_alone(self):
        self.holder()
        shell = self.shell()
        shell.line('"$lockwire" run -w 2s job -- true')
        shell.expect(r"\rlockwire: job: waiting [0-9]+s, place 1 of 1; ")
        shell.expect(rf"{ERASED}lockwire: timed out waiting for 'job'\r\n")

    def test_it_is_cut_to_the_width(self):
        self.holder()
        shell = self.shell(columns=40)
        shell.line('"$lockwire" run job -- true')
        line = shell.expect("\r(lockwire: job: waiting[^\x1b]*)\x1b")[1]
        self.assertEqual(len(line), 39)

    def test_no_byte_of_a_key_reaches_the_terminal_as_it_is(self):
        self.server("SET", "job", "\x1b[2J\x07evil", "PX", 3600000)
        shell = self.shell()
        shell.line('"$lockwire" run job -- true')
        shell.expect(r"held by \\x1b\[2J\\x07evil, lease 3[0-9]{3}s\x1b\[K")

    def test_in_the_background_it_is_quiet(self):
        self.holder()
        shell = self.shell()
        shell.line('"$lockwire" run -w 2s job -- true & wait $!; echo "code $?"')
        self.assertNotIn(": waiting", shell.expect("(?s)^.*code 75\r\n")[0])

    def test_a_terminal_that_was_halted_does_not_delay_the_lock(self):
        holder = self.holder()
        shell = self.shell()
        shell.line('"$lockwire" run job -- touch mine')
        shell.expect(r"\rlockwire: job: waiting [0-9]+s, place 1 of 1; ")
        shell.type(CTRL_S)
        self.end(holder)
        until(lambda: os.path.exists(self.path("mine")), "the command runs")
        shell.type(CTRL_Q)
        shell.expect("ready> ")


class InPipe(WaitingTest):
    def test_it_is_quiet(self):
        self.holder()
        process = self.spawn(COMMAND, "run", "-w", "1500ms", "job", "--", "true")
        self.assertEqual(self.end_of(process), (75, "", "lockwire: timed out waiting for 'job'\n"))

    def test_verbose_says_each_change_once(self):
        holder = self.holder()
        first = self.waiter()
        process = self.spawn(COMMAND, "run", "--verbose", "job", "--", "true")
        held = f"held by lockwire-run {os.uname().nodename} {holder.pid}\n"
        self.assertEqual(self.line_of(process.stderr), f"lockwire: job: waiting, place 2 of 2; {held}")
        self.end(first)
        self.assertEqual(self.line_of(process.stderr), f"lockwire: job: waiting, place 1 of 1; {held}")
        self.end(holder)
        self.assertEqual(self.end_of(process)[0], 0)

    def test_many_readers(self):
        readers = [self.holder("-s") for _ in range(3)]
        process = self.spawn(COMMAND, "hold", "-x", "--verbose", "job", stdin=subprocess.PIPE)
        self.assertRegex(self.line_of(process.stderr), "waiting, place 1 of 1; held by lockwire-run .* "
                                                       "and 2 more\n")
        for reader in readers:
            self.end(reader)
        self.assertGreater(int(self.line_of(process.stdout)), 0)
        self.assertEqual(self.end_of(process)[0], 0)

    def test_another_kind_of_lock_is_called_so(self):
        for held, wanted, said in (((), "--exclusive", "a mutex (requested: --exclusive)"),
                                   (("-s",), "--redisson",
                                    "a read-write lock (requested: --redisson)")):
            holder = self.holder(*held)
            process = self.spawn(COMMAND, "run", wanted, "--verbose", "job", "--", "true")
            self.assertIn(" a string not written by this kind of lock (a mutex?); " if not held
                          else " a hash not written by this kind of lock "
                               "(a read-write lock or Redisson's?); ",
                          self.line_of(process.stderr))
            self.assertIn(f"; held as {said} by lockwire-run ",
                          self.line_of(process.stderr))
            self.end(holder)
            self.assertEqual(self.end_of(process)[0], 0)

    def test_redissons_lock_has_no_places(self):
        self.holder("--redisson")
        process = self.spawn(COMMAND, "run", "--redisson", "--verbose", "job", "--", "true")
        self.assertEqual(self.line_of(process.stderr), "lockwire: job: waiting; held by another client\n")
        process.terminate()
        self.assertEqual(self.end_of(process)[0], 128 + signal.SIGTERM)

    def test_a_value_without_a_time_limit_is_shown(self):
        """At most 64 characters of it, and the command that frees the lock."""
        for value, shown in (("their value", "their value"), ("\x01" * 1024, "\\x01" * 64 + "…"),
                             ("ä" * 65, "ä" * 64 + "…"), ("b" * 64, "b" * 64)):
            self.server("SET", "job", value)
            held = f"held without a time limit by the value '{shown}'"
            frees = "; `lockwire break 'job' --foreign` frees it\n"
            for subcommand in ("run", "take", "hold"):
                command = ("--", "true") if subcommand == "run" else ()
                process = self.spawn(COMMAND, subcommand, "job", "--wait", "0", *command,
                                     stdin=subprocess.PIPE)
                process.wait(timeout=LIMIT)
                self.assertEqual(self.end_of(process),
                                 (75, "", f"lockwire: cannot lock 'job': {held}{frees}"))
            process = self.spawn(COMMAND, "run", "job", "--wait", "200ms", "--verbose", "--", "true")
            code, _, err = self.end_of(process)
            self.assertEqual(code, 75)
            self.assertIn(f"lockwire: key {PREFIX}job has no TTL: ", err)
            self.assertTrue(err.endswith(f"lockwire: timed out waiting for 'job': {held}{frees}"), err)
            process = self.spawn(COMMAND, "run", "job", "--verbose", "--", "true")
            self.assertIn(f"lockwire: key {PREFIX}job has no TTL: ", self.line_of(process.stderr))
            self.assertEqual(self.line_of(process.stderr),
                             f"lockwire: job: waiting, place 1 of 1; held by {shown}\n")
            self.end(process)
            self.assertIn(f"the token '{shown}'; use --foreign",
                          self.end_of(self.spawn(COMMAND, "break", "job"))[2])

    def test_a_value_that_cannot_be_looked_at(self):
        """The log of the library has the reason then."""
        self.server("SET", "job", "theirs")
        self.server("ZADD", QUEUE, 1, "x" * 600)
        process = self.spawn(COMMAND, "run", "job", "--wait", "0", "--", "true")
        code, _, err = self.end_of(process)
        self.assertEqual(code, 75)
        self.assertRegex(err, rf"^lockwire: key {PREFIX}job has no TTL: .*\n"
                              r"lockwire: cannot lock 'job': held by another client\n$")

    def test_what_cannot_be_looked_at_is_waited_for_all_the_same(self):
        holder = self.holder()
        process = self.waiter("--verbose")
        self.server("ZADD", QUEUE, 1, "x" * 600)
        self.assertEqual(self.end_of(self.spawn(COMMAND, "status", "job"))[0], 77)
        self.end(holder)
        self.assertEqual(self.end_of(process)[0], 0)


if __name__ == "__main__":
    unittest.main()
