#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`lockwire watch` at a real server: lines into a pipe, the picture in a terminal (a pty),
outages, and each way to end it.

Usual course: a run takes the lock, and a line reports it; the run ends, and a line reports that;
SIGINT, code 0.
"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import threading
import time
import unittest

import terminal as shells
from support import COMMAND, LIMIT, ToolTest, until

QUEUE = "lockwire:2:queue:{job}"


class Terminal:
    """The other side of a pty: the content of a screen, as far as watch uses it."""

    def __init__(self, rows=24, columns=120):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.bytes = b""

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            try:
                self.bytes += os.read(self.master, 65536)
            except OSError:  # no process has the slave open
                break
        return self.bytes

    def pictures(self):
        """Returns the complete pictures so far, the latest last: the text between the cursor's
        move home and the clearing below."""
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

    def evals(self):
        """Returns the number of script calls so far: one for each look."""
        return int(re.search(r"cmdstat_evalsha:calls=(\d+)",
                             self.server("INFO", "commandstats")).group(1))

    def holder(self, *options):
        self.holders += 1
        mark = f"held{self.holders}"
        process = self.spawn(COMMAND, "run", "job", *options, "--", "sh", "-c",
                             f"echo $$ > {mark}; exec sleep 1000", cwd=self.folder)
        return process, int(self.wait_for_file(mark, process))

    def watch(self, *options, outages=False):
        """Returns the process, and a list to which its lines are added. On a busy machine a
        reply may take longer than a second, which watch reports as an outage. If a test expects
        no outage, those lines are left out, and after them each line that repeats the one
        before."""
        process = self.spawn(COMMAND, "watch", "job", "--interval", "20ms", *options)
        lines = []

        def collect():
            away = False
            for line in process.stdout:
                line = line.rstrip("\n")
                now = self.is_outage(line)
                if outages or not (now or (away and lines and self.same(line, lines[-1]))):
                    lines.append(line)
                away = away or now

        thread = threading.Thread(target=collect)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.finish, process)
        return process, lines

    @staticmethod
    def is_outage(line):
        """Returns true for a line that begins an outage or ends it."""
        return re.search(r"^\S+ (no answer|no connection|answers:)", line) is not None

    @staticmethod
    def same(line, other):
        return line.split(" ", 1)[1] == other.split(" ", 1)[1]

    def finish(self, process):
        """Ends the process by SIGTERM, after which it must exit with 0."""
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(LIMIT), 0)

    def line(self, lines, count):
        """Returns the line with this number, from 1, after its time has been checked and cut
        off."""
        until(lambda: len(lines) >= count, f"line {count} of {lines}")
        match = re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} (.*)", lines[count - 1])
        self.assertTrue(match, lines[count - 1])
        return match.group(1)


