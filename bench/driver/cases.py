# SPDX-License-Identifier: MIT
"""The plan: which workloads are measured, with which subjects, in which order, and for how long.
Independent of the way of measuring.

Usual course: plan(options, subjects) returns the cases, each with its subjects; one_pass(cases,
...) returns the measurements of one repeat, in turn."""
import cores


class Case:
    """One point: a workload at one size."""

    def __init__(self, section, workload, size, **facts):
        self.section, self.workload, self.size = section, workload, size
        self.processes = facts.get("processes", 1)
        self.seconds = facts.get("seconds", 1.0)
        self.peer_seconds = facts.get("peer_seconds", self.seconds)
        self.counting_seconds = facts.get("counting_seconds", 0.3)
        self.lease_ms = facts.get("lease_ms", 30000)
        self.subjects = facts.get("subjects", [])
        self.repeats = facts.get("repeats", 1)
        self.peer_repeats = facts.get("peer_repeats", self.repeats)
        self.counted = facts.get("counted", False)
        self.slots = facts.get("slots", size)
        self.watchers = facts.get("watchers", 0)  # other clients that watch the name
        self.of = facts.get("of")  # M: the number of names from which `size` are drawn
        self.cores = facts.get("cores", cores.FREE)

    @property
    def label(self):
        letter = {"U": "C", "H": "locks", "G": "connections", "M": "names", "E": "locks"}.get(self.workload, "W")
        letter = "watchers" if self.section == "watched" else letter
        text = "%s %s=%d" % (self.section, letter, self.size)
        if self.section == "M" and self.slots > 1:
            text += " of %d by %d" % (self.of, self.slots)
        return text + (" P=%d" % self.processes if self.section == "clients" else "")

    @property
    def key(self):
        return (self.section, self.size, self.processes)

    def seconds_of(self, subject, counting=False):
        """Returns the duration of the measurement; for workload D, its limit."""
        if self.workload == "N" and subject.polls_ms:
            return max(self.peer_seconds, min(3.0, subject.polls_ms / 40))
        seconds = self.peer_seconds if subject.family == "peer" else self.seconds
        return min(seconds, self.counting_seconds) if counting else seconds

    def rhythm_us(self, subject):
        """Returns the options of workload N's rhythm; None means that the option is not given.
        One process holds while the other waits, and lets the other have the lock before it
        requests the lock again. A subject that polls gets enough time to find the lock free."""
        if self.workload != "N":
            return {}
        hold = max(2000, 1000 * subject.polls_ms)
        return {"hold_us": hold, "pause_us": hold if subject.polls_ms else hold // 2,
                "round_us": 6 * hold if subject.rounds else None}


class Run:
    """One planned measurement. `repeat` 0 counts commands and is not timed."""

    def __init__(self, repeat, case, subject):
        self.repeat, self.case, self.subject = repeat, case, subject

    @property
    def key(self):
        return (*self.case.key, self.subject.label, self.repeat)

    @property
    def of_a_peer(self):
        return self.subject.family == "peer"


SECTIONS = ["U", "split", "one", "D", "L", "N", "M", "H", "X", "E", "G", "tls", "scale", "watched"]
HELD = [1, 10, 100, 1000, 10000, 100000]
HELD_BY_PEERS = [1000, 10000]
SCALE_WAITERS = [10, 30, 100, 300, 1000, 3000, 10000]
SCALE_CLIENTS = [1, 2, 4, 8, 16, 32, 64]


def _choose(subjects, workload, peers=True, contended=True):
    return [s for s in subjects if workload in s.workloads
            and (peers or s.family != "peer") and (contended or not s.contended_only)]


def _named(subjects, *labels):
    return [s for s in subjects if s.label in labels]


def _plan_u(o, subjects):
    for clients in [1, 16, 256]:
        yield Case("U", "U", clients, seconds=o.seconds, repeats=o.repeats,
                   counted=clients == 16, subjects=_choose(
                       subjects, "U", not o.quick or clients == 16, False))


PINNED = ["limit plain", "limit hash", "limit delifeq", "lockwire default", "lockwire nofence",
          "lockwire busy-poll", "lockwire exclusive"]


def _plan_pinned(placement):
    """Plans U on certain cores; of the limits and lockwire, only the programs of PINNED."""
    def make(o, subjects):
        chosen = [s for s in _choose(subjects, "U", not o.quick, False)
                  if s.family == "peer" or s.label in PINNED]
        for clients in [1, 16, 256]:
            yield Case(placement, "U", clients, seconds=o.seconds, repeats=o.repeats,
                       cores=placement, subjects=chosen)
    return make


def _plan_d(o, subjects):
    for waiters in o.waiters:
        limit = max(o.drain_limit, waiters / 2000)
        yield Case("D", "D", waiters, processes=2, repeats=o.repeats, seconds=limit,
                   counting_seconds=limit, counted=True,
                   subjects=_choose(subjects, "D", waiters <= o.peer_waiters))


def _plan_l(o, subjects):
    for waiters in o.waiters:
        peers = waiters == max(w for w in o.waiters if w <= max(o.peer_waiters, o.waiters[0]))
        yield Case("L", "L", waiters, processes=2, repeats=o.repeats,
                   seconds=2.0 if not o.quick else 0.6, subjects=_choose(subjects, "L", peers))


def _plan_n(o, subjects):
    yield Case("N", "N", 2, processes=2, seconds=3.0 if not o.quick else 0.6,
               peer_seconds=1.0, repeats=o.repeats, subjects=_choose(subjects, "N", not o.quick))


