# SPDX-License-Identifier: MIT
"""A quorum of independent servers: pairs of one process, hand-overs among many, and the time
from a release to the grant of another process, with all servers well, one slow, or one dead.
Owns the servers, the plan, the tables and the expectations. Independent of how a library uses
several servers.

Usual course: with Servers(options) as servers: rows = run(options, subjects, servers);
tables(rows); judge(rows)"""
import contextlib
import itertools
import os
import time

import cases
import measure
import server
from deployment import until
from measure import NAME, Failed, Process
from ports import keep
from server import Server
from summary import SHOWN, Summary

WELL, SLOW, DEAD = STATES = ["all well", "one slow", "one dead"]
SIZES = [1, 16, 256]
GUARD_S = 46  # time after its start for which a server grants lockwire no lock
PEERS_TIMES = 5  # times as long: their first connections and compilers are slow
# lockwire's subjects in each workload, in addition to the peers.
OWN = {"U": ["lockwire default"],
       "L": ["lockwire default", "lockwire clients"], "N": ["lockwire default"]}
PEERS = ["redsync default", "redsync 10ms", "node-redlock default", "node-redlock 10ms"]
JUDGED = "lockwire clients"
# heading, figure, format
FIGURES = {"U": [("pairs/s", "rate", "rate"), ("p50, us", "pair_p50_us", "us"),
                 ("p99, us", "pair_p99_us", "us")],
           "L": [("grants/s", "rate", "rate"),
                 ("release to grant, ms, p50", "gap_p50_us", "ms"),
                 ("p99", "gap_p99_us", "ms"), ("longest wait, ms", "longest_us", "ms"),
                 ("of the mean", "of_mean", "few"), ("overtakers", "overtakers", "whole"),
                 ("without", "without", "whole")],
           "N": [("release to grant, us, p50", "notify_p50_us", "us"),
                 ("p99", "notify_p99_us", "us")]}
TITLES = {"U": "C slots in one process, each acquires and releases a name of its own",
          "L": "W waiters in two processes on one name, each requests the lock again at once",
          "N": "from a release in one process to the grant in another"}


class Place:
    """Some of the servers, and the URL by which they are used."""

    ca = None

    def __init__(self, servers, state, ports):
        self.servers, self.state = servers, state
        addresses = ",".join("127.0.0.1:%d" % port for port in ports)
        self.url = "redis%s://%s" % ("-quorum" if len(servers) > 1 else "", addresses)

    @property
    def label(self):
        return "N=%d, %s" % (len(self.servers), self.state)

    def cpu_us(self):
        return sum(one.cpu_us() for one in self.servers)

    def replica_cpu_us(self):
        """Returns 0: the servers of a quorum have no replicas."""
        return 0


class Servers(contextlib.ExitStack):
    """As many servers as the largest quorum has. The first one can also be reached through a
    slow port. A port without a server is used in its place as the dead server."""

    def __init__(self, options):
        super().__init__()
        self.options = options

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.found = [stack.enter_context(Server())
                          for _ in range(max(self.options.servers))]
            self.slow = self._start_slow(stack)
            self.dead = stack.enter_context(keep()).getsockname()[1]
            self.push(stack.pop_all())
        print("the servers grant locks in %d s" % GUARD_S, flush=True)
        until(lambda: all(int(one.info("server")["uptime_in_seconds"]) >= GUARD_S
                          for one in self.found), 2 * GUARD_S, "the servers are old enough")
        return self

    def _start_slow(self, stack):
        port = stack.enter_context(keep()).getsockname()[1]
        program = os.path.join(self.options.build, "bench/lib/bench_slow")
        process = Process([program, str(port), str(self.found[0].port),
                           str(round(500 * self.options.slow))])
        stack.callback(process.end)
        process.line(server.START_LIMIT_S, "ready")
        return port

    def place(self, count, state):
        first = {WELL: self.found[0].port, SLOW: self.slow, DEAD: self.dead}[state]
        return Place(self.found[:count], state,
                     [first, *(one.port for one in self.found[1:count])])


def _cases(options, subjects, state, count):
    """Yields the cases of one place. A single server is measured with pairs only."""
    def one(what, size, seconds, processes):
        chosen = [s for s in subjects if s.label in OWN[what] or s.label in PEERS
                  and count > 1 and not (what != "L" and s.contended_only)]
        return cases.Case(what, what, size, processes=processes, seconds=seconds,
                          peer_seconds=PEERS_TIMES * options.seconds, subjects=chosen,
                          repeats=options.rounds, peer_repeats=options.peer_rounds)
    if state == WELL and "pairs" in options.only:
        yield from (one("U", size, options.seconds, 1) for size in SIZES)
    if count > 1 and "contended" in options.only:
        long = 3 * options.seconds
        yield from (one("L", waiters, long, 2) for waiters in options.waiters)
        if state == WELL:
            yield one("N", 2, long, 2)