class Lines(WatchTest):
    def test_a_change_that_the_server_reports_is_not_polled(self):
        began = time.monotonic()
        _, lines = self.watch("--interval", "30s")
        until(lambda: len(lines) == 1, "the first look")
        self.server("SET", "job", "other")
        until(lambda: len(lines) == 2, "the change")
        self.assertIn(" holds ", lines[1])
        self.assertLess(time.monotonic() - began, 27)  # the earliest poll

    def test_who_it_was_stays_known(self):
        process, pid = self.holder()
        _, lines = self.watch()
        self.assertRegex(self.line(lines, 1), rf"^holds mutex - .* {process.pid} ")
        self.server("DEL", *self.server("KEYS", "lockwire:client:*"))
        self.spawn(COMMAND, "run", "job", "--", "true")
        self.assertRegex(self.line(lines, 2), "^waits mutex ")  # watch has looked since
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
        before = self.evals()
        until(lambda: self.evals() > before + 20, "it looks twenty times")
        self.assertEqual(len(lines), 1)

    def test_a_stranger(self):
        self.server("RPUSH", "job", "value")
        _, lines = self.watch()
        self.assertEqual(self.line(lines, 1),
                         "job: held by another program, the key is a list")
        self.server("DEL", "job")
        self.assertEqual(self.line(lines, 2), "job: free")

    def test_a_look_without_an_answer_is_an_outage(self):
        _, lines = self.watch(outages=True)
        self.line(lines, 1)
        self.server.pause()  # the look in flight gets no reply
        self.server.kill()
        until(lambda: any("no connection: " in line for line in lines[1:]), "the outage")
        self.server.start()
        until(lambda: any(line.endswith("job: free") for line in lines[2:]), "it is seen again")

    def test_an_outage_is_told_and_ridden_out(self):
        _, lines = self.watch(outages=True)
        self.line(lines, 1)
        self.server.kill()
        self.assertTrue(self.line(lines, 2).startswith("no connection: "))
        self.server.start()
        until(lambda: any(line.endswith("job: free") for line in lines[2:]), "it is seen again")
        self.assertTrue(any(line.endswith(f" answers: redis {self.server.socket}, master")
                            for line in lines[2:]), lines)

    def test_a_hung_server_is_told_of_once(self):
        self.holder()
        _, lines = self.watch(outages=True)
        self.line(lines, 1)
        self.server.pause()
        self.assertRegex(self.line(lines, 2), r"^no answer, the last one was [1-9]\d*\.\ds ago$")
        self.server.resume()
        self.assertEqual(self.line(lines, 3), f"answers: redis {self.server.socket}, master")
        self.server("DEL", "job")
        self.assertTrue(self.line(lines, 4).startswith("left mutex "))

    def test_each_signal_ends_it_with_0(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process, lines = self.watch()
            self.line(lines, 1)
            process.send_signal(number)
            self.assertEqual(process.wait(LIMIT), 0)
            self.assertEqual(process.stderr.read(), "")

    def test_a_signal_while_the_server_hangs_ends_it_too(self):
        process, lines = self.watch(outages=True)
        self.line(lines, 1)
        self.server.pause()
        self.assertTrue(self.line(lines, 2).startswith("no answer"))
        process.send_signal(signal.SIGTERM)
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


class Json(WatchTest):
    @staticmethod
    def is_outage(line):
        return "outage" in json.loads(line)

    @staticmethod
    def same(line, other):
        """Compares objects without the times in them."""
        times = r'"time":\s*"[^"]*"|_ms":\s*[-\d.]+'
        return re.sub(times, "", line) == re.sub(times, "", other)

    def seen(self, lines, count):
        """Returns the object with this number, from 1, after its time has been checked and
        removed."""
        until(lambda: len(lines) >= count, f"object {count} of {lines}")
        seen = json.loads(lines[count - 1])
        self.assertRegex(seen.pop("time"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual(seen["name"], "job")
        return seen

    def status(self):
        _, out, err = self.end_of(self.spawn(COMMAND, "status", "job", "--json"))
        self.assertEqual(err, "")
        status = json.loads(out)
        self.assertEqual(status.pop("degraded"), []) # of the client, not of the lock
        return status

    def test_an_object_for_the_first_look_and_for_each_change(self):
        _, lines = self.watch("--json")
        self.assertEqual(self.seen(lines, 1), self.status())
        _, pid = self.holder("--exclusive", "--owner", "anna")
        seen, status = self.seen(lines, 2), self.status()
        (held,), (same,) = seen["holders"], status["holders"]
        self.assertTrue(0 < same.pop("remaining_ms") <= held.pop("remaining_ms") <= 30000)
        self.assertEqual(seen, status)
        os.kill(pid, signal.SIGTERM)
        until(lambda: json.loads(lines[-1])["holder_total"] == 0, "it is free again")

    def test_the_time_that_passes_is_no_change(self):
        self.server("SET", "job", "theirs", "PX", 600000)
        self.spawn(COMMAND, "run", "job", "--", "true")
        until(lambda: self.server("ZCARD", QUEUE) == 1, "the waiter queues")
        _, lines = self.watch("--json")
        before = self.seen(lines, 1)
        until(lambda: self.status()["waiters"][0]["waited_ms"]
              > before["waiters"][0]["waited_ms"] + 500, "half a second more")
        self.assertEqual(len(lines), 1, lines)
        self.server("SET", "job", "another", "PX", 600000)
        self.assertEqual(self.seen(lines, 2)["holders"][0]["token"], "another")

    def test_an_outage_and_its_end(self):
        self.server("SET", "job", "theirs")
        _, lines = self.watch("--json", outages=True)
        before = self.seen(lines, 1)
        self.server.pause()
        outage = self.seen(lines, 2)
        self.assertGreaterEqual(outage.pop("age_ms"), 1000)
        self.assertEqual(outage, {"name": "job", "outage": "no answer", "why": None})
        self.server.resume()
        self.assertEqual(self.seen(lines, 3), before)
        self.server.kill()
        outage = self.seen(lines, 4)
        self.assertEqual(outage["outage"], "no connection")
        self.assertGreater(len(outage["why"]), 0)
        self.server.start()
        until(lambda: "holders" in json.loads(lines[-1]), "it is seen again")
        self.assertEqual(self.seen(lines, len(lines))["holder_total"], 0)

    def test_an_outage_from_the_beginning_has_no_age(self):
        process = self.spawn(COMMAND, "watch", "job", "--json", "--redis",
                             "unix:///nonexistent/socket")
        outage = json.loads(process.stdout.readline())
        self.assertEqual((outage["outage"], outage["age_ms"]), ("no connection", None))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(LIMIT), 0)


class Picture(WatchTest):
    def free(self, terminal):
        return re.fullmatch(rf"job: free\nredis {self.server.socket}, master; \d\.\ds ago\n",
                            terminal.picture())

    def ages(self, terminal, remark):
        """Returns the ages in all pictures so far with this remark."""
        return [float(age) for age in
                re.findall(rf"; (\d+\.\d)s ago{remark}\n", "\n".join(terminal.pictures()))]

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
        until(lambda: self.free(terminal), "an empty picture")
        self.assertTrue(terminal.read().startswith(b"\x1b[2J"))
        _, pid = self.holder("--exclusive", "--owner", "anna")
        until(lambda: "anna" in terminal.picture(), "the holder is seen")
        self.assertIn("HELD", terminal.picture())
        os.kill(pid, signal.SIGTERM)
        until(lambda: self.free(terminal), "it is free again")

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
        until(lambda: "3 holders" in terminal.picture(), "a picture")
        lines = terminal.picture().split("\n")
        self.assertLessEqual(len(lines), 4)
        self.assertTrue(all(len(line) <= 30 for line in lines), lines)

    def test_a_terminal_of_unknown_size_has_24_lines_of_80(self):
        for _ in range(2):
            self.holder("--shared", "--owner", "a" * 100)
        _, terminal = self.screen(rows=0, columns=0)
        until(lambda: "2 holders" in terminal.picture(), "a picture")
        lines = terminal.picture().split("\n")
        self.assertTrue(75 <= max(len(line) for line in lines) <= 80, lines)
        self.assertRegex(lines[-2], "^read  a+\u2026a+  ")

    def test_letters_of_several_bytes_are_one_column(self):
        self.server("SET", "job", "\u20ac" * 60)
        _, terminal = self.screen(rows=10, columns=40)
        until(lambda: "1 holder" in terminal.picture(), "a picture")
        self.assertEqual(max(len(line) for line in terminal.picture().split("\n")), 40)

    def test_an_outage_and_its_end(self):
        _, terminal = self.screen()
        self.server("SET", "job", "theirs")
        until(lambda: "theirs" in terminal.picture(), "a picture")
        self.server.kill()
        until(lambda: self.ages(terminal, ", no connection since")[-1:] > [1.5], "it grows old")
        self.assertRegex(terminal.picture(), r"^job: 1 holder\nredis .*since\n.*refused\n\n"
                         "HELD .*\nmutex .* theirs\n$")
        self.server.start()
        until(lambda: self.free(terminal), "it is over")

    def test_a_hung_server_leaves_the_last_picture_which_grows_old(self):
        self.server("SET", "job", "theirs")
        _, terminal = self.screen(columns=80)
        until(lambda: "theirs" in terminal.picture(), "a picture")
        self.server.pause()
        until(lambda: self.ages(terminal, ", no answer since")[-1:] > [2.5], "it grows old")
        ages = self.ages(terminal, ", no answer since")
        self.assertEqual(ages, sorted(ages))
        self.assertGreater(len(set(ages)), 1) # their number depends on the machine
        self.assertGreaterEqual(ages[0], 1)
        last = [one for one in terminal.pictures() if ", no answer since" in one][-1]
        self.assertRegex(last, r"^job: 1 holder\nredis .*, no answer since\n\n"
                         "HELD .*\nmutex .* theirs\n$")
        self.server.resume()
        until(lambda: re.match(r".*\nredis .*; 0\.\ds ago\n\nHELD ", terminal.picture()),
              "it is fresh again")

    def test_one_that_stays_hung_is_no_connection(self):
        self.server("SET", "job", "theirs")
        _, terminal = self.screen(columns=80)
        until(lambda: "theirs" in terminal.picture(), "a picture")
        self.server.pause()
        until(lambda: "no connection since\n" in terminal.picture(), "it is given up")
        self.assertIn("within 5000 ms\n", terminal.picture())
        self.assertIn(" theirs\n", terminal.picture())
        age = self.ages(terminal, ", no connection since")[-1]
        until(lambda: self.ages(terminal, ", no connection since")[-1] > age + 1, "it grows older")
        self.server.resume()
        until(lambda: re.match(r".*\nredis .*; 0\.\ds ago\n\nHELD ", terminal.picture()),
              "it is fresh again")

    def test_an_age_is_drawn_between_rare_looks(self):
        process, terminal = self.screen("--interval", "1h")
        until(lambda: self.free(terminal), "a picture")
        looked = self.evals()
        until(lambda: self.ages(terminal, "")[-1:] > [1.5], "it grows old")
        self.assertEqual(self.evals(), looked)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(LIMIT), 0)

    def test_without_a_picture_the_outage_alone_is_shown(self):
        self.server.kill()
        _, terminal = self.screen()
        until(lambda: re.match("job: no connection: .+\n$", terminal.picture()), "the outage")
        self.server.start()
        until(lambda: self.free(terminal), "it is over")

    def test_objects_in_a_terminal_too(self):
        _, terminal = self.screen("--json")
        until(lambda: b"\n" in terminal.read(), "a line")
        self.assertEqual(json.loads(terminal.read())["holders"], [])

    def test_the_terminal_s_width_is_used_and_kept(self):
        self.holder("--shared", "--owner", "a" * 100)
        for columns in (60, 80, 132):
            _, terminal = self.screen(columns=columns)
            until(lambda: "1 holder" in terminal.picture(), "a picture")
            lines = terminal.picture().split("\n")
            self.assertEqual(max(len(line) for line in lines), columns, lines)
            self.assertRegex(lines[4], "^read  a+\u2026a+  ")

    def test_sigint_ends_it_with_0(self):
        process, terminal = self.screen()
        until(lambda: self.free(terminal), "a picture")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(LIMIT), 0)


