#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`lockwire watch` at a real server: lines into a pipe, the picture in a terminal (a pty),
outages, and each way to end it.

Happy path: a run takes the lock, a line says so; it ends, a line says so; SIGINT, code 0.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import threading
import unittest

from support import COMMAND, LIMIT, ToolTest, until

QUEUE = "lockwire:2:queue:{job}"


class Terminal:
    """The other side of a pty: what a screen would show, as far as watch uses it."""

    def __init__(self, rows=24, columns=120):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.bytes = b""

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            try:
                self.bytes += os.read(self.master, 65536)
            except OSError:  # nobody has the slave open any more
                break
        return self.bytes

    def pictures(self):
        """Whole pictures so far, latest last: what stands between home and clearing below."""
        text = self.read().decode("utf-8")
        return [picture.replace("\x1b[K", "").replace("\r", "")
                for picture in re.findall(r"\x1b\[H(.*?)\x1b\[J", text, re.S)]

    def picture(self):
        return (self.pictures() or [""])[-1]

    def close(self):
        os.close(self.master)
        os.close(self.slave)


class WatchTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.environment["LOCKWIRE_URL"] = self.server.url
        self.holders = 0

    def holder(self, *options):
        self.holders += 1
        mark = f"held{self.holders}"
        process = self.spawn(COMMAND, "run", "job", *options, "--", "sh", "-c",
                             f"echo $$ > {mark}; exec sleep 1000", cwd=self.folder)
        return process, int(self.wait_for_file(mark))

    def watch(self, *options, name="job"):
        """The process, and its lines so far, without their times."""
        process = self.spawn(COMMAND, "watch", name, "--interval", "20ms", *options)
        lines = []

        def collect():
            for line in process.stdout:
                lines.append(line.rstrip("\n"))

        thread = threading.Thread(target=collect)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.finish, process)
        return process, lines

    def finish(self, process):
        """Whatever it has seen, it ends when it is told to, and well."""
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(LIMIT), 0)

    def line(self, lines, count):
        """The line of this number, from 1, its time checked and cut off."""
        until(lambda: len(lines) >= count, f"line {count} of {lines}")
        match = re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} (.*)", lines[count - 1])
        self.assertTrue(match, lines[count - 1])
        return match.group(1)


class Lines(WatchTest):
    def test_who_it_was_stays_known(self):
        process, pid = self.holder()
        _, lines = self.watch()
        self.assertRegex(self.line(lines, 1), rf"^holds mutex - .* {process.pid} ")
        self.server("DEL", *self.server("KEYS", "lockwire:client:*"))
        self.spawn(COMMAND, "run", "job", "--", "true")
        self.assertRegex(self.line(lines, 2), "^waits mutex ")  # it has looked since
        os.kill(pid, signal.SIGTERM)
        self.assertRegex(self.line(lines, 3), rf"^left mutex - .* {process.pid} ")

    def test_holding_waiting_leaving(self):
        _, lines = self.watch()
        self.assertEqual(self.line(lines, 1), "job: free")
        process, pid = self.holder()
        token = self.server("GET", "job")
        self.assertRegex(self.line(lines, 2),
                         rf"^holds mutex - lockwire-run \S+ {process.pid} {token}$")
        waiting = self.spawn(COMMAND, "run", "job", "--", "true")
        self.assertRegex(self.line(lines, 3), rf"^waits mutex - .* {waiting.pid} ")
        waiting.send_signal(signal.SIGTERM)
        self.assertRegex(self.line(lines, 4), rf"^left mutex - .* {waiting.pid} ")
        os.kill(pid, signal.SIGTERM)
        self.assertIn(token, self.line(lines, 5))
        self.assertTrue(self.line(lines, 5).startswith("left "))
        self.assertEqual(self.line(lines, 6), "job: free")

    def test_who_waited_holds_without_having_left(self):
        _, pid = self.holder()
        self.spawn(COMMAND, "run", "job", "--", "sleep", "1000")
        until(lambda: self.server("ZCARD", QUEUE) == 1, "the waiter queues")
        _, lines = self.watch()
        self.line(lines, 2)
        token = self.server("ZRANGE", QUEUE, 0, 0)[0]
        os.kill(pid, signal.SIGTERM)
        self.assertTrue(self.line(lines, 3).startswith("left "))
        self.assertTrue(self.line(lines, 4).startswith("holds "))
        self.assertIn(token, self.line(lines, 4))

    def test_nothing_is_written_while_nothing_changes(self):
        self.holder("--shared", "--owner", "anna")
        _, lines = self.watch()
        self.line(lines, 1)
        before = int(re.search(r"cmdstat_evalsha:calls=(\d+)",
                               self.server("INFO", "commandstats")).group(1))

        def looked():
            now = self.server("INFO", "commandstats")
            return int(re.search(r"cmdstat_evalsha:calls=(\d+)", now).group(1)) > before + 20

        until(looked, "it looks twenty times")
        self.assertEqual(len(lines), 1)

    def test_a_stranger(self):
        self.server("RPUSH", "job", "value")
        _, lines = self.watch()
        self.assertEqual(self.line(lines, 1),
                         "job: held by a stranger, the key is a list")
        self.server("DEL", "job")
        self.assertEqual(self.line(lines, 2), "job: free")

    def test_a_look_without_an_answer_is_an_outage(self):
        _, lines = self.watch()
        self.line(lines, 1)
        self.server.pause()  # the look in flight is never answered
        self.server.kill()
        self.assertTrue(self.line(lines, 2).startswith("no connection: "))
        self.server.start()
        until(lambda: any(line.endswith("job: free") for line in lines[2:]), "it is seen again")

    def test_an_outage_is_told_and_ridden_out(self):
        _, lines = self.watch()
        self.line(lines, 1)
        self.server.kill()
        self.assertTrue(self.line(lines, 2).startswith("no connection: "))
        self.server.start()
        until(lambda: any(line.endswith("job: free") for line in lines[2:]), "it is seen again")

    def test_each_signal_ends_it_with_0(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process, lines = self.watch()
            self.line(lines, 1)
            process.send_signal(number)
            self.assertEqual(process.wait(LIMIT), 0)
            self.assertEqual(process.stderr.read(), "")

    def test_a_signal_during_an_outage_ends_it_too(self):
        process = self.spawn(COMMAND, "watch", "job", "--redis", "unix:///nonexistent/socket")
        self.assertIn("no connection", process.stdout.readline())
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(LIMIT), 0)

    def test_it_ends_when_nobody_reads(self):
        process = self.spawn("sh", "-c", '"$0" watch job --interval 20ms; echo $? > code',
                             COMMAND, cwd=self.folder)
        process.stdout.readline()
        process.stdout.close()
        self.holder()
        self.assertEqual(self.wait_for_file("code"), "0\n")
        process.stdout = open(os.devnull, encoding="ascii")  # for reap

    def test_exit_codes(self):
        for code, words in ((64, ("a}b",)), (64, ("job", "--redis", "http://x"))):
            self.assertEqual(self.end_of(self.spawn(COMMAND, "watch", *words))[0], code)
        self.server("ACL", "SETUSER", "default", "-eval", "-evalsha")
        code, _, err = self.end_of(self.spawn(COMMAND, "watch", "job"))
        self.assertEqual(code, 77)
        self.assertIn("NOPERM", err)