def _plan_m(o, subjects):
    """Several names at once: first without contention, then 16 slots that draw some of 64 names."""
    for names, slots, of in [(2, 1, 2), (8, 1, 8), (16, 1, 16), (4, 16, 64)]:
        yield Case("M", "M", names, slots=slots, of=of, processes=min(slots, 2),
                   seconds=o.seconds if slots == 1 else 2.0, peer_seconds=2.0,
                   repeats=o.repeats, subjects=_choose(subjects, "M", not o.quick))


def _plan_h(o, subjects):
    """Held locks cost little CPU time, so all subjects of a repeat hold at the same time."""
    for locks in [1000] if o.quick else HELD:
        holders = _named(subjects, "lockwire default") + [
            s for s in subjects if s.family == "peer" and "H" in s.workloads
            and locks in HELD_BY_PEERS and locks <= s.holds and not o.quick]
        yield Case("H", "H", locks, lease_ms=3000 if o.quick else 30000, repeats=o.repeats,
                   peer_repeats=1, subjects=holders)


def _plan_x(o, subjects):
    yield Case("X", "X", 2, lease_ms=500 if o.quick else 1000, repeats=o.repeats,
               subjects=_choose(subjects, "X", not o.quick))


def _plan_e(o, subjects):
    yield Case("E", "E", 50 if o.quick else 300, seconds=5.0, repeats=o.repeats,
               subjects=_choose(subjects, "E"))


def _plan_g(o, subjects):
    for connections in [16] if o.quick else [1, 16, 64]:
        yield Case("G", "G", connections, seconds=1.0, repeats=o.repeats,
                   subjects=_choose(subjects, "G"))


def _plan_tls(o, subjects):
    """Plans each subject with and without TLS, to show the cost of TLS."""
    chosen = _named(subjects, "limit tls", "limit plain", "lockwire tls-nofence",
                    "lockwire nofence", "lockwire tls", "lockwire default")
    for clients in [1, 16, 256] if any(s.tls for s in chosen) else []:
        yield Case("tls", "U", clients, seconds=o.seconds, repeats=o.repeats, subjects=chosen)


def _plan_scale(o, subjects):
    repeats = min(o.repeats, 3)
    for waiters in SCALE_WAITERS:
        yield Case("waiters", "D", waiters, processes=2, seconds=o.drain_limit,
                   repeats=repeats, subjects=_named(
                       subjects, "limit handover", "limit turns", "lockwire noturns",
                       "lockwire default"))
    for clients in SCALE_CLIENTS:
        yield Case("clients", "U", 4 * clients, processes=clients, seconds=o.seconds,
                   repeats=repeats, subjects=_named(subjects, "limit plain",
                                                    "lockwire default", "lockwire nofence"))


def _plan_watched(o, subjects):
    """Plans L with 50 waiters, without local turns, beside clients that watch the name."""
    for watchers in [0, 20] if o.quick else [0, 100, 1000]:
        yield Case("watched", "L", watchers, slots=50, processes=2, watchers=watchers,
                   repeats=o.repeats, seconds=2.0 if not o.quick else 0.6,
                   subjects=_named(subjects, "lockwire noturns"))


def plan(options, subjects):
    makers = {"U": _plan_u, "split": _plan_pinned(cores.SPLIT), "one": _plan_pinned(cores.ONE),
              "D": _plan_d, "L": _plan_l, "N": _plan_n, "M": _plan_m, "H": _plan_h, "X": _plan_x,
              "E": _plan_e,
              "G": _plan_g, "tls": _plan_tls, "scale": _plan_scale, "watched": _plan_watched}
    cases = []
    for section in SECTIONS:
        if section in options.only:
            cases += makers[section](options, subjects)
    return [case for case in cases if case.subjects]


def one_pass(cases, repeat, peers=True):
    """Returns lists of runs. The lists run one after the other, and the runs of a list at the
    same time. Subjects that are compared run in turn, in every second repeat backwards, so that
    no subject profits from a temporary disturbance of the machine or from its place in the
    order."""
    together = []
    for case in cases:
        runs = [Run(repeat, case, subject) for subject in case.subjects
                if (repeat == 0 and case.counted
                    or 0 < repeat <= (case.peer_repeats if subject.family == "peer"
                                      else case.repeats))
                and (peers or subject.family != "peer")]
        if case.workload == "H":
            together += runs
            continue
        if together:
            yield together
            together = []
        for run in runs if repeat % 2 else reversed(runs):
            yield [run]
    if together:
        yield together


def quick_pass(cases):
    """Plans one repeat, the most important first, since the time may not suffice: the limits and
    lockwire, then the counts of our own commands, then the peers, each in its first variant."""
    timed = [runs for runs in one_pass(cases, 1)]
    ours = [runs for runs in timed if not runs[0].of_a_peer]
    counted = [runs for runs in one_pass(cases, 0, peers=False)
               if runs[0].subject.family == "lockwire" and runs[0].case.workload == "D"]
    peers, seen = [], set()
    for runs in timed:
        known = (runs[0].case.key, runs[0].subject.name)
        if runs[0].of_a_peer and known not in seen:
            seen.add(known)
            peers.append(runs)
    return ours + counted + peers


def guess_s(run):
    """Returns an estimate of the duration, before anything was measured."""
    case, subject = run.case, run.subject
    start = 0.3
    if run.of_a_peer:
        start = 6.0 if subject.name == "redisson" else 1.0
    if case.workload == "H":
        interval = case.lease_ms / 1000 * (subject.renews_at or 1 / 3)
        return start + 3.1 * interval + case.size / 20000
    if case.workload == "X":
        return start + 1 + case.lease_ms / 1000
    seconds = case.seconds_of(subject, run.repeat == 0)
    if case.workload == "D":
        slow = run.of_a_peer and subject.name != "rueidislock"
        return start + min(seconds, case.size / (300 if slow else 8000))
    return start + seconds
