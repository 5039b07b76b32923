#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""--connect-timeout: the first connection has a limit, and later outages have none.

Usual course: the subcommands are started at a server that is not there, all at once, and each one
ends with 69 and a message that names the server and the time.
"""
import os
import signal
import socket
import subprocess
import unittest

from ports import free_port, keep
from quorum_servers import quorum_start
from support import COMMAND, LIMIT, ToolTest, until
from watched import SERVICE, Sentinel

TOKEN = "00000000-0000-4000-8000-000000000000:1:2000-"
RUN = ("run", "x", "--", "true")
OF_A_QUORUM = {
    "run": RUN,
    "hold": ("hold", "x"),
    "lead": ("lead", "x", "--", "sleep", "1000"),
}
ALL = {
    **OF_A_QUORUM,
    "run --and": ("run", "x", "--and", "y", "--", "true"),
    "run --token": ("run", "x", "--token", TOKEN, "--", "true"),
    "take": ("take", "x"),
    "status": ("status", "y"),
    "list": ("list",),
    "yield": ("yield", "x"),
    "break": ("break", "x"),
    "release": ("release", "x", TOKEN),
    "watch": ("watch", "x"),
}


class SeveralAddresses(ToolTest):
    """A name leads to a master and to its replica. Their roles are swapped."""

    # These servers accept writes also while they have no replica.
    WARNING = ("lockwire: min-replicas-to-write or min-replicas-max-lag is 0 on the master; after a failover an old "
               "master that still runs keeps granting locks that the new one does not know. Set them to 1 and a few "
               "seconds\n")

    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.addresses = "127.0.0.1", "::1"
        keeper = keep(self.port, "::1")
        if not keeper or keeper.getsockname()[1] == 0:
            self.skipTest("::1 has not this port")
        self.addCleanup(keeper.close)
        self.servers = []
        for address in self.addresses:
            server = self.redis()
            server.kill()
            server.start("--bind", address, "--port", str(self.port))
            server("CONFIG", "SET", "repl-diskless-sync-delay", 0)
            self.servers.append(server)
        self.url = f"redis://localhost:{self.port}"

    def make_master(self, number):
        """The other server becomes its replica, and has its data before this returns."""
        master, other = self.servers[number], self.servers[1 - number]
        master("REPLICAOF", "NO", "ONE")
        other("REPLICAOF", self.addresses[number], self.port)
        until(lambda: "master_link_status:up" in other("INFO", "replication"), "the replica has its data")

    def holder(self, number):
        """Starts one at this master, and swaps the roles when the replica has its lock."""
        self.make_master(number)
        process = self.spawn(COMMAND, "run", "job", "--redis", self.url, "--", "sh", "-c",
                             "echo held; exec cat", stdin=subprocess.PIPE)
        self.assertEqual(self.line_of(process.stdout), "held\n")
        until(lambda: self.servers[1 - number]("EXISTS", "job"), "the replica has the lock")
        self.make_master(1 - number)
        return process

    def test_the_master_is_found(self):
        for number in (0, 1):
            self.make_master(number)
            for code, *words in ((1, "status", "job"), (0, "list"), (0, "run", "job", "-n", "--", "true")):
                got, _, err = self.end_of(self.spawn(COMMAND, *words, env={"LOCKWIRE_URL": self.url}))
                self.assertEqual((got, err.replace(self.WARNING, "")), (code, ""), words)

    def test_a_holder_follows_it(self):
        for number in (0, 1):
            process = self.holder(number)
            self.servers[number]("CLIENT", "KILL", "TYPE", "normal")
            until(lambda: "lockwire-run" in self.servers[1 - number]("CLIENT", "LIST"), "it is followed")
            self.assertTrue(self.servers[1 - number]("EXISTS", "job"))
            code, _, err = self.end_of(process) # ends the command's input
            self.assertEqual(code, 0, err)
            self.assertFalse(self.servers[1 - number]("EXISTS", "job"))

    def test_a_release_that_is_refused_with_READONLY_is_made_at_the_new_master(self):
        for number in (0, 1):
            process = self.holder(number)
            code, _, err = self.end_of(process)
            self.assertEqual(code, 0, err)
            self.assertFalse(self.servers[1 - number]("EXISTS", "job"))

    def test_a_replica_is_named(self):
        for number, address in enumerate(self.addresses):
            self.make_master(1 - number)
            self.servers[1 - number].kill()
            code, _, err = self.end_of(self.spawn(COMMAND, "run", "job", "-n", "--redis", self.url, "--",
                                                  "true"))
            self.assertEqual(code, 69, err)
            self.assertIn(f"no connection to the server: {address} is a replica\n", err)
            self.servers[1 - number].start("--bind", self.addresses[1 - number], "--port", str(self.port))


class ConnectingTest(ToolTest):
    def start(self, words, url, *options):
        where = words.index("--") if "--" in words else len(words)
        more = {"stdin": subprocess.PIPE} if words[0] == "hold" else {}
        return self.spawn(COMMAND, *words[:where], *options, "--redis", url, *words[where:], **more)

    def all_time_out(self, url, reason, commands=None, shown=None):
        """Checks that each subcommand ends with 69, and that its message has the reason, the
        server without the user part of its URL, and the time. A machine on which the first attempt
        takes longer gets more time."""
        left, ms = dict(commands or ALL), 300
        while left:
            started = {name: self.start(words, url, "--connect-timeout", f"{ms}ms")
                       for name, words in left.items()}
            for name, process in started.items():
                process.wait(LIMIT) # before hold's input ends
                code, _, err = self.end_of(process)
                self.assertEqual(code, 69, f"{name}: {err}")
                self.assertNotIn("secret", err)
                # an attempt may fail, and be reported, after that
                said = next((line for line in err.splitlines()
                             if line.endswith(" (--connect-timeout)")), "")
                if "no reply" in said and reason not in said and ms < 20000:
                    continue
                self.assertIn(reason, said, f"{name}: {err}")
                time = f"{ms // 1000}s" if ms % 1000 == 0 else f"{ms}ms"
                self.assertTrue(said.endswith(f"; {shown or url} was tried for {time} "
                                              "(--connect-timeout)"), f"{name}: {err}")
                del left[name]
            ms = ms * 10 if ms == 300 else 30000


class Nowhere(ConnectingTest):
    def test_no_server(self):
        port = free_port()
        self.all_time_out(f"redis://anna:secret@127.0.0.1:{port}/3?guard=none",
                               f"no connection to the server: connecting to 127.0.0.1:{port}: ",
                               shown=f"redis://127.0.0.1:{port}/3")

    def test_a_socket_whose_path_has_an_at(self):
        self.all_time_out("unix:///nowhere/a@b.sock", "No such file or directory")

    def test_a_server_that_never_replies(self):
        """No attempt has ended when the time has passed."""
        server = self.redis()
        server.pause()
        self.addCleanup(server.resume)
        self.all_time_out(server.url, "no connection to the server: no reply; ")

    def test_a_replica(self):
        server = self.redis()
        server("REPLICAOF", "127.0.0.1", free_port())
        self.all_time_out(server.url, "the server is a replica")

    def test_no_sentinel(self):
        port = free_port()
        self.all_time_out(f"redis-sentinel://127.0.0.1:{port}/{SERVICE}",
                               "no sentinel reported a usable master")

    def test_a_master_that_is_not_there(self):
        sentinel = Sentinel(free_port())
        self.addCleanup(sentinel.stop)
        self.all_time_out(f"redis-sentinel://127.0.0.1:{sentinel.port}/{SERVICE}",
                               "no connection to the server: ")

    def test_no_node_of_a_cluster(self):
        self.all_time_out(f"redis-cluster://127.0.0.1:{free_port()}",
                               "no node returned a usable slot map")

    def test_a_minority_of_a_quorum(self):
        """The one server that is there may have granted its vote: it is free again."""
        quorum_start(self)
        for server in self.servers[1:]:
            server.kill()
        self.all_time_out(self.url, f"{self.hosts[1]}: ", OF_A_QUORUM)
        self.assertFalse(self.servers[0]("EXISTS", "x"))

    def test_a_majority_of_a_quorum_is_enough(self):
        quorum_start(self)
        self.servers[1].kill()
        code, _, err = self.end_of(self.start(RUN, self.url))
        self.assertEqual(code, 0, err)

    def test_without_the_option(self):
        """30 s where a lock is acquired, no limit where it is kept or watched, one attempt
        elsewhere."""
        url = f"redis://127.0.0.1:{free_port()}"
        started = {name: self.start(words, url) for name, words in ALL.items()}
        for name in ("status", "list", "yield", "break", "release"):
            code, _, err = self.end_of(started[name])
            self.assertEqual(code, 69, err)
            self.assertNotIn("was tried for", err)
        for name in ("run", "run --and", "run --token", "hold", "take"):
            started[name].wait(LIMIT)
            code, _, err = self.end_of(started[name])
            self.assertEqual(code, 69, err)
            self.assertIn(f"; {url} was tried for 30s (--connect-timeout)\n", err)
        for name, code in (("lead", 128 + signal.SIGTERM), ("watch", 0)):
            self.assertIsNone(started[name].poll(), name)
            started[name].send_signal(signal.SIGTERM)
            self.assertEqual(self.end_of(started[name])[0], code)

    def test_a_shorter_wait_ends_first(self):
        url = f"redis://127.0.0.1:{free_port()}"
        for options in (("--wait", "300ms"), ("--wait", "0"),
                        ("--wait", "300ms", "--connect-timeout", "forever")):
            code, _, err = self.end_of(self.start(RUN, url, *options))
            self.assertEqual(code, 69, err)
            self.assertNotIn("was tried for", err)


class Later(ConnectingTest):
    def test_a_server_that_comes_in_time(self):
        """The first attempt of each has failed: their connections were closed."""
        server = self.redis()
        server.kill()
        os.unlink(server.socket)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(server.socket)
            listener.listen()
            listener.settimeout(LIMIT)
            started = {name: self.start(ALL[name], server.url, "--connect-timeout", limit)
                       for name, limit in (("run", "10m"), ("status", "10m"), ("list", "forever"))}
            for _ in range(2 * len(started)): # each has two connections
                listener.accept()[0].close()
        os.unlink(server.socket)
        server.start()
        for name, expected in (("run", 0), ("status", 1), ("list", 0)):
            code, _, err = self.end_of(started[name])
            self.assertEqual(code, expected, f"{name}: {err}")

    def test_an_outage_is_waited_out(self):
        """However long it lasts: each of its two reports is later than --connect-timeout."""
        server = self.redis()
        server("SET", "x", "theirs", "PX", 600000)
        process = self.start(RUN, server.url, "--connect-timeout", "100ms", "--verbose")
        until(lambda: server("EXISTS", "lockwire:2:queue:{x}"), "it waits")
        late = self.start(RUN, server.url, "--connect-timeout", "100ms", "--wait", "forever")
        until(lambda: server("ZCARD", "lockwire:2:queue:{x}") == 2, "it waits, too")
        server.kill()
        for waiter in (process, late):
            while "no connection" not in (line := self.line_of(waiter.stderr)):
                self.assertTrue(line)
        other = self.start(("status", "x"), server.url, "--connect-timeout", "300ms")
        self.assertEqual(self.end_of(other)[0], 69) # so that 300 ms have passed
        server.start()
        for waiter in (process, late):
            code, _, err = self.end_of(waiter)
            self.assertEqual(code, 0, err)


if __name__ == "__main__":
    unittest.main()
