# SPDX-License-Identifier: MIT
"""The base of the tests of the command and of the gateway: a private redis-server, processes that
are always ended, and waits for events.

Independent of what is tested. The programs' paths come from the environment (LOCKWIRE_COMMAND,
LOCKWIRE_GATEWAY).

With LOCKWIRE_TEST_PREFIX all commands have that prefix, by which the tests' own keys begin as well,
and the servers permit the default user no other key or channel. The tests are another user.
"""
import atexit
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from ports import free_port
from resp import Link, RedisError
from stalls import Replayed

# Undoes what nohup(1) or a shell's "&" did: children would inherit the ignored signals.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1,
                signal.SIGUSR2):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)

LIMIT = 120  # seconds, for anything that must happen; slow and sanitized runs need less
COMMAND = os.environ.get("LOCKWIRE_COMMAND", "lockwire")
PREFIX = os.environ.get("LOCKWIRE_TEST_PREFIX", "")
GATEWAY = os.environ.get("LOCKWIRE_GATEWAY", "gateway")


def make_wrapper():
    """Returns a program that is the command with the prefix."""
    folder = tempfile.mkdtemp(prefix="lockwire-test-")
    atexit.register(shutil.rmtree, folder)
    path = os.path.join(folder, "lockwire")
    with open(path, "w", encoding="ascii") as file:
        file.write(f"""#!/bin/sh
case $1 in
[a-z]*) subcommand=$1; shift; exec {COMMAND} "$subcommand" --prefix {PREFIX} "$@" ;;
*) exec {COMMAND} "$@" ;;
esac
""")
    os.chmod(path, 0o755)
    return path


if PREFIX:
    COMMAND = make_wrapper()

KEYED = {"GET", "SET", "TYPE", "PTTL", "PEXPIRE", "PERSIST", "STRLEN", "HSET", "HGET", "HGETALL", "HKEYS",
         "HLEN", "HEXISTS", "KEYS", "ZADD", "ZCARD", "ZRANGE", "ZREM", "ZSCORE", "RPUSH", "SADD", "SCARD", "INCR", "EXPIRE",
         "DEL", "EXISTS", "PUBLISH"}


def prefixed(words):
    """Returns the command with the prefix before its keys."""
    if PREFIX and words[0] == "EVAL":
        count = 3 + int(words[2])
        return (*words[:3], *[PREFIX + key for key in words[3:count]], *words[count:])
    if PREFIX and words[:2] == ("CLUSTER", "KEYSLOT"):
        return (*words[:2], PREFIX + words[2])
    if not PREFIX or str(words[0]).upper() not in KEYED:
        return words
    count = len(words) if words[0] in ("DEL", "EXISTS") else 2
    # the name in a companion key is a key as well
    keys = [PREFIX + re.sub(rf":\{{(?!{PREFIX})", ":{" + PREFIX, str(word))
            for word in words[1:count]]
    return words[0], *keys, *words[count:]


def until(condition, what):
    """Returns the first true result of `condition`."""
    end = time.monotonic() + LIMIT
    pause = 0.002
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    raise AssertionError(f"waited {LIMIT} s in vain: {what}")


