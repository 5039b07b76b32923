#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`lockwire list` at a real server and at a cluster: which locks are shown among other keys, in
both forms; progress, which is shown only on a terminal; exit codes; and that no key does harm.

Usual course: some runs hold, and list shows them by their names.
"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import unittest

from clustered import Clustered
from support import COMMAND, LIMIT, ToolTest, until
from watched import Watched

TOKEN = "c0ffee00-0000-4000-8000-{:012d}:1:2000-"


class ListTest(ToolTest):
    def ask(self, code, *words):
        got, out, err = self.end_of(self.spawn(COMMAND, "list", *words))
        self.assertEqual(got, code, f"{words}: {out}{err}")
        return out + err

    def hold(self, name, *options):
        mark = f"held{len(os.listdir(self.folder))}"
        process = self.spawn(COMMAND, "run", name, *options, "--", "sh", "-c",
                             f"echo $$ > {mark}; exec sleep 1000", cwd=self.folder)
        self.wait_for_file(mark, process)
        return process

    @staticmethod
    def rows(table):
        """Returns a list of {title: cell}, by the titles' columns."""
        head, *lines = table.rstrip("\n").split("\n")
        starts = [match.start() for match in re.finditer(r"\S+", head)] + [None]
        return [{head[a:b].strip(): line[a:b].strip() for a, b in zip(starts, starts[1:])}
                for line in lines]

    def seen(self, *words):
        return [json.loads(line) for line in self.ask(0, *words, "--json").splitlines()]


