#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""--password-file: the source of the password, that other processes do not see it, and invalid
passwords.

Usual course: a server requires a password, which only a file has; every subcommand gets in.
"""
import os
import signal
import subprocess
import unittest

from support import COMMAND, LIMIT, ToolTest, until

SECRET = "s3cret w0rd: %@/"


class PasswordTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        port = self.server.listen()
        self.server("ACL", "SETUSER", "anna", "on", f">{SECRET}", "~*", "&*", "+@all")
        self.server("ACL", "SETUSER", "berta", "on", f">{SECRET}", "~*", "&*", "+@all")
        self.environment["LOCKWIRE_URL"] = f"redis://anna@127.0.0.1:{port}"
        self.port = port

    def file(self, content, name="password"):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def run_(self, *words, **more):
        process = self.spawn(COMMAND, *words, **more)
        code, out, err = self.end_of(process)
        self.assertNotIn("s3cret", err)
        return code, out, err


class Sources(PasswordTest):
    def test_every_subcommand_gets_in(self):
        file = self.file(SECRET.encode() + b"\n")
        self.assertEqual(self.run_("run", "job", "--password-file", file, "--", "echo", "in"),
                         (0, "in\n", ""))
        code, out, err = self.run_("status", "job", f"--password-file={file}")
        self.assertEqual((code, err), (1, ""))
        self.assertRegex(out, "^job: free\n")
        self.assertEqual(self.run_("break", "job", "--password-file", file)[0], 1)
        process = self.spawn(COMMAND, "watch", "job", "--password-file", file)
        self.assertRegex(process.stdout.readline(), "job: free$")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(process)[0], 0)

    def test_only_the_first_line_counts(self):
        for content in (b"%s", b"%s\n", b"%s\nmore\n", b"%s\n\0", b"%s\r\n",
                        b"%s\r\nmore\n"):
            file = self.file(content % SECRET.encode())
            code, _, err = self.run_("status", "job", "--password-file", file)
            self.assertEqual(code, 1, f"{content}: {err}")

    def test_the_longest(self):
        self.server("ACL", "SETUSER", "anna", f">{'x' * 4096}")
        self.assertEqual(self.run_("status", "job", "--password-file",
                                   self.file(b"x" * 4096 + b"\n"))[0], 1)

    def test_the_rest_of_the_input_is_the_program_s(self):
        process = self.spawn(COMMAND, "run", "job", "--password-file", "-", "--", "cat",
                             stdin=subprocess.PIPE)
        out, err = process.communicate(f"{SECRET}\nfirst\nsecond\n", timeout=LIMIT)
        self.assertEqual((process.returncode, out, err), (0, "first\nsecond\n", ""))

    def test_a_descriptor_by_its_path(self):
        process = self.spawn("sh", "-c", 'exec "$0" status job --password-file /dev/fd/3 3<"$1"',
                             COMMAND, self.file(SECRET.encode()))
        code, out, err = self.end_of(process)
        self.assertEqual((code, err), (1, ""))
        self.assertRegex(out, "^job: free\n")

    def test_the_url_s_password_and_that_of_its_user_give_way(self):
        file = self.file(SECRET.encode())
        for user in ("anna:stale", "anna:", "berta"):
            code, out, err = self.run_(
                "run", "job", "--password-file", file, "--redis",
                f"redis://{user}@127.0.0.1:{self.port}", "--", "sh", "-c", "echo $LOCKWIRE_URL")
            self.assertEqual(code, 0, f"{user}: {err}")
            self.assertNotIn("s3cret", out)

    def test_without_a_user_it_is_the_default_one_s(self):
        self.server("CONFIG", "SET", "requirepass", SECRET)
        code, _, err = self.run_("status", "job", "--redis", self.server.url,
                                 "--password-file", self.file(SECRET.encode()))
        self.assertEqual(code, 1, err)


class Rotation(PasswordTest):
    """The server's password is replaced, and its connections end."""

    def replace(self, password, file=None):
        """`file`: the file's new content."""
        self.server("ACL", "SETUSER", "anna", "resetpass", f">{password}")
        if file is not None:
            self.file(file.encode())
        self.server("CLIENT", "KILL", "USER", "anna")

    def until_connected(self, subcommand="run"):
        until(lambda: self.server("CLIENT", "LIST").count(f"name=lockwire-{subcommand} ") == 2,
              "both connections are up again")

    def line_with(self, word, process):
        """Returns the next message with this word."""
        said = self.line_of(process.stderr)
        while word not in said:
            self.assertTrue(said, f"it ended without {word}")
            said = self.line_of(process.stderr)
        return said

    def start(self, subcommand, *options, script="echo held; exec cat"):
        return self.spawn(COMMAND, subcommand, "job", "--password-file", self.path("password"), *options,
                          "--", "sh", "-c", script, stdin=subprocess.PIPE)

    def test_each_login_reads_the_file_again(self):
        self.file(SECRET.encode())
        holder = self.start("run")
        self.assertEqual(self.line_of(holder.stdout), "held\n")
        waiter = self.start("lead", script="exit 5")
        until(lambda: self.server("ZCARD", "lockwire:2:queue:{job}") == 1, "it queues")
        for password in ("another", "s3cret"):
            self.replace(password, password)
            for subcommand in ("run", "lead"):
                self.until_connected(subcommand)
        code, _, err = self.end_of(holder)
        self.assertEqual(code, 0, err)
        self.assertEqual(self.end_of(waiter)[0], 5)

    def test_a_file_that_comes_late_is_waited_for(self):
        self.file(SECRET.encode())
        holder = self.start("run")
        self.assertEqual(self.line_of(holder.stdout), "held\n")
        os.unlink(self.path("password"))
        self.replace("another")
        said = self.line_with("password_file", holder)
        self.assertIn(f"password_file '{self.path('password')}': cannot read the file: No such file", said)
        self.file(b"another\n")
        self.until_connected()
        self.assertEqual(self.end_of(holder)[0], 0)

    def test_a_pipe_is_read_once(self):
        holder = self.spawn("bash", "-c", 'exec "$0" run job --password-file <(echo "$1") -- sh -c "$2"',
                            COMMAND, SECRET, "echo held; exec cat", stdin=subprocess.PIPE)
        self.assertEqual(self.line_of(holder.stdout), "held\n")
        self.server("CLIENT", "KILL", "USER", "anna")
        self.until_connected()
        self.assertEqual(self.end_of(holder)[0], 0)

    def test_lead_ends_if_its_logins_stay_refused(self):
        self.file(SECRET.encode())
        leader = self.start("lead", "--lease", "1s", script="echo leads; exec sleep 1000")
        self.assertEqual(self.line_of(leader.stdout), "leads\n")
        self.replace("another")
        code, _, err = self.end_of(leader)
        self.assertEqual(code, 77, err)
        self.assertIn("lockwire: cannot lock 'job': the server rejected the connection: AUTH: WRONGPASS", err)

    def test_lead_keeps_trying_if_it_is_to(self):
        self.file(b"not yet")
        leader = self.start("lead", "--keep-trying", "--lease", "1s", script="echo leads; exec sleep 1000")
        for password, what in ((SECRET, "WRONGPASS"), ("another", "was lost")):
            self.line_with(what, leader)
            self.replace(password, password)
            self.assertEqual(self.line_of(leader.stdout), "leads\n")
            self.replace("refused")
        self.assertIsNone(leader.poll())


