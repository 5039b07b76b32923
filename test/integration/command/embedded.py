#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`--redis embedded:`: a server for one command, or shared by those who name its folder.

Happy path: the command finds a working server at LOCKWIRE_URL, and afterwards there is
neither process nor folder.
"""
import contextlib
import os
import re
import signal
import unittest
from urllib.parse import unquote

from support import COMMAND, ToolTest, alive, until


def servers(folder):
    """The redis-servers (pids) that stand in the folder or below it."""
    found, folder = [], os.path.realpath(folder)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            place = os.readlink(f"/proc/{pid}/cwd")
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                line = file.read()
        except OSError:
            continue
        inside = place == folder or place.startswith(folder + "/")
        if inside and re.search("(redis|valkey)-server", line) and alive(pid):
            found.append(int(pid))
    return found


class EmbeddedTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.environment["TMPDIR"] = self.folder
        self.addCleanup(self.end_servers)

    def end_servers(self):
        for pid in servers(self.folder):
            with contextlib.suppress(ProcessLookupError):  # it ends by itself, too
                os.kill(pid, signal.SIGKILL)
        until(lambda: not servers(self.folder), "none is left")

    def run_(self, url, *words):
        return self.spawn(COMMAND, "run", "--redis", url, *words, cwd=self.folder)

    def holder(self, url, mark):
        process = self.run_(url, mark, "--", "sh", "-c",
                            f"echo $$ > {mark}; exec sleep 1000")
        return process, int(self.wait_for_file(mark))


class Alone(EmbeddedTest):
    def test_a_server_for_one_command(self):
        code, out, err = self.end_of(self.run_(
            "embedded:", "job", "--", "sh", "-c",
            'echo "$LOCKWIRE_URL"; "$0" run job --wait 0 -- true; echo $?', COMMAND))
        self.assertEqual(code, 0, err)
        url, inner = out.split()
        self.assertRegex(url, "^unix:///")
        self.assertEqual(inner, "75", "the same server, the same lock")
        self.assertIn(self.folder, unquote(url))
        self.assertEqual(os.listdir(self.folder), [])
        self.assertEqual(servers(self.folder), [])

    def test_from_the_environment(self):
        process = self.spawn(COMMAND, "run", "job", "--", "true",
                             env={"LOCKWIRE_URL": "embedded:"})
        self.assertEqual(self.end_of(process)[0], 0)

    def test_the_folder_is_private(self):
        self.holder("embedded:", "job")
        folder = [name for name in os.listdir(self.folder) if name != "job"]
        self.assertEqual(len(folder), 1)
        self.assertEqual(os.stat(self.path(folder[0])).st_mode & 0o777, 0o700)

    def test_a_killed_command_takes_its_server_along(self):
        process, pid = self.holder("embedded:", "job")
        self.assertEqual(len(servers(self.folder)), 1)
        process.kill()
        until(lambda: not servers(self.folder) and not alive(pid), "both are gone")

    def test_a_terminals_interrupt_does_not_reach_the_server(self):
        process = self.spawn(
            COMMAND, "run", "--redis", "embedded:", "job", "--", "sh", "-c",
            'trap "exit 5" INT; echo $$ > held; while :; do sleep 0.02; done',
            cwd=self.folder, start_new_session=True)
        self.wait_for_file("held")
        os.killpg(process.pid, signal.SIGINT)
        code, _, err = self.end_of(process)
        self.assertEqual((code, err), (5, ""), "released at a server that is still there")

    def test_no_server_program(self):
        process = self.spawn(COMMAND, "run", "--redis", "embedded:", "job", "--", "true",
                             env={"PATH": "/nonexistent"})
        code, _, err = self.end_of(process)
        self.assertEqual(code, 69)
        self.assertIn("redis-server", err)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_folder_that_cannot_be(self):
        for folder, said in (("/nonexistent/x/y", "/nonexistent/x/y"),
                             ("/tmp/" + "x" * 200, "longer")):
            code, _, err = self.end_of(self.run_(f"embedded:{folder}", "job", "--", "true"))
            self.assertEqual(code, 69)
            self.assertIn(said, err)


class Shared(EmbeddedTest):
    """Two commands that name the same folder; its name has a blank and a per cent sign."""

    def setUp(self):
        super().setUp()
        self.shared = self.path("a b%41")
        self.url = f"embedded:{self.shared}"

    def test_they_exclude_each_other(self):
        _, pid = self.holder(self.url, "job")
        code, _, _ = self.end_of(self.run_(self.url, "job", "--wait", "0", "--", "true"))
        self.assertEqual(code, 75)
        waiter = self.run_(self.url, "job", "--", "true")
        os.kill(pid, signal.SIGTERM)
        self.assertEqual(self.end_of(waiter)[0], 0)
        self.assertEqual(len(servers(self.shared)), 0)

    def test_the_server_outlives_the_one_who_started_it(self):
        first, first_pid = self.holder(self.url, "one")
        second, second_pid = self.holder(self.url, "two")
        self.assertEqual(len(servers(self.shared)), 1)
        os.kill(first_pid, signal.SIGTERM)
        self.assertEqual(self.end_of(first)[0], 128 + signal.SIGTERM)
        code, _, _ = self.end_of(self.run_(self.url, "two", "--wait", "0", "--", "true"))
        self.assertEqual(code, 75)
        os.kill(second_pid, signal.SIGTERM)
        self.assertEqual(self.end_of(second)[::2], (128 + signal.SIGTERM, ""))
        self.assertEqual(servers(self.shared), [])

    def test_one_that_crashed_does_not_block_the_next(self):
        crashed, pid = self.holder(self.url, "one")
        crashed.kill()
        until(lambda: not alive(pid), "its program is gone")
        self.assertEqual(self.end_of(self.run_(self.url, "two", "--", "true"))[0], 0)
        self.assertEqual(servers(self.shared), [])

    def test_a_server_that_crashed_is_replaced(self):
        crashed, pid = self.holder(self.url, "one")
        os.kill(servers(self.shared)[0], signal.SIGKILL)
        crashed.kill()
        until(lambda: not alive(pid), "its program is gone")
        self.assertEqual(self.end_of(self.run_(self.url, "two", "--", "true"))[0], 0)

    def test_the_last_one_stops_the_server_that_replaced_its_own(self):
        first = self.spawn(COMMAND, "watch", "job", "--redis", self.url)
        self.assertRegex(first.stdout.readline(), "job: free$")
        os.kill(servers(self.shared)[0], signal.SIGKILL)
        until(lambda: not servers(self.shared), "its server is gone")
        second, pid = self.holder(self.url, "two")
        os.kill(pid, signal.SIGTERM)
        self.assertEqual(self.end_of(second)[0], 128 + signal.SIGTERM)
        self.assertEqual(len(servers(self.shared)), 1, "one user is left")
        first.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(first)[0], 0)
        self.assertEqual(servers(self.shared), [])

    def test_many_at_once_come_and_go(self):
        count = self.path("count")
        with open(count, "w", encoding="ascii") as file:
            file.write("0")
        script = 'n=$(cat "$0"); echo $((n + 1)) > "$0"'
        runs = [self.run_(self.url, "job", "--", "sh", "-c", script, count)
                for _ in range(12)]
        self.assertEqual([self.end_of(run)[0] for run in runs], [0] * 12)
        with open(count, encoding="ascii") as file:
            self.assertEqual(int(file.read()), 12)
        self.assertEqual(servers(self.shared), [])


if __name__ == "__main__":
    unittest.main()
