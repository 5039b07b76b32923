#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`--redis embedded:/folder` where somebody has prepared the folder: what is not the user's
own is not used, what is not the folder's server is not killed, and nothing is waited for
without an end. And what the server takes along of its caller: nothing.

Happy path: something waits in the folder, the command says what it is and touches nothing.
"""
import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys
import unittest

from embedded import EmbeddedTest, servers
from support import COMMAND, LIMIT, alive, until

NOBODY = 65534
AS_ROOT = unittest.skipUnless(os.geteuid() == 0, "only root can give things to another user")

# Listens at the first word, from the folder that is the second, as the user that is the third.
LISTENER = """
import os, socket, sys
link = socket.socket(socket.AF_UNIX)
link.bind(sys.argv[1])
os.chdir(sys.argv[2])
if sys.argv[3]:
    os.setuid(int(sys.argv[3]))
link.listen(int(sys.argv[4]))
print("listening", flush=True)
sys.stdin.read(1)
link.setblocking(False)
try:
    while True:
        with link.accept()[0] as caller:
            print("heard", caller.recv(100), flush=True)
except BlockingIOError:
    print("no more", flush=True)
"""


class FolderTest(EmbeddedTest):
    def setUp(self):
        super().setUp()
        self.shared = self.path("shared")
        os.mkdir(self.shared, 0o700)

    def inside(self, name):
        return os.path.join(self.shared, name)

    def use(self, folder=None):
        return self.run_(f"embedded:{folder or self.shared}", "job", "--wait", "0", "--",
                         "echo", "done")

    def refused(self, *said, folder=None):
        code, out, err = self.end_of(self.use(folder))
        self.assertEqual((code, out), (69, ""), err)
        for words in said:
            self.assertIn(words, err)
        self.assertEqual(err.count("\n"), 1, err)

    def used(self, folder=None):
        self.assertEqual(self.end_of(self.use(folder)), (0, "done\n", ""))

    def listener(self, folder=None, place=None, user="", queue=10):
        """A program that listens in the folder, and says nothing before it is asked."""
        process = self.spawn(
            sys.executable, "-c", LISTENER, os.path.join(folder or self.shared, "socket"),
            place or "/", str(user), str(queue), stdin=subprocess.PIPE)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline(), "listening\n")
        return process


class Folders(FolderTest):
    """The folder itself."""

    def test_a_symbolic_link_is_none(self):
        os.symlink(self.shared, self.path("link"))
        for name in ("link", "link/", "link//"):
            self.refused("link is a symbolic link", folder=self.path(name))
        self.assertEqual(os.listdir(self.shared), [])

    def test_a_link_to_nowhere_makes_no_folder(self):
        os.symlink(self.path("nowhere"), self.path("link"))
        self.refused("link is a symbolic link", folder=self.path("link"))
        self.assertFalse(os.path.exists(self.path("nowhere")))

    def test_one_that_is_open_to_others(self):
        for mode in (0o755, 0o777, 0o710, 0o701, 0o500):
            os.chmod(self.shared, mode)
            self.refused(self.shared, f"mode {mode:04o}", "0700")
            self.assertEqual(os.listdir(self.shared), [])
            self.assertEqual(stat.S_IMODE(os.stat(self.shared).st_mode), mode)

    def test_what_a_folder_inherits_is_no_matter(self):
        os.chmod(self.shared, 0o3700)
        self.used()

    @AS_ROOT
    def test_one_of_another_user(self):
        os.chown(self.shared, NOBODY, -1)
        self.refused(self.shared, f"belongs to user {NOBODY}", "user 0's own")
        self.assertEqual(os.listdir(self.shared), [])

    def test_slashes_at_the_end_are_no_matter(self):
        self.used(self.shared + "//")
        self.used(self.path("fresh/"))
        self.assertEqual(stat.S_IMODE(os.stat(self.path("fresh")).st_mode), 0o700)

    def test_a_folder_with_folders_in_it_is_removed(self):
        """The private one, whatever a server has made in it."""
        script = ('cd "$1"/lockwire-*; mkdir -p deep/er; ln -s "$1/kept" deep/link; '
                  'ln -s "$1/shared" deep/er/link; echo > deep/er/file')
        with open(self.path("kept"), "w", encoding="ascii") as file:
            file.write("kept")
        with open(self.inside("too"), "w", encoding="ascii"):
            pass
        code, _, err = self.end_of(self.run_("embedded:", "job", "--", "sh", "-ec", script,
                                             "sh", self.folder))
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(sorted(os.listdir(self.folder)), ["kept", "shared"])
        self.assertEqual(os.listdir(self.shared), ["too"])


class Files(FolderTest):
    """What stands in the folder already."""

    def test_a_link_in_place_of_a_file(self):
        for name in ("gate", "users", "log"):
            os.symlink(self.path("target"), self.inside(name))
            self.refused(f"shared/{name} is a link")
            self.assertFalse(os.path.exists(self.path("target")), name)
            os.unlink(self.inside(name))
        self.used()

    def test_a_file_with_another_name_elsewhere(self):
        for name in ("gate", "users", "log"):
            with open(self.path("target"), "w", encoding="ascii") as file:
                file.write("theirs")
            os.link(self.path("target"), self.inside(name))
            self.refused(f"shared/{name} is a link")
            with open(self.path("target"), encoding="ascii") as file:
                self.assertEqual(file.read(), "theirs", name)
            os.unlink(self.inside(name))

    def test_a_file_that_is_none(self):
        for name in ("gate", "users", "log"):
            os.mkfifo(self.inside(name))
            self.refused(f"shared/{name} is a link, or no plain file")
            os.unlink(self.inside(name))

    @AS_ROOT
    def test_a_file_of_another_user(self):
        for name in ("gate", "users", "log"):
            with open(self.inside(name), "w", encoding="ascii"):
                os.chown(self.inside(name), NOBODY, -1)
            self.refused(f"shared/{name} is a link, or no plain file of user 0's")
            os.unlink(self.inside(name))

    def test_a_link_in_place_of_the_socket(self):
        other = self.path("other")
        os.mkdir(other)
        listener = self.listener(folder=other)
        os.symlink(os.path.join(other, "socket"), self.inside("socket"))
        self.refused("shared/socket is no socket of user")
        self.assertEqual(listener.communicate("x", LIMIT)[0], "no more\n")


class Listeners(FolderTest):
    """Who listens in the folder already."""

    @AS_ROOT
    def test_another_user_is_sent_nothing(self):
        listener = self.listener(user=NOBODY)
        self.refused(f"the socket in {self.shared} is served by user {NOBODY}")
        self.assertIsNone(listener.poll())
        self.assertEqual(listener.communicate("x", LIMIT)[0], "heard b''\nno more\n")

    @AS_ROOT
    def test_another_users_socket_is_not_called(self):
        listener = self.listener()
        os.chown(self.inside("socket"), NOBODY, -1)
        self.refused("shared/socket is no socket of user 0's")
        self.assertEqual(listener.communicate("x", LIMIT)[0], "no more\n")

    def test_a_server_from_elsewhere_is_used_and_left_alone(self):
        server = self.redis()
        os.rename(server.socket, self.inside("socket"))
        server.socket = self.inside("socket")
        self.used()
        self.assertIsNone(server.process.poll())
        self.assertTrue(server.answers())

    def test_a_socket_that_nobody_serves_is_replaced(self):
        listener = self.listener()
        listener.kill()
        listener.wait()
        self.used()


class Limits(FolderTest):
    """All at once, for each takes its time."""

    def setUp(self):
        super().setUp()
        self.waiting = []

    def expect(self, what, judge):
        """Starts a command in a folder of its own; `judge` gets its end and the folder."""
        folder = self.path(what)
        os.mkdir(folder, 0o700)
        return folder, lambda: self.waiting.append((what, self.use(folder), judge))

    def lock_gate(self, folder):
        gate = os.open(os.path.join(folder, "gate"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC,
                       0o600)
        self.addCleanup(os.close, gate)
        fcntl.flock(gate, fcntl.LOCK_EX)

    def gate_that_stays_shut(self):
        folder, start = self.expect("gate", lambda code, err: (
            self.assertEqual(code, 69), self.assertIn("gate locked for 30 s", err)))
        self.lock_gate(folder)
        start()

    def gate_that_shuts_before_the_end(self):
        folder = self.path("leave")
        process, pid = self.holder(f"embedded:{folder}", "leaver")
        self.lock_gate(folder)
        os.kill(pid, signal.SIGTERM)
        self.waiting.append(("leave", process, lambda code, err: (
            self.assertEqual((code, err), (128 + signal.SIGTERM, "")),
            self.assertEqual(len(servers(folder)), 1, "nobody could stop it"))))

    def silent_stranger(self):
        folder, start = self.expect("silent", lambda code, err: (
            self.assertEqual(code, 69, err), self.assertIn("it is not killed", err),
            self.assertIn(f"process {listener.pid}", err),
            self.assertIsNone(listener.poll())))
        listener = self.listener(folder)
        start()

    def full_queue(self):
        folder, start = self.expect("full", lambda code, err: (
            self.assertEqual(code, 69), self.assertIn("taken no connection for 30 s", err),
            self.assertIsNone(listener.poll())))
        listener = self.listener(folder, queue=0)
        for _ in range(10):
            link = socket.socket(socket.AF_UNIX)
            self.addCleanup(link.close)
            link.setblocking(False)
            try:
                link.connect(os.path.join(folder, "socket"))
            except BlockingIOError:
                break
        else:
            self.fail("a queue that is never full")
        start()

    def server_that_hangs(self):
        folder, start = self.expect("hangs", lambda code, err: (
            self.assertEqual((code, err), (0, "")),
            self.assertFalse(alive(hung)), self.assertEqual(servers(folder), [])))
        crashed, pid = self.holder(f"embedded:{folder}", "crashed")
        hung, = servers(folder)
        os.kill(hung, signal.SIGSTOP)
        crashed.kill()
        until(lambda: not alive(pid), "its program is gone")
        start()

    def test_every_wait_has_an_end(self):
        for prepare in (self.gate_that_stays_shut, self.gate_that_shuts_before_the_end,
                        self.silent_stranger, self.full_queue, self.server_that_hangs):
            prepare()
        for what, process, judge in self.waiting:
            with self.subTest(what):
                _, err = process.communicate(timeout=2 * LIMIT)
                judge(process.returncode, err)


class Descriptors(FolderTest):
    def caller(self, url, script):
        """A command whose caller has a lock of its own, and gives its descriptor along."""
        lock = os.open(self.path("lock"), os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = self.spawn(COMMAND, "run", "job", "--redis", url, "--", "sh", "-c", script,
                             cwd=self.folder, pass_fds=[lock])
        os.close(lock)
        pid = int(self.wait_for_file("held"))
        return process, pid

    def is_free(self):
        with open(self.path("lock"), "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                return False

    def test_the_server_keeps_no_lock_of_its_starters_caller(self):
        process, pid = self.caller(f"embedded:{self.shared}",
                                      "echo $$ > held; exec sleep 1000")
        self.assertFalse(self.is_free())
        process.kill()
        until(lambda: not alive(pid), "its program is gone")
        until(self.is_free, "the caller's lock is free")
        self.assertEqual(len(servers(self.shared)), 1, "the server lives on")

    def test_nor_does_a_private_one(self):
        self.caller("embedded:", "echo $$ > held; exec sleep 1000")
        server, = servers(self.folder)
        links = {os.readlink(f"/proc/{server}/fd/{fd}")
                 for fd in os.listdir(f"/proc/{server}/fd")}
        self.assertEqual({link for link in links if link.startswith(self.folder)}, set())
        self.assertIn("/dev/null", links)


if __name__ == "__main__":
    unittest.main()
