#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`lockwire status` and `lockwire break`, and `lockwire run` in the re-entrant modes, at a
real server: what is shown, in both forms, what is taken away, exit codes.

Happy path: one run holds, another waits; status shows both; break gives the lock to the second.
"""
import json
import os
import re
import signal
import socket
import unittest

from support import COMMAND, ToolTest, until

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
        """A process that holds the lock until its program, whose pid comes too, is ended."""
        self.holders += 1
        mark = f"held{self.holders}"
        process = self.run_(*options, "--", "sh", "-c", f"echo $$ > {mark}; exec sleep 1000")
        return process, int(self.wait_for_file(mark))

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
        return json.loads(self.status(name, "--json"))

    @staticmethod
    def rows(table):
        """Each table as a list of {title: cell}, by the titles' columns."""
        tables = []
        for block in table.rstrip("\n").split("\n\n")[1:]:
            head, *lines = block.split("\n")
            starts = [match.start() for match in re.finditer(r"\S+", head)] + [None]
            tables.append([{head[a:b].strip(): line[a:b].strip()
                            for a, b in zip(starts, starts[1:])} for line in lines])
        return tables


class Status(LookTest):
    def test_free(self):
        self.assertEqual(self.status(), "job: free\n")
        self.assertEqual(self.seen(), {
            "name": "job", "stranger": None, "holder_total": 0, "holders": [],
            "waiter_total": 0, "waiters": [], "master": None})

    def test_a_mutex_and_who_waits(self):
        process, _ = self.holder()
        waiting = self.waiter(QUEUE, 1)
        table = self.status()
        self.assertTrue(table.startswith("job: held by 1, 1 waiting\n"), table)
        (held,), (waits,) = self.rows(table)
        value = self.server("GET", "job")
        self.assertTrue(value.endswith("+"), value)  # marked, since somebody waits
        self.assertEqual((held["HELD"], held["OWNER"], held["FENCE"], held["TOKEN"]),
                         ("mutex", "-", "-", value[:-1] + "-"))
        self.assertRegex(held["LEFT"], r"^\d+\.\ds$")
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
                                "client": None, "remaining_ms": None, "fence": None})
        ((row,),) = self.rows(self.status())
        self.assertEqual(row["LEFT"], "no limit")

    def test_a_stranger_s_key_is_named_by_its_type(self):
        self.server("RPUSH", "job", "value")
        self.assertIn("stranger", self.status())
        self.assertIn("list", self.status())
        self.assertEqual(self.seen()["stranger"], "list")

    def test_no_control_character_reaches_the_terminal(self):
        self.server("SET", "job", "\x1b[2J\x07\nx\x7f")
        table = self.status()
        self.assertIn(r"\x1b[2J\x07\x0ax\x7f", table)
        self.assertFalse(set(table) & {"\x1b", "\x07", "\x7f"})
        self.assertEqual(self.seen()["holders"][0]["token"], r"\x1b[2J\x07\x0ax\x7f")

    def test_letters_beyond_ascii_stay_and_keep_the_columns(self):
        self.server("SET", "jöb", "grün")
        table = self.status("jöb")
        self.assertIn("jöb: held by 1", table)
        self.assertEqual(self.rows(table)[0][0]["TOKEN"], "grün")
        self.assertEqual(self.seen("jöb")["name"], "jöb")

    def test_columns_stand_below_each_other(self):
        self.holder("--shared", "--owner", "a")
        self.holder("--shared", "--owner", "a-very-much-longer-owner")
        ((first, second),) = self.rows(self.status())
        self.assertEqual({first["OWNER"], second["OWNER"]}, {"a", "a-very-much-longer-owner"})
        self.assertEqual(self.server("HGET", "job", f"h:{second['TOKEN']}").split()[2],
                         second["OWNER"])

    def test_more_than_a_hundred(self):
        now = int(self.server("TIME")[0]) * 1000
        words = ["mode", f"2 130 130 0 {now + 60000} 0 "]
        for i in range(130):
            words += [f"h:a:{i}:1", f"{now + 60000} r o{i}", f"r:o{i}", "1 7"]
        self.server("HSET", "job", *words)
        self.assertIn("... and 30 more", self.status())
        self.assertEqual(self.seen()["holder_total"], 130)

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
        self.assertIn("cannot write", err)


class Break(LookTest):
    def test_the_next_gets_it_and_the_holder_is_told(self):
        held, _ = self.holder("--lease", "1500ms")
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
            self.assertIn("does not hold", self.ask(1, "break", "job", "--token", other))
            self.assertEqual(self.server("GET", "job"), token)
        self.ask(0, "break", "job", f"--token={token}")
        self.assertIsNone(self.server("GET", "job"))

    def test_the_token_that_status_shows(self):
        self.holder("--shared", "--owner", "anna")
        self.holder("--shared", "--owner", "bert")
        (token,) = [entry["token"] for entry in self.seen()["holders"]
                    if entry["owner"] == "anna"]
        self.ask(0, "break", "job", "--token", token)
        self.assertEqual([entry["owner"] for entry in self.seen()["holders"]], ["bert"])

    def test_nothing_to_break(self):
        self.assertIn("nobody", self.ask(1, "break", "job"))
        self.server("SADD", "job", "x")
        self.assertIn("stranger", self.ask(1, "break", "job"))
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
        self.assertIn("another owner", err)

    def test_a_program_s_fence_is_that_of_status(self):
        self.holder("--exclusive", "--owner", "anna")
        code, out, _ = self.end_of(self.run_("--exclusive", "--owner", "anna", "--", "sh",
                                             "-c", "echo $LOCKWIRE_FENCE"))
        self.assertEqual(code, 0)
        self.assertEqual(int(out), self.seen()["holders"][0]["fence"])


if __name__ == "__main__":
    unittest.main()
