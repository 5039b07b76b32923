#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The command with the URL of a quorum: run, lead and hold at three real servers, status with
each server's vote, list and break across the servers, and refusals.

Usual course: one run holds the lock at three servers; status shows three votes; another run
waits.
"""
import json
import os
import signal
import subprocess
import unittest

from quorum_servers import quorum_start
from support import COMMAND, ToolTest, until

TOKEN = "3f2b8a52-96d5-4c1f-a2b0-0d3c5f7e9a11:1:10000-"
OTHER = "01234567-89ab-cdef-0123-456789abcdef:7:10000-"


class QuorumTest(ToolTest):
    def setUp(self):
        super().setUp()
        quorum_start(self)
        self.environment["LOCKWIRE_URL"] = self.url

    def ask(self, code, *words):
        got, out, err = self.end_of(self.spawn(COMMAND, *words))
        self.assertEqual(got, code, f"{words}: {out}{err}")
        return out + err

    def held(self):
        return sum(server("EXISTS", "job") for server in self.servers)

    def hold(self, *words):
        process = self.spawn(COMMAND, "run", "job", *words, "--", "sh", "-c",
                             "echo $$ > held; exec sleep 1000", cwd=self.folder)
        return process, int(self.wait_for_file("held", process))

    def test_run_holds_at_every_server(self):
        process, pid = self.hold()
        until(lambda: self.held() == 3, "every server grants the lock")
        waiter = self.spawn(COMMAND, "run", "job", "--", "sh", "-c", "echo $LOCKWIRE_FENCE")
        until(lambda: all(server("ZCARD", "lockwire:2:queue:{job}") == 1
                          for server in self.servers), "it waits at every server")
        os.kill(pid, signal.SIGTERM)
        self.end_of(process)
        code, out, err = self.end_of(waiter)
        self.assertEqual((code, err), (0, ""))
        self.assertGreater(int(out), 1 << 50)
        until(lambda: self.held() == 0, "the lock is released everywhere")

    def test_lead_and_hold(self):
        self.assertIn("leads\n", self.ask(0, "lead", "job", "--", "echo", "leads"))
        holder = self.spawn(COMMAND, "hold", "job", stdin=subprocess.PIPE)
        self.addCleanup(holder.stdin.close)
        self.assertGreater(int(holder.stdout.readline()), 1 << 50)
        self.assertIn("held by another", self.ask(75, "run", "job", "--wait", "0", "--", "true"))
        holder.stdin.close()
        until(lambda: self.held() == 0, "the lock is released everywhere")

    def test_status_shows_each_vote(self):
        self.assertIn("job: held at 0 of 3 servers", self.ask(1, "status", "job"))
        _, pid = self.hold()
        until(lambda: self.held() == 3, "every server grants the lock")
        out = self.ask(0, "status", "job")
        self.assertIn("job: held at 3 of 3 servers", out)
        for host in self.hosts:
            self.assertRegex(out, rf"(?m)^{host} .*lockwire-run ")
        self.assertIn("job: held at 3 of 3 servers",
                      self.ask(0, "status", "job", "--redis", self.url.replace("redis", "valkey")))
        self.servers[1].kill()
        out = self.ask(0, "status", "job")
        self.assertIn("job: held at 2 of 3 servers", out)
        self.assertRegex(out, rf"(?m)^{self.hosts[1]} .*Connection refused")
        seen = json.loads(self.ask(0, "status", "job", "--json"))
        self.assertEqual([one["server"] for one in seen], self.hosts)
        self.assertEqual(seen[0]["status"]["holder_total"], 1)
        self.assertIn("refused", seen[1]["status"]["why"])
        self.servers[2].kill()
        self.assertIn("job: held at 1 of 3 servers", self.ask(69, "status", "job"))
        os.kill(pid, signal.SIGKILL)

    def test_status_tells_how_long_a_restarted_server_grants_nothing(self):
        self.servers[1].kill()
        self.servers[1].start()
        self.servers[1]("CONFIG", "SET", "port", str(self.servers[1].port))
        out = self.ask(1, "status", "job")
        self.assertRegex(out, rf"(?m)^{self.hosts[0]} .* free$")
        self.assertRegex(out, rf"(?m)^{self.hosts[1]} .* no lock can be granted for \d\d\.\ds: ")
        seen = json.loads(self.ask(1, "status", "job", "--json"))
        self.assertEqual(seen[0]["status"]["guard_left_ms"], 0)
        self.assertGreater(seen[1]["status"]["guard_left_ms"], 1)

    def vote(self, *tokens):
        """Stores these tokens, each at a server; None: no key."""
        for server, token in zip(self.servers, tokens):
            if token:
                server("SET", "job", token, "PX", 600000)
            else:
                server("DEL", "job")

    def test_list_merges_the_votes_of_a_lock(self):
        self.assertEqual(self.ask(0, "list"), "no lock is held\n")
        _, pid = self.hold()
        until(lambda: self.held() == 3, "every server grants the lock")
        self.servers[2]("SET", "split", OTHER, "PX", 600000)
        self.servers[0]("SET", "split", TOKEN, "PX", 600000)
        self.servers[1]("SET", "split", TOKEN.replace(":1:", ":2:"), "PX", 600000)
        out = self.ask(0, "list").splitlines()
        self.assertEqual(len(out), 3, out)
        self.assertRegex(out[1], r"^job +mutex +3 of 3 +0 +lockwire-run ")
        self.assertRegex(out[2], r"^split +mutex +2 of 3 +0 +3f2b8a52")
        seen = [json.loads(line) for line in self.ask(0, "list", "j*", "--json").splitlines()]
        self.assertEqual([one["name"] for one in seen], ["job"] * 3)
        self.assertEqual(len({one["server"] for one in seen}), 3)
        os.kill(pid, signal.SIGKILL)

    def test_list_needs_a_majority(self):
        self.vote(TOKEN, TOKEN, TOKEN)
        self.servers[1].kill()
        out = self.ask(0, "list")
        self.assertRegex(out, r"(?m)^job .* 2 of 3 ")
        self.assertRegex(out, f"the locks at {self.hosts[1]} are not listed: .*Connection refused")
        self.servers[0].kill()
        out = self.ask(69, "list")
        self.assertNotIn("2 of 3", out)
        self.assertEqual(out.count("are not listed"), 2, out)

    def test_yield_is_one_request(self):
        process, _ = self.hold("--on-yield", "echo >> asked")
        until(lambda: self.held() == 3, "every server grants the lock")
        self.assertEqual(self.ask(0, "yield", "job"), "")
        self.servers[0].kill()
        self.assertEqual(self.ask(0, "yield", "job"), "")
        until(lambda: len(self.wait_for_file("asked")) >= 2, "it is asked twice")
        process.terminate()
        self.assertEqual(self.end_of(process)[2].count("asked to release 'job'\n"), 2)

    def test_yield_asks_a_majority_s_client_alone(self):
        process, _ = self.hold()
        until(lambda: self.held() == 3, "every server grants the lock")
        self.servers[0]("SET", "job", OTHER, "PX", 600000)
        self.assertEqual(self.ask(0, "yield", "job"), "")
        self.assertEqual(self.end_of(process)[0], 128 + signal.SIGTERM)
        self.vote(OTHER, TOKEN, None)
        self.assertIn("cannot ask the holder of 'job': the lock is not held", self.ask(1, "yield", "job"))
        self.vote(TOKEN, TOKEN, None)
        self.assertRegex(self.ask(75, "yield", "job"),
                         f"cannot ask the holder of 'job': at {self.hosts[1]}: not reached; ")
        self.vote(None, None, None)
        self.assertIn("the lock is not held", self.ask(1, "yield", "job"))
        self.vote("theirs", "theirs", None)
        self.assertIn("is another library's", self.ask(75, "yield", "job"))

    def test_yield_needs_a_majority(self):
        self.vote(TOKEN, TOKEN, TOKEN)
        self.servers[0].kill()
        self.servers[1].kill()
        out = self.ask(69, "yield", "job")
        self.assertRegex(out, f"no reply for 'job' from {self.hosts[0]}: .*Connection refused")
        self.assertIn("cannot ask the holder of 'job': 1 of 3 servers replied, which is no majority", out)

    def test_break_releases_at_every_server(self):
        process, _ = self.hold("--lease", "33s")
        until(lambda: self.held() == 3, "every server grants the lock")
        self.assertEqual(self.ask(0, "break", "job"), "")
        code, _, err = self.end_of(process)
        self.assertEqual(code, 70, err)
        self.assertIn("lost", err)
        self.assertEqual(self.held(), 0)
        self.assertIn("the lock is not held", self.ask(1, "break", "job"))

    def test_break_at_a_majority_says_what_is_left(self):
        self.vote(TOKEN, TOKEN, TOKEN)
        self.servers[1].kill()
        out = self.ask(0, "break", "job")
        self.assertRegex(out, rf"'job' is not broken at {self.hosts[1]}: .*Connection refused; "
                              "a vote there is no hold")
        self.servers[2]("SET", "job", TOKEN, "PX", 600000)
        self.servers[0].kill()
        out = self.ask(69, "break", "job")
        self.assertIn("cannot break 'job': 1 of 3 servers replied", out)
        self.assertEqual(self.servers[2]("GET", "job"), TOKEN)

    def test_break_leaves_the_votes_of_other_clients(self):
        self.vote(OTHER, TOKEN, TOKEN.replace(":1:", ":2:"))
        self.assertEqual(self.ask(0, "break", "job"), "")
        self.assertEqual([server("GET", "job") for server in self.servers], [OTHER, None, None])
        self.vote(OTHER, TOKEN, TOKEN)
        self.assertEqual(self.ask(0, "break", "job", "--token", OTHER), "")
        self.assertEqual([server("GET", "job") for server in self.servers], [None, TOKEN, TOKEN])
        self.assertIn("not held by the given --token",
                      self.ask(1, "break", "job", "--token", OTHER))
        self.vote("theirs", "theirs", None)
        self.assertIn("use --foreign", self.ask(1, "break", "job"))
        self.assertEqual(self.held(), 2)
        self.assertEqual(self.ask(0, "break", "job", "--foreign"), "")
        self.assertEqual(self.held(), 0)

    def test_without_a_majority_every_server_is_listed(self):
        self.servers[0].kill()
        self.servers[2].kill()
        out = self.ask(69, "run", "job", "--wait", "0", "--", "true")
        for host in self.hosts:
            self.assertIn(host, out)

    def test_refusals(self):
        for words, why in ((("run", "job", "--exclusive", "--", "true"),
                            "LW_EXCLUSIVE is not supported by a quorum"),
                           (("run", "job", "--and", "other", "--", "true"), "by a quorum"),
                           (("run", "job", "--lease", "40s", "--", "true"), "above 33000"),
                           (("run", "job", "--at-least", "5s", "--", "true"),
                            "at_least_ms is not supported by a quorum"),
                           (("run", "job", "--max-waiting", "5", "--", "true"),
                            "max_waiting is not supported by a quorum"),
                           (("run", "job", "--token", TOKEN, "--", "true"),
                            "a lock of a quorum cannot be adopted"),
                           (("take", "job"), "cannot outlive the process"),
                           (("take", "job", "--token", TOKEN), "cannot outlive the process"),
                           (("release", "job", TOKEN), "ask each server by its own URL"),
                           (("watch", "job"), "ask each server by its own URL"),
                           (("status", "job", "--redis", self.url + ",h"),
                            "3, 5 or 7 servers; 4 are listed")):
            self.assertIn(why, self.ask(64, *words))


if __name__ == "__main__":
    unittest.main()
