# SPDX-License-Identifier: MIT
"""Medians, spread and ratios of all rows, and the tables that show them. Independent of the way
of measuring.

Usual course: Summary(rows).median("D", 500, "lockwire default", "rate"); tables(summary)."""
import statistics

REFERENCES = {"U": "limit plain", "split": "limit plain", "one": "limit plain",
              "D": "limit handover", "L": "limit handover", "N": "limit handover",
              "waiters": "limit handover", "clients": "limit plain", "G": "gateway unlocked",
              "tls": "limit tls"}

TITLES = {
    "U": "U: acquire and release of a key of one's own, C slots in one process",
    "split": "U, split: the server on one core, the client on another one",
    "one": "U, one: the server and the client on the same core",
    "D": "D: W waiters in two processes on one key, started together, each once",
    "L": "L: the same, each asks again at once",
    "N": "N: from a release to the grant in another process",
    "M": "M: several names at once: one user, then 16 that draw 4 of 64",
    "H": "H: locks that are held and renewed",
    "X": "X: the holder is killed; from its lease's end to the next grant",
    "E": "E: a detached lock ends; from its end to the next grant, in another client",
    "G": "G: the example gateway under wrk",
    "tls": "TLS: as U, over TLS and beside it without",
    "waiters": "Scale: waiters on one key (as D)",
    "clients": "Scale: client processes on one server (as U, 4 slots each)",
    "watched": "Watched: as L, 50 waiters, without local turns, beside clients that watch the name",
}

# Remarks for the reader of a section's figures.
ASLEEP = ("With C=1 and a core for each side, both sides sleep in turn: these figures measure how "
          "fast the machine wakes a process up, and hardly the programs.")
NOTES = {"U": ASLEEP, "split": ASLEEP}

# heading, figure, format
COLUMNS = {
    "U": [("pairs/s", "rate", "rate"), ("p50 us", "pair_p50_us", "us"),
          ("p99 us", "pair_p99_us", "us"), ("client us", "client_cpu_us", "us"),
          ("server us", "server_cpu_us", "us"), ("commands", "commands", "few")],
    "D": [("hand-overs/s", "rate", "rate"), ("p50 ms", "wait_p50_us", "ms"),
          ("p99 ms", "wait_p99_us", "ms"), ("commands", "commands", "few"),
          ("disorder", "disorder", "few"), ("without", "without", "whole")],
    "L": [("grants/s", "rate", "rate"), ("changes/s", "changes", "rate"),
          ("commands", "commands", "few"), ("disorder", "disorder", "few"),
          ("p99 ms", "wait_p99_us", "ms"), ("longest ms", "longest_us", "ms"),
          ("without", "without", "whole")],
    "N": [("seen/s", "rate", "rate"), ("p50 us", "notify_p50_us", "us"),
          ("p99 us", "notify_p99_us", "us")],
    "M": [("pairs/s", "rate", "rate"), ("p50 us", "wait_p50_us", "us"),
          ("p99 us", "wait_p99_us", "us"), ("longest ms", "longest_us", "ms"),
          ("longest/mean", "of_mean", "few"), ("starved", "starved", "whole"),
          ("without", "without", "whole"), ("client us", "client_cpu_us", "us")],
    "H": [("bytes/lock", "bytes_per_lock", "whole"),
          ("server bytes", "server_bytes_per_lock", "whole"),
          ("client cpu %", "client_cpu_share", "percent"),
          ("server cpu %", "server_cpu_share", "percent"), ("late ms", "late_ms", "whole"),
          ("least left %", "least_left", "percent")],
    "X": [("after ms", "after_lease_ms", "few")],
    "E": [("p50 us", "wait_p50_us", "us"), ("p99 us", "wait_p99_us", "us")],
    "G": [("requests/s", "rate", "rate"), ("p50 us", "request_p50_us", "us"),
          ("p99 us", "request_p99_us", "us"), ("gateway us", "client_cpu_us", "us"),
          ("server us", "server_cpu_us", "us")],
}
COLUMNS.update(split=COLUMNS["U"], one=COLUMNS["U"], tls=COLUMNS["U"], waiters=COLUMNS["D"], clients=COLUMNS["U"])
COLUMNS["watched"] = [("hand-overs/s", "changes", "rate"), ("p99 ms", "wait_p99_us", "ms"),
                      ("client us", "client_cpu_us", "us"), ("server us", "server_cpu_us", "us")]

SHOWN = {"rate": lambda v: "%.1fk" % (v / 1000) if v >= 10000 else "%.0f" % v,
         "us": lambda v: "%.1f" % v if v < 1000 else "%.0f" % v,
         "ms": lambda v: "%.2f" % (v / 1000) if v < 1e5 else "%.0f" % (v / 1000),
         "few": lambda v: "%.2f" % v, "whole": lambda v: "%.0f" % v,
         "percent": lambda v: "%.2f" % (100 * v)}


