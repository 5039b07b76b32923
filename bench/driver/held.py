# SPDX-License-Identifier: MIT
"""Workload H: the cost of many held locks, seen from outside: resident memory, CPU time of
client and server over one renewal interval, the smallest remaining lease, and from that the
lateness of renewals. Many processes are measured at the same time, since they do little. They
acquire one after the other, and none is measured before all hold. Independent of repeats.

Usual course: run(case, subject, unix, Gate(1)) returns a dict of figures."""
import contextlib
import os
import random
import threading
import time

from measure import NAME, READY_LIMIT_S, Failed, Process
from server import Server

SAMPLED, SAMPLE_EVERY_S = 100, 0.1


class Gate:
    """Admits one thread after the other, and opens when `count` have come or have failed."""

    def __init__(self, count):
        self.left, self.turn = count, threading.Lock()
        self.opened = threading.Event()

    def __enter__(self):
        self.turn.acquire()

    def __exit__(self, *_):
        self.left -= 1
        if not self.left:
            self.opened.set()
        self.turn.release()


def _resident_bytes(pid):
    with open("/proc/%d/statm" % pid) as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _used_bytes(server):
    return int(server.info("memory")["used_memory"])


def cpu_us(pid):
    """Returns the CPU time of all live threads, in us."""
    total = 0
    for task in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/schedstat" % (pid, task)) as file:
                total += int(file.read().split()[0])
        except OSError:
            continue  # the thread has ended
    return total / 1000


def _least_ttl(server, names, seconds):
    """Returns the smallest remaining lease of all samples during that time."""
    least, end = None, time.monotonic() + seconds
    while time.monotonic() < end:
        sample = names if len(names) <= SAMPLED else random.sample(names, SAMPLED)
        ttls = server.link.call_all([("PTTL", name) for name in sample])
        least = min(ttls if least is None else ttls + [least])
        time.sleep(SAMPLE_EVERY_S)
    return least


def _start(stack, case, subject, unix):
    """Starts a server and a process that holds locks. Returns them with the memory of both
    before."""
    server = stack.enter_context(Server())
    process = Process(subject.argv("H", url=server.url(unix and subject.unix), name=NAME,
                                   slots=case.size, lease_ms=case.lease_ms))
    stack.callback(process.end)
    process.line(READY_LIMIT_S, "ready")
    before = _resident_bytes(process.pid), _used_bytes(server)
    process.go()
    process.line(READY_LIMIT_S, "held")
    return server, process, before


def _cpu_shares(process, server, seconds):
    client, served, start = cpu_us(process.pid), server.cpu_us(), time.monotonic()
    time.sleep(seconds)
    client, served = cpu_us(process.pid) - client, server.cpu_us() - served
    seconds = time.monotonic() - start
    return client / 1e6 / seconds, served / 1e6 / seconds


def run(case, subject, unix, gate):
    interval = case.lease_ms / 1000 * subject.renews_at
    key = subject.key.format(name=NAME)
    with contextlib.ExitStack() as stack:
        with gate:
            server, process, before = _start(stack, case, subject, unix)
        gate.opened.wait()
        time.sleep(interval)
        held = _resident_bytes(process.pid), _used_bytes(server)
        client_share, server_share = _cpu_shares(process, server, interval)
        least = _least_ttl(server, ["%s:%d" % (key, i) for i in range(case.size)],
                           1.1 * interval)
    if least < 0:
        raise Failed("a lease ran out while it was to be held")
    return {"bytes_per_lock": (held[0] - before[0]) / case.size, "resident_bytes": held[0],
            "server_bytes_per_lock": (held[1] - before[1]) / case.size,
            "client_cpu_share": client_share, "server_cpu_share": server_share,
            "least_left": least / case.lease_ms,
            "late_ms": max(0, case.lease_ms * (1 - subject.renews_at) - least),
            "lease_ms": case.lease_ms, "grants": case.size, "errors": 0}
