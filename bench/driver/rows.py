# SPDX-License-Identifier: MIT
"""The figures of a measurement from its rows. Owns the arithmetic: exact, from all samples.
Independent of programs and servers.

A row is slot, asked, granted, released, done (64-bit ns, 0: not reached). Usual course:
processes = [read(path), ...]; drain(processes)."""
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
    """Returns p50, p99, max in us, and the quantiles by percent for a chart."""
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
    """Counts the grants during the hold granted just before. If there are any, the lock does not
    exclude."""
    holds = sorted((granted, released) for rows in processes
                   for granted, released in zip(rows.granted, rows.released)
                   if granted and released)
    return sum(1 for one, next_ in zip(holds, holds[1:]) if next_[0] < one[1])


def _overtaken(rows):
    """Returns the sum, over all grants, of the older waiters of the same process that were
    still waiting. Also returns the number of grants."""
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
    """Returns the mean share of older waiters that a grant overtakes: 0 = FIFO, 0.5 = random.
    Judged inside each process, where the order of the requests is known. `most` has for each
    process the mean number of waiters overtaken per grant if the youngest always comes first."""
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
    """Returns all grants as (granted, released, process, slot, asked), by time."""
    return sorted(itertools.chain.from_iterable(
        zip(rows.granted, rows.released, itertools.repeat(number), rows.slot, rows.asked)
        for number, rows in enumerate(processes)))


def _overtakers(grants):
    """Returns the largest number of other grants between a request and its grant."""
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
    """Returns the figures of sets of names: the wait, and the longest wait as a multiple of the
    mean. The longest includes the waits that have not ended."""
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


def ended(processes, _lines):
    """Returns the time from the end of a detached lock, which stands in `asked`, to its next
    grant."""
    delays = [granted - end for rows in processes for end, granted in zip(rows.asked, rows.granted)
              if granted]
    return {"grants": len(delays), **spread(delays, "wait")}


def notify(processes, lines):
    """Returns the time from the call of a release to the grant in another process that waited at
    that time. Grants are compared by slot, which stands for the name: each process has one name,
    or one for each round."""
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
