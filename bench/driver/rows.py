# SPDX-License-Identifier: MIT
"""What the rows of a measurement say. Owns the arithmetic: exact, from all samples. Must
not know programs or servers.

A row is slot, asked, granted, released, done (64-bit ns, 0: it did not come to that).
Happy path: processes = [read(path), ...]; drain(processes)."""
import array
import bisect
import itertools


class Rows:
    """The rows of one process, by column."""

    def __init__(self, values):
        self.slot, self.asked, self.granted, self.released, self.done = (
            values[i::5] for i in range(5))


def read(path):
    values = array.array("q")
    with open(path, "rb") as file:
        values.frombytes(file.read())
    return Rows(values)


def quantile(ordered, share):
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread(samples_ns, prefix):
    """p50, p99, max in us, and the quantiles by percent for a chart."""
    ordered = sorted(samples_ns)
    if not ordered:
        return {prefix + "_p50_us": None, prefix + "_p99_us": None, prefix + "_max_us": None}
    return {prefix + "_p50_us": quantile(ordered, 0.50) / 1e3,
            prefix + "_p99_us": quantile(ordered, 0.99) / 1e3,
            prefix + "_max_us": ordered[-1] / 1e3,
            prefix + "_quantiles_us": [quantile(ordered, i / 100) / 1e3
                                       for i in range(101)]}


def uncontended(processes, lines):
    pairs = []
    for rows, line in zip(processes, lines):
        start = line["start_ns"]
        pairs += [done - asked for asked, done in zip(rows.asked, rows.done)
                  if done and asked >= start]
    seconds = max(line["seconds"] for line in lines)
    return {"grants": len(pairs), "rate": len(pairs) / seconds, **spread(pairs, "pair")}


def _overlaps(processes):
    """Grants given while another was held: 0, or the lock does not lock."""
    holds = sorted((granted, released) for rows in processes
                   for granted, released in zip(rows.granted, rows.released)
                   if granted and released)
    return sum(1 for one, next_ in zip(holds, holds[1:]) if next_[0] < one[1])


def _overtaken(rows):
    """How many older waiters of the same process each grant overtook, in sum."""
    by_age = sorted(range(len(rows.asked)), key=lambda i: rows.asked[i])
    by_grant = sorted((i for i in range(len(by_age)) if rows.granted[by_age[i]]),
                      key=lambda i: rows.granted[by_age[i]])
    served, total = [], 0
    for age in by_grant:
        at = bisect.bisect_left(served, age)
        total += age - at
        served.insert(at, age)
    return total, len(by_grant)


def disorder(processes, most):
    """Mean share of older waiters overtaken: 0 = FIFO, 0.5 = random. Judged inside each
    process, where the order of asking is known; `most` of each: as many as a grant
    overtakes in the mean where the youngest always comes first."""
    total = grants = 0
    for rows, many in zip(processes, most):
        if many > 0:
            overtaken, count = _overtaken(rows)
            total += overtaken / many
            grants += count
    return total / grants if grants else None


def drain(processes, lines):
    waits = [granted - asked for rows in processes
             for asked, granted in zip(rows.asked, rows.granted) if granted]
    released = [at for rows in processes for at in rows.released if at]
    first = min(at for rows in processes for at in rows.asked)
    last = max(released, default=first + 1)
    waiters = sum(len(rows.asked) for rows in processes)
    return {"grants": len(waits), "rate": len(released) * 1e9 / (last - first),
            "without": waiters - len(waits), "overlaps": _overlaps(processes),
            "disorder": disorder(processes, [(len(rows.asked) - 1) / 2 for rows in processes]),
            **spread(waits, "wait")}


def _in_order(processes):
    """All grants as (granted, released, process, slot, asked), by time."""
    return sorted(itertools.chain.from_iterable(
        zip(rows.granted, rows.released, itertools.repeat(number), rows.slot, rows.asked)
        for number, rows in enumerate(processes)))


def _overtakers(grants):
    """The largest number of other grants between a request and its grant."""
    times = [row[0] for row in grants]
    return max((at - bisect.bisect_left(times, row[4]) for at, row in enumerate(grants)),
               default=0)


def closed_loop(processes, lines):
    end = max(line["start_ns"] + round(line["seconds"] * 1e9) for line in lines)
    order = _in_order(processes)
    grants = [row for row in order if row[0]]
    waits = [row[0] - row[4] for row in grants]
    waiting = [end - row[4] for row in order if not row[0]]
    owners = {row[2:4] for row in grants}
    slots = sum(line["slots"] for line in lines)
    seconds = max(line["seconds"] for line in lines)
    changes = sum(1 for a, b in zip(grants, grants[1:]) if a[2:4] != b[2:4])
    crossings = sum(1 for a, b in zip(grants, grants[1:]) if a[2] != b[2])
    gaps = [b[0] - a[1] for a, b in zip(grants, grants[1:]) if a[1]]
    return {"grants": len(grants), "rate": len(grants) / seconds,
            "changes": changes / seconds, "crossings": crossings / seconds,
            "without": slots - len(owners), "overlaps": _overlaps(processes),
            "disorder": disorder(processes, [line["slots"] - 1 for line in lines]),
            "longest_us": max(waits + waiting, default=0) / 1e3,
            "overtakers": _overtakers(grants),
            **spread(waits, "wait"), **spread(gaps, "gap")}


def several(processes, lines):
    """Sets of names: how long one waits, and how long the longest, those still waiting
    included, of the mean."""
    end = max(line["start_ns"] + round(line["seconds"] * 1e9) for line in lines)
    rows = [row for part in processes
            for row in zip(part.slot, part.asked, part.granted, part.done)]
    waits = [granted - asked for _, asked, granted, _ in rows if granted]
    waiting = [end - asked for _, asked, granted, _ in rows if not granted]
    seconds = max(line["seconds"] for line in lines)
    mean = sum(waits) / len(waits) if waits else 0
    served = {(number, slot) for number, part in enumerate(processes)
              for slot, granted in zip(part.slot, part.granted) if granted}
    return {"grants": len(waits), "rate": sum(1 for *_, done in rows if done) / seconds,
            "longest_us": max(waits + waiting, default=0) / 1e3,
            "of_mean": max(waits + waiting) / mean if mean else None,
            "starved": sum(1 for wait in waits + waiting if wait > 20 * mean),
            "without": sum(line["slots"] for line in lines) - len(served),
            **spread(waits, "wait")}


def notify(processes, lines):
    """From a release's call to the grant in another process, who waited at that time; of
    the same name, which the slot stands for: each process has one, or one a round."""
    order = sorted(_in_order(processes), key=lambda row: row[3])
    delays, overlaps = [], 0
    for _, rows in itertools.groupby(order, key=lambda row: row[3]):
        grants = [row for row in rows if row[0]]
        for a, b in zip(grants, grants[1:]):
            overlaps += bool(a[1]) and b[0] < a[1]
            if a[2] != b[2] and a[1] and b[4] < a[1]:
                delays.append(b[0] - a[1])
    return {"grants": len(delays), "rate": len(delays) / max(x["seconds"] for x in lines),
            "overlaps": overlaps, **spread(delays, "notify")}
