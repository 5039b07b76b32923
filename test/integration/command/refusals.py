#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A server that refuses the password, the database, or writing: which refusals end the command
at once, which are waited out and reported at the end, and which errors are no refusals.

Usual course: the server refuses; the command reports the server's text once, and exits with 77.
"""
import os
import re
import signal
import unittest

from ports import free_port_with_bus
from support import COMMAND, LIMIT, ToolTest, until


class RefusalTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.environment["LOCKWIRE_URL"] = self.server.url

    def ask(self, code, *words, **more):
        got, out, err = self.end_of(self.spawn(COMMAND, *words, **more))
        self.assertEqual(got, code, f"{words}: {out}{err}")
        return err

    def everyone(self, code, said, *options):
        """Checks that each subcommand, with any wait, ends with this code and reports the reason
        once."""
        for words in (("run", "job", "--wait", "forever"), ("run", "job", "--wait", "0"),
                      ("run", "job", "--wait", "60s"), ("status", "job"), ("break", "job"),
                      ("watch", "job")):
            command = ("--", "true") if words[0] == "run" else ()
            err = self.ask(code, *words, *options, *command)
            self.assertEqual(err.count(said), 1, f"{words}: {err}")
            self.assertIn("the server rejected the connection", err)
            self.assertEqual(err.count("\n"), 1, err)


class FirstConnection(RefusalTest):
    def test_a_wrong_password(self):
        port = self.server.listen()
        self.server("ACL", "SETUSER", "anna", "on", ">right", "~*", "&*", "+@all")
        self.everyone(77, "WRONGPASS", "--redis", f"redis://anna:wr0ng@127.0.0.1:{port}")

    def test_a_password_that_nobody_asked_for(self):
        port = self.server.listen()
        self.everyone(77, "AUTH: ERR", "--redis", f"redis://:any@127.0.0.1:{port}")

    def test_a_password_that_is_missing(self):
        self.server("CONFIG", "SET", "requirepass", "right")
        self.everyone(77, "NOAUTH")
        self.everyone(77, "NOAUTH", "--redis", self.server.url + "?db=3")

    def test_a_database_that_is_none(self):
        self.everyone(77, "SELECT: ERR", "--redis", self.server.url + "?db=99")

    def test_a_database_that_is_not_permitted(self):
        self.server("ACL", "SETUSER", "default", "-select")
        self.everyone(77, "NOPERM", "--redis", self.server.url + "?db=1")

    def test_too_many_clients_is_no_refusal(self):
        """The server's reply to AUTH concerns the connection, not the password."""
        port = self.server.listen()
        self.server("ACL", "SETUSER", "anna", "on", ">right", "~*", "&*", "+@all")
        holder = self.spawn(COMMAND, "run", "other", "--", "sh", "-c",
                            "echo > held; exec sleep 1000", cwd=self.folder)
        self.wait_for_file("held", holder)
        self.server("CONFIG", "SET", "maxclients", 1)
        url = f"redis://anna:right@127.0.0.1:{port}"
        self.assertIn("max number", self.ask(69, "run", "job", "--wait", "300ms", "--redis",
                                             url, "--", "true"))
        self.assertIn("max number", self.ask(69, "status", "job", "--redis", url))
        self.assertIsNone(holder.poll())


class LaterConnection(RefusalTest):
    """After a first connection a refused password is an outage: the password is being changed."""

    def setUp(self):
        super().setUp()
        port = self.server.listen()
        self.password("first")
        self.url = f"redis://anna:first@127.0.0.1:{port}"

    def password(self, text):
        self.server("ACL", "SETUSER", "anna", "reset", "on", f">{text}", "~*", "&*", "+@all")

    def connections(self):
        return [line for line in self.server("CLIENT", "LIST").splitlines()
                if "user=anna" in line]

    def change(self):
        self.password("second")
        until(lambda: not self.connections() or self.server(
            "CLIENT", "KILL", "USER", "anna") is None, "its connections are ended")

    def test_run_rides_it_out_while_the_program_runs(self):
        process = self.spawn(
            COMMAND, "run", "job", "--redis", self.url, "--", "sh", "-c",
            "echo > held; while [ ! -e stop ]; do sleep 0.02; done; exit 5", cwd=self.folder)
        self.wait_for_file("held", process)
        self.change()
        self.assertIn("WRONGPASS", process.stderr.readline()
                      + process.stderr.readline())
        self.password("first")
        until(self.connections, "it connects again")
        with open(self.path("stop"), "w", encoding="ascii"):
            pass
        self.assertEqual(self.end_of(process)[0], 5)
        self.assertIsNone(self.server("GET", "job"))

    def test_a_wait_rides_it_out(self):
        self.server("SET", "job", "theirs", "PX", 600000)
        process = self.spawn(COMMAND, "run", "job", "--redis", self.url, "--", "true")
        until(lambda: self.server("EXISTS", "lockwire:2:queue:{job}"), "it waits")
        self.change()
        while "WRONGPASS" not in process.stderr.readline():
            self.assertIsNone(process.poll())
        self.password("first")
        self.server("DEL", "job")
        self.assertEqual(self.end_of(process)[0], 0)

    def test_a_wait_that_ends_meanwhile_was_refused(self):
        self.server("SET", "job", "theirs", "PX", 600000)
        process = self.spawn(COMMAND, "run", "job", "--wait", "3s", "--redis", self.url, "--",
                             "true")
        until(lambda: self.server("EXISTS", "lockwire:2:queue:{job}"), "it waits")
        self.change()
        code, _, err = self.end_of(process)
        self.assertEqual(code, 77, err)
        self.assertIn("cannot lock 'job': the server rejected the connection: AUTH: WRONGPASS", err)

    def test_watch_rides_it_out(self):
        process = self.spawn(COMMAND, "watch", "job", "--redis", self.url, "--interval", "20ms")
        self.assertRegex(process.stdout.readline(), "job: free$")
        self.change()
        while "WRONGPASS" not in process.stdout.readline():
            self.assertIsNone(process.poll())
        self.password("first")
        while not process.stdout.readline().endswith("job: free\n"):
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(LIMIT), 0)


