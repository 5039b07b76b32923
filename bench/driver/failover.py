# SPDX-License-Identifier: MIT
"""The master is killed, again and again, while clients of all libraries acquire locks at the
same time. When is each client granted a lock again, and does it keep the lock that it holds?
Owns the reports of the clients, and the arithmetic. Independent of the way in which the master
is replaced.

Usual course: found = list(rounds(deployment, subjects, signal, lease_ms, count)); table(found,
kind), where `kind` is the deployment's class, which names the events."""
import contextlib
import random
import statistics
import threading
import time

from measure import NAME, READY_LIMIT_S, Failed, Process

PAUSE_US = 10000  # mean pause between a release, or a failure, and the next request
SWITCH_LIMIT_S = 60
GRANT_LIMIT_S = 30
CALM_S = (1, 2)  # a random pause, so that the death falls anywhere between two pings
MS = 1_000_000


class Reported:
    """A process whose output a thread reads as it comes, by `_read` of the subclass."""

    def __init__(self, argv):
        self.changed = threading.Condition()
        self.reader = None
        self.process = Process(argv)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.process.kill()
        if self.reader:
            self.reader.join()
        self.process.end()

    def start_reading(self):
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()


class Client(Reported):
    """The process of one library. It holds a lock and takes others, one after the other."""

    def __init__(self, subject, deployment, lease_ms):
        self.subject = subject
        self.name = "%s-%s%s" % (NAME, subject.label.replace(" ", "-"), deployment.tag)
        self.key = subject.key.format(name=self.name)
        self.granted, self.failed, self.lost, self.ended = [], [], False, None
        super().__init__(subject.argv("F", url=deployment.url, name=self.name,
                                      lease_ms=lease_ms, pause_us=PAUSE_US))

    def begin(self):
        """Starts the client, and waits until it holds its lock and has been granted one of the
        others."""
        self.version = self.process.line(READY_LIMIT_S, "ready").get("version", "")
        self.process.go()
        self.process.line(READY_LIMIT_S, "held")
        self.process.line(READY_LIMIT_S, "granted_ns")
        self.start_reading()

    def _read(self):
        while True:
            try:
                line = self.process.line(SWITCH_LIMIT_S + GRANT_LIMIT_S)
            except Failed as error:
                line = {"ended": str(error)}
            with self.changed:
                self._note(line)
                self.changed.notify_all()
            if "ended" in line:
                return

    def _note(self, line):
        if "granted_ns" in line:
            self.granted.append(line["granted_ns"])
        if "failed" in line:
            self.failed.append((time.monotonic_ns(), line["failed"]))
        self.lost = self.lost or "lost" in line
        self.ended = line.get("ended")

    def first_after(self, at_ns):
        return next((granted for granted in self.granted if granted > at_ns), None)

    def await_grant(self, after_ns, limit_s):
        with self.changed:
            self.changed.wait_for(lambda: self.first_after(after_ns) or self.ended, limit_s)
            return self.first_after(after_ns)


def _fate(deployment, client, before):
    """Returns the fate of the held lock, a lease later: True if its value has not changed."""
    if client.subject.renews_at is None:
        return None
    after = deployment.dump(client.key)
    return not client.lost and before is not None and after == before


def _told(client, struck, at):
    """Returns one client's report of the failover. `at` is the time of its grant."""
    if at is None:
        return {"error": client.ended or "no grant within %d s" % GRANT_LIMIT_S}
    failed = [text for when, text in client.failed if struck < when < at + MS]
    return {"grant_ms": (at - struck) / MS, "failed": len(failed), "said": failed[:1],
            "version": client.version}


def one(deployment, subjects, signal, lease_ms):
    """Runs one death of the master. Returns the times of the events, and the report of each
    client."""
    deployment.settle()
    with contextlib.ExitStack() as stack:
        # Sentinels publish the switch to their subscribers one after the other.
        clients = [stack.enter_context(Client(subject, deployment, lease_ms))
                   for subject in random.sample(subjects, len(subjects))]
        for client in clients:
            client.begin()
        time.sleep(random.uniform(*CALM_S))
        before = [deployment.dump(client.key) for client in clients]
        struck = deployment.strike(signal)
        told = deployment.told(SWITCH_LIMIT_S)
        # A grant that is read before the first event was sent by the old master: until then no
        # other server can grant a lock.
        limit = time.monotonic() + GRANT_LIMIT_S
        found = {client.subject.label: _told(client, struck, client.await_grant(
            min(told.values()), limit - time.monotonic())) for client in clients}
        time.sleep(max(0, (struck - time.monotonic_ns()) / 1e9 + lease_ms / 1000 + 1))
        for client, value in zip(clients, before):
            found[client.subject.label]["kept"] = _fate(deployment, client, value)
    deployment.mend()
    return {"events": {name: (at - struck) / MS for name, at in told.items()},
            "clients": found}


def rounds(deployment, subjects, signal, lease_ms, count):
    """Yields the result of each death as soon as it is known."""
    for at in range(count):
        found = one(deployment, subjects, signal, lease_ms)
        print("%d of %d: %s" % (at + 1, count, short(found)), flush=True)
        yield found


def of(values, scale, shown):
    """Returns the median and the range, as a text."""
    if not values:
        return "-"
    texts = [shown % (value / scale) for value in (statistics.median(values), min(values),
                                                   max(values))]
    return "%s (%s to %s)" % tuple(texts)


def _kept(found):
    fates = [one.get("kept") for one in found]
    known = [fate for fate in fates if fate is not None]
    return "%d of %d" % (sum(known), len(known)) if known else "does not renew"


def _client_line(deaths, label, switch):
    found = [one["clients"][label] for one in deaths]
    granted = [one["clients"][label] for one in deaths if "grant_ms" in one["clients"][label]]
    after = [one["clients"][label]["grant_ms"] - one["events"][switch]
             for one in deaths if "grant_ms" in one["clients"][label]]
    cells = [label, of([one["grant_ms"] for one in granted], 1000, "%.2f"),
             of(after, 1, "%.0f"), of([one["failed"] for one in granted], 1, "%.0f"),
             _kept(found)]
    if len(granted) < len(found):
        cells[0] += " (%d of %d without a grant)" % (len(found) - len(granted), len(found))
    return "| %s |" % " | ".join(cells)


def table(deaths, kind):
    """Returns the table in Markdown: medians, and from the least to the most."""
    lines = ["| | after the master's death, s | after %s, ms | calls that failed | lock kept |"
             % kind.SWITCH_IS, "|---|---:|---:|---:|---:|"]
    for name, what in kind.EVENTS.items():
        values = [one["events"][name] for one in deaths]
        lines.append("| %s | %s | | | |" % (what, of(values, 1000, "%.2f")))
    return lines + [_client_line(deaths, label, kind.SWITCH) for label in deaths[0]["clients"]]


def versions(deaths):
    return sorted({one["version"] for found in deaths for one in found["clients"].values()
                   if one.get("version")})


def short(found):
    """Returns one death as a line."""
    parts = ["%s %.2f s" % (name, at / 1000) for name, at in found["events"].items()]
    for label, one in found["clients"].items():
        parts.append("%s %s" % (label, "%.2f s" % (one["grant_ms"] / 1000)
                                if "grant_ms" in one else one["error"]))
    return ", ".join(parts)
