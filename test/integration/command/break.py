#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The locks that `lockwire break` releases, and those that it leaves alone: another library's
key, a key without a TTL, a holder that came after the look, more holders than one look shows.

Usual course: a key that may not be a lock is reported and left alone, and released with
--foreign.
"""
import os
import socket
import threading
import unittest

from status import LookTest
from support import COMMAND

OURS = "01234567-89ab-cdef-0123-456789abcdef:7:2000-"


class Foreign(LookTest):
    def spared(self, *words):
        """Checks that the key is left alone. Returns the message."""
        before = self.server("GET", "job")
        said = self.ask(1, "break", "job", *words)
        self.assertEqual(self.server("GET", "job"), before)
        self.assertEqual(said.count("\n"), 1, said)
        self.assertIn("--foreign", said)
        return said

    def test_a_token_of_another_form(self):
        for token in ("theirs", OURS[:-1], OURS + "x", OURS[1:], "x" + OURS[1:],
                      OURS.replace(":7:", ":07:"), OURS.replace(":7:", "::"),
                      OURS.replace(":7:", ":-7:"), OURS.replace(":2000", ":"),
                      OURS.replace("abcdef:", "ABCDEF:"), OURS.replace("-89ab", "089ab"),
                      OURS.replace("2000", "2k"), OURS + "-", " " + OURS, ""):
            for more in ((), ("--token", token)) if token else ((),):
                self.server("SET", "job", token, "PX", 600000)
                self.assertIn(f"'{token}'", self.spared(*more))
                self.assertEqual(self.ask(0, "break", "job", "--foreign", *more), "")
                self.assertIsNone(self.server("GET", "job"))

    def test_ours_goes_without_more_words(self):
        for token in (OURS, OURS.replace(":7:", ":" + "7".zfill(23) + ":")):
            for more in ((), ("--token", token), ("--foreign",)):
                self.server("SET", "job", token, "PX", 600000)
                self.assertEqual(self.ask(0, "break", "job", *more), "")
                self.assertIsNone(self.server("GET", "job"))

    def test_ours_is_meant_by_its_token_and_as_it_stands_in_redis(self):
        for token in (OURS, OURS[:-1] + "+"):
            self.server("SET", "job", OURS[:-1] + "+", "PX", 600000)
            self.assertEqual(self.ask(0, "break", "job", "--token", token), "")
            self.assertIsNone(self.server("GET", "job"))

    def test_ours_without_a_ttl_may_be_anybody_s(self):
        self.holder("--lease", "1h")
        self.server("PERSIST", "job")
        for more in ((), ("--token", self.server("GET", "job"))):
            self.assertIn("no TTL", self.spared(*more))
        self.ask(0, "break", "job", "--foreign")
        self.assertIsNone(self.server("GET", "job"))

    def test_another_s_token_is_not_asked_about(self):
        self.server("SET", "job", "theirs")
        not_held = "cannot break 'job': not held by the given --token\n"
        self.assertIn(not_held, self.ask(1, "break", "job", "--token", "other"))
        self.assertIn(not_held, self.ask(1, "break", "job", "--token", "other",
                                                "--foreign"))
        self.assertEqual(self.server("GET", "job"), "theirs")

    def test_what_is_shown_of_it_is_safe(self):
        self.server("SET", "job", "\x1b[2J\n" + "\x01" * 2000)
        said = self.spared()
        self.assertIn(r"\x1b[2J\x0a\x01", said)
        self.assertNotIn("\x1b", said)

    def test_the_next_of_ours_gets_what_was_a_foreign_one_s(self):
        self.server("SET", "job", "theirs", "PX", 600000)
        waiting = self.waiter("lockwire:2:queue:{job}", 1)
        self.spared()
        self.ask(0, "break", "job", "--foreign")
        self.assertEqual(waiting.stdout.readline(), "mine\n")

    def test_what_is_too_long_to_be_shown(self):
        now = int(self.server("TIME")[0]) * 1000
        for more in ((), ("--token", "t")):
            self.server("HSET", "job", "mode",
                        f"2 1 0 1 {now + 600000} 7 " + "w" * (1 << 21),
                        "h:t", f"{now + 600000} w anna")
            self.assertIn("too long", self.ask(77, "status", "job"))
            self.assertIn("too long", self.ask(77, "break", "job", *more))
            self.assertEqual(self.server("EXISTS", "job"), 1)
            self.assertEqual(self.ask(0, "break", "job", "--foreign", *more), "")
            self.assertEqual(self.server("EXISTS", "job"), 0)

    def test_a_string_of_which_the_beginning_is_shown(self):
        for length in (1023, 1024, 1025, 1 << 18):
            self.server("SET", "job", "x" * length, "PX", 600000)
            self.assertIn("held by another library or version", self.ask(1, "break", "job"))
            self.assertIn("cannot break 'job': ",
                          self.ask(1, "break", "job", "--foreign", "--token", "x"))
            self.assertEqual(self.ask(0, "break", "job", "--foreign"), "")
            self.assertEqual(self.server("EXISTS", "job"), 0)


class Many(LookTest):
    def readers(self, count):
        now = int(self.server("TIME")[0]) * 1000
        words = ["mode", f"2 {count} {count} 0 {now + 600000} 0 "]
        for i in range(count):
            words += [f"h:{OURS.replace(':7:', f':{i + 1}:')}", f"{now + 600000} r o{i}",
                      f"r:o{i}", "1 7"]
        self.server("HSET", "job", *words)
        self.server("PEXPIRE", "job", 600000)

    def test_more_readers_than_one_look_shows(self):
        self.readers(150)
        self.assertEqual(self.seen()["holder_total"], 150)
        self.assertEqual(self.ask(0, "break", "job"), "")
        self.assertEqual(self.seen()["holder_total"], 0)

    def test_a_writer_who_waited_behind_them_keeps_it(self):
        self.readers(150)
        waiting = self.waiter("lockwire:2:rwqueue:{job}", 1, "--exclusive", "--owner", "w")
        self.ask(0, "break", "job")
        self.assertEqual([entry["owner"] for entry in self.seen()["holders"]], ["w"])
        self.assertEqual(waiting.stdout.readline(), "mine\n")

    def test_one_of_many_by_its_token(self):
        self.readers(150)
        self.ask(0, "break", "job", "--token", OURS.replace(":7:", ":150:"))
        self.assertEqual(self.seen()["holder_total"], 149)


class Between(threading.Thread):
    """Stands between a client and the server, and calls `action` before it forwards the first
    command that contains `word`."""

    def __init__(self, path, server, word, action):
        super().__init__(daemon=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.server, self.word, self.action = server, word, action
        self.done = False

    def run(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.server.socket)
            for source, to in ((client, server), (server, client)):
                threading.Thread(target=self.pump, args=(source, to, source is client),
                                 daemon=True).start()

    def pump(self, source, to, asks):
        try:
            while True:
                data = source.recv(65536)
                if asks and self.word in data and not self.done:
                    self.done = True
                    self.action()
                to.sendall(data)
                if not data:
                    return
        except OSError:
            pass
        finally:
            to.close()
            source.close()


class Changed(LookTest):
    def test_who_has_it_since_it_looked_keeps_it(self):
        """The look ends with MGET, which asks for the holder's client. `break` releases the lock
        after that. A new holder that comes in between keeps it."""
        follower = OURS.replace(":7:", ":8:")
        for new, more in ((follower, ()), ("theirs", ()), ("theirs", ("--foreign",)),
                          (follower, ("--token", OURS))):
            self.server("SET", "job", OURS, "PX", 600000)
            path = self.path(f"between{len(os.listdir(self.folder))}")
            between = Between(path, self.server, b"\r\nMGET\r\n",
                              lambda new=new: self.server("SET", "job", new, "PX", 600000))
            self.addCleanup(between.listener.close)
            between.start()
            process = self.spawn(COMMAND, "break", "job", "--redis", f"unix://{path}", *more)
            code, _, err = self.end_of(process)
            self.assertTrue(between.done)
            self.assertEqual(code, 1, err)
            self.assertIn("cannot break 'job': ", err)
            self.assertEqual(self.server("GET", "job"), new)


if __name__ == "__main__":
    unittest.main()