class Writing(RefusalTest):
    """The server replies, but refuses writes for the moment."""

    def refused(self, state, said):
        for wait in ("0", "400ms"):
            for mode in ((), ("--shared",)):
                err = self.ask(69, "run", "job", "--wait", wait, *mode, "--", "true")
                self.assertIn(f"cannot lock 'job': {state}: {said}", err)
                self.assertNotIn("script", err)
                if wait == "0": # the cause once, not also as the log has it
                    self.assertEqual(err.count("\n"), 1, err)

    def refusals(self):
        """Returns the number of refusals. Before 7.0 the refusal of a script is counted as an
        ERR."""
        return sum(int(count) for count in re.findall(r"errorstat_(?:OOM|ERR):count=(\d+)",
                                                      self.server("INFO", "errorstats")))

    def test_out_of_memory(self):
        self.server("CONFIG", "SET", "maxmemory", 1)
        self.refused("the server is out of memory", "OOM")

    def test_too_few_replicas(self):
        self.server("CONFIG", "SET", "min-replicas-to-write", 1)
        self.refused("the server has too few replicas", "NOREPLICAS")

    def test_it_cannot_save(self):
        # a file cannot replace a directory, not even as root
        os.mkdir(os.path.join(self.server.folder, "dump.rdb"))
        self.server("CONFIG", "SET", "save", "3600 1")
        self.server("SET", "other", "x")
        self.server("BGSAVE")
        until(lambda: "rdb_last_bgsave_status:err" in self.server("INFO", "persistence"),
              "the save fails")
        self.refused("the server cannot write its data to disk", "MISCONF")

    def test_a_cluster_without_slots(self):
        self.server.kill()
        self.server.start("--cluster-enabled", "yes", "--port", str(free_port_with_bus()))
        for wait in ("0", "400ms"): # no refusal: the cluster may have the slots in a moment
            err = self.ask(69, "run", "job", "--wait", wait, "--", "true")
            self.assertIn("cannot lock 'job': the cluster is down: CLUSTERDOWN", err)

    def test_a_server_without_scripts(self):
        """The command is named, and what it is needed for."""
        self.server.kill()
        self.server.start("--rename-command", "EVALSHA", "", "--rename-command", "EVAL", "")
        said = ("unknown command EVALSHA, which waiting, releasing and fencing tokens need (a "
                "proxy, another kind of server, or a renamed command?)\n")
        for words in (("run", "job", "--wait", "0", "--", "true"), ("list",), ("status", "job"),
                      ("yield", "job"), ("break", "job")):
            self.assertIn(f"refused by the server: {said}", self.ask(77, *words))

    def test_a_refusal_that_passed_is_not_told(self):
        """A wait that ends while the lock is busy is reported as busy."""
        self.server("SET", "job", "theirs", "PX", 600000)
        self.server("CONFIG", "SET", "maxmemory", 1)
        process = self.spawn(COMMAND, "run", "job", "--wait", "5s", "--", "true")
        until(lambda: self.refusals() > 2, "it is refused")
        self.server("CONFIG", "SET", "maxmemory", 0)
        until(lambda: self.server("EXISTS", "lockwire:2:queue:{job}"), "it waits")
        code, _, err = self.end_of(process)
        self.assertEqual(code, 75, err)
        self.assertIn("timed out waiting for 'job'", err)

    def test_a_server_that_went_is_no_refusal(self):
        self.server("CONFIG", "SET", "maxmemory", 1)
        process = self.spawn(COMMAND, "run", "job", "--wait", "3s", "--", "true")
        until(lambda: "errorstat_OOM" in self.server("INFO", "errorstats"), "it is refused")
        self.server.kill()
        code, _, err = self.end_of(process)
        self.assertEqual(code, 69, err)
        self.assertIn("no connection to the server", err.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