class Summary:
    def __init__(self, rows):
        self.groups = {}  # (section, size, processes) -> label -> rows, in order
        for row in rows:
            key = (row["section"], row["size"], row["processes"])
            self.groups.setdefault(key, {}).setdefault(row["label"], []).append(row)

    def values(self, key, label, figure):
        """Returns the values by repeat; repeats without a value are left out."""
        found = {}
        for row in self.groups.get(key, {}).get(label, []):
            value = row.get("figures", {}).get(figure)
            if value is not None and (row["repeat"] > 0 or figure == "commands"):
                found[row["repeat"]] = value
        # For the number of commands, the server's count is better than the program's.
        return {0: found[0]} if 0 in found else found

    def median(self, key, label, figure):
        values = self.values(key, label, figure).values()
        return statistics.median(values) if values else None

    def worst(self, key, label, figure):
        return max(self.values(key, label, figure).values(), default=None)

    def spread(self, key, label, figure):
        """Returns half of the range, as a share of the median."""
        values = list(self.values(key, label, figure).values())
        middle = statistics.median(values) if values else 0
        if len(values) < 2 or not middle:
            return None
        return (max(values) - min(values)) / 2 / middle

    def ratio(self, key, label, other, figure="rate"):
        """Returns the median of the ratios of the same repeat, so that common disturbances
        cancel out."""
        mine, theirs = self.values(key, label, figure), self.values(key, other, figure)
        ratios = [mine[i] / theirs[i] for i in mine if theirs.get(i)]
        return statistics.median(ratios) if ratios else None

    def difference(self, key, label, other, figure):
        """Returns the median of the differences of the same repeat."""
        mine, theirs = self.values(key, label, figure), self.values(key, other, figure)
        both = [mine[i] - theirs[i] for i in mine if i in theirs]
        return statistics.median(both) if both else None

    def labels(self, key):
        return list(self.groups.get(key, {}))

    def keys(self, section):
        return sorted(key for key in self.groups if key[0] == section)

    def remarks(self, key, label):
        """Returns the first lines of the errors and remarks, each once."""
        said = [row[what].split("\n")[0] for row in self.groups[key][label]
                for what in ("error", "remark") if what in row]
        return list(dict.fromkeys(said))


def _cells(summary, key, label):
    section = key[0]
    main = COLUMNS[section][0][1]
    cells = [label]
    for at, (_, figure, shown) in enumerate(COLUMNS[section]):
        value = summary.median(key, label, figure)
        cells.append("-" if value is None else SHOWN[shown](value))
        if at == 0:
            spread = summary.spread(key, label, main)
            cells.append("-" if spread is None else "%.0f%%" % (100 * spread))
            cells.append(str(len(summary.values(key, label, main))))
            if section in REFERENCES:
                ratio = summary.ratio(key, label, REFERENCES[section], main)
                cells.append("-" if ratio is None else "%.2f" % ratio
                             if ratio >= 0.095 else "%.3f" % ratio)
    remarks = []
    if summary.worst(key, label, "overlaps"):
        remarks.append("TWO HELD AT ONCE, %d times" % summary.worst(key, label, "overlaps"))
    if summary.worst(key, label, "errors"):
        remarks.append("%d errors" % summary.worst(key, label, "errors"))
    remarks += summary.remarks(key, label)[:2]
    return cells + ["; ".join(remarks)]


def _heading(key):
    section, size, processes = key
    heads = [TITLES[section].split(":")[0] if section in "UDLNMHXG" else section]
    letter = {"U": "C", "split": "C", "one": "C", "tls": "C", "H": "locks", "G": "connections", "M": "names",
              "clients": "processes", "watched": "watchers"}.get(section, "W")
    heads[0] += " %s=%d" % (letter, processes if section == "clients" else size)
    for at, (heading, _, _) in enumerate(COLUMNS[section]):
        heads.append(heading)
        if at == 0:
            heads += ["+-", "n"] + (["ratio"] if section in REFERENCES else [])
    return heads + [""]


def _aligned(table):
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]) - 1)]
    for line in table:
        yield (line[0].ljust(widths[0]) + "  " + "  ".join(
            cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:]))
            + ("  " + line[-1] if line[-1] else "")).rstrip()


def _cost_of_the_lock(summary):
    """Returns the cost of the lock for a request of the gateway, as differences of the same
    repeat."""
    for key in summary.keys("G"):
        said = []
        for figure, what in (("client_cpu_us", "of the gateway's CPU"),
                             ("server_cpu_us", "of Redis' CPU"),
                             ("request_p50_us", "of a request's median")):
            more = summary.difference(key, "gateway gift", "gateway unlocked", figure)
            if more is not None:
                said.append("%.1f us %s" % (more, what))
        if said:
            yield "the lock's own cost per request at %d connections: %s" % (
                key[1], ", ".join(said))


def tables(summary, server):
    """Returns the lines of all tables. `server` is its name and version."""
    lines = ["", "All against %s." % server]
    for section, title in TITLES.items():
        keys = summary.keys(section)
        if not keys:
            continue
        lines += ["", title]
        if section in REFERENCES:
            lines[-1] += "; ratios to " + REFERENCES[section]
        if section in NOTES:
            lines.append(NOTES[section])
        for key in keys:
            table = [_heading(key)] + [_cells(summary, key, label)
                                       for label in summary.labels(key)]
            lines += [""] + list(_aligned(table))
        if section == "G":
            lines += [""] + list(_cost_of_the_lock(summary))
    return lines
