#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`lockwire status` and `lockwire break`, and `lockwire run` in the re-entrant modes, at a real
server: the output in both forms, which locks are broken, exit codes.

Usual course: one run holds, another waits; status shows both; break hands the lock to the
second.
"""
import json
import os
import re
import signal
import socket
import threading
import unicodedata
import unittest

from support import COMMAND, ToolTest, until
from watch import Terminal

QUEUE = "lockwire:2:queue:{job}"
RW_QUEUE = "lockwire:2:rwqueue:{job}"


class LookTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.environment["LOCKWIRE_URL"] = self.server.url
        self.holders = 0

    def run_(self, *words):
        return self.spawn(COMMAND, "run", "job", *words, cwd=self.folder)

    def holder(self, *options):
        """Starts a process that holds the lock until its program ends. Returns it and the
        program's pid."""
        self.holders += 1
        mark = f"held{self.holders}"
        process = self.run_(*options, "--", "sh", "-c", f"echo $$ > {mark}; exec sleep 1000")
        return process, int(self.wait_for_file(mark, process))

    def waiter(self, queue, length, *options):
        process = self.run_(*options, "--", "sh", "-c", "echo mine; exec sleep 1000")
        until(lambda: self.server("ZCARD", queue) == length, "the waiter queues")
        return process

    def ask(self, code, *words):
        got, out, err = self.end_of(self.spawn(COMMAND, *words))
        self.assertEqual(got, code, f"{words}: {out}{err}")
        return out + err

    def status(self, *words):
        return self.ask(0, "status", *(words or ("job",)))

    def seen(self, name="job"):
        code, out, err = self.end_of(self.spawn(COMMAND, "status", name, "--json"))
        self.assertIn(code, (0, 1), f"{out}{err}")
        seen = json.loads(out)
        self.assertEqual(code, 0 if seen["holder_total"] or seen["foreign"] else 1)
        return seen

    @staticmethod
    def rows(table):
        """Returns each table as a list of {title: cell}, by the titles' columns."""
        tables = []
        for block in table.rstrip("\n").split("\n\n")[1:]:
            head, *lines = block.split("\n")
            starts = [match.start() for match in re.finditer(r"\S+", head)] + [None]
            tables.append([{head[a:b].strip(): line[a:b].strip()
                            for a, b in zip(starts, starts[1:])} for line in lines])
        return tables


