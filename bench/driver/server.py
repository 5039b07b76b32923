# SPDX-License-Identifier: MIT
"""Throw-away redis-servers: one for each measurement, without persistence, in a new directory.
Owns their lives, the choice of the program, and the facts that a server reports.

Usual course: use(program); with Server() as server: server.url(unix=False); before =
server.cpu_us(); ..."""
import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from resp import Link

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
START_LIMIT_S = 20
# The arguments of each server, besides its sockets.
ARGUMENTS = ["--save", "", "--appendonly", "no", "--maxclients", "15000",
             "--tcp-backlog", "4096"]
# The commands that delete a key if it has a given value: Valkey's from 9.0 on, Redis' from 8.4
# on.
COMPARE_AND_DELETE = ["DELIFEQ", "DELEX"]

_program = "redis-server"


def use(program):
    """Sets the program of all later servers, which may be any that takes redis-server's
    arguments. A name without a folder is looked up in PATH. Raises ValueError if there is no
    such program."""
    global _program
    found = shutil.which(program)
    if not found:
        raise ValueError("--server: '%s' is no program" % program)
    _program = os.path.abspath(found)


@functools.cache
def _certificates():
    """Returns the folder of certificates. It is made for the first server that needs one, and
    removed when the program ends."""
    folder = tempfile.TemporaryDirectory(prefix="lockwire-bench-")
    subprocess.run([os.path.join(TREE, "test/lib/certificates.sh"),
                    os.path.join(folder.name, "made")], stdin=subprocess.DEVNULL, check=True)
    return folder


def certificate(name):
    return os.path.join(_certificates().name, "made", name)


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def info(ask, section):
    """Returns a section of INFO as a dict. `ask` sends the server a command."""
    lines = ask("INFO", section).splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def cpu_us(ask):
    used = info(ask, "cpu")
    return round(1e6 * (float(used["used_cpu_sys"]) + float(used["used_cpu_user"])))


class Server:
    def __init__(self, under=(), tls=False, more=(), port=None):
        """Starts the server. `under` is a command that runs it, valgrind or taskset for
        instance; `tls` is for its TCP port; `more` are further options."""
        self.tls, self.more = tls, more
        self.directory = tempfile.mkdtemp(prefix="lockwire-bench-")
        self.path = os.path.join(self.directory, "redis")
        self.log_path = os.path.join(self.directory, "log")
        self.port = port or _free_port()
        self.process = subprocess.Popen(
            [*under, _program, *self._arguments()], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL)
        self.link = self._connect()

    def _arguments(self):
        return [*self._listening(), "--bind", "127.0.0.1", "--unixsocket", self.path,
                *ARGUMENTS, "--dir", self.directory, "--logfile", self.log_path, *self.more]

    def _listening(self):
        if not self.tls:
            return ["--port", str(self.port)]
        return ["--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no",
                "--tls-ca-cert-file", certificate("ca.pem"),
                "--tls-cert-file", certificate("server.pem"),
                "--tls-key-file", certificate("server.key")]

    def _connect(self):
        end = time.monotonic() + START_LIMIT_S
        while True:
            try:
                return Link(self.path)
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise RuntimeError("redis-server did not start: " + self._log())
                time.sleep(0.005)

    def _log(self):
        try:
            with open(self.log_path) as file:
                return file.read()[-500:]
        except OSError:
            return "no log"

    def __enter__(self):
        return self

    def stop(self):
        """Ends the server gracefully, unlike the end of the `with`."""
        self.process.terminate()
        self.process.wait(START_LIMIT_S)

    def __exit__(self, *_):
        self.link.close()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def url(self, unix):
        if unix:
            return "unix://" + self.path
        return "redis%s://127.0.0.1:%d" % ("s" if self.tls else "", self.port)

    @property
    def ca(self):
        """The authority that its clients have to trust; None without TLS."""
        return certificate("ca.pem") if self.tls else None

    def as_replica(self):
        """Returns the options that make another server its replica."""
        return ["--replicaof", "127.0.0.1", str(self.port), "--repl-diskless-sync-delay", "0"]

    def info(self, section):
        return info(self.link, section)

    def cpu_us(self):
        return cpu_us(self.link)

    def replica_cpu_us(self):
        """Returns 0: only a place of bench/cluster has replicas."""
        return 0

    def facts(self):
        """Returns its name and version, its command to compare and delete (None: a script is
        needed), and whether it has TLS."""
        said = self.info("server")
        name = said.get("server_name", "redis")
        known = self.link("COMMAND", "INFO", *COMPARE_AND_DELETE)
        return {"name": "%s %s" % (name.capitalize(), said.get(name + "_version", "?")),
                "compares": next((command for command, there in zip(COMPARE_AND_DELETE, known)
                                  if there), None),
                "tls": bool(self.link("CONFIG", "GET", "tls-port"))}


def facts():
    """Returns the facts of the program in use."""
    with Server() as server:
        return server.facts()


class Monitor:
    """Counts the commands that clients send; commands that scripts call are not counted. MONITOR
    slows the server down, so a monitored run is not timed."""

    def __init__(self, server):
        self.link = Link(server.path, timeout=None)
        self.link("MONITOR")
        self.count = 0
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        tail = b""
        while True:
            try:
                data = self.link.socket.recv(1 << 20)
            except OSError:
                return
            if not data:
                return
            lines = (tail + data).split(b"\n")
            tail = lines.pop()
            self.count += sum(1 for line in lines if b" lua] " not in line)

    def stop(self, server):
        """Sends a last command, waits until it is counted, and returns the number of commands
        before it."""
        marker = "end of the count"
        server.link("ECHO", marker)
        last, end = -1, time.monotonic() + 10
        while self.count != last and time.monotonic() < end:
            last = self.count
            time.sleep(0.05)
        self.link.shut()
        self.thread.join()
        return self.count - 1
