#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The exit codes of all subcommands in all states of a server, from the table of outcomes
(src/base/outcome.h): each state is an outcome, and the exit code is that outcome's.

Usual course: a real server is brought into a state, all subcommands are started at once, and each
exit code is compared with the table's. `lead` and `watch` wait for a server that cannot do it now,
and end at once only if the connection is refused.
"""
import os
import re
import signal
import subprocess
import unittest

from ports import free_port, free_port_with_bus
from resp import Link, RedisError
from support import COMMAND, LIMIT, PREFIX, ToolTest, until
from watched import Sentinel

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../src/base/outcome.h")
WAITS = "waits"
FREE = 1  # of status: the lock is free; of yield and break: no holder
STRANGE_TOKEN = "00000000-0000-4000-8000-000000000000:1:2000-"


def codes():
    """Returns the exit code of each outcome."""
    with open(TABLE, encoding="utf-8") as file:
        return {name: int(code) for name, code in
                re.findall(r"X\((\w+), (\d+), (?:true|false), ", file.read())}


CODES = codes()
# The subcommands. Those of the second group read y, or release v and w: locks that are held by
# tokens of take. x and z are free.
ACQUIRE = {
    "run": ("run", "-n", "x", "--", "true"),
    "run --wait": ("run", "--wait", "400ms", "x", "--", "true"),
    "run --shared": ("run", "-n", "--shared", "x", "--", "true"),
    "run --and": ("run", "-n", "x", "--and", "z", "--", "true"),
    "hold": ("hold", "-n", "x"),
    "take": ("take", "-n", "x"),
    "lead": ("lead", "x", "--", "sleep", "1000"),
}
USE = {
    "status": ("status", "y"),
    "watch": ("watch", "y"),
    "list": ("list",),
    "release": ("release", "v", "TOKEN"),
    "yield": ("yield", "y"),
    "break": ("break", "w"),
    "doctor": ("doctor", "x"),
}


def error_of(server, *words):
    """Returns the error with which the server replies, or ""."""
    try:
        server(*words)
    except RedisError as error:
        return str(error)
    except OSError:
        pass
    return ""


class OutcomeTest(ToolTest):
    def held(self, server, *names):
        """Takes the locks, or v, w and y, and returns the token of the first one."""
        tokens = []
        for name in names or ("v", "w", "y"):
            code, out, err = self.end_of(self.spawn(COMMAND, "take", name, "--lease", "10m",
                                                    "--redis", server.url))
            self.assertEqual(code, 0, err)
            tokens.append(out.strip())
        return tokens[0]

    def start(self, words, url, token, options=()):
        words = [token if word == "TOKEN" else word for word in words]
        where = words.index("--") if "--" in words else len(words)
        more = {"stdin": subprocess.PIPE} if words[0] == "hold" else {}
        return self.spawn(COMMAND, *words[:where], *options, "--redis", url, *words[where:],
                          **more)

    def check_all(self, url, expected, token=STRANGE_TOKEN, options=()):
        """Starts the subcommands of `expected`, and compares each code. A subcommand that waits
        is ended by a signal after the others have ended. One whose --wait has passed before it was
        connected gets more time."""
        every = {**ACQUIRE, **USE}
        started = {name: self.start(every[name], url, token, options) for name in expected}
        for name in sorted(expected, key=lambda name: expected[name] == WAITS):
            process, code = started[name], expected[name]
            if code == WAITS:
                self.assertIsNone(process.poll(), name)
                process.send_signal(signal.SIGTERM)
                code = 0 if name == "watch" else 128 + signal.SIGTERM
            process.wait(LIMIT)  # before hold's input ends
            got, out, err = self.end_of(process)
            if name == "run --wait" and got != code and err.endswith(" yet\n"):
                words = ["30s" if word == "400ms" else word for word in every[name]]
                got, out, err = self.end_of(self.start(words, url, token, options))
            self.assertEqual(got, code, f"{name}: {out}{err}")

    def not_now(self, url, token=STRANGE_TOKEN, **others):
        """Checks that each subcommand ends with the code of NOT_NOW, except for those that wait
        and for `others`, by name."""
        expected = {name: CODES["NOT_NOW"] for name in {**ACQUIRE, **USE}}
        self.check_all(url, {**expected, "lead": WAITS, "watch": WAITS, **others}, token)


class NotNow(OutcomeTest):
    """A server that cannot do it at the moment. Reading may be possible."""
    READS = {"status": 0, "list": 0}

    def test_no_connection(self):
        self.not_now(f"redis://127.0.0.1:{free_port()}")

    def test_a_server_that_never_replies(self):
        """The kernel accepts the connections."""
        server = self.redis()
        server.pause()
        self.addCleanup(server.resume)
        self.not_now(server.url)

    def test_LOADING(self):
        """It has keys for minutes."""
        server = self.redis()
        if "redis_version:6" in server("INFO", "server"):
            self.skipTest("while such a server loads it replies too rarely")
        with Link(server.socket) as link:
            link.call_all([("SET", f"{PREFIX}key{number}", "v" * 100) for number in range(2000)])
        server("SAVE")
        server.kill()
        server.answers = lambda: error_of(server, "GET", "x").startswith("LOADING")
        server.start("--key-load-delay", "100000", "--loading-process-events-interval-bytes",
                     "1024")
        self.not_now(server.url)

    def test_BUSY(self):
        server = self.redis()
        token = self.held(server)
        server("CONFIG", "SET", "lua-time-limit", 20)
        with Link(server.socket) as link:
            link.send("EVAL", "while true do end", 0)
            until(lambda: error_of(server, "PING").startswith("BUSY"), "it is busy")
            self.not_now(server.url, token)
            server("SCRIPT", "KILL")

    def test_OOM(self):
        """Deleting is allowed, and so is publishing: the locks were detached, so no client is reached."""
        server = self.redis()
        token = self.held(server)
        server("CONFIG", "SET", "maxmemory", 1)
        self.not_now(server.url, token, **self.READS,
                     **{"release": 0, "yield": CODES["BUSY"], "break": 0})

    def test_MISCONF(self):
        server = self.redis()
        token = self.held(server)
        fail_to_save(server)
        self.not_now(server.url, token, **self.READS)

    def test_NOREPLICAS(self):
        server = self.redis()
        token = self.held(server)
        server("CONFIG", "SET", "min-replicas-to-write", 1)
        self.not_now(server.url, token, **self.READS)

    def test_READONLY(self):
        """A replica counts as down, also for reading: it may lag behind."""
        server = self.redis()
        token = self.held(server)
        server("REPLICAOF", "127.0.0.1", free_port())
        self.not_now(server.url, token)

    def test_CLUSTERDOWN(self):
        server = self.redis()
        server.kill()
        server.start("--cluster-enabled", "yes", "--port", str(free_port_with_bus()))
        self.not_now(server.url, list=0)

    def test_the_guard(self):
        """It is for grants only. A release hands over, and so grants."""
        server = self.redis()
        token = self.held(server)
        expected = {name: CODES["NOT_NOW"] for name in ACQUIRE}
        self.check_all(server.url, {**expected, "lead": WAITS, "status": 0, "list": 0,
                                    "watch": WAITS, "release": 0, "yield": CODES["BUSY"], "break": 0,
                                    "doctor": CODES["NOT_NOW"]}, token, ("--guard", "45s"))


class Never(OutcomeTest):
    """A server that refuses."""

    def never(self, url, token=STRANGE_TOKEN, **others):
        expected = {name: CODES["NEVER"] for name in {**ACQUIRE, **USE}}
        self.check_all(url, {**expected, **others}, token)

    def test_a_password(self):
        server = self.redis()
        server("CONFIG", "SET", "requirepass", "right")
        self.never(server.url)

    def test_a_permission(self):
        """A keep retries, as the permission may be given to the account."""
        server = self.redis()
        port = server.listen()
        server("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+client", "+ping", "+info",
               "+select")
        self.never(f"redis://app:secret@127.0.0.1:{port}", lead=WAITS)

    def test_a_sentinel(self):
        sentinel = Sentinel(free_port())
        self.addCleanup(sentinel.stop)
        self.never(f"redis://127.0.0.1:{sentinel.port}")


class Other(OutcomeTest):
    """Outcomes at a server that serves."""

    def test_a_lock_that_is_held(self):
        server = self.redis()
        self.held(server, "v", "w", "x", "y")
        busy = {name: CODES["BUSY"] for name in ACQUIRE}
        self.check_all(server.url, {**busy, "lead": WAITS, "status": 0, "list": 0, "watch": WAITS,
                                    "release": CODES["LOST"], "yield": CODES["BUSY"], "break": 0},
                       STRANGE_TOKEN)

    def test_a_key_of_another_kind(self):
        """It may be another library's lock, which ends: it counts as held."""
        server = self.redis()
        for name in ("v", "w", "x", "y"):
            server("HSET", name, "field", "value")
        busy = {name: CODES["BUSY"] for name in ACQUIRE}
        self.check_all(server.url, {**busy, "lead": WAITS, "status": 0, "list": 0, "watch": WAITS,
                                    "release": CODES["LOST"], "yield": FREE, "break": FREE},
                       STRANGE_TOKEN)

    def test_a_lock_that_is_free(self):
        server = self.redis()
        self.check_all(server.url, {"run": 0, "status": FREE, "list": 0, "doctor": 0,
                                    "watch": WAITS, "release": CODES["LOST"], "yield": FREE,
                                    "break": FREE},
                       STRANGE_TOKEN)

    def test_an_invalid_name(self):
        server = self.redis()
        for words in ({**ACQUIRE, **USE}).values():
            if words[0] == "list":
                continue
            words = ["" if word in ("v", "w", "x", "y") else word for word in words]
            process = self.start(words, server.url, STRANGE_TOKEN)
            process.wait(LIMIT)
            self.assertEqual(self.end_of(process)[0], CODES["INVALID"], words)


