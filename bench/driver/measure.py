# SPDX-License-Identifier: MIT
"""One measurement of workload U, D, L or N: a new server, or one that is given, the processes of
one subject, their common start, and their last lines. Independent of repeats and ratios.

Usual course: run(case, subject, unix) returns a dict of figures."""
import json
import os
import select
import subprocess
import tempfile
import time

import cores
import rows
from server import Monitor, Server

NAME = "bench"
READY_LIMIT_S = 60
END_LIMIT_S = 30  # beyond the given duration
ARITHMETIC = {"U": rows.uncontended, "D": rows.drain, "L": rows.closed_loop,
              "N": rows.notify, "M": rows.several, "E": rows.ended}


class Failed(Exception):
    """The subject failed; the text has the reason."""


class Process:
    """A subject's process, and the lines that it prints."""

    def __init__(self, argv):
        self.errors = tempfile.TemporaryFile()
        environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, env=environment,
                                        stdout=subprocess.PIPE, stderr=self.errors)
        self.buffer = b""

    @property
    def pid(self):
        return self.process.pid

    def line(self, limit_s, wanted=None):
        """Returns the next line, or the next one that has the key `wanted`."""
        end = time.monotonic() + limit_s
        while True:
            while b"\n" not in self.buffer:
                left = end - time.monotonic()
                if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                    raise Failed("no answer within %g s; %s" % (limit_s, self.said()))
                data = os.read(self.process.stdout.fileno(), 65536)
                if not data:
                    raise Failed("it ended with %s; %s" % (self.process.wait(), self.said()))
                self.buffer += data
            text, self.buffer = self.buffer.split(b"\n", 1)
            try:
                line = json.loads(text)
            except ValueError:
                continue  # output of the library itself
            if wanted is None or wanted in line:
                return line

    def said(self):
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace").strip()
        return "it said: " + (" ".join(text.split())[-300:] or "nothing")

    def go(self):
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()


def raise_limits():
    import resource
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def shares(total, processes):
    return [total // processes + (i < total % processes) for i in range(processes)]


def own_name(name, process):
    """Returns the name of one process' own keys, as used in U."""
    return "%s-%s" % (name, process)


def _arguments(case, subject, name, path, **more):
    if case.workload == "U":
        name = own_name(name, os.path.basename(path))
    if subject.clients:
        more.update(clients=more["slots"])
    if case.workload == "M":
        more.update(names=case.size, of=case.of)
    return subject.argv(case.workload, name=name, rows=path, **more,
                        **case.rhythm_us(subject))


def _client_figures(case, lines, grants):
    cpu = sum(line["cpu_us"] for line in lines)
    # lockwire's own count, for runs without a monitor; SET with INCR counts as one command.
    commands = 0 if case.workload in "UM" else sum(line.get("commands", 0) for line in lines)
    return {"client_cpu_us": cpu / grants if grants else None,
            "commands": commands / grants if grants and commands else None,
            "errors": sum(line["errors"] for line in lines),
            "version": lines[0]["version"]}


def run(case, subject, unix, counting=False):
    with Server(cores.server(case.cores), tls=subject.tls) as server:
        return at(server, server.url(unix and subject.unix), NAME, case, subject, counting)


def at(server, url, name, case, subject, counting=False):
    """Measures at `server`, which is a Server or an object that reports its CPU time as one
    does."""
    seconds = case.seconds_of(subject, counting)
    with tempfile.TemporaryDirectory(prefix="lockwire-rows-") as folder:
        paths = [os.path.join(folder, str(i)) for i in range(case.processes)]
        processes, watching = [], None
        try:
            if case.watchers:
                watching = Process(subject.argv("W", url=url, name=name, slots=case.watchers))
                watching.line(READY_LIMIT_S, "ready")
                watching.go()
            for slots, path in zip(shares(case.slots, case.processes), paths):
                processes.append(Process(cores.clients(case.cores) + _arguments(
                    case, subject, name, path, url=url, slots=slots, seconds=seconds,
                    tls_ca=server.ca)))
            for process in processes:
                process.line(READY_LIMIT_S, "ready")
            monitor = Monitor(server) if counting else None
            before, replicas_before = server.cpu_us(), server.replica_cpu_us()
            for process in processes:
                process.go()
            lines = [process.line(seconds + END_LIMIT_S, "workload")
                     for process in processes]
            used = server.cpu_us() - before
            replicas_used = server.replica_cpu_us() - replicas_before
            if monitor:
                commands = monitor.stop(server) - 2  # INFO, sent twice
            figures = ARITHMETIC[case.workload]([rows.read(path) for path in paths], lines)
        finally:
            for process in processes + [watching] * (watching is not None):
                process.end()
        grants = figures["grants"]
        figures.update(_client_figures(case, lines, grants))
        figures["server_cpu_us"] = used / grants if grants else None
        figures["replica_cpu_us"] = replicas_used / grants if grants and replicas_used else None
        if counting:
            return {"commands": commands / grants if grants else None, "grants": grants}
        return figures


