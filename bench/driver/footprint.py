# SPDX-License-Identifier: MIT
"""The cost of one client for each server that it knows: connections, their memory at the server,
and the rest of the memory. Owns the counting and the table. Independent of how the places are
started.

Usual course: found = run(options, subjects, places); table(found)"""
import contextlib
import time

import places
import server as servers
from measure import END_LIMIT_S, NAME, READY_LIMIT_S, Failed, Process

LOCKS = 1000
# No lease is renewed before the count. A waiter that misses a release polls when the lease ends.
LEASE_MS = 40000
SETTLED_S = 2  # until the client has all its connections, and all its waiters wait
STATES = ["connected", "holds %d locks" % LOCKS, "%d wait"]


def connections(text):
    """Returns the memory of each client in CLIENT LIST, by its id. Leaves out other servers, and
    the driver's own connection, which uses the unix socket."""
    listed = [dict(word.split("=", 1) for word in line.split() if "=" in word)
              for line in text.splitlines()]
    return {one["id"]: int(one.get("tot-mem", 0)) for one in listed
            if not set("SMU") & set(one["flags"])}


class Count:
    """The state of one server: the connections, and the bytes in use."""

    def __init__(self, ask):
        self.connections = connections(ask("CLIENT", "LIST"))
        memory = servers.info(ask, "memory")
        # The replication buffers grow with every write, up to their limit.
        self.used = int(memory["used_memory"]) - int(memory.get(
            "mem_total_replication_buffers", memory["mem_replication_backlog"]))

    def since(self, then):
        """Returns the number of new connections, their memory, and the growth of the memory in
        use."""
        new = {who: bytes_ for who, bytes_ in self.connections.items()
               if who not in then.connections}
        return [len(new), sum(new.values()), self.used - then.used]


class Measured:
    """A place; `masters` and `replicas` have for each server a function that sends it a command."""

    def __init__(self, place, replicas):
        self.url, self.masters, self.replicas = place.url, place.masters, replicas
        self.before = self._counts()

    def _counts(self):
        return [[Count(ask) for ask in asked] for asked in (self.masters, self.replicas)]

    def more(self):
        """Returns the growth at each server, masters first."""
        time.sleep(SETTLED_S)
        return [[now.since(then) for now, then in zip(*both)]
                for both in zip(self._counts(), self.before)]


@contextlib.contextmanager
def _process(subject, workload, **options):
    process = Process(subject.argv(workload, lease_ms=LEASE_MS, **options))
    try:
        process.line(READY_LIMIT_S, "ready")
        yield process
    finally:
        process.end()


def _holding(subject, place, replicas):
    place.empty()
    at = Measured(place, replicas)
    with _process(subject, "H", url=at.url, name=NAME, slots=LOCKS) as process:
        connected = at.more()
        process.go()
        process.line(READY_LIMIT_S, "held")
        return [connected, at.more()]


def _waiting(subject, place, replicas, waiters):
    """Measures clients that wait for a lock that another client has."""
    name = NAME + places.TAG
    place.empty()
    with _process(subject, "X", url=place.url, name=name) as holder:
        holder.go()
        holder.line(READY_LIMIT_S, "granted_us")
        at = Measured(place, replicas)
        with _process(subject, "L", url=at.url, name=name, slots=waiters,
                      seconds=SETTLED_S + END_LIMIT_S) as process:
            process.go()
            return at.more()


def _of(options, subject, place, replicas):
    states = _holding(subject, place, replicas)
    states.append(_waiting(subject, place, replicas, options.waiters))
    return dict(zip([*STATES[:2], STATES[2] % options.waiters], states))


def run(options, subjects, where):
    """Returns for each subject and place, by state, the cost for each master and replica."""
    chosen = [s for s in subjects if "F" in s.workloads and s.renews_at]
    at = {place.label: place for place in where}
    found = []
    for subject in chosen:
        for label, replicas in ((places.SERVER, []), (places.ALL, where.cluster.replicas)):
            print("footprint: %s, %s" % (subject.label, label), flush=True)
            found.append({"subject": subject.label, "place": label})
            try:
                found[-1]["states"] = _of(options, subject, at[label], replicas)
            except Failed as error:
                found[-1]["error"] = str(error)
    return found


def _cell(each, figure, scale):
    return " / ".join("%.0f" % (one[figure] / scale) for one in each) or "-"


def table(found):
    """Returns the table in Markdown. The masters are in one column, their replicas in the next."""
    lines = ["| | connections at each master | at each replica | their memory there, KiB "
             "| all memory at each master, KiB |", "|---|---:|---:|---:|---:|"]
    for one in found:
        for state, (masters, replicas) in one.get("states", {}).items():
            lines.append("| %s, %s: %s | %s | %s | %s | %s |" % (
                one["subject"], one["place"], state, _cell(masters, 0, 1),
                _cell(replicas, 0, 1), _cell(masters, 1, 1024), _cell(masters, 2, 1024)))
    return lines + ["%s, %s: %s" % (one["subject"], one["place"], one["error"])
                    for one in found if "error" in one]
