# SPDX-License-Identifier: MIT
"""Workload X: the holder is killed; how long after the end of its lease the waiter holds the
lock. Independent of repeats. Usual course: run(case, subject, unix) returns a dict of figures."""
from measure import NAME, READY_LIMIT_S, Failed, Process
from resp import Link
from server import Server


def _lease_end_us(server, key):
    """Returns the end of the lease by the server's clock, which is this machine's."""
    left, (seconds, micros) = server.link.call_all([("PTTL", key), ("TIME",)])
    if left <= 0:
        raise Failed("the holder's lease has ended before its time, or %s is not its key" % key)
    return int(seconds) * 1_000_000 + int(micros) + left * 1000


def _wait_for_asking(monitor):
    """Waits until a client has requested the lock. The text before the bracket is its address."""
    while NAME not in monitor.read().split("]", 1)[-1]:
        continue


def run(case, subject, unix):
    key = subject.key.format(name=NAME)
    started = []
    with Server() as server:
        monitor = Link(server.path, timeout=READY_LIMIT_S)
        try:
            for _ in range(2):
                process = Process(subject.argv("X", url=server.url(unix and subject.unix),
                                               name=NAME, lease_ms=case.lease_ms))
                started.append(process)
                process.line(READY_LIMIT_S, "ready")
            holder, waiter = started
            holder.go()
            holder.line(READY_LIMIT_S, "granted_us")
            monitor("MONITOR")
            waiter.go()
            _wait_for_asking(monitor)
            holder.process.kill()
            holder.process.wait()
            end = _lease_end_us(server, key)
            granted = waiter.line(READY_LIMIT_S, "granted_us")["granted_us"]
        finally:
            monitor.close()
            for process in started:
                process.end()
    return {"after_lease_ms": (granted - end) / 1000, "grants": 1, "errors": 0}
