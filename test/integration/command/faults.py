#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The command if something is missing or unusual: descriptors, an output, a server's last reply,
the folder of an embedded server. Also a terminal's keys, and arbitrary bytes in the output.

Usual course: something fails, a message has the reason, and the exit code is the documented one.
"""
import json
import os
import pty
import re
import signal
import unittest
from urllib.parse import unquote

from support import COMMAND, LIMIT, ToolTest, alive, until


class FaultTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.environment["LOCKWIRE_URL"] = self.server.url
        self.environment["TMPDIR"] = self.folder

    def shell(self, script, *words, **more):
        return self.spawn("sh", "-c", script, COMMAND, *words, cwd=self.folder, **more)

    def holder(self, *options, script="echo $$ > held; exec sleep 1000"):
        process = self.spawn(COMMAND, "run", "job", *options, "--", "sh", "-c", script,
                             cwd=self.folder)
        return process, int(self.wait_for_file("held", process))


    def end_of(self, process):
        """Leaves out the messages of a program that measures coverage and cannot write its
        files."""
        code, out, err = super().end_of(process)
        return code, out, re.sub(r"(?m)^(lib)?(gcov )?profiling.*\n", "", err)


class Shortage(FaultTest):
    def setUp(self):
        super().setUp()
        # A sanitizer's search for leaks needs descriptors as well.
        self.environment["LSAN_OPTIONS"] = "detect_leaks=0"

    def check(self, *words):
        """Checks that the command ends with any number of descriptors, and with a message if it
        fails."""
        codes = set()
        for limit in range(4, 28):
            process = self.shell(f'ulimit -n {limit}; exec "$0" "$@"', *words)
            code, _, err = self.end_of(process)
            codes.add(code)
            self.assertIn(code, (0, 69, 71), f"{limit} descriptors: {err}")
            self.assertEqual(bool(err), code != 0, f"{limit} descriptors: {code} {err}")
        self.assertIn(71, codes, "not even a pipe for signals")
        self.assertIn(0, codes, "enough in the end")

    def test_run_without_descriptors(self):
        self.check("run", "job", "--wait", "0", "--", "true")

    def test_status_without_descriptors(self):
        codes = set()
        for limit in range(4, 28):
            code, out, err = self.end_of(
                self.shell(f'ulimit -n {limit}; exec "$0" status job', ""))
            codes.add(code)
            self.assertIn(code, (1, 69, 71), err)
            self.assertTrue(err or code == 1, f"{limit} descriptors: {code}")
            self.assertRegex(out, "^job: free\nredis " if code == 1 else "^$")
        self.assertIn(71, codes, "not even a pipe for signals")
        self.assertIn(1, codes, "enough in the end")


class Descriptors(FaultTest):
    """Some of the standard descriptors are closed from the start."""

    CLOSED = ("<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-")

    def check(self, script, closed, code, out="", err=""):
        """Checks the exit code, and the output on the descriptors that are open."""
        closed = closed.split()
        process = self.shell(f'{script} {" ".join(closed)}')
        ended, said, told = self.end_of(process)
        self.assertEqual((ended, told), (code, "" if "2>&-" in closed else err), closed)
        self.assertRegex(said, "^$" if ">&-" in closed else f"^{out}$", closed)

    def test_run_without_some(self):
        program = "cat; echo out 2>/dev/null; echo err >&2; exit"
        for closed in self.CLOSED:
            for code in (0, 7):
                self.check(f'exec "$0" run job -- sh -c "{program} {code}"', closed, code,
                           "out\n", "err\n")
                self.assertIsNone(self.server("GET", "job"))

    def test_what_a_command_cannot_write_is_an_error_of_the_command(self):
        for words in ("run job", "lead job"):
            process = self.shell(f'exec "$0" {words} -- sh -c "echo out || exit 9" >&-')
            self.assertEqual(self.end_of(process)[0], 9)

    def test_a_message_without_some(self):
        """The message goes nowhere, and in particular not into a pipe or a socket of this
        process."""
        self.server("SET", "job", "theirs", "PX", 600000)
        for closed in self.CLOSED:
            self.check('exec "$0" run job --wait 100ms -- true', closed, 75, "",
                       "lockwire: timed out waiting for 'job'\n")
        self.server("DEL", "job")
        self.server("RPUSH", "job", "x")
        for closed in self.CLOSED:
            self.check('exec "$0" run job --wait 100ms -- true', closed, 75, "",
                       "lockwire: key job contains a list not written by this kind of lock; "
                       "treating the lock as held by another program, key left unchanged\n"
                       "lockwire: timed out waiting for 'job'\n")

    def test_status_without_some(self):
        answer = rf"job: free\nredis {self.server.socket}, master; 0\.\ds ago\n"
        for closed in self.CLOSED:
            if ">&-" in closed.split():
                self.check('exec "$0" status job', closed, 71, err="lockwire: cannot write to "
                           "the standard output: Bad file descriptor\n")
            else:
                self.check('exec "$0" status job', closed, 1, answer)

    def test_nothing_to_open_in_their_place(self):
        with open(COMMAND, "rb") as file:
            if b"__asan_init" in file.read():
                self.skipTest("AddressSanitizer tries for ever to have a higher descriptor")
        process = self.shell('exec >&- 2>&-; ulimit -n 2; exec "$0" status job')
        self.assertEqual(self.end_of(process)[0], 71)


class Output(FaultTest):
    def test_nowhere_to_write_to(self):
        for words in ("watch job", "--help", "run --help", "--version"):
            code, _, err = self.end_of(self.shell(f'exec "$0" {words} >/dev/full'))
            self.assertEqual(code, 71, f"{words}: {err}")
            self.assertIn("cannot write to the standard output: ", err)

    def test_any_bytes_come_out_as_utf_8(self):
        """Bytes as escapes of Lua, and how they are shown."""
        for escaped, shown in (
                (r"\226\130\172", "€"), (r"\240\159\152\128", "😀"), (r"\239\191\189", "\ufffd"),
                (r"\194\160", "\xa0"), (r"\194\159", r"\xc2\x9f"), (r"\128", r"\x80"),
                (r"\193\191", r"\xc1\xbf"), (r"\226\130", r"\xe2\x82"), (r"\226", r"\xe2"),
                (r"\224\159\191", r"\xe0\x9f\xbf"), (r"\237\159\191", "\ud7ff"),
                (r"\237\160\128", r"\xed\xa0\x80"), (r"\240\143\191\191", r"\xf0\x8f\xbf\xbf"),
                (r"\244\143\191\191", "\U0010ffff"), (r"\244\144\128\128", r"\xf4\x90\x80\x80"),
                (r"\245\128\128\128", r"\xf5\x80\x80\x80"), (r"\255", r"\xff")):
            self.server("EVAL", f"redis.call('SET', KEYS[1], '<{escaped}>')", 1, "job")
            code, out, err = self.end_of(self.spawn(COMMAND, "status", "job", "--json"))
            self.assertEqual(code, 0, err)
            self.assertEqual(json.loads(out)["holders"][0]["token"], f"<{shown}>")

    def test_a_very_long_token_is_cut(self):
        self.server("SET", "job", "\x01" * 1024)
        _, out, _ = self.end_of(self.spawn(COMMAND, "status", "job", "--json"))
        self.assertEqual(json.loads(out)["holders"][0]["token"], r"\x01" * 1024)

    def test_times_are_as_long_as_needed(self):
        for ms, shown in ((59000, r"5\d\.\ds"), (3599000, r"59m5\ds"),
                          (7300000, r"2h01m"), (360000000, r"99h59m")):
            self.server("SET", "job", "theirs", "PX", ms)
            _, out, _ = self.end_of(self.spawn(COMMAND, "status", "job"))
            self.assertRegex(out, shown)


class TheEnd(FaultTest):
    def test_a_lock_that_is_gone_when_the_program_ends(self):
        process, pid = self.holder()
        self.server("DEL", "job")
        os.kill(pid, signal.SIGTERM)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 70)
        self.assertIn("'job' was lost before it could be released", err)

    def test_one_of_several_is_gone_when_the_program_ends(self):
        process, pid = self.holder("--and", "other")
        self.server("DEL", "other")
        os.kill(pid, signal.SIGTERM)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 70)
        self.assertIn("'other' was lost before it could be released", err)

    def test_a_release_without_an_answer_leaves_the_programs_code(self):
        process, pid = self.holder()
        self.server.pause()
        os.kill(pid, signal.SIGKILL)
        code, _, err = self.end_of(process)
        self.server.process.send_signal(signal.SIGCONT)
        self.assertEqual(code, 128 + signal.SIGKILL)
        self.assertIn("the release of 'job' was not confirmed", err)

    def test_a_server_that_goes_before_its_answer_is_no_server(self):
        for words in (("status", "job"), ("break", "job")):
            self.server.pause()
            process = self.spawn(COMMAND, *words)
            until(lambda: os.path.exists(f"/proc/{process.pid}/fd/5"), "it connects")
            self.server.kill()
            code, _, err = self.end_of(process)
            self.assertEqual(code, 69, err)
            self.assertEqual(err.count("no connection"), 1, err)
            self.server.start()


class Keys(FaultTest):
    """A session with its own terminal, in which keys are pressed."""

    def on_terminal(self, *words):
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        process = self.shell('tty=$1; shift; exec <"$tty"; exec "$0" "$@"',
                             os.ttyname(slave), *words, start_new_session=True)
        os.close(slave)
        return process, master

    def test_an_interrupt_comes_to_the_program_once(self):
        process, keys = self.on_terminal(
            "run", "job", "--", "sh", "-c",
            'trap "echo got >> got" INT; echo > held;'
            ' while [ ! -e stop ]; do sleep 0.02; done; exit 5')
        self.wait_for_file("held")
        os.write(keys, b"\x03")
        self.wait_for_file("got")
        with open(self.path("stop"), "w", encoding="ascii"):
            pass
        self.assertEqual(self.end_of(process)[0], 5)
        self.assertEqual(self.wait_for_file("got"), "got\n")

    def test_an_interrupt_ends_the_wait(self):
        self.server("SET", "job", "theirs")
        process, keys = self.on_terminal("run", "job", "--wait", "forever", "--", "true")
        until(lambda: self.server("EXISTS", "lockwire:2:queue:{job}"), "it waits")
        os.write(keys, b"\x03")
        self.assertEqual(self.end_of(process)[0], -signal.SIGINT)


class Embedded(FaultTest):
    def fake_server(self, script):
        """Puts a script in place of redis-server on the PATH; $log is the path of its log."""
        path = self.path("redis-server")
        with open(path, "w", encoding="ascii") as file:
            file.write('#!/bin/sh\nfor word; do\n  [ "$option" = --logfile ] && log=$word\n'
                       f'  option=$word\ndone\n{script}\n')
        os.chmod(path, 0o700)
        return {"PATH": f"{self.folder}:{os.environ['PATH']}"}

    def test_a_server_that_ends_at_once_has_its_last_words(self):
        for script, said in (
                ('printf "first\\n\\nthe last words\\n\\n" >"$log"; exit 1',
                 "exited while it started: the last words"),
                ("exit 1", "exited while it started\n"),
                ("kill -KILL $$", "exited while it started\n")):
            process = self.spawn(COMMAND, "status", "job", "--redis", "embedded:",
                                 env=self.fake_server(script))
            code, _, err = self.end_of(process)
            self.assertEqual(code, 69)
            self.assertIn(said, err)
            self.assertEqual(os.listdir(self.folder), ["redis-server"])

    def test_folders_for_what_is_temporary(self):
        for folder, code, said in (("relative", 0, "unix:///tmp/lockwire-"),
                                   ("/nonexistent", 69, "cannot create the embedded server's directory")):
            process = self.spawn(COMMAND, "run", "job", "--redis", "embedded:", "--", "sh",
                                 "-c", 'echo "$LOCKWIRE_URL"', env={"TMPDIR": folder})
            got, out, err = self.end_of(process)
            self.assertEqual(got, code, err)
            self.assertIn(said, out + err)

    def test_looks_and_breaks_end_their_server(self):
        for subcommand in ("status", "break"):
            got, _, err = self.end_of(self.spawn(COMMAND, subcommand, "job", "--redis",
                                                 "embedded:"))
            self.assertEqual(got, 1, err)
            self.assertEqual(os.listdir(self.folder), [])

    def test_a_watch_ends_its_server(self):
        process = self.spawn(COMMAND, "watch", "job", "--redis", "embedded:")
        self.assertRegex(process.stdout.readline(), "job: free$")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(LIMIT), 0)
        self.assertEqual(os.listdir(self.folder), [])


class Options(FaultTest):
    def test_an_empty_address_is_none(self):
        code, _, err = self.end_of(self.spawn(COMMAND, "run", "a}b", "--", "true",
                                              env={"LOCKWIRE_URL": ""}))
        self.assertEqual(code, 64, err)

    def test_the_same_mode_twice_is_that_mode(self):
        code, _, err = self.end_of(self.spawn(COMMAND, "run", "job", "--shared", "--shared",
                                              "--", "true"))
        self.assertEqual(code, 0, err)


if __name__ == "__main__":
    unittest.main()
