# SPDX-License-Identifier: MIT
"""The cost of redis-sentinel:// for lockwire while nothing happens, compared with redis:// to
the same master: instructions and speed of a pair, and the requests of idle clients. Independent
of failovers.

Usual course: measure(build) returns a dict; table(dict) returns Markdown."""
import contextlib
import functools
import os
import statistics
import time

import steady
from deployment import Deployment
from measure import END_LIMIT_S, NAME, READY_LIMIT_S, Process

DOWN_AFTER_MS = 30000  # no server is to be marked down because the machine is slow
REPEATS, SECONDS, SLOTS = 9, 1, 16
COUNTS = 3  # repeats of the instruction count: a heartbeat falls into some of the runs
CLIENTS, IDLE_S = 10, 40  # idle clients, all at once, since the sentinels' own traffic counts too
LEASE_MS = 3600000  # no renewal before the end
TOTALS = ("total_commands_processed", "total_net_input_bytes", "total_net_output_bytes")


def _empty(deployment, url):
    """A context manager: yields the URL, after it has deleted the keys that ended clients left."""
    deployment.master.link("FLUSHALL")
    return contextlib.nullcontext(url)


def _pairs(program, url):
    """Returns the pairs per second."""
    process = Process([program, "U", "--url", url, "--slots", str(SLOTS), "--seconds",
                       str(SECONDS)])
    try:
        process.line(READY_LIMIT_S, "ready")
        process.go()
        line = process.line(SECONDS + END_LIMIT_S, "rows")
        return line["rows"] / line["seconds"]
    finally:
        process.end()


def _speed(program, deployment, urls):
    """Returns the rates by kind of URL. The kinds are measured in turn, every second time
    backwards."""
    rates = {kind: [] for kind in urls}
    for repeat in range(REPEATS):
        for kind in list(urls)[::-1 if repeat % 2 else 1]:
            with _empty(deployment, urls[kind]) as url:
                rates[kind].append(_pairs(program, url))
    return rates


def _instructions(program, deployment, urls):
    """Returns, by kind of URL, {what: {whose: the median}}. The kinds are measured in turn."""
    counts = {kind: [] for kind in urls}
    for _ in range(COUNTS):
        for kind, url in urls.items():
            counts[kind].append(steady.instructions(
                program, functools.partial(_empty, deployment, url)))
    return {kind: {what: {whose: statistics.median(one[what][whose] for one in all_)
                          for whose in all_[0][what]} for what in all_[0]}
            for kind, all_ in counts.items()}


def _counted(server):
    info = {**server.info("stats"), **server.info("clients")}
    return [int(info[name]) for name in TOTALS] + [int(info["connected_clients"])]


def _stretch(deployment):
    """Returns the traffic of the master and of all sentinels during IDLE_S: commands, bytes in,
    bytes out, and the connections at the end."""
    places = {"master": [deployment.master], "sentinels": deployment.sentinels}
    before = {place: [_counted(one) for one in of] for place, of in places.items()}
    time.sleep(IDLE_S)
    found = {}
    for place, of in places.items():
        after = [_counted(one) for one in of]
        sums = [sum(column) for column in zip(*after)]
        found[place] = [late - early for late, early in zip(
            sums[:3], (sum(column) for column in zip(*before[place])))] + sums[3:]
    return found


def _idle(program, deployment, url):
    """Returns the same traffic with clients that each hold one lock, or without clients if `url`
    is empty."""
    with contextlib.ExitStack() as stack, _empty(deployment, url):
        for number in range(CLIENTS if url else 0):
            process = Process([program, "X", "--url", url, "--name",
                               "%s-%d" % (NAME, number), "--lease-ms", str(LEASE_MS)])
            stack.callback(process.end)
            process.line(READY_LIMIT_S, "ready")
            process.go()
            process.line(READY_LIMIT_S, "granted_us")
        return _stretch(deployment)


def measure(build):
    pairs = os.path.join(build, "bench/lockwire/bench_lockwire")
    counted = os.path.join(build, "bench/lockwire/bench_steady")
    with Deployment(DOWN_AFTER_MS) as deployment:
        deployment.settle()
        urls = {"redis://": deployment.master.url(False),
                "redis-sentinel://": deployment.url}
        print("idle clients", flush=True)
        idle = {kind: _idle(pairs, deployment, url)
                for kind, url in [("", None), *urls.items()]}
        print("instructions and pairs", flush=True)
        return {"idle": idle, "speed": _speed(pairs, deployment, urls),
                "instructions": _instructions(counted, deployment, urls)}


def _each(idle, kind, place):
    """Returns the cost of one client: commands, bytes in, bytes out a minute, and connections."""
    more = [with_ - without for with_, without in zip(idle[kind][place], idle[""][place])]
    return [figure / CLIENTS * (60 / IDLE_S if at < 3 else 1) for at, figure in enumerate(more)]


def _ratios(speed):
    mine, theirs = speed["redis-sentinel://"], speed["redis://"]
    return [a / b for a, b in zip(mine, theirs)]


def table(found):
    lines = ["| | " + " | ".join(found["speed"]) + " |", "|---|---:|---:|"]

    def line(what, value):
        lines.append("| %s | %s |" % (what, " | ".join(value(kind) for kind in found["speed"])))

    for name, text in (("uncontended", "pair"), ("handover", "hand-over")):
        for whose, added in (("all", ""), ("ours", ", of lockwire's own")):
            line("instructions of the client per %s%s" % (text, added), lambda kind: "%d"
                 % found["instructions"][kind][name][whose])
    line("pairs/s, C=%d" % SLOTS, lambda kind: "%.1fk" % (statistics.median(
        found["speed"][kind]) / 1000))
    for place in ("master", "sentinels"):
        line("an idle client at the %s: connections" % place,
             lambda kind: "%.1f" % _each(found["idle"], kind, place)[3])
        line("its commands there a minute", lambda kind: "%.1f" % _each(found["idle"], kind, place)[0])
        line("bytes a minute, both ways", lambda kind: "%.0f" % sum(
            _each(found["idle"], kind, place)[1:3]))
    ratios = _ratios(found["speed"])
    return lines + ["", "pairs/s with sentinels, of those without, in the same repeat: median "
                    "%.3f, from %.3f to %.3f, n=%d" % (statistics.median(ratios), min(ratios),
                                                       max(ratios), len(ratios))]
