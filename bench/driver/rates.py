# SPDX-License-Identifier: MIT
"""How much one client does in a second at each of the places, in turn: uncontended pairs,
hand-overs, and the time from a release to the next grant. Owns the plan and the table.
Independent of how the places are started.

Usual course: rows = run(options, subjects, places); table(rows)"""
import cases
import measure
import places
from summary import SHOWN, Summary

SIZES = [1, 16, 256]
PEERS_TIMES = 5  # times as long: their first connections and compilers are slow
OWN = ["lockwire default", "lockwire nofence", "lockwire noturns"]
# heading, figure, format
FIGURES = {"U": [("pairs/s", "rate", "rate"),
                 ("the client's CPU a pair, us", "client_cpu_us", "us"),
                 ("the masters' CPU a pair, us", "server_cpu_us", "us"),
                 ("the replicas' CPU a pair, us", "replica_cpu_us", "us")],
           "L": [("hand-overs/s", "changes", "rate"), ("longest wait, ms", "longest_us", "ms")],
           "N": [("from a release to the next grant, us, p50", "notify_p50_us", "us"),
                 ("the same, p99", "notify_p99_us", "us")]}
ALONE = [places.SERVER, places.REPLICATED]
# A place, the place that it is compared with, and the heading of the ratio. A master with a
# replica is the fair comparison: each of the cluster's masters has one.
RATIOS = [(places.ONE, places.SERVER, "one master, of the server"),
          (places.ONE, places.REPLICATED, "one master, of one with a replica"),
          (places.ALL, places.REPLICATED, "three masters, of one with a replica"),
          (places.REPLICATED, places.SERVER, "one with a replica, of the server")]


def _plan(options, subjects):
    chosen = [s for s in subjects if s.label in OWN
              or s.family == "peer" and "F" in s.workloads]
    long = 3 * options.seconds
    points = [("U", size, 1, options.seconds) for size in SIZES]
    points += [("L", options.waiters, 2, long), ("N", 2, 2, long)]
    return [cases.Case(what, what, size, processes=processes, seconds=seconds,
                       peer_seconds=PEERS_TIMES * options.seconds, repeats=options.rounds,
                       peer_repeats=options.peer_rounds,
                       subjects=[s for s in chosen if what in s.workloads])
            for what, size, processes, seconds in points]


def _belongs(run, place):
    """Returns true if the run is to be made at the place. All masters need several names, since
    one name is at one master. Peers at a single server are measured by bench/run."""
    if place.label == places.ALL:
        return run.case.workload == "U" and run.case.size > 1
    return not (run.of_a_peer and place.label in ALONE)


def label_of(subject_label, place_label):
    return "%s, %s" % (subject_label, place_label)


def _one(run, place):
    case, subject = run.case, run.subject
    row = {"section": case.section, "size": case.size, "processes": case.processes,
           "subject": subject.label, "label": label_of(subject.label, place.label),
           "repeat": run.repeat}
    place.empty()
    try:
        figures = measure.at(place, place.url, place.name(subject, case.size), case, subject)
        row["figures"] = {name: value for name, value in figures.items()
                          if not name.endswith("quantiles_us")}
    except measure.Failed as error:
        row["error"] = str(error)
    return row


def run(options, subjects, where):
    planned, rows = _plan(options, subjects), []
    for repeat in range(1, 1 + max(options.rounds, options.peer_rounds)):
        for one, in cases.one_pass(planned, repeat):
            order = [place for place in where if _belongs(one, place)]
            for place in order if repeat % 2 else reversed(order):
                rows.append(_one(one, place))
                print("%d: %s %s: %s" % (repeat, one.case.label, rows[-1]["label"],
                                         _short(rows[-1])), flush=True)
    return rows


def _short(row):
    if "error" in row:
        return "failed: " + row["error"]
    heading, figure, shown = FIGURES[row["section"]][0]
    value = row["figures"].get(figure)
    return "-" if value is None else "%s %s" % (SHOWN[shown](value), heading)


def _cells(view, key, subject, figure, shown):
    """Returns the cells of each place, and the ratios of RATIOS."""
    cells = []
    for place in (*ALONE, places.ONE, places.ALL):
        label = label_of(subject, place)
        value, spread = view.median(key, label, figure), view.spread(key, label, figure)
        cells.append("-" if value is None else SHOWN[shown](value)
                     + ("" if spread is None else " +-%.0f%%" % (100 * spread)))
    ratios = [view.ratio(key, label_of(subject, place), label_of(subject, other), figure)
              for place, other, _ in RATIOS]
    return cells + ["-" if ratio is None else "%.2f" % ratio for ratio in ratios]


def _failed(rows):
    by_point = {}
    for row in rows:
        by_point.setdefault((row["section"], row["label"]), []).append(row.get("error"))
    for point, errors in by_point.items():
        said = [error for error in errors if error]
        if said:
            yield "%s %s: %d of %d failed: %s" % (*point, len(said), len(errors), said[0])


def _lines(view, key, subjects):
    """Yields the lines for one size of one workload."""
    letter = "C" if key[0] == "U" else "W"
    for heading, figure, shown in FIGURES[key[0]]:
        for subject in subjects:
            yield "| %s, %s=%d, %s | %s |" % (heading, letter, key[1], subject, " | ".join(
                _cells(view, key, subject, figure, shown)))


def table(rows):
    """Returns the table in Markdown: medians, +- half of the range. Ratios are medians of the
    ratios of each round."""
    view = Summary(rows)
    lines = ["| | " + " | ".join((*ALONE, places.ONE, places.ALL))
             + " | " + " | ".join(heading for _, _, heading in RATIOS) + " |",
             "|---" + "|---:" * (len(ALONE) + 2 + len(RATIOS)) + "|"]
    for section in FIGURES:
        subjects = dict.fromkeys(row["subject"] for row in rows if row["section"] == section)
        for key in view.keys(section):
            lines += _lines(view, key, subjects)
    return [*lines, "", *_failed(rows)]