def plan(options, subjects, servers):
    """Returns pairs of a place and a case. All cases of a place are measured in turn."""
    counts = [(state, count) for state in options.states
              for count in [1] * (state == WELL) + options.servers]
    return [(servers.place(count, state), case) for state, count in counts
            for case in _cases(options, subjects, state, count)]


def label_of(subject_label, place_label):
    return "%s, %s" % (place_label, subject_label)


def _one(run, place, number):
    """Makes one measurement. Each one has its own names, since locks of the one before may still
    be held."""
    case, subject = run.case, run.subject
    row = {"section": case.section, "size": case.size, "processes": case.processes,
           "subject": subject.label, "label": label_of(subject.label, place.label),
           "repeat": run.repeat}
    try:
        figures = measure.at(place, place.url, "%s-%d" % (NAME, number), case, subject)
    except Failed as error:
        return {**row, "error": str(error)}
    row["figures"] = {name: value for name, value in figures.items()
                      if not name.endswith("quantiles_us")}
    if case.section == "L" and figures["rate"]:
        row["figures"]["of_mean"] = figures["longest_us"] / 1e6 * figures["rate"] / case.size
    return row


def run(options, subjects, servers):
    planned, rows, numbers = plan(options, subjects, servers), [], itertools.count()
    for repeat in range(1, 1 + max(options.rounds, options.peer_rounds)):
        for place, case in planned:
            for one, in cases.one_pass([case], repeat):
                rows.append(_one(one, place, next(numbers)))
                print("%d: %s %s: %s" % (repeat, case.label, rows[-1]["label"],
                                         _short(rows[-1])), flush=True)
                time.sleep(0.1)  # for the last clients to leave
    return rows


def _short(row):
    if "error" in row:
        return "failed: " + row["error"]
    heading, figure, shown = FIGURES[row["section"]][0]
    value = row["figures"].get(figure)
    return "-" if value is None else "%s %s" % (SHOWN[shown](value), heading)


def _point(key, label):
    letter = {"U": "C=%d, ", "L": "W=%d, "}.get(key[0])
    return (letter % key[1] if letter else "") + label


def _line(view, key, label):
    cells = []
    for at, (_, figure, shown) in enumerate(FIGURES[key[0]]):
        value = view.median(key, label, figure)
        spread = view.spread(key, label, figure) if at == 0 else None
        cells.append(("-" if value is None else SHOWN[shown](value))
                     + ("" if spread is None else " +-%.0f%%" % (100 * spread)))
    return "| %s | %s |" % (_point(key, label), " | ".join(cells))


def _remarks(view, key, label):
    for figure, text in (("overlaps", "TWO HELD AT ONCE, %d times"), ("errors", "%d errors")):
        worst = view.worst(key, label, figure)
        if worst:
            yield text % worst
    yield from view.remarks(key, label)


def tables(rows):
    """Returns the tables in Markdown: medians, +- half of the range."""
    view, lines = Summary(rows), []
    for section, figures in FIGURES.items():
        keys = view.keys(section)
        if keys:
            lines += ["", TITLES[section], "",
                      "| | %s |" % " | ".join(heading for heading, _, _ in figures),
                      "|---" + "|---:" * len(figures) + "|"]
        lines += [_line(view, key, label) for key in keys for label in view.labels(key)]
        said = ["%s: %s" % (_point(key, label), remark) for key in keys
                for label in view.labels(key) for remark in _remarks(view, key, label)]
        lines += [""] * bool(said) + said
    return lines


def safe(rows):
    """Returns true if no lock of lockwire had two owners and each waiter was served."""
    return not any(row["subject"].startswith("lockwire") and (
        "error" in row or row["figures"].get("overlaps") or row["figures"].get("without"))
        for row in rows)


def judge(rows):
    """Yields the expectations of hand-overs between clients: whether each is met, its text, and
    the figure."""
    view = Summary(rows)
    for key in view.keys("L"):
        for label in view.labels(key):
            if not label.endswith(JUDGED):
                continue
            what = "W=%d, %s: " % (key[1], label)
            for name, figure, factor, limit in (
                    ("at least 700 grants/s", "rate", 1, (700, float("inf"))),
                    ("release to grant at most 1 ms", "gap_p50_us", 1e-3, (0, 1)),
                    ("the longest wait at most 3 times the mean", "of_mean", 1, (0, 3))):
                value = view.median(key, label, figure)
                if value is not None:
                    value *= factor
                    yield limit[0] <= value <= limit[1], what + name, "%.2f" % value
