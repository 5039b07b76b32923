#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Gives a real libevent program a leader: Debian's memcached, whose own loop the library shares. Its
sources get the two calls of memcached_leader.c, are linked with the installed library, and run.

    memcached.py SOURCES BUILD    SOURCES: memcached's, which stay as they are

Usual course: of two processes one leads, and both answer; the other one leads when the leader ends,
at once after SIGTERM, after the lease when it is killed.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from support import LIMIT, ToolTest, until

HERE = os.path.dirname(os.path.abspath(__file__))
LOOP = "    /* enter the event loop */\n"
END = "    event_base_free(main_base);\n"
NAME = "memcached"
QUEUE = "lockwire:2:queue:{memcached}"
program = libraries = None


def run(*words, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **more)
    if done.returncode:
        sys.exit(f"memcached.py: {words[0]} failed:\n{done.stdout[-3000:]}")
    return done.stdout


def insert(text, before, call):
    if text.count(before) != 1:
        sys.exit(f"memcached.py: memcached.c has {before!r} {text.count(before)} times")
    return text.replace(before, f"    {call}(main_base);\n{before}")


def build(sources, library_build, folder):
    """Returns the path of a memcached that leads, and of the library's folder."""
    tree, root = os.path.join(folder, "memcached"), os.path.join(folder, "root")
    shutil.copytree(sources, tree)
    run("meson", "install", "-C", library_build, "--no-rebuild", "--destdir", root)
    config = run("find", root, "-name", "lockwire.pc").strip()
    prefix = next(line for line in open(config, encoding="utf-8") if line.startswith("prefix="))
    flags = [run("pkg-config", f"--define-variable=prefix={root}{prefix[7:].strip()}", what,
                 config).split() for what in ("--cflags", "--libs")]
    path = os.path.join(tree, "memcached.c")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    text = insert(insert(text, LOOP, "leader_begin"), END, "leader_end")
    declared = "void leader_begin(struct event_base *);\nvoid leader_end(struct event_base *);\n"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("static struct event_base *main_base;",
                                declared + "static struct event_base *main_base;", 1))
    run("cc", "-Wall", "-Wextra", "-Werror", *flags[0], "-c", os.path.join(HERE, "memcached_leader.c"),
        "-o", os.path.join(tree, "leader.o"))
    run("./configure", "--quiet", "--disable-docs", cwd=tree)
    run("make", "-s", "-j", str(os.cpu_count()), "memcached", "LIBS=leader.o -levent " + " ".join(flags[1]),
        cwd=tree)
    return os.path.join(tree, "memcached"), flags[1][0][2:]


class Leading(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.environment |= {"LOCKWIRE_URL": self.server.url, "LD_LIBRARY_PATH": libraries}

    def begin(self, name, waiting=0):
        """Starts a memcached; returns it when so many wait."""
        user = ("-u", "root") if os.getuid() == 0 else ()
        process = self.spawn(program, "-s", self.path(name), *user)
        until(lambda: self.server("ZCARD", QUEUE) == waiting, f"{waiting} are in the queue")
        return process

    def leads(self, process):
        """Returns its fencing token when it leads."""
        line = self.line_of(process.stderr)
        self.assertRegex(line, "^leads [0-9]+$")
        return int(line.split()[1])

    def answers(self, name):
        """Checks that memcached does its own work too, on the loop that the library shares."""
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(LIMIT)
            link.connect(self.path(name))
            link.sendall(b"set k 0 0 1\r\nv\r\nget k\r\n")
            said = b""
            while not said.endswith(b"END\r\n"):
                said += link.recv(4096)
        self.assertEqual(said, b"STORED\r\nVALUE k 0 1\r\nv\r\nEND\r\n")

    def test_the_next_one_leads_when_a_leader_ends(self):
        first = self.begin("first")
        fence = self.leads(first)
        second, third = self.begin("second", 1), self.begin("third", 2)
        for name in ("first", "second", "third"):
            self.answers(name)
        first.send_signal(signal.SIGTERM)
        self.assertGreater(next_fence := self.leads(second), fence)
        self.assertEqual(self.end_of(first)[0], 0)
        second.kill()
        self.assertGreater(self.leads(third), next_fence)
        third.terminate()
        self.assertEqual(self.end_of(third)[0], 0)
        self.assertEqual(self.server("EXISTS", NAME), 0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        program, libraries = build(*sys.argv[1:3], made)
        unittest.main(argv=sys.argv[:1])
