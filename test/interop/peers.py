# SPDX-License-Identifier: MIT
"""The peers of the interop tests: processes that take one and the same lock.

Owns the way each is started and the commands that all obey. A command is one line, and so is its
answer:

    ready TITLE                     once, without a command: the library and its version
    acquire NAME LEASE WAIT         held TOKEN | busy MS | timeout (again: re-entry, for
                                    those that can)
    release                         released | gone (it was no longer this peer's)
    extend LEASE                    extended | gone
    fence                           fence N: the fencing token (clients of lockwire's only)
    round NAME LEASE HOLD FILE lock|nolock
                                    held - and then wrote VALUE ASKED DONE released|gone

Times are milliseconds. WAIT 0 tries once, and -1 waits indefinitely. A round takes the lock
(unless it is given nolock), reads the number in FILE, holds for HOLD, writes the number plus
one, and releases. ASKED and DONE are microseconds of the monotonic clock; DONE is before the
release. Any answer may be `error TEXT` instead. Lines that begin with `note` come at any time. A
peer ends at the end of its input. Independent of what the tests make of the answers.

Usual course: start(name, server, place), peer.ask("acquire x 30000 0"), peer.close().
"""
import atexit
import contextlib
import os
import pathlib
import selectors
import subprocess
import sys
import time

import toolchain

LIMIT_S = 120  # for any answer; slow machines, sanitizers and valgrind need less


class PeerError(Exception):
    """A peer that died, did not answer in time, or answered with an error."""


class Place:
    """The paths of lockwire's peer and of the folder with the fetched and built peers."""

    def __init__(self, lockwire, cache):
        self.lockwire = lockwire
        self.cache = cache


CLAIM_MS = "30000"  # the claim window: so long that it does not end during a test


# A prefix of lockwire's clients, and what the names in the tests begin with then. The foreign
# peers take it as a part of the name.
PREFIX = os.environ.get("LOCKWIRE_TEST_PREFIX", "")


def start_lockwire(server, place):
    return [place.lockwire, server.url + (PREFIX and "?prefix=" + PREFIX), CLAIM_MS], {}


def lockwire(mode):
    def command(server, place):
        return start_lockwire(server, place)[0] + [mode], {}
    return command


def start_python(server, place, *more):
    folder = toolchain.prepare("python", place.cache)
    return ([sys.executable, "-B", str(folder / "peer.py"), server.path, *more],
            {"PYTHONPATH": str(folder / "packages")})


def start_pottery(server, place):
    folder = toolchain.prepare("python", place.cache)
    return ([sys.executable, "-B", str(folder / "pottery_peer.py"), *server.paths],
            {"PYTHONPATH": str(folder / "packages")})


def start_lockwire_client(server, place):
    """Starts the Python client of lockwire's protocol, with the texts of the scripts."""
    root = pathlib.Path(__file__).resolve().parents[2]
    folder = server.directory + "/scripts"
    subprocess.run([sys.executable, "-B", root / "src" / "embed.py", "--dump", folder,
                    *(root / "scripts/lua").rglob("*.lua")], check=True)
    return start_python(server, place, folder, CLAIM_MS)


def node(script, *more):
    def command(server, place):
        folder = toolchain.prepare("node", place.cache)
        return ["node", str(folder / script), *more, *server.paths], {}
    return command


def go(library):
    def command(server, place):
        folder = toolchain.prepare("go", place.cache)
        return [str(folder / "program"), library, *server.paths], {}
    return command


def start_cpp(server, place):
    folder = toolchain.prepare("cpp", place.cache)
    return [str(folder / "program"), *server.paths], {}


REDISSON_WATCHDOG_MS = 6000


def start_redisson(server, place):
    folder = toolchain.prepare("java", place.cache)
    return ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-Xmx128m",
            "-cp", f"{folder}/jars/*:{folder}/classes", "RedissonPeer",
            f"redis://127.0.0.1:{server.port}", str(REDISSON_WATCHDOG_MS),
            *(["cluster"] if server.cluster else [])], {}


