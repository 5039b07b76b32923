# SPDX-License-Identifier: MIT
"""The master of three sentinels is killed while its replicas lack its last writes, which granted
locks: how many of these locks have two owners, and for how long is no lock granted, with
guard_ms and without? Owns the clients of one death, and the checker. Independent of the way in
which the master is replaced.

The replication is cut, the owner of each pair is granted its locks, the waiter of the pair waits
for them, the master is struck, and a sentinel promotes a replica. A lock has two owners if the
waiter is granted it before the owner has lost it. An owner follows the sentinels, or is cut off
from them: then it knows only the old master.

Usual course: found = list(rounds(deployment, program, signal, guard_ms, count)); table(found,
Deployment)"""
import contextlib
import time

from failover import MS, PAUSE_US, Reported, SWITCH_LIMIT_S, of
from measure import NAME, READY_LIMIT_S, Failed
from resp import Link

LOCKS = 8
SHORTER_MS = 12000  # each lease is that much shorter than the guard time
MORE_LIMIT_S = 30  # beyond the guard time and a lease
# For each kind of pair: whether it uses the guard; whether the owner is cut off.
KINDS = {"without the guard": (False, False), "with the guard": (True, False),
         "without the guard, owner cut off": (False, True),
         "with the guard, owner cut off": (True, True)}


class Client(Reported):
    """One process, with the times (ns of CLOCK_MONOTONIC) at which it got and lost each lock
    that it holds, and at which it got the others, which it acquires one after the other."""

    def __init__(self, program, url, name, guard_ms, lease_ms):
        self.held, self.lost, self.granted = {}, {}, []
        super().__init__([program, "F", "--url", url, "--name", name, "--slots", str(LOCKS),
                          "--lease-ms", str(lease_ms), "--pause-us", str(PAUSE_US),
                          "--guard-ms", str(guard_ms)])

    def ready(self):
        """Waits until the client's server grants locks."""
        self.process.line(READY_LIMIT_S, "ready")

    def begin(self):
        self.process.go()
        self.start_reading()

    def _read(self):
        while True:
            try:
                line = self.process.line(10 * SWITCH_LIMIT_S)
            except Failed:
                return
            with self.changed:
                if "granted_ns" in line:
                    self.granted.append(line["granted_ns"])
                for event in ("held", "lost"):
                    if event in line:
                        getattr(self, event).setdefault(line[event], line["at_ns"])
                self.changed.notify_all()

    def until_all(self, event, limit_s):
        with self.changed:
            if not self.changed.wait_for(lambda: len(getattr(self, event)) == LOCKS, limit_s):
                raise Failed("waited %g s until all locks are %s; %s"
                             % (limit_s, event, self.process.said()))

    def granted_after(self, at_ns):
        return [at for at in list(self.granted) if at > at_ns]


def overlaps(owner, waiter):
    """Returns for how long each lock with two owners had them, in ns."""
    spans = [owner.lost[lock] - at for lock, at in waiter.held.items()]
    return [span for span in spans if span > 0]


def _cut(deployment):
    """Cuts the replication: from here on no replica receives a write."""
    deployment.master.link("ACL", "SETUSER", "default", "-psync", "-sync")
    deployment.master.link("CLIENT", "KILL", "TYPE", "replica")


def _none_is_replicated(deployment, keys):
    """Checks that no replica has the keys. Uses its own connection, since sentinels end the
    other connections of a replica that they reconfigure."""
    for server in deployment.servers:
        if server is not deployment.master:
            link = Link(server.path)
            found = link("EXISTS", *keys)
            link.close()
            if found:
                raise Failed("a replica has a lock that was to be lost")


def one(deployment, program, signal, guard_ms):
    """Runs one death of the master. Returns for each kind its overlaps, and when locks are
    granted again."""
    deployment.settle()
    lease_ms = guard_ms - SHORTER_MS
    with contextlib.ExitStack() as stack:
        pairs = {}
        for number, (kind, (guarded, cut_off)) in enumerate(KINDS.items()):
            urls = [deployment.master.url(False) if cut_off else deployment.url,
                    deployment.url]
            pairs[kind] = [stack.enter_context(
                Client(program, url, "%s-%d" % (NAME, number), guard_ms if guarded else 0,
                       lease_ms)) for url in urls]
        for owner, waiter in pairs.values():
            owner.ready()
            waiter.ready()
        _cut(deployment)
        for owner, _ in pairs.values():
            owner.begin()
        for owner, waiter in pairs.values():
            owner.until_all("held", READY_LIMIT_S)
            waiter.begin()
        time.sleep(0.3)  # the waiters are in the queues
        _none_is_replicated(deployment, ["%s-%d:held:%d" % (NAME, number, lock)
                                         for number in range(len(KINDS))
                                         for lock in range(LOCKS)])
        struck = deployment.strike(signal)
        told = deployment.told(SWITCH_LIMIT_S)
        return _found(deployment, pairs, struck, told,
                      (guard_ms + lease_ms) / 1000 + MORE_LIMIT_S)


def _found(deployment, pairs, struck, told, limit_s):
    found = {"events": {name: (at - struck) / MS for name, at in told.items()}, "kinds": {}}
    for kind, (owner, waiter) in pairs.items():
        owner.until_all("lost", limit_s)
        waiter.until_all("held", limit_s)
        again = min([*waiter.held.values(), *owner.granted_after(min(told.values()))])
        spans = overlaps(owner, waiter)
        found["kinds"][kind] = {"locks": LOCKS, "overlaps": len(spans),
                                "longest_ms": max(spans, default=0) / MS,
                                "grant_ms": (again - struck) / MS}
    return found


def rounds(deployment, program, signal, guard_ms, count):
    """Yields the result of each death as soon as it is known."""
    for at in range(count):
        found = one(deployment, program, signal, guard_ms)
        deployment.mend()
        print("%d of %d: %s" % (at + 1, count, "; ".join(
            "%s: %d of %d had two owners, granted again after %.2f s"
            % (kind, one_["overlaps"], one_["locks"], one_["grant_ms"] / 1000)
            for kind, one_ in found["kinds"].items())), flush=True)
        yield found


def _line(deaths, kind, switch):
    of_kind = [death["kinds"][kind] for death in deaths]
    spans = [one_["longest_ms"] for one_ in of_kind if one_["overlaps"]]
    after = [death["kinds"][kind]["grant_ms"] - death["events"][switch] for death in deaths]
    return "| %s |" % " | ".join([
        kind, "%d of %d" % (sum(one_["overlaps"] for one_ in of_kind),
                            sum(one_["locks"] for one_ in of_kind)),
        "%d of %d" % (len(spans), len(of_kind)), of(spans, 1000, "%.3f"),
        of([one_["grant_ms"] for one_ in of_kind], 1000, "%.2f"), of(after, 1000, "%.2f")])


def table(deaths, kind):
    """Returns the table in Markdown: medians, and from the least to the most."""
    return ["| | locks with two owners | in deaths | longest of a death, s "
            "| granted again after the death, s | after %s, s |" % kind.SWITCH_IS,
            "|---|---:|---:|---:|---:|---:|"] + [_line(deaths, one_, kind.SWITCH)
                                                for one_ in KINDS]