class Relay:
    """Forwards the connections to a server's port, except that SUBSCRIBE is neither forwarded
    nor answered."""

    def __init__(self, port):
        self.port_behind = port
        self.sockets = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                front, _ = self.listener.accept()
            except OSError:
                return
            back = socket.create_connection(("127.0.0.1", self.port_behind))
            self.sockets += front, back
            for pair in ((front, back), (back, front)):
                threading.Thread(target=self.pump, args=pair, daemon=True).start()

    @staticmethod
    def pump(source, target):
        try:
            while data := source.recv(65536):
                if b"SUBSCRIBE" not in data:
                    target.sendall(data)
        except OSError:
            pass

    def close(self):
        for one in (self.listener, *self.sockets):
            one.close()

    def cut(self):
        """Closes all connections, as a server does when it ends."""
        self.listener.shutdown(socket.SHUT_RDWR)
        for one in self.sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Status(LookTest):
    def test_a_server_that_goes_after_its_answer(self):
        """The output that was shown stays valid, and so does the exit code."""
        relay = Relay(self.server.listen())
        self.addCleanup(relay.close)
        process = self.spawn(COMMAND, "status", "job", "--redis",
                             f"redis://127.0.0.1:{relay.port}")
        self.assertEqual(self.line_of(process.stdout), "job: free\n")
        relay.cut()
        code, _, err = self.end_of(process)
        self.assertEqual(code, 1, err)
        self.assertRegex(err, "^(lockwire: the subscription connection is down; waiters poll: "
                              r"\S+ closed the connection\n)?$")  # if it had not ended yet

    def test_free(self):
        self.assertRegex(self.ask(1, "status", "job"),
                         rf"^job: free\nredis {self.server.socket}, master; 0\.\ds ago\n$")
        self.assertEqual(self.seen(), {
            "name": "job", "foreign": None, "holder_total": 0, "holders": [],
            "waiter_total": 0, "waiters": [], "server": self.server.socket, "role": "master",
            "master": None, "degraded": []})

    def test_a_mutex_and_who_waits(self):
        process, _ = self.holder()
        waiting = self.waiter(QUEUE, 1)
        table = self.status("job", "--wide")
        self.assertTrue(table.startswith("job: 1 holder, 1 waiter\n"), table)
        (held,), (waits,) = self.rows(table)
        value = self.server("GET", "job")
        self.assertTrue(value.endswith("+"), value)  # marked, since there is a waiter
        self.assertEqual((held["HELD"], held["OWNER"], held["FENCE"], held["TOKEN"]),
                         ("mutex", "-", "-", value[:-1] + "-"))
        self.assertRegex(held["LEASE"], r"^\d+\.\ds$")
        self.assertEqual(held["CLIENT"],
                         f"lockwire-run {socket.gethostname()} {process.pid}")
        self.assertEqual((waits["#"], waits["WAITS"]), ("1", "mutex"))
        self.assertEqual(waits["CLIENT"].split()[2], str(waiting.pid))
        self.assertRegex(waits["WAITED"], r"^\d+\.\ds$")

    def test_json_says_the_same_in_numbers(self):
        process, _ = self.holder("--shared", "--owner", "anna", "--permits", "2")
        self.waiter(RW_QUEUE, 1, "--exclusive", "--owner", "bert")
        seen = self.seen()
        (held,), (waits,) = seen["holders"], seen["waiters"]
        self.assertEqual((seen["holder_total"], seen["waiter_total"]), (1, 1))
        self.assertEqual((held["mode"], held["owner"]), ("shared", "anna"))
        self.assertTrue(0 < held["remaining_ms"] <= 30000)
        self.assertEqual(f"1 {held['fence']}", self.server("HGET", "job", "r:anna"))
        self.assertEqual(held["client"].split()[2], str(process.pid))
        self.assertEqual(self.server("HEXISTS", "job", f"h:{held['token']}"), 1)
        self.assertEqual((waits["mode"], waits["owner"], waits["position"],
                          waits["permits"]), ("exclusive", "bert", 1, None))
        self.assertGreaterEqual(waits["waited_ms"], 0)

    def test_what_is_not_known_is_null(self):
        self.server("SET", "job", "theirs")
        (held,) = self.seen()["holders"]
        self.assertEqual(held, {"mode": "mutex", "token": "theirs", "owner": None,
                                "client": None, "remaining_ms": None, "fence": None,
                                "since": None, "user": None, "note": None})
        ((row,),) = self.rows(self.status())
        self.assertEqual(row["LEASE"], "no limit")

    def test_a_stranger_s_key_is_named_by_its_type(self):
        self.server("RPUSH", "job", "value")
        self.assertIn("job: held by another program, the key is a list\n", self.status())
        self.assertIn("list", self.status())
        self.assertEqual(self.seen()["foreign"], "list")

    def test_no_control_character_reaches_the_terminal(self):
        self.server("SET", "job", "\x1b[2J\x07\nx\x7f")
        table = self.status()
        self.assertIn(r"\x1b[2J\x07\x0ax\x7f", table)
        self.assertFalse(set(table) & {"\x1b", "\x07", "\x7f"})
        self.assertEqual(self.seen()["holders"][0]["token"], r"\x1b[2J\x07\x0ax\x7f")

    def test_letters_beyond_ascii_stay_and_keep_the_columns(self):
        self.server("SET", "jöb", "grün")
        table = self.status("jöb")
        self.assertIn("jöb: 1 holder", table)
        self.assertEqual(self.rows(table)[0][0]["TOKEN"], "grün")
        self.assertEqual(self.seen("jöb")["name"], "jöb")

    def test_columns_stand_below_each_other(self):
        self.holder("--shared", "--owner", "a")
        self.holder("--shared", "--owner", "a-very-much-longer-owner")
        ((first, second),) = self.rows(self.status("job", "--wide"))
        self.assertEqual((first["OWNER"], second["OWNER"]), ("a", "a-very-much-longer-owner"))
        self.assertEqual(self.server("HGET", "job", f"h:{second['TOKEN']}").split()[2],
                         second["OWNER"])

    def test_who_gave_no_owner_has_none(self):
        """If no owner is given, Redis stores the token in its place."""
        self.holder("--shared")
        (held,) = self.seen()["holders"]
        self.assertIn(f"r:{held['token']}", self.server("HKEYS", "job"))
        self.assertIsNone(held["owner"])
        ((row,),) = self.rows(self.status("job", "--wide"))
        self.assertEqual((row["OWNER"], row["TOKEN"]), ("-", held["token"]))

    def test_holders_stand_in_the_order_of_their_numbers(self):
        now = int(self.server("TIME")[0]) * 1000
        words = ["mode", f"2 3 3 0 {now + 60000} 0 "]
        for owner, number in (("b", 9), ("c", 100), ("a", 8)):
            words += [f"h:{owner}:1", f"{now + 60000} r {owner}", f"r:{owner}", f"1 {number}"]
        self.server("HSET", "job", *words)
        self.assertEqual([held["owner"] for held in self.seen()["holders"]], ["a", "b", "c"])
        ((one, two, three),) = self.rows(self.status())
        self.assertEqual((one["FENCE"], two["FENCE"], three["FENCE"]), ("8", "9", "100"))

    def test_more_than_a_hundred(self):
        now = int(self.server("TIME")[0]) * 1000
        words = ["mode", f"2 130 130 0 {now + 60000} 0 "]
        for i in range(130):
            words += [f"h:a:{i}:1", f"{now + 60000} r o{i}", f"r:o{i}", "1 7"]
        self.server("HSET", "job", *words)
        self.assertIn("... and 30 more", self.status())
        self.assertEqual(self.seen()["holder_total"], 130)

    def test_held_or_free_by_the_exit_code(self):
        for form in ((), ("--json",), ("--wide",)):
            self.server("DEL", "job")
            self.ask(1, "status", "job", *form)
            self.server("SET", "job", "theirs")
            self.ask(0, "status", "job", *form)
            self.server("DEL", "job")
            self.server("RPUSH", "job", "a stranger's")
            self.ask(0, "status", "job", *form)

    def test_free_whoever_waits(self):
        self.holder()
        waiting = self.waiter(QUEUE, 1)
        waiting.send_signal(signal.SIGSTOP)
        self.server("DEL", "job")
        said = self.ask(1, "status", "job")
        self.assertTrue(said.startswith("job: free, 1 waiter\n"), said)
        self.assertEqual(self.seen()["waiter_total"], 1)
        waiting.send_signal(signal.SIGCONT)

    def test_a_server_that_does_not_say_its_role(self):
        self.server("ACL", "SETUSER", "default", "-info")
        said = self.ask(1, "status", "job")
        self.assertRegex(said, rf"\nredis {self.server.socket}; \d\.\ds ago\n")
        self.assertIsNone(self.seen()["role"])

    def test_exit_codes(self):
        self.assertIn("no connection", self.ask(69, "status", "job", "--redis",
                                                "unix:///nonexistent/socket"))
        self.ask(64, "status", "lockwire:fence")
        self.ask(64, "status", "job", "--redis", "http://x")
        self.server("ACL", "SETUSER", "default", "-eval", "-evalsha")
        self.assertIn("NOPERM", self.ask(77, "status", "job"))

    def test_output_that_cannot_be_written(self):
        process = self.spawn("sh", "-c", 'exec "$0" status job >/dev/full', COMMAND)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 71)
        self.assertIn("cannot write to the standard output", err)