class Redis:
    """A redis-server on a unix socket in a folder of its own."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="lockwire-test-")
        self.socket = os.path.join(self.folder, "s")
        self.url = f"unix://{self.socket}"
        self.process = None
        self.start()

    def start(self, *more, under=()):
        """`under` is a command that runs it, valgrind for example."""
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        if not program:
            raise unittest.SkipTest("no redis-server")
        log = os.path.join(self.folder, "log")
        with open(log, "w", encoding="utf-8") as file:
            self.process = subprocess.Popen(
                [*under, program, "--port", "0", "--bind", "127.0.0.1", "--unixsocket", self.socket,
                 "--save", "", "--dir", self.folder, *more],
                stdin=subprocess.DEVNULL, stdout=file)
        until(lambda: self.answers() or self.process.poll() is not None, "redis-server answers")
        if self.process.poll() is not None:
            with open(log, encoding="utf-8", errors="replace") as file:
                raise AssertionError("redis-server ended: " + file.read()[-2000:])
        if PREFIX:
            with Link(self.socket, LIMIT) as link:
                link("ACL", "SETUSER", "tests", "on", ">all", "~*", "&*", "+@all")
                link("ACL", "SETUSER", "default", "resetkeys", f"~{PREFIX}*", "resetchannels",
                     f"&{PREFIX}*", "&__sentinel__:*",
                     f"&redisson_lock__channel:{{{PREFIX}*")

    def listen(self):
        """Makes it listen at a TCP port of 127.0.0.1 as well; returns the port."""
        port = free_port()
        self("CONFIG", "SET", "port", port)
        return port

    def answers(self):
        try:
            return self("PING") == "PONG"
        except (OSError, RedisError):
            return False

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def terminate(self):
        """Ends the server in an orderly way."""
        self.process.terminate()
        self.process.wait(LIMIT)

    def stop(self):
        self.kill()
        shutil.rmtree(self.folder)

    def __call__(self, *words):
        """Sends one command on a connection of its own, and returns the reply."""
        with Link(self.socket, LIMIT) as link:
            if PREFIX and words != ("PING",):
                link("AUTH", "tests", "all")
            reply = link(*prefixed(words))
            return [key[len(PREFIX):] for key in reply] if words[0] == "KEYS" else reply

    def take_away(self, *words):
        """Sends a command that takes locks away, and closes the connections: each client connects
        again and then finds out, however long its lease is."""
        self(*words)
        self("CLIENT", "KILL", "TYPE", "normal")


class ToolTest(Replayed):
    """A test that ends everything it has started."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lockwire-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith("LOCKWIRE_")}

    def redis(self):
        server = Redis()
        self.addCleanup(server.stop)
        return server

    def path(self, name):
        return os.path.join(self.folder, name)

    def spawn(self, *words, **more):
        """Starts a process with its output in pipes, which does not outlive the test."""
        more.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=dict(self.environment, **more.pop("env", {})), **more)
        self.addCleanup(self.reap, process)
        return process

    @staticmethod
    def reap(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def end_of(self, process):
        """Waits for its end; returns its exit code, output and messages."""
        out, err = process.communicate(timeout=LIMIT)
        return process.returncode, out, err

    @staticmethod
    def line_of(stream):
        """Returns the next line of a process's output or messages. Reads nothing ahead: select
        would not see bytes that are in a buffer, and communicate would miss them."""
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([stream], [], [], LIMIT)[0]:
                raise AssertionError(f"waited {LIMIT} s in vain for a line after {line}")
            byte = os.read(stream.fileno(), 1)
            if not byte:
                break
            line += byte
        return line.decode()

    def wait_for_file(self, name, process=None):
        """Returns the file's content as soon as it has some. Fails when `process`, which shall write
        it, ends without that."""
        path = self.path(name)

        def written():
            return os.path.exists(path) and os.path.getsize(path) > 0

        until(lambda: written() or process and process.poll() is not None, f"file {name}")
        if not written():
            self.fail(f"no file {name}: exit code {process.returncode}, {self.rest_of(process)}")
        with open(path, encoding="utf-8") as file:
            return file.read()

    @staticmethod
    def rest_of(process):
        """Returns the messages of a process that has ended, though another may have them open."""
        os.set_blocking(process.stderr.fileno(), False)
        return process.stderr.read() or ""


def status_of(pid, field):
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        return next(line.split()[1] for line in file if line.startswith(field + ":"))


def stat_of(pid):
    """Returns the fields of /proc/PID/stat after the name: state, parent, ..."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rsplit(")", 1)[1].split()


def children(pid):
    """Returns name and state of each child."""
    found = {}
    for child in filter(str.isdigit, os.listdir("/proc")):
        try:
            state, parent = stat_of(child)[:2]
            with open(f"/proc/{child}/comm", encoding="utf-8", errors="replace") as file:
                name = file.read().strip()
        except OSError:
            continue
        if int(parent) == pid:
            found[int(child)] = name, state
    return found


def keeper_of(process):
    """Returns the pid of the watchdog of a lockwire command, or None."""
    for pid, (name, state) in children(process.pid).items():
        if name == "lw-keeper" and state != "Z":
            return pid
    return None


def alive(pid):
    """Returns true if the process exists, and does not only wait to be reaped."""
    try:
        return stat_of(pid)[0] != "Z"
    except OSError:
        return False
