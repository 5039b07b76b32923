# SPDX-License-Identifier: MIT
"""A throw-away Redis for the interop tests, or several as a quorum, and a monitor of the commands
that a server receives.

Owns the servers' processes and their temporary directories. Independent of lockwire, except for
its URLs and its guard, and of the peers. Usual course: `with PrivateRedis() as server:
server("GET", "x")`.
"""
import atexit
import contextlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import guard_record
from ports import free_port
from resp import Link, RedisError

LIMIT_S = 60


class Monitor:
    """Records all commands that the server receives, in order, from its own start on."""

    def __init__(self, path):
        self.connection = Link(path, timeout=None)
        self.connection("MONITOR")
        self.lines = []
        self.words = 0
        self.thread = threading.Thread(target=self.collect, daemon=True)
        self.thread.start()

    def collect(self):
        with contextlib.suppress(OSError, ValueError, RedisError):
            while True:
                self.lines.append(self.connection.read())

    def close(self):
        self.connection.shut()
        self.thread.join(LIMIT_S)
        self.connection.close()

    def told(self, connection):
        """Returns the lines of all commands until now. It sends a unique word through
        `connection`, and collects the lines up to that word."""
        self.words += 1
        word = f'"until now {self.words}"'
        connection("ECHO", word.strip('"'))
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            lines = list(self.lines)
            for number in range(len(lines), 0, -1):
                if word in lines[number - 1]:
                    return lines[:number]
            time.sleep(0.005)
        raise TimeoutError("the monitor is silent")


class PrivateRedis:
    """A server on a unix socket in its own directory. With `tcp` it also listens on a loopback
    port; with `cluster` it is a cluster of one node."""

    def __init__(self, tcp=False, cluster=False):
        self.tcp = tcp
        self.cluster = cluster
        self.port = 0
        self.process = None

    @property
    def paths(self):
        return [self.path]

    @property
    def url(self):
        return "unix://" + self.path

    def __enter__(self):
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        if not program:
            raise RedisError("neither redis-server nor valkey-server is installed")
        self.directory = tempfile.mkdtemp(prefix="lockwire-interop-")
        self.path = self.directory + "/s"
        atexit.register(self.__exit__)  # unittest skips clean-ups if it is interrupted
        try:
            self.start(program)
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, program):
        self.port = free_port() if self.tcp else 0
        with open(self.directory + "/log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [program, "--port", str(self.port), "--bind", "127.0.0.1",
                 "--unixsocket", self.path, "--dir", self.directory,
                 "--save", "", "--appendonly", "no", *self.cluster_options()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if not self.await_socket():
            with open(self.directory + "/log", encoding="utf-8") as log:
                raise RedisError("the server would not start: " + log.read()[-2000:])
        self.command = Link(self.path, LIMIT_S)
        if self.cluster:
            self.be_a_cluster()

    def cluster_options(self):
        if not self.cluster:
            return []
        return ["--cluster-enabled", "yes", "--cluster-port", str(free_port()),
                "--cluster-announce-ip", "127.0.0.1"]

    def be_a_cluster(self):
        self("CLUSTER", "ADDSLOTS", *range(16384))
        deadline = time.monotonic() + LIMIT_S
        while "cluster_state:ok" not in self("CLUSTER", "INFO"):
            if time.monotonic() > deadline:
                raise RedisError("it never became a cluster")
            time.sleep(0.01)

    def await_socket(self):
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError):
                connection = Link(self.path, LIMIT_S)
                connection.close()
                return True
            time.sleep(0.01)
        return False

    def __exit__(self, *_):
        atexit.unregister(self.__exit__)
        self.kill()
        if hasattr(self, "command"):
            self.command.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    def __call__(self, *words):
        return self.command(*words)

    def info(self, section, field):
        for line in self("INFO", section).splitlines():
            if line.startswith(field + ":"):
                return int(line.split(":")[1])
        raise KeyError(field)

    def monitor(self):
        return Monitor(self.path)


class PrivateQuorum:
    """Several independent servers, for lockwire's quorum and for peers that lock at a majority.
    They grant locks at once."""

    def __init__(self, count):
        self.servers = [PrivateRedis(tcp=True) for _ in range(count)]
        self.running = list(self.servers)
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            for server in self.servers:
                stack.enter_context(server)
                guard_record.open_now(server)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def __iter__(self):
        """Iterates over the running servers."""
        return iter(self.running)

    def minority(self):
        return self.servers[:len(self.servers) // 2]

    def kill_minority(self):
        for server in self.minority():
            server.kill()
            self.running.remove(server)

    @property
    def majority(self):
        return len(self.servers) // 2 + 1

    @property
    def directory(self):
        return self.servers[0].directory

    @property
    def paths(self):
        return [server.path for server in self.servers]

    @property
    def url(self):
        return "redis-quorum://" + ",".join(f"127.0.0.1:{server.port}"
                                            for server in self.servers)

    def info(self, section, field):
        return sum(server.info(section, field) for server in self)


def clean_up_when_ended():
    """Makes SIGTERM, as at a test's time limit, end the program as ^C does: it ends the servers
    first."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