def width(line):
    return sum(0 if unicodedata.category(letter) in ("Mn", "Cf")
               else 2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line)


class Width(LookTest):
    """Other programs may use owners of any length and any characters."""

    OWNERS = ("o" * 128, "\u65e5\u672c" * 40, "e\u0301" * 60, "\x1b[31m" + "x" * 100,
              "\U0001f512" * 30, "short")
    FENCE = 1795531977009086

    def setUp(self):
        super().setUp()
        now = int(self.server("TIME")[0]) * 1000
        words = ["mode", f"2 {len(self.OWNERS)} {len(self.OWNERS)} 0 {now + 600000} 0 "]
        for i, owner in enumerate(self.OWNERS):
            uuid = f"{i}1234567-89ab-cdef-0123-456789abcdef"
            words += [f"h:{uuid}:1:2000-", f"{now + 600000} r {owner}", f"r:{owner}",
                      f"1 {self.FENCE}{i}"]
            self.server("SET", f"lockwire:client:{uuid}",
                        f"a-program-{'n' * 100} host-{'h' * 60} {4100000 + i}")
        self.server("HSET", "job", *words)

    def lines(self, columns, *words):
        """Returns the lines as shown in a terminal of this width; None: in a pipe."""
        words = words or ("status", "job")
        if columns is None:
            return self.ask(0, *words).splitlines()
        terminal = Terminal(columns=columns)
        self.addCleanup(terminal.close)
        process = self.spawn("sh", "-c", 'out=$1; shift; exec "$0" "$@" >"$out"', COMMAND,
                             os.ttyname(terminal.slave), *words)
        until(lambda: terminal.read() is not None and process.poll() is not None, "it ends")
        self.assertEqual(process.returncode, 0)
        return terminal.read().decode("utf-8").replace("\r", "").splitlines()

    def check(self, lines, columns):
        for line in lines:
            self.assertLessEqual(width(line), columns, lines)
            self.assertFalse(set(line) & {"\x1b", "\x07", "\x7f"}, lines)
        self.assertEqual(len(lines), 4 + len(self.OWNERS), lines)
        for i, line in enumerate(lines[4:]):
            self.assertIn(f"{self.FENCE}{i}", line)  # numbers are not shortened
            self.assertRegex(line, rf"  a-pro\S+\u2026.*{4100000 + i}\b")
        self.assertRegex(lines[4], r"^read  ooo\S*\u2026o+  ")
        self.assertRegex(lines[-1], "^read  short  ")

    def test_it_fits(self):
        for columns in (None, 60, 80, 132, 0):
            lines = self.lines(columns)
            self.check(lines, columns or 80)
            self.assertGreater(max(width(line) for line in lines), (columns or 80) - 3)

    def test_a_very_narrow_terminal(self):
        for columns in (1, 10, 30):
            lines = self.lines(columns)
            self.assertEqual(len(lines), 4 + len(self.OWNERS), lines)
            self.assertLessEqual(max(width(line) for line in lines), columns, lines)

    def test_tokens_are_there_where_there_is_room(self):
        self.assertNotIn("TOKEN", self.lines(80)[3])
        lines = self.lines(1000)
        self.assertIn("TOKEN", lines[3])
        self.assertTrue(lines[-1].endswith("51234567-89ab-cdef-0123-456789abcdef:1:2000-"), lines)

    def test_what_is_wide_is_whole(self):
        for columns in (None, 40):
            lines = self.lines(columns, "status", "job", "--wide")
            self.assertNotIn("\u2026", "\n".join(lines))
            self.assertIn("o" * 128, lines[4])
            self.assertIn(r"\x1b[31mxxx", lines[7])
            self.assertTrue(lines[-1].endswith("51234567-89ab-cdef-0123-456789abcdef:1:2000-"),
                            lines)

    def test_a_long_name_leaves_room_for_what_is_said_of_it(self):
        name = "n" * 200 + "end"
        self.server("SET", name, "theirs")
        for columns in (60, 80):
            lines = self.lines(columns, "status", name)
            self.assertEqual(width(lines[0]), columns)
            self.assertRegex(lines[0], "^n+\u2026n+end: 1 holder$")

    def test_a_long_server_leaves_room_for_the_age(self):
        folder = self.path("f" * 60)
        os.mkdir(folder)
        link = os.path.join(folder, "s")
        os.symlink(self.server.socket, link)
        for columns in (60, 80):
            lines = self.lines(columns, "status", "job", "--redis", f"unix://{link}")
            self.assertEqual(width(lines[1]), columns)
            self.assertRegex(lines[1], r"^redis /\S+\u2026\S+/s, master; \d\.\ds ago$")