class Secrecy(PasswordTest):
    def test_neither_words_nor_environments_show_it(self):
        process = self.spawn(COMMAND, "run", "job", "--password-file",
                             self.file(SECRET.encode()), "--", "sh", "-c",
                             "ls -l /proc/self/fd > opened; echo $$ > held; sleep 1000; :",
                             cwd=self.folder)
        pid = int(self.wait_for_file("held", process))
        for which in (process.pid, pid):
            for what in ("cmdline", "environ"):
                with open(f"/proc/{which}/{what}", "rb") as file:
                    content = file.read()
                self.assertGreater(len(content), 0)
                self.assertNotIn(b"s3cret", content)
        self.assertNotIn(self.path("password"), self.wait_for_file("opened"))

    def test_a_wrong_one_is_refused_and_not_told(self):
        for words in (("run", "job"), ("status", "job"), ("break", "job"), ("watch", "job")):
            code, _, err = self.run_(*words, "--password-file", self.file(b"s3cret?"),
                                     *(("--", "true") if words[0] == "run" else ()))
            self.assertEqual(code, 77, err)
            self.assertEqual(err.count("WRONGPASS"), 1, err)


class NoPassword(PasswordTest):
    def refused(self, file, said, code=64):
        for words in (("run", "job", "--password-file", file, "--", "true"),
                      ("status", "job", "--password-file", file)):
            got, out, err = self.run_(*words)
            self.assertEqual((got, out), (code, ""), err)
            self.assertIn(f"--password-file '{file}'", err)
            self.assertIn(said, err)
            self.assertEqual(err.count("\n"), 1, err)

    def test_files_without_one(self):
        self.refused(self.path("missing"), "No such file")
        self.refused(self.folder, "Is a directory")
        self.refused("", "No such file")
        self.refused("-", "first line is empty")
        self.refused("/dev/null", "first line is empty")
        for content, said in ((b"", "is empty"), (b"\nsecond", "is empty"), (b"\r\n", "is empty"),
                              (b"s3cret\0x\n", "NUL"), (b"\0", "NUL"),
                              (b"x" * 4097, "longer than 4096 bytes"),
                              (b"x" * 4097 + b"\n", "longer than 4096 bytes")):
            self.refused(self.file(content), said)

    def test_a_file_that_is_not_for_us(self):
        if os.geteuid() == 0:
            self.skipTest("root may read every file")
        file = self.file(b"s3cret")
        os.chmod(file, 0)
        self.refused(file, "Permission denied")

    def test_no_descriptor_for_it_is_the_system_s(self):
        self.environment["LSAN_OPTIONS"] = "detect_leaks=0"
        # all four descriptors are in use, and none is left for the file, nor for the dynamic loader
        process = self.spawn("sh", "-c", 'ulimit -n 4; exec "$0" status job --password-file "$1"'
                             ' 3</dev/null', COMMAND, self.file(b"s3cret"))
        code, _, err = self.end_of(process)
        self.assertIn(code, (71, 127), err) # 127: the dynamic loader failed first

    def test_a_user_without_any(self):
        for words in (("run", "job", "--", "true"), ("status", "job")):
            code, _, err = self.run_(*words)
            self.assertEqual(code, 64, err)
            self.assertIn("without a password", err)

    def test_an_embedded_server_has_none(self):
        file = self.file(b"s3cret")
        for words, more in ((("--redis", "embedded:"), {}),
                            ((), {"LOCKWIRE_URL": "embedded:"})):
            code, _, err = self.run_("status", "job", "--password-file", file, *words,
                                     env=more)
            self.assertEqual(code, 64, err)
            self.assertIn("--password-file", err)


if __name__ == "__main__":
    unittest.main()
