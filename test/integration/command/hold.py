#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`lockwire hold` at a real server: the line that it writes, each kind of standard input and its
end, signals, and its end when the lock is lost.

Usual course: it prints a line with the fencing token, and the key is in Redis; the input ends;
the exit code is 0, and the key is gone.
"""
import os
import pty
import shutil
import signal
import socket
import subprocess
import unittest

from support import COMMAND, LIMIT, ToolTest, until
from terminal import Terminal

QUEUE = "lockwire:2:queue:{job}"


class HoldTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.environment["LOCKWIRE_URL"] = self.server.url

    def hold(self, *options, **more):
        """Starts hold with a pipe as its input, which stays open, unless another input is given."""
        more.setdefault("stdin", subprocess.PIPE)
        process = self.spawn(COMMAND, "hold", "job", *options, **more)
        if process.stdin is not None:
            self.addCleanup(process.stdin.close)
        return process

    def holds(self, *options, **more):
        """Starts hold. Returns the process that holds the lock, and its fencing token."""
        process = self.hold(*options, **more)
        return process, self.line_of(process.stdout).rstrip("\n")

    def outcome(self, process):
        """Returns the outcome of a process that ends while its input is open."""
        process.wait(timeout=LIMIT)
        return self.end_of(process)

    def queued(self):
        return self.server("ZCARD", QUEUE)


class Holding(HoldTest):
    def test_a_line_with_the_fence_then_the_end_of_the_input(self):
        fences = []
        for _ in range(2):
            process, fence = self.holds()
            fences.append(int(fence))
            self.assertIsNotNone(self.server("GET", "job"))
            self.assertEqual(self.end_of(process), (0, "", ""))
            self.assertIsNone(self.server("GET", "job"))
        self.assertGreater(fences[1], fences[0])

    def test_what_comes_before_the_end_is_thrown_away(self):
        process, _ = self.holds()
        for _ in range(100):
            process.stdin.write("line\n" * 2000)  # more than a pipe can buffer
        process.stdin.flush()
        self.assertIsNotNone(self.server("GET", "job"))
        self.assertEqual(self.end_of(process)[0], 0)

    def test_a_signal_is_the_end_as_well(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process, _ = self.holds()
            process.send_signal(number)
            self.assertEqual(self.outcome(process), (0, "", ""))
            self.assertIsNone(self.server("GET", "job"))

    def test_the_next_one_holds_when_the_first_lets_go(self):
        first, _ = self.holds()
        second = self.hold("-w", "10m")
        until(lambda: self.queued() == 1, "the second one queues")
        self.assertEqual(self.end_of(first)[0], 0)
        self.assertGreater(int(self.line_of(second.stdout)), 0)
        self.assertEqual(self.end_of(second)[0], 0)

    def test_readers_and_owners(self):
        readers = [self.holds("-s")[0], self.holds("--shared", "--permits", "2")[0]]
        self.assertEqual(self.outcome(self.hold("-s", "--permits", "2", "-n"))[0], 75)
        self.assertEqual([self.end_of(reader)[0] for reader in readers], [0, 0])
        for option in ("-x", "-e", "--exclusive"):
            writer, fence = self.holds(option, "--owner", "anna")
            self.assertEqual(self.holds(option, "--owner", "anna")[1], fence)
            self.assertEqual(self.outcome(self.hold("-n", "-s"))[0], 75)
            self.assertEqual(self.end_of(writer)[0], 0)

    def test_redissons_has_no_fence(self):
        process, line = self.holds("--redisson")
        self.assertEqual(line, "-")
        self.assertEqual(self.server("TYPE", "job"), "hash")
        self.assertEqual(self.outcome(self.hold("--redisson", "-n"))[0], 75)
        self.assertEqual(self.end_of(process)[0], 0)
        self.assertEqual(self.server("EXISTS", "job"), 0)

    def test_the_script_of_the_help(self):
        if not shutil.which("bash"):
            self.skipTest("no bash")
        help_ = subprocess.run([COMMAND, "hold", "--help"], capture_output=True, text=True,
                               check=True).stdout
        lines = [line.strip() for line in help_.splitlines() if line.startswith("  ")]
        begin = next(i for i, line in enumerate(lines) if line.startswith("coproc"))
        script = "\n".join(lines[begin:begin + 5]).replace("lockwire", '"$0"', 1)
        script = script.replace("...", 'kill -0 "$pid"; echo "$fence" held')
        code, out, err = self.end_of(self.spawn("bash", "-c", f"{script}\necho end $?", COMMAND))
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"\A[0-9]+ held\nend 0\n\Z")
        self.assertEqual(self.server("EXISTS", "nightly"), 0)


class Inputs(HoldTest):
    def test_one_that_cannot_be_awaited_is_refused(self):
        with open(self.path("file"), "w+", encoding="ascii") as file:
            file.write("something\n")
            file.seek(0)
            for stdin in (subprocess.DEVNULL, file):
                code, out, err = self.end_of(self.hold(stdin=stdin))
                self.assertEqual((code, out), (64, ""))
                self.assertIn("hold: the standard input must be a pipe, a socket or a terminal", err)
        closed = self.spawn("sh", "-c", 'exec "$0" hold job <&-', COMMAND)
        self.assertEqual(self.end_of(closed)[:2], (64, ""))
        self.assertEqual(self.end_of(self.hold("-E", "9", stdin=subprocess.DEVNULL))[0], 64)

    def test_its_end_while_waiting_leaves_the_queue(self):
        self.holds()
        waiter = self.hold()
        until(lambda: self.queued() == 1, "it queues")
        self.assertEqual(self.end_of(waiter)[:2], (75, ""))
        self.assertEqual(self.server("EXISTS", QUEUE), 0)

    def test_a_socket(self):
        ours, its = socket.socketpair()
        with ours, its:
            process, _ = self.holds(stdin=its)
            ours.sendall(b"x" * 10000)
            self.assertIsNotNone(self.server("GET", "job"))
            ours.shutdown(socket.SHUT_WR)
            self.assertEqual(self.end_of(process)[0], 0)

    def test_a_fifo_that_is_opened_later(self):
        os.mkfifo(self.path("fifo"))
        process = self.spawn("sh", "-c", 'exec "$0" hold job < fifo', COMMAND, cwd=self.folder)
        with open(self.path("fifo"), "w", encoding="ascii"):
            self.assertGreater(int(self.line_of(process.stdout)), 0)
        self.assertEqual(self.end_of(process)[0], 0)

    def test_a_terminal(self):
        master, slave = pty.openpty()
        try:
            process, _ = self.holds(stdin=slave)
            os.write(master, b"a line\n")
            os.write(master, b"\x04")
            self.assertEqual(self.end_of(process)[0], 0)
        finally:
            os.close(master)
            os.close(slave)

    def test_a_terminal_in_whose_background_it_is_belongs_to_others(self):
        shell = Terminal(("dash", "-i"), self.folder,
                         dict(self.environment, TERM="dumb", PS1="ready> ", ENV="/dev/null",
                              lockwire=COMMAND))
        self.addCleanup(shell.close)
        shell.expect("ready> ")
        shell.line('"$lockwire" hold job &')
        shell.expect(r"[0-9]{16}\r\n")
        for i in range(20):
            shell.line(f"echo $(({i} + 100))")
            shell.expect(f"{i + 100}\r\n")
        shell.line("kill $!; wait $!; echo code $?")
        shell.expect("code 0\r\n")

    def test_the_first_line_may_be_the_password(self):
        port = self.server.listen()
        self.server("ACL", "SETUSER", "anna", "on", ">s3cret", "~*", "&*", "+@all")
        process = self.hold("--password-file", "-", "--redis", f"redis://anna@127.0.0.1:{port}")
        process.stdin.write("s3cret\nmore\n")
        process.stdin.flush()
        self.assertGreater(int(self.line_of(process.stdout)), 0)
        self.assertIsNotNone(self.server("GET", "job"))
        self.assertEqual(self.end_of(process), (0, "", ""))


class Ends(HoldTest):
    def test_busy(self):
        self.holds()
        for words, code in ((("-n",), 75), (("--nonblock",), 75), (("--nb", "-E", "0"), 0),
                            (("-w", "200ms", "--conflict-exit-code=255"), 255)):
            got, out, err = self.outcome(self.hold(*words))
            self.assertEqual((got, out), (code, ""))
            self.assertIn("job", err)

    def test_a_signal_while_waiting(self):
        self.holds()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            waiter = self.hold()
            until(lambda: self.queued() == 1, "it queues")
            waiter.send_signal(number)
            self.assertEqual(self.outcome(waiter)[:2], (128 + number, ""))
            self.assertEqual(self.server("EXISTS", QUEUE), 0)

    def ends_lost(self, process):
        code, _, err = self.outcome(process)
        self.assertEqual(code, 70)
        self.assertIn("the lock 'job' was lost", err)
        return err

    def test_a_stolen_lock(self):
        process, _ = self.holds()
        self.server.take_away("SET", "job", "somebody else")
        self.ends_lost(process)
        self.assertEqual(self.server("GET", "job"), "somebody else")

    def test_of_messages_that_nobody_reads(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        os.set_blocking(writer, False)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(writer, bytes(4096))
        os.set_blocking(writer, True)
        process = self.spawn("sh", "-c", 'exec "$0" hold job 2>&"$1"', COMMAND, str(writer),
                             stdin=subprocess.PIPE, pass_fds=(writer,))
        self.addCleanup(process.stdin.close)
        self.line_of(process.stdout)
        self.server.take_away("DEL", "job")
        self.assertEqual(process.wait(timeout=LIMIT), 70)

    def test_a_silent_server(self):
        process, _ = self.holds("--lease", "3s")
        self.server.pause()
        self.ends_lost(process)

    def test_the_longest_hold(self):
        process, _ = self.holds("--max-hold", "500ms")
        self.assertIn("--max-hold", self.ends_lost(process))
        until(lambda: not self.server("EXISTS", "job"), "what is left of the lease ends")

    def test_nobody_reads_the_output(self):
        reads, writes = os.pipe()
        os.close(reads)
        try:
            process = subprocess.Popen([COMMAND, "hold", "job"], stdin=subprocess.PIPE,
                                       stdout=writes, stderr=subprocess.PIPE, text=True,
                                       env=self.environment)
        finally:
            os.close(writes)
        with process.stdin, process.stderr:
            self.assertEqual(process.wait(timeout=LIMIT), 71)
            self.assertIn("cannot write to the standard output", process.stderr.read())
        self.assertIsNone(self.server("GET", "job"))

    def test_no_server(self):
        code, out, err = self.outcome(self.hold("-n", "--redis", "unix:///nonexistent/socket"))
        self.assertEqual((code, out), (69, ""))
        self.assertIn("no connection", err)

    def test_a_server_of_its_own(self):
        process, _ = self.holds("--redis", "embedded:")
        self.assertEqual(self.end_of(process)[0], 0)


if __name__ == "__main__":
    unittest.main()