class Alone(ListTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.environment["LOCKWIRE_URL"] = self.server.url

    def fill(self, count):
        self.server("EVAL", "for i = 1, ARGV[1] do redis.call('SET', 'key:' .. i, i) end", 0, count)

    def make(self, *names):
        for number, name in enumerate(names):
            self.server("SET", name, TOKEN.format(number), "PX", 600000)


class Shown(Alone):
    def test_nothing_is_held(self):
        self.fill(3)
        self.assertEqual(self.ask(0), "no lock is held\n")
        self.assertEqual(self.ask(0, "--json"), "")

    def test_each_mode_and_who_waits(self):
        mutex = self.hold("job")
        self.hold("shared", "--shared")
        self.hold("shared", "--shared", "--owner", "anna")
        self.hold("written", "--exclusive", "--owner", "bert")
        self.spawn(COMMAND, "run", "job", "--", "true")
        until(lambda: self.server("ZCARD", "lockwire:2:queue:{job}") == 1, "it waits")
        job, shared, written = self.rows(self.ask(0, "--wide"))
        self.assertEqual([job[key] for key in ("NAME", "HELD", "HOLDERS", "WAITERS", "CLIENT")],
                         ["job", "mutex", "1", "1",
                          f"lockwire-run {socket.gethostname()} {mutex.pid}"])
        self.assertRegex(job["LEASE"], r"^\d+\.\ds$")
        self.assertEqual([shared[key] for key in ("NAME", "HELD", "HOLDERS", "WAITERS")],
                         ["shared", "read", "2", "0"])
        self.assertTrue(shared["CLIENT"].endswith(", +1"))
        self.assertEqual((written["NAME"], written["HELD"]), ("written", "write"))
        job, shared, written = self.seen()
        self.assertEqual((job["name"], job["holder_total"], job["waiter_total"]), ("job", 1, 1))
        self.assertEqual(job["holders"][0]["client"].split()[2], str(mutex.pid))
        self.assertEqual(job["waiters"][0]["position"], 1)
        self.assertIn("anna", [holder["owner"] for holder in shared["holders"]])
        self.assertEqual((written["holders"][0]["mode"], written["role"]), ("exclusive", "master"))

    def test_among_10000_other_keys(self):
        self.fill(10000)
        names = [f"job:{i:02d}" for i in range(50)]
        self.make(*names)
        self.server("CONFIG", "RESETSTAT")
        got, out, err = self.end_of(self.spawn(COMMAND, "list"))
        self.assertEqual((got, err), (0, ""))  # no progress is written to a pipe
        self.assertEqual([row["NAME"] for row in self.rows(out)], names)
        stats = self.server("INFO", "commandstats")
        self.assertIn("cmdstat_scan:", stats)
        self.assertNotIn("cmdstat_keys:", stats)

    def test_a_pattern(self):
        self.make("job:1", "job:2", "other:1", "job[3]")
        self.assertEqual([row["NAME"] for row in self.rows(self.ask(0, "job:*"))],
                         ["job:1", "job:2"])
        self.assertEqual([seen["name"] for seen in self.seen("*:1")], ["job:1", "other:1"])
        self.assertEqual([seen["name"] for seen in self.seen("job\\[?\\]")], ["job[3]"])
        self.assertEqual(self.ask(0, "nobody*"), "no lock is held\n")

    def test_a_name_that_comes_twice_is_shown_once(self):
        """While its table shrinks, SCAN returns some names again."""
        names = [f"job:{i:03d}" for i in range(200)]
        self.make(*names)
        self.fill(30000)
        listing = self.spawn(COMMAND, "list", "--json")
        self.server("EVAL", "for i = 1, 30000 do redis.call('DEL', 'key:' .. i) end", 0)
        out = self.end_of(listing)[1]
        self.assertEqual([json.loads(line)["name"] for line in out.splitlines()], names)

    def test_names_that_would_do_harm(self):
        vile = ["a\x9bb", "c\u202ed", "tab", "\u00e9t\u00e9", "'quoted' $(x)"]
        self.make(*vile)
        self.server("SET", "esc\x1b[31m", TOKEN.format(7))
        self.server("SET", "nul\0x", TOKEN.format(8))
        for form in ((), ("--json",), ("--wide",)):
            shown = self.ask(0, *form)
            self.assertEqual([char for char in shown if char < " " and char != "\n"
                              or "\x7f" <= char < "\xa0"], [], form)
            self.assertNotIn("esc", shown)  # a lock cannot have that name
        self.assertEqual(len(self.seen()), len(vile))

    def test_what_is_unreadable_is_named(self):
        self.server("HSET", "odd", "mode", "2 1 1 0 0 0 ", "h:one", "0 r " + "o" * 600)
        row, = self.rows(self.ask(0))
        self.assertEqual((row["NAME"], row["HELD"], row["LEASE"]), ("odd", "?", "-"))

    def test_it_fits_80_columns_unless_told_otherwise(self):
        name = "n" * 300 + "ending"
        self.make(name)
        lines = self.ask(0).splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertIn("\u2026", lines[1])
        self.assertIn("ending", lines[1])
        self.assertIn(TOKEN.format(0)[-4:], lines[1])  # the holder's token has room, too
        self.assertIn(name, self.ask(0, "--wide"))


class Ends(Alone):
    def test_bad_usage(self):
        self.assertIn("list: unexpected argument 'b' after PATTERN", self.ask(64, "a", "b"))
        self.assertIn("PATTERN is empty", self.ask(64, ""))
        self.assertIn("unknown option --token", self.ask(64, "--token", "x"))
        self.assertIn("has 513 bytes, 1 to 512 are allowed", self.ask(64, "*" * 513))
        self.assertIn("lockwire list [PATTERN]", self.ask(0, "--help"))

    def test_no_server(self):
        self.server.kill()
        self.assertIn("no connection", self.ask(69))

    def test_what_the_server_refuses(self):
        self.make("job")
        self.server("ACL", "SETUSER", "default", "-scan")
        said = self.ask(77)
        self.assertIn("SCAN", said)
        self.assertNotIn("job", said)
        self.server("ACL", "SETUSER", "default", "+scan", "-evalsha", "-eval")
        self.assertIn("NOPERM", self.ask(77))

    def test_who_cannot_write_says_so(self):
        self.make("job")
        with open("/dev/full", "w", encoding="ascii") as full:
            process = subprocess.run([COMMAND, "list"], stdout=full, stderr=subprocess.PIPE,
                                     env=self.environment, check=False, text=True, timeout=LIMIT)
        self.assertEqual(process.returncode, 71)
        self.assertIn("cannot write to the standard output", process.stderr)

    def test_a_server_that_goes_leaves_no_half_list(self):
        self.make("job")
        self.fill(200000)
        listing = self.spawn(COMMAND, "list")
        until(lambda: "cmdstat_scan:" in self.server("INFO", "commandstats"), "it has begun")
        self.server.kill()
        code, out, err = self.end_of(listing)
        self.assertEqual((code, out), (69, ""))
        self.assertIn("no connection", err)

    def test_a_signal_ends_it_at_once(self):
        self.server.pause()
        self.addCleanup(self.server.process.send_signal, signal.SIGCONT)
        for number in (signal.SIGINT, signal.SIGTERM):
            listing = self.spawn(COMMAND, "list")
            listing.send_signal(number)
            self.assertEqual(listing.wait(LIMIT), -number)


class Progress(Alone):
    def terminal(self, columns=100):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.addCleanup(os.close, master)
        return master, slave

    @staticmethod
    def read(master):
        """Returns all output until the other side is closed."""
        text = b""
        while select.select([master], [], [], LIMIT)[0]:
            try:
                text += os.read(master, 65536)
            except OSError:
                break
        return text.decode("utf-8")

    def test_it_is_one_line_that_goes_away(self):
        self.fill(30000)
        self.make("job:1")
        master, slave = self.terminal()
        process = subprocess.Popen([COMMAND, "list", "job*"], stdout=subprocess.PIPE, stderr=slave,
                                   env=self.environment, text=True)
        self.addCleanup(self.reap_all, process)
        os.close(slave)
        said = self.read(master)
        self.assertEqual([row["NAME"] for row in self.rows(process.stdout.read())], ["job:1"])
        self.assertEqual(process.wait(LIMIT), 0)
        self.assertRegex(said, r"^\r250 of 30,00\d keys, \d locks?\x1b\[K\r")
        self.assertNotIn("\n", said)
        self.assertEqual(set(re.findall(r"\x1b\[?.", said)), {"\x1b[K"})
        self.assertRegex(said, r"\r\x1b\[K$")  # the line is empty in the end

    def test_it_is_no_wider_than_the_terminal(self):
        self.fill(1000)
        master, slave = self.terminal(columns=12)
        process = subprocess.Popen([COMMAND, "list"], stdout=subprocess.PIPE, stderr=slave,
                                   env=self.environment, text=True)
        self.addCleanup(self.reap_all, process)
        os.close(slave)
        said = self.read(master)
        self.assertEqual(process.wait(LIMIT), 0)
        self.assertRegex(said, r"^\r25\d of 1,00\x1b\[K\r")

    def test_the_table_is_as_wide_as_the_terminal(self):
        self.make("n" * 300)
        master, slave = self.terminal(columns=60)
        process = subprocess.Popen([COMMAND, "list"], stdout=slave, stderr=subprocess.PIPE,
                                   env=self.environment, text=True)
        self.addCleanup(self.reap_all, process)
        os.close(slave)
        lines = self.read(master).replace("\r", "").splitlines()
        self.assertEqual(process.wait(LIMIT), 0)
        self.assertEqual(process.stderr.read(), "")
        self.assertIn(max(map(len, lines)), range(50, 61))

    @staticmethod
    def reap_all(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


class Elsewhere(ListTest):
    def test_all_masters_of_a_cluster(self):
        cluster = Clustered(replicas=0)
        self.addCleanup(cluster.stop)
        self.environment["LOCKWIRE_URL"] = cluster.url
        names = sorted(f"job:{i}" for i in range(12)) + ["{tag}1"]
        for number, name in enumerate(names):
            cluster.owner(cluster.slot(name))("SET", name, TOKEN.format(number), "PX", 600000)
        self.assertEqual(len({cluster.owner(cluster.slot(name)).port for name in names}), 3)
        self.hold("held", "--shared")
        seen = self.seen()
        self.assertEqual([lock["name"] for lock in seen], sorted(names + ["held"]))
        for lock in seen:
            self.assertEqual(lock["server"], cluster.owner(cluster.slot(lock["name"])).address)
        cluster.masters[1].kill()
        self.assertEqual(self.end_of(self.spawn(COMMAND, "list"))[:2], (69, ""))

    def test_the_master_that_sentinels_lead_to(self):
        watched = Watched()
        self.addCleanup(watched.stop)
        self.environment["LOCKWIRE_URL"] = watched.url
        self.hold("job")
        lock, = self.seen()
        self.assertEqual((lock["name"], lock["server"]),
                         ("job", f"127.0.0.1:{lock['master']['port']}"))


if __name__ == "__main__":
    unittest.main()