class Break(LookTest):
    def test_the_next_gets_it_and_the_holder_is_told(self):
        held, _ = self.holder("--lease", "10m") # no renewal finds out before the message
        waiting = self.waiter(QUEUE, 1)
        self.assertEqual(self.ask(0, "break", "job"), "")
        self.assertEqual(waiting.stdout.readline(), "mine\n")
        code, _, err = self.end_of(held)
        self.assertEqual(code, 70)
        self.assertIn("lost", err)
        self.assertIsNone(waiting.poll())

    def test_only_the_token_s(self):
        self.holder()
        token = self.server("GET", "job")
        for other in (token + "0", "theirs"):
            self.assertIn("not held by the given --token",
                          self.ask(1, "break", "job", "--token", other))
            self.assertEqual(self.server("GET", "job"), token)
        self.ask(0, "break", "job", f"--token={token}")
        self.assertIsNone(self.server("GET", "job"))

    def test_the_token_that_status_shows(self):
        self.holder("--shared", "--owner", "anna")
        self.holder("--shared", "--owner", "bert")
        (token,) = [entry["token"] for entry in self.seen()["holders"]
                    if entry["owner"] == "anna"]
        self.assertIn(token, self.status("job", "--wide"))
        self.ask(0, "break", "job", "--token", token)
        self.assertEqual([entry["owner"] for entry in self.seen()["holders"]], ["bert"])

    def test_nothing_to_break(self):
        self.assertIn("the lock is not held", self.ask(1, "break", "job"))
        self.server("SADD", "job", "x")
        self.assertIn("cannot break 'job': the key contains a set in an unknown format; "
                      "key left unchanged\n", self.ask(1, "break", "job"))
        self.assertEqual(self.server("SCARD", "job"), 1)

    def test_exit_codes(self):
        self.ask(69, "break", "job", "--redis", "unix:///nonexistent/socket")
        self.ask(64, "break", "a}b")
        self.server("ACL", "SETUSER", "default", "-eval", "-evalsha")
        self.assertIn("NOPERM", self.ask(77, "break", "job"))


