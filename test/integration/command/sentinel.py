#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`lockwire` at redis-sentinel://, with a real sentinel: the master and since when it is master;
a new master is followed and reported; the login at sentinels; and servers that are not
sentinels.

Usual course: status shows the master; it is replaced; watch reports that, and run works on.
"""
import contextlib
import json
import re
import signal
import socketserver
import subprocess
import threading
import unittest

from resp import Link
from support import COMMAND, LIMIT, ToolTest, until
from watch import Terminal
from watched import SERVICE, Watched

SECRET = "s3cret w0rd"
# These servers do not have the setting; OldSentinel does not report run ids.
WARNING = re.compile("min-replicas-to-write|it is not certain that")


class OldSentinel(socketserver.ThreadingTCPServer):
    """Reports that the server has been master for `for_ms`."""
    daemon_threads = True

    def __init__(self, port, for_ms):
        super().__init__(("127.0.0.1", 0), OldSentinel.Connection)
        self.fields = ["ip", "127.0.0.1", "port", port, "flags", "master", "config-epoch", 1,
                       "role-reported", "master", "role-reported-time", for_ms]
        threading.Thread(target=self.serve_forever).start()

    def end(self):
        self.shutdown()
        self.server_close()

    class Connection(socketserver.StreamRequestHandler):
        def handle(self):
            with contextlib.suppress(ConnectionError):  # clients may leave
                while count := self.rfile.readline()[1:]:
                    lines = [self.rfile.readline() for _ in range(2 * int(count))]
                    words = [line.strip().decode() for line in lines[1::2]]
                    self.wfile.write(self.answer(words).encode())

        def answer(self, words):
            if words[:2] == ["SENTINEL", "MASTER"]:
                fields = [str(field) for field in self.server.fields]
                return f"*{len(fields)}\r\n" + "".join(f"${len(field)}\r\n{field}\r\n"
                                                      for field in fields)
            if words[0] == "SUBSCRIBE":
                return f"*3\r\n$9\r\nsubscribe\r\n${len(words[1])}\r\n{words[1]}\r\n:1\r\n"
            return {"SENTINEL": "*0\r\n", "INFO": "$0\r\n\r\n"}.get(
                words[0], ":1\r\n" if words[-1] == "ID" else "+OK\r\n")


class SentinelTest(ToolTest):
    configuration = ()

    def setUp(self):
        super().setUp()
        self.watched = Watched(*self.configuration)
        self.addCleanup(self.watched.stop)
        self.environment["LOCKWIRE_URL"] = self.watched.url

    def ask(self, code, *words, **more):
        got, out, err = self.end_of(self.spawn(COMMAND, *words, **more))
        self.assertEqual(got, code, f"{words}: {out}{err}")
        self.assertNotIn("s3cret", err)
        return out + "".join(line for line in err.splitlines(True) if not WARNING.search(line))

    def place(self, port):
        return f"127.0.0.1:{port}"

    def holder(self, *words, **more):
        """Starts a command that holds "job" until the file `stop` exists."""
        process = self.spawn(COMMAND, "run", "job", *words, "--", "sh", "-c",
                             "echo > held; while [ ! -e stop ]; do sleep 0.02; done; exit 5",
                             cwd=self.folder, **more)
        self.wait_for_file("held", process)
        return process

    def end_command(self):
        with open(self.path("stop"), "w", encoding="ascii"):
            pass


class WithoutSentinels(SentinelTest):
    def warnings(self, url):
        code, out, err = self.end_of(self.spawn(COMMAND, "run", "job", "--redis", url, "--", "true"))
        self.assertEqual(code, 0, out + err)
        return err.count("min-replicas-to-write or min-replicas-max-lag is 0 on the master")

    def test_a_setting_that_a_master_with_replicas_needs(self):
        self.assertEqual(self.warnings(f"redis://{self.place(self.watched.master_port)}"), 1)
        self.assertEqual(self.warnings(self.redis().url), 0)
        self.watched.master("CONFIG", "SET", "min-replicas-to-write", 1)
        self.assertEqual(self.warnings(f"redis://{self.place(self.watched.master_port)}"), 0)


class Status(SentinelTest):
    def test_the_master_with_its_service_and_time(self):
        line = rf"service {SERVICE}, master {self.place(self.watched.master_port)} for \d+\.\ds; \d+\.\ds ago"
        self.assertRegex(self.ask(1, "status", "job"), rf"^job: free\n{line}\n$")
        self.holder()
        self.assertRegex(self.ask(0, "status", "job"), rf"^job: 1 holder\n{line}\n\nHELD ")

    def test_valkey_in_the_url(self):
        url = self.watched.url.replace("redis", "valkey", 1)
        said = self.ask(1, "status", "job", "--redis", url)
        self.assertIn(f"service {SERVICE}, master {self.place(self.watched.master_port)}", said)
        # the options that need such a URL accept it
        with open(self.path("password"), "w", encoding="ascii") as file:
            file.write("any\n")
        said = self.ask(77, "status", "job", "--redis", url, "--sentinel-user", "unknown",
                        "--sentinel-password-file", self.path("password"))
        self.assertIn("WRONGPASS", said)

    def test_json(self):
        before = int(self.watched.sentinels[0].says("MASTER", "role-reported-time"))
        seen = json.loads(self.ask(1, "status", "job", "--json"))
        master = seen["master"]
        self.assertEqual((seen["server"], seen["role"]),
                         (self.place(self.watched.master_port), "master"))
        self.assertEqual((master["service"], master["host"], master["port"]),
                         (SERVICE, "127.0.0.1", self.watched.master_port))
        self.assertIsInstance(master["for_ms"], int)
        says = int(self.watched.sentinels[0].says("MASTER", "role-reported-time"))
        self.assertTrue(before <= master["for_ms"] <= says, (before, master, says))

    def test_days_and_no_time_at_all(self):
        for for_ms, shown, known in (
                (3599000, r" for (59m59|1h00m)s?", True), (86400000 - 300000, " for 23h5[56]m", True),
                (3 * 86400000 + 4 * 3600000 + 60000, " for 3d04h", True), (-5, "", False)):
            old = OldSentinel(self.watched.master_port, for_ms)
            try:
                words = ("status", "job", "--redis",
                         f"redis-sentinel://127.0.0.1:{old.server_address[1]}/x")
                self.assertRegex(self.ask(1, *words), rf"\nservice x, master \S+:\d+{shown}; \S+ ago\n")
                master = json.loads(self.ask(1, *words, "--json"))["master"]
                if known:
                    self.assertTrue(for_ms <= master["for_ms"] < for_ms + 60000)
                else:
                    self.assertIsNone(master["for_ms"])
            finally:
                old.end()

    def test_a_master_that_was_replaced(self):
        self.watched.fail_over()
        # in between there may be no master
        until(lambda: self.place(self.watched.replica_port)
              in self.end_of(self.spawn(COMMAND, "status", "job"))[1], "the other one is shown")

    def test_yield_reaches_the_holder_also_after_a_failover(self):
        process = self.holder()
        self.watched.fail_over()
        def asked():
            code, _, err = self.end_of(self.spawn(COMMAND, "yield", "job"))
            self.assertIn(code, (0, 1, 69, 75), err)
            return code == 0
        until(asked, "it is reached at the new master")
        self.end_command()
        self.assertIn("asked to release 'job'", self.end_of(process)[2])

    def test_break_finds_it_as_well(self):
        self.holder()
        self.ask(0, "break", "job")
        self.assertEqual(self.watched.master("EXISTS", "job"), 0)


class Run(SentinelTest):
    def test_what_it_runs_finds_the_same_servers(self):
        said = self.ask(0, "run", "job", "--", "sh", "-c",
                        f"echo $LOCKWIRE_URL; exec {COMMAND} status job")
        self.assertEqual(said.splitlines()[:2], [self.watched.url, "job: 1 holder"])

    def test_it_works_on_while_the_master_is_replaced(self):
        process = self.holder()
        self.watched.fail_over()
        line = process.stderr.readline()
        while line and "the master is now" not in line:
            line = process.stderr.readline()
        self.assertIn(f"the master is now {self.place(self.watched.replica_port)}, was "
                      f"{self.place(self.watched.master_port)}", line)
        # the lock is released at the new master
        until(lambda: "role:master" in self.watched.replica("INFO", "replication"), "it is one")
        self.end_command()
        code, _, err = self.end_of(process)
        self.assertEqual(code, 5, err)
        self.assertEqual(self.watched.replica("EXISTS", "job"), 0)

    def test_it_ends_its_command_where_the_new_master_knows_of_no_lock(self):
        """Simulates that the last write did not reach the new master."""
        process = self.holder("--grace", "100ms")
        self.watched.until_known()
        self.watched.replica("CONFIG", "SET", "replica-read-only", "no")
        self.watched.replica("DEL", "job")
        self.watched.kill_master()
        code, _, err = self.end_of(process)
        self.assertEqual(code, 70, err)
        self.assertIn("the lock 'job' was lost: the lock is not held", err)


class Unlisted(ToolTest):
    """Two sentinels; the URL lists the first."""

    def setUp(self):
        super().setUp()
        self.watched = Watched(sentinels=2)
        self.addCleanup(self.watched.stop)
        self.listed, self.other = self.watched.sentinels
        until(lambda: self.listed.says("MASTER", "num-other-sentinels") == "1", "it knows the other one")
        self.environment["LOCKWIRE_URL"] = f"redis-sentinel://127.0.0.1:{self.listed.port}/{SERVICE}"

    def test_alone_it_leads_to_no_new_master(self):
        """The listed one is dead while the other one replaces the master."""
        process = self.spawn(COMMAND, "run", "job", "--lease", "1m", "--", "sh", "-c",
                             "echo > held; while [ ! -e stop ]; do sleep 0.02; done; exit 5",
                             cwd=self.folder)
        self.wait_for_file("held", process)
        until(lambda: " sub=1 " in self.other("CLIENT", "LIST"), "the other one is discovered")
        self.watched.until_known()
        self.listed.kill()
        self.other("SENTINEL", "FAILOVER", SERVICE)
        said = (f"127.0.0.1:{self.other.port}: names 127.0.0.1:{self.watched.replica_port} as "
                "master, which a listed sentinel has to confirm")
        for text in (f"sentinel {said}", f"{self.listed.port}: connecting to .*; {said}"):
            while not re.search(text, self.line_of(process.stderr)):
                pass
        self.assertNotIn("name=lockwire", self.watched.replica("CLIENT", "LIST"))
        self.listed.launch()
        until(lambda: "name=lockwire" in self.watched.replica("CLIENT", "LIST"), "it goes on there")
        with open(self.path("stop"), "w", encoding="ascii"):
            pass
        code, _, err = self.end_of(process)
        self.assertEqual(code, 5, err)
        self.assertEqual(self.watched.replica("EXISTS", "job"), 0)


class Watch(SentinelTest):
    def test_a_line_when_the_master_is_another(self):
        process = self.spawn(COMMAND, "watch", "job", "--interval", "20ms")
        self.assertRegex(self.line_of(process.stdout), " job: free$")
        self.watched.fail_over()
        line = process.stdout.readline()
        while re.search("no connection|answers: redis|job: free", line):
            line = process.stdout.readline()
        self.assertRegex(line, rf"^\S+ master of {SERVICE}: "
                         rf"{self.place(self.watched.replica_port)}, was "
                         rf"{self.place(self.watched.master_port)}$")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(LIMIT), 0)

    def test_the_picture_has_it(self):
        terminal = Terminal()
        self.addCleanup(terminal.close)
        process = subprocess.Popen([COMMAND, "watch", "job", "--interval", "20ms"],
                                   stdin=terminal.slave, stdout=terminal.slave,
                                   stderr=subprocess.DEVNULL, env=self.environment)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def until_at(port):
            line = rf"^job: free\nservice {SERVICE}, master {self.place(port)} for \S+; \S+ ago\n$"
            until(lambda: re.match(line, terminal.picture()), f"{terminal.picture()}: {line}")

        until_at(self.watched.master_port)
        self.watched.fail_over()
        until_at(self.watched.replica_port)


class Login(SentinelTest):
    configuration = (f'user watcher on ">{SECRET}" allchannels +@all', "user default off")

    def setUp(self):
        super().setUp()
        with open(self.path("sentinels"), "w", encoding="ascii") as file:
            file.write(SECRET + "\nmore\n")
        self.words = ("--sentinel-user", "watcher", "--sentinel-password-file",
                      self.path("sentinels"))

    def test_every_subcommand_gets_in(self):
        self.assertEqual(self.ask(0, "run", "job", *self.words, "--", "echo", "in"), "in\n")
        self.assertIn("job: free", self.ask(1, "status", "job", *self.words))
        self.ask(1, "break", "job", *self.words)
        process = self.spawn(COMMAND, "watch", "job", *self.words)
        self.assertRegex(self.line_of(process.stdout), "job: free$")

    def test_one_password_from_a_file_and_one_from_the_input(self):
        self.watched.master("ACL", "SETUSER", "anna", "on", ">other", "~*", "&*", "+@all")
        with open(self.path("servers"), "w", encoding="ascii") as file:
            file.write("other\n")
        url = self.watched.url.replace("://", "://anna@")
        for words, given in (
                (("--password-file", self.path("servers"), "--sentinel-password-file", "-"),
                 SECRET),
                (("--password-file", "-", "--sentinel-password-file", self.path("sentinels")),
                 "other")):
            process = self.spawn(COMMAND, "run", "job", "--redis", url, "--sentinel-user",
                                 "watcher", *words, "--", "cat", stdin=subprocess.PIPE)
            out, err = process.communicate(f"{given}\nthe rest\n", timeout=LIMIT)
            self.assertEqual((process.returncode, out), (0, "the rest\n"), err)

    def test_it_is_not_shown(self):
        process = self.holder(*self.words)
        for what in ("cmdline", "environ"):
            with open(f"/proc/{process.pid}/{what}", "rb") as file:
                self.assertNotIn(b"s3cret", file.read())
        self.end_command()
        self.assertEqual(self.end_of(process)[0], 5)

    def test_each_login_reads_it_again(self):
        process = self.holder(*self.words)
        with Link(self.watched.sentinels[0].socket, LIMIT) as sentinel:
            sentinel("AUTH", "watcher", SECRET)
            sentinel("ACL", "SETUSER", "watcher", "resetpass", ">another")
            with open(self.path("sentinels"), "w", encoding="ascii") as file:
                file.write("another\r\n")
            for id_ in re.findall(r"^id=(\d+) .* name=lockwire-run ", sentinel("CLIENT", "LIST"), re.M):
                sentinel("CLIENT", "KILL", "ID", id_)
            until(lambda: sentinel("CLIENT", "LIST").count(" name=lockwire-run ") >= 1,
                  "it is connected again")
        self.end_command()
        self.assertEqual(self.end_of(process)[0], 5)

    def test_what_is_wrong_with_it_ends_all(self):
        with open(self.path("wrong"), "w", encoding="ascii") as file:
            file.write("no\n")
        wrong = self.words[:3] + (self.path("wrong"),)
        for words, said in ((wrong, "AUTH: WRONGPASS"), ((), "NOAUTH")):
            for subcommand in ("run", "status", "break", "watch"):
                more = ("--", "true") if subcommand == "run" else ()
                text = self.ask(77, subcommand, "job", *words, *more)
                self.assertIn("the server rejected the connection: no sentinel reported a "
                              f"usable master; 127.0.0.1:{self.watched.sentinels[0].port}: ", text)
                self.assertIn(said, text)

    def test_a_file_that_is_none(self):
        for file, said in ((self.path("missing"), "No such file"), ("/dev/null", "is empty")):
            text = self.ask(64, "status", "job", "--sentinel-password-file", file)
            self.assertIn(f"--sentinel-password-file '{file}'", text)
            self.assertIn(said, text)


class Strangers(SentinelTest):
    """A server that is no sentinel, or a sentinel that does not know this service."""

    def refused(self, code, url, said):
        for words in (("run", "job", "--wait", "200ms", "--redis", url, "--", "true"),
                      ("status", "job", "--redis", url)):
            self.assertIn(said, self.ask(code, *words))

    def test_a_plain_server(self):
        port = self.watched.master_port
        self.refused(77, f"redis-sentinel://127.0.0.1:{port}/{SERVICE}",
                     f"127.0.0.1:{port}: unknown command SENTINEL: not a sentinel")

    def test_a_service_that_it_does_not_know(self):
        self.refused(77, self.watched.url + "2", "ERR No such master")

    def test_a_plain_server_and_one_that_is_away(self):
        """A sentinel that is down may know the service."""
        self.refused(69, f"redis-sentinel://127.0.0.1:{self.watched.master_port},127.0.0.1:1/"
                     f"{SERVICE}", "127.0.0.1:1: ")

    def test_a_sentinel_as_a_plain_server(self):
        port = self.watched.sentinels[0].port
        said = "the server is a sentinel (use redis-sentinel://, with the name of a service)"
        self.refused(77, f"redis://127.0.0.1:{port}", said)
        self.refused(77, f"redis-cluster://127.0.0.1:{port}", said)
        self.assertIn(said, self.ask(77, "list", "--redis", f"redis://127.0.0.1:{port}"))

    def test_a_plain_server_beside_a_sentinel_costs_nothing(self):
        url = self.watched.url.replace("://", f"://127.0.0.1:{self.watched.replica_port},")
        self.assertIn(f"master {self.place(self.watched.master_port)} for",
                      self.ask(1, "status", "job", "--redis", url))

    def test_all_away(self):
        self.watched.sentinels[0].process.kill()
        self.refused(69, self.watched.url, "no sentinel reported a usable master; 127.0.0.1:")

    def test_one_that_stands_still(self):
        self.watched.sentinels[0].pause()
        self.refused(69, self.watched.url, "no ")


if __name__ == "__main__":
    unittest.main()
