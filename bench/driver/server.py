# SPDX-License-Identifier: MIT
"""Throw-away redis-servers: one for each measurement, without persistence, in a fresh
directory. Owns their lives, which program they are, and what they say of themselves.

Happy path: use(program); with Server() as server: server.url(unix=False);
before = server.cpu_us(); ..."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from resp import Link

START_LIMIT_S = 20
# What deletes a key of that value and no other: Valkey's from 9.0 on, Redis' from 8.4 on.
COMPARE_AND_DELETE = ["DELIFEQ", "DELEX"]

_program = "redis-server"


def use(program):
    """From here on; of whatever kind, as long as it takes redis-server's arguments. A name
    without a folder is looked for in PATH. ValueError says that it is none."""
    global _program
    found = shutil.which(program)
    if not found:
        raise ValueError("--server: '%s' is no program" % program)
    _program = os.path.abspath(found)


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, under=()):
        """`under`: a command that runs it, valgrind for instance."""
        self.directory = tempfile.mkdtemp(prefix="lockwire-bench-")
        self.path = os.path.join(self.directory, "redis")
        self.port = _free_port()
        self.process = subprocess.Popen(
            [*under, _program, "--port", str(self.port), "--bind", "127.0.0.1",
             "--unixsocket", self.path, "--save", "", "--appendonly", "no",
             "--maxclients", "15000", "--tcp-backlog", "4096", "--dir", self.directory,
             "--logfile", os.path.join(self.directory, "log")],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.link = self._connect()

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
            with open(os.path.join(self.directory, "log")) as file:
                return file.read()[-500:]
        except OSError:
            return "no log"

    def __enter__(self):
        return self

    def stop(self):
        """In good order, unlike the end of the `with`."""
        self.process.terminate()
        self.process.wait(START_LIMIT_S)

    def __exit__(self, *_):
        self.link.close()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def url(self, unix):
        return "unix://" + self.path if unix else "redis://127.0.0.1:%d" % self.port

    def info(self, section):
        lines = self.link("INFO", section).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def cpu_us(self):
        info = self.info("cpu")
        return round(1e6 * (float(info["used_cpu_sys"]) + float(info["used_cpu_user"])))

    def facts(self):
        """Its name and version, and by which command it compares and deletes (None: a
        script must)."""
        info = self.info("server")
        name = info.get("server_name", "redis")
        known = self.link("COMMAND", "INFO", *COMPARE_AND_DELETE)
        return {"name": "%s %s" % (name.capitalize(), info.get(name + "_version", "?")),
                "compares": next((command for command, there in zip(COMPARE_AND_DELETE, known)
                                  if there), None)}


def facts():
    """Of the program in use."""
    with Server() as server:
        return server.facts()


class Monitor:
    """Counts the commands that clients send; those that scripts call are not counted.
    MONITOR slows the server down, so what it watches is not timed."""

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
        """What came until now; the server's answer to a last command ends it."""
        marker = "end of the count"
        server.link("ECHO", marker)
        last, end = -1, time.monotonic() + 10
        while self.count != last and time.monotonic() < end:
            last = self.count
            time.sleep(0.05)
        self.link.shut()
        self.thread.join()
        return self.count - 1
