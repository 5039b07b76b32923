# SPDX-License-Identifier: MIT
"""What one client costs each server that it knows: connections, their memory there, and what
else it leaves there. Owns the counting and the table. Must not know how the places are
started.

Happy path: found = run(options, subjects, places); table(found)"""
import contextlib
import time

import places
import server as servers
from measure import END_LIMIT_S, NAME, READY_LIMIT_S, Failed, Process

LOCKS = 1000
LEASE_MS = 40000  # renewed later than we look; who misses a release waits for no longer
SETTLED_S = 2  # until it has all that it wants of connections, and all its waiters wait
STATES = ["connected", "holds %d locks" % LOCKS, "%d wait"]


def connections(text):
    """Of CLIENT LIST: what memory each client's takes, by its id. Left out are other servers,
    and who asks, who comes by the unix socket."""
    listed = [dict(word.split("=", 1) for word in line.split() if "=" in word)
              for line in text.splitlines()]
    return {one["id"]: int(one.get("tot-mem", 0)) for one in listed
            if not set("SMU") & set(one["flags"])}


class Count:
    """Of one server: the connections, and the bytes in use."""

    def __init__(self, ask):
        self.connections = connections(ask("CLIENT", "LIST"))
        memory = servers.info(ask, "memory")
        # What is kept for replicas grows by whatever is written, up to its limit.
        self.used = int(memory["used_memory"]) - int(memory.get(
            "mem_total_replication_buffers", memory["mem_replication_backlog"]))

    def since(self, then):
        """How many connections are new, what they take, and how much more is in use."""
        new = {who: bytes_ for who, bytes_ in self.connections.items()
               if who not in then.connections}
        return [len(new), sum(new.values()), self.used - then.used]


class Measured:
    """A place; `masters` and `replicas`: of each what asks it."""

    def __init__(self, place, replicas):
        self.url, self.masters, self.replicas = place.url, place.masters, replicas
        self.before = self._counts()

    def _counts(self):
        return [[Count(ask) for ask in asked] for asked in (self.masters, self.replicas)]

    def more(self):
        """Of each server, masters first: what has come since."""
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
    """For a lock that another client has."""
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
    """Of each subject and place, by state: of masters and replicas what it costs each."""
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
    """Markdown; a master beside the other, then their replicas."""
    lines = ["| | connections at each master | at each replica | their memory there, KiB "
             "| all memory at each master, KiB |", "|---|---:|---:|---:|---:|"]
    for one in found:
        for state, (masters, replicas) in one.get("states", {}).items():
            lines.append("| %s, %s: %s | %s | %s | %s | %s |" % (
                one["subject"], one["place"], state, _cell(masters, 0, 1),
                _cell(replicas, 0, 1), _cell(masters, 1, 1024), _cell(masters, 2, 1024)))
    return lines + ["%s, %s: %s" % (one["subject"], one["place"], one["error"])
                    for one in found if "error" in one]