class Keys(shells.TerminalTest):
    """watch runs as a job of a shell. Whenever watch leaves the terminal, the terminal has its
    former modes again."""

    def modes(self, shell):
        shell.line("stty -a | tr ' ;' '\\n\\n' | grep -xE -e '-?(icanon|echo)' | xargs echo modes")
        shell.expect("modes icanon echo\r\n")

    def watch(self, shell):
        shell.line('"$lockwire" watch job --interval 20ms')
        shell.expect("job: free")

    def test_q_ends_it_with_0(self):
        shell = self.shell()
        self.watch(shell)
        shell.type("xq")
        shell.expect("ready> ")
        shell.line("echo code $?")
        shell.expect("code 0\r\n")
        self.modes(shell)

    def test_stopped_and_continued(self):
        shell = self.shell()
        self.watch(shell)
        shell.type("\x1a")
        shell.expect("ready> ")
        self.modes(shell)
        shell.line("fg")
        shell.expect("job: free")
        shell.type("q")
        shell.expect("ready> ")
        self.modes(shell)

    def test_in_the_background_it_leaves_the_keys_alone(self):
        shell = self.shell()
        shell.line('"$lockwire" watch job --interval 20ms &')
        shell.expect("job: free")
        self.modes(shell)
        shell.line("echo q; fg")
        shell.expect("q\r\n[^\n]* watch job")  # skips earlier pictures and a prompt
        shell.expect("job: free")
        until(lambda: shell.keys(), "it reads keys")
        shell.type("q")
        shell.expect("ready> ")
        self.modes(shell)

    def test_a_signal_restores_the_terminal(self):
        shell = self.shell()
        self.watch(shell)
        shell.type("\x03")
        shell.expect("ready> ")
        self.modes(shell)


if __name__ == "__main__":
    unittest.main()