class Modes(LookTest):
    def test_readers_share_and_a_writer_is_alone(self):
        self.holder("--shared")
        _, pid = self.holder("--shared")
        self.assertEqual(self.end_of(self.run_("--exclusive", "--wait", "0", "--", "true"))[0],
                         75)
        self.assertEqual(self.seen()["holder_total"], 2)
        os.kill(pid, signal.SIGTERM)
        until(lambda: self.seen()["holder_total"] == 1, "the second reader is gone")

    def test_one_owner_enters_again(self):
        self.holder("--exclusive", "--owner", "anna")
        for owner, code in (("bert", 75), ("anna", 0)):
            run = self.run_("--exclusive", "--owner", owner, "--wait", "0", "--", "true")
            self.assertEqual(self.end_of(run)[0], code)
        self.assertEqual(self.seen()["holder_total"], 1)

    def test_permits_bound_the_owners(self):
        self.holder("--shared", "--permits", "2")
        _, pid = self.holder("--shared", "--permits", "2")
        waiting = self.waiter(RW_QUEUE, 1, "--shared", "--permits", "2")
        os.kill(pid, signal.SIGTERM)
        self.assertEqual(waiting.stdout.readline(), "mine\n")

    def test_two_upgrades_would_wait_for_ever(self):
        self.holder("--shared", "--owner", "anna")
        self.holder("--shared", "--owner", "bert")
        self.waiter(RW_QUEUE, 1, "--exclusive", "--owner", "anna")
        code, _, err = self.end_of(self.run_("--exclusive", "--owner", "bert", "--", "true"))
        self.assertEqual(code, 75)
        self.assertIn("deadlock: another reader is waiting to write", err)

    def test_a_program_s_fence_is_that_of_status(self):
        self.holder("--exclusive", "--owner", "anna")
        code, out, _ = self.end_of(self.run_("--exclusive", "--owner", "anna", "--", "sh",
                                             "-c", "echo $LOCKWIRE_FENCE"))
        self.assertEqual(code, 0)
        self.assertEqual(int(out), self.seen()["holders"][0]["fence"])


if __name__ == "__main__":
    unittest.main()