COMMANDS = {
    "lockwire": start_lockwire,
    "lockwire-redisson": lockwire("redisson"),  # LW_REDISSON
    "lockwire-exclusive": lockwire("exclusive"),
    "lockwire-shared": lockwire("shared"),
    "protocol-py": start_lockwire_client,
    "redis-py": start_python,
    "node-redlock": node("redlock.js", "5"),
    "node-redlock-4": node("redlock.js", "4"),
    "redis-semaphore": node("redis-semaphore.js"),
    "redsync": go("redsync"),
    "redislock": go("redislock"),
    "pottery": start_pottery,
    "redis-plus-plus": start_cpp,
    "redisson": start_redisson,
}
# Peers that share LW_MUTEX's format: a string, set with NX and PX.
STRING_PEERS = [name for name in COMMANDS if name not in ("redisson", "protocol-py")
                and not name.startswith("lockwire")]
# Those of them that lock at a majority of several servers.
MAJORITY_PEERS = ["redsync", "node-redlock", "node-redlock-4", "pottery", "redis-plus-plus"]
NEEDS_ALL = {"redis-plus-plus"}  # its calls fail if one of the servers is down
NO_EXTENSION = {"redis-semaphore"}
# Prefixes that the libraries put before each name, and that cannot be turned off.
NAME_PREFIX = {"redis-semaphore": "mutex:", "pottery": "redlock:"}


class Peer:
    def __init__(self, title, argv, env):
        self.title = title
        self.notes = []
        self.lines = []
        self.killed = False
        self.rest = b""
        self.process = subprocess.Popen(argv, env={**os.environ, **env},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        atexit.register(self.process.kill)  # if the tests are interrupted
        os.set_blocking(self.process.stdout.fileno(), False)
        self.version = self.answer("ready")

    def send(self, command):
        if PREFIX and self.title.startswith("lockwire"):
            command = command.replace(f" {PREFIX}", " ", 1)
        try:
            self.process.stdin.write(command.encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise PeerError(f"{self.title} is gone: {error}") from error

    def take(self):
        """Reads all that has come, without waiting."""
        try:
            data = os.read(self.process.stdout.fileno(), 65536)
        except BlockingIOError:
            return
        if not data:
            raise PeerError(f"{self.title} ended with {self.process.wait(LIMIT_S)}")
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            text = line.decode("utf-8", "replace")
            (self.notes if text.startswith("note ") else self.lines).append(text)

    def answered(self):
        self.take()
        return bool(self.lines)

    def wait(self, arrived, what):
        deadline = time.monotonic() + LIMIT_S
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not arrived():
                if not selector.select(deadline - time.monotonic()):
                    raise PeerError(f"{self.title} was silent for {LIMIT_S} s, "
                                    f"instead of '{what}'")
                self.take()

    def answer(self, *expected):
        """Returns the rest of the next answer, whose first word must be one of `expected`. If
        several are expected, returns that word."""
        self.wait(lambda: self.lines, " | ".join(expected))
        word, _, rest = self.lines.pop(0).partition(" ")
        if word not in expected:
            raise PeerError(f"{self.title} answered '{word} {rest}' instead of "
                            + " or ".join(expected))
        return rest if len(expected) == 1 else word

    def noted(self, text):
        """Waits for a note that contains `text`."""
        self.wait(lambda: any(text in note for note in self.notes), text)

    def ask(self, command, *expected):
        self.send(command)
        return self.answer(*expected)

    def kill(self):
        self.killed = True
        self.process.kill()
        self.process.wait()

    def close(self):
        """Ends the peer. A peer that ends badly fails the test too, for example after a
        sanitizer's report."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        atexit.unregister(self.process.kill)
        self.process.stdout.close()
        if self.process.returncode and not self.killed:
            raise PeerError(f"{self.title} ended with {self.process.returncode}")


def start(name, server, place):
    argv, env = COMMANDS[name](server, place)
    return Peer(name, argv, env)