class Picture(WatchTest):
    def screen(self, *options, **size):
        terminal = Terminal(**size)
        self.addCleanup(terminal.close)
        process = self.spawn("sh", "-c", 'out=$1; shift; exec "$0" watch job "$@" >"$out"',
                             COMMAND, os.ttyname(terminal.slave), "--interval", "20ms",
                             *options)
        self.addCleanup(self.finish, process)
        return process, terminal

    def test_the_table_is_drawn_anew(self):
        _, terminal = self.screen()
        until(lambda: terminal.picture() == "job: free\n", "an empty picture")
        self.assertTrue(terminal.read().startswith(b"\x1b[2J"))
        _, pid = self.holder("--exclusive", "--owner", "anna")
        until(lambda: "anna" in terminal.picture(), "the holder is seen")
        self.assertIn("HELD", terminal.picture())
        os.kill(pid, signal.SIGTERM)
        until(lambda: terminal.picture() == "job: free\n", "it is free again")

    def test_the_remaining_lease_runs_down_before_ones_eyes(self):
        self.server("SET", "job", "theirs", "PX", 60000)
        _, terminal = self.screen()

        def times():
            return set(re.findall(r"\d+\.\ds", "".join(terminal.pictures())))

        until(lambda: len(times()) >= 3, "three different times")

    def test_it_fits_a_small_terminal(self):
        for _ in range(3):
            self.holder("--shared")
        _, terminal = self.screen(rows=4, columns=30)
        until(lambda: "held by 3" in terminal.picture(), "a picture")
        lines = terminal.picture().split("\n")
        self.assertLessEqual(len(lines), 4)
        self.assertTrue(all(len(line) <= 30 for line in lines), lines)

    def test_a_terminal_of_unknown_size_has_24_lines_of_80(self):
        for _ in range(2):
            self.holder("--shared", "--owner", "a" * 100)
        _, terminal = self.screen(rows=0, columns=0)
        until(lambda: "held by 2" in terminal.picture(), "a picture")
        self.assertEqual(max(len(line) for line in terminal.picture().split("\n")), 80)

    def test_letters_of_several_bytes_are_one_column(self):
        self.server("SET", "job", "\u20ac" * 60)
        _, terminal = self.screen(rows=10, columns=40)
        until(lambda: "held by 1" in terminal.picture(), "a picture")
        self.assertEqual(max(len(line) for line in terminal.picture().split("\n")), 40)

    def test_an_outage_and_its_end(self):
        _, terminal = self.screen()
        until(lambda: terminal.picture() == "job: free\n", "a picture")
        self.server.kill()
        until(lambda: "no connection" in terminal.picture(), "the outage is shown")
        self.server.start()
        until(lambda: terminal.picture() == "job: free\n", "it is over")

    def test_sigint_ends_it_with_0(self):
        process, terminal = self.screen()
        until(lambda: terminal.picture() == "job: free\n", "a picture")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(LIMIT), 0)


if __name__ == "__main__":
    unittest.main()
