#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`--redis embedded:`: a temporary server of one lockwire process.

The command finds a working server at LOCKWIRE_URL. Afterwards there is neither process nor
directory, also if lockwire was killed.
"""
import contextlib
import os
import re
import signal
import unittest
from urllib.parse import unquote

from support import COMMAND, ToolTest, alive, until


def servers(folder):
    """Returns the pids of the redis-servers that run in the folder or below it."""
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
            with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
                os.kill(pid, signal.SIGKILL)
        until(lambda: not servers(self.folder), "none is left")

    def run_(self, url, *words):
        return self.spawn(COMMAND, "run", "--redis", url, *words, cwd=self.folder)

    def holder(self, url, mark):
        process = self.run_(url, mark, "--", "sh", "-c",
                            f"echo $$ > {mark}; exec sleep 1000")
        return process, int(self.wait_for_file(mark, process))


    @staticmethod
    def children_of(pid):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return file.read().split()


class Embedded(EmbeddedTest):
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
        until(lambda: os.listdir(self.folder) == ["job"], "the directory is gone")

    def test_directories_in_the_directory_are_removed(self):
        """Everything that the server or the command made in the directory is removed. Links are
        not followed."""
        script = ('cd "$1"/lockwire-*; mkdir -p deep/er; ln -s "$1/kept" deep/link; '
                  'ln -s "$1/other" deep/er/link; echo > deep/er/file; kill -9 $2')
        os.mkdir(self.path("other"))
        for name in ("kept", "other/too"):
            with open(self.path(name), "w", encoding="ascii") as file:
                file.write("kept")
        for killed, code in (("", 1), ("$PPID", -signal.SIGKILL)):
            got, _, _ = self.end_of(self.run_("embedded:", "job", "--", "sh", "-c",
                                              script.replace("$2", killed), "sh",
                                              self.folder))
            self.assertEqual(got != 0, code != 0)
            until(lambda: sorted(os.listdir(self.folder)) == ["kept", "other"], "it is gone")
            self.assertEqual(os.listdir(self.path("other")), ["too"])

    def test_the_server_inherits_no_descriptor(self):
        """A lock on a caller's descriptor is free when the caller and its command have ended."""
        lock = os.open(self.path("lock"), os.O_RDWR | os.O_CREAT)
        self.addCleanup(os.close, lock)
        self.spawn(COMMAND, "run", "job", "--redis", "embedded:", "--", "sh", "-c",
                   "echo $$ > held; exec sleep 1000", cwd=self.folder, pass_fds=[lock])
        self.wait_for_file("held")
        server, = servers(self.folder)
        for pid in (server, *map(int, self.children_of(server))):
            links = {os.readlink(f"/proc/{pid}/fd/{fd}")
                     for fd in os.listdir(f"/proc/{pid}/fd")}
            self.assertEqual({link for link in links if link.endswith("/lock")}, set())
            self.assertIn("/dev/null", links)

    def test_a_terminals_interrupt_does_not_reach_the_server(self):
        process = self.spawn(
            COMMAND, "run", "--redis", "embedded:", "job", "--", "sh", "-c",
            'trap "exit 5" INT; echo $$ > held; while :; do sleep 0.02; done',
            cwd=self.folder, start_new_session=True)
        self.wait_for_file("held", process)
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

    def test_a_directory_that_cannot_be(self):
        for folder, said in (("/nonexistent/x/y", "/nonexistent/x/y"),
                             ("/tmp/" + "x" * 200, "longer")):
            self.environment["TMPDIR"] = folder
            code, _, err = self.end_of(self.run_("embedded:", "job", "--", "true"))
            self.assertEqual(code, 69)
            self.assertIn(said, err)

    def test_none_to_be_shared(self):
        url = f"embedded:{self.path('shared')}"
        for words, env in ((("--redis", url), {}), ((), {"LOCKWIRE_URL": url})):
            for subcommand, rest in (("run", ("--", "true")), ("status", ())):
                code, _, err = self.end_of(self.spawn(COMMAND, subcommand, "job", *words,
                                                      *rest, env=env))
                self.assertEqual(code, 64, err)
                self.assertIn(f"'{url}': \"embedded:\" takes no directory", err)
                self.assertIn("--redis unix://FILE", err)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