class AtTheRelease(OutcomeTest):
    """The command has succeeded; then the lock cannot be released."""

    def holder(self, server, *options, url=None):
        """Starts a run, whose command ends when the file `stop` is there."""
        process = self.spawn(COMMAND, "run", "x", "--lease", "10m", *options, "--redis",
                             url or server.url, "--", "sh", "-c",
                             "echo > held; while [ ! -e stop ]; do sleep 0.02; done",
                             cwd=server.folder)
        self.wait_for_file(os.path.join(server.folder, "held"), process)
        return process

    def script(self, server):
        """Starts a hold, which ends when its input does."""
        process = self.spawn(COMMAND, "hold", "h", "--lease", "10m", "--redis", server.url,
                             stdin=subprocess.PIPE)
        self.line_of(process.stdout)
        return process

    def play(self, states):
        """Checks each (outcome, message, function that brings a server into the state). All at
        the same time: each release waits some seconds for the server."""
        played = []
        for outcome, message, bring in states:
            server = self.redis()
            several = self.redis()
            runs = [(self.holder(server), server), (self.holder(several, "--and", "w"), several)]
            script = self.script(server)
            for one in (server, several):
                bring(one)
                with open(os.path.join(one.folder, "stop"), "w", encoding="ascii"):
                    pass
            script.stdin.close()
            script.stdin = None
            played += [(process, outcome, message) for process in
                       (*(process for process, _ in runs), script)]
        for process, outcome, message in played:
            code, _, err = self.end_of(process)
            self.assertEqual(code, CODES[outcome], err)
            self.assertIn(message, err)

    def test_the_server_replies_that_it_cannot(self):
        self.play([
            ("NOT_NOW", "NOREPLICAS",
             lambda server: server("CONFIG", "SET", "min-replicas-to-write", 1)),
            ("NOT_NOW", "MISCONF", fail_to_save),
            ("NOT_NOW", "READONLY", lambda server: server("REPLICAOF", "127.0.0.1", 1)),
        ])

    def test_the_server_refuses_or_can(self):
        self.play([
            ("NEVER", "the server refused to release", lambda server: server("ACL", "SETUSER", "default", "-del", "-get")),
            ("OK", "", lambda server: server("CONFIG", "SET", "maxmemory", 1)),
        ])

    def test_the_connection_is_refused(self):
        """Nothing was sent: the lock is known not to be released."""
        server = self.redis()
        port = server.listen()
        server("ACL", "SETUSER", "app", "on", ">first", "~*", "&*", "+@all")
        process = self.holder(server, url=f"redis://app:first@127.0.0.1:{port}")
        server("ACL", "SETUSER", "app", "resetpass", ">second")
        until(lambda: not any("user=app" in line for line in server("CLIENT", "LIST").splitlines())
              or server("CLIENT", "KILL", "USER", "app") is None, "its connections are ended")
        self.assertIn("WRONGPASS", self.line_of(process.stderr) + self.line_of(process.stderr))
        with open(os.path.join(server.folder, "stop"), "w", encoding="ascii"):
            pass
        code, _, err = self.end_of(process)
        self.assertEqual(code, CODES["NEVER"], err)
        self.assertIn("WRONGPASS", err)

    def test_there_is_no_server(self):
        server = self.redis()
        process = self.holder(server)
        server.kill()
        self.line_of(process.stderr)  # it has noticed that
        with open(os.path.join(server.folder, "stop"), "w", encoding="ascii"):
            pass
        code, _, err = self.end_of(process)
        self.assertEqual(code, CODES["NOT_NOW"], err)
        self.assertIn("no server could release 'x'; it stays locked until its lease expires: ", err)

    def test_the_server_does_not_reply(self):
        """The outcome is unknown, and COMMAND's own code counts."""
        server = self.redis()
        process = self.holder(server)
        server.pause()
        with open(os.path.join(server.folder, "stop"), "w", encoding="ascii"):
            pass
        code, _, err = self.end_of(process)
        server.resume()
        self.assertEqual(code, 0, err)
        self.assertIn("the release of 'x' was not confirmed", err)


def fail_to_save(server):
    # a file cannot replace a directory, not even as root
    os.mkdir(os.path.join(server.folder, "dump.rdb"))
    server("CONFIG", "SET", "save", "3600 1")
    server("SET", "other", "x")
    server("BGSAVE")
    until(lambda: "rdb_last_bgsave_status:err" in server("INFO", "persistence"), "the save fails")


if __name__ == "__main__":
    unittest.main()
