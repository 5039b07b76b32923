# SPDX-License-Identifier: MIT
"""The comparison for README.md, in Markdown: one line for each program with its default
settings, and uncontended pairs by the cores of both sides. Independent of the way of measuring.

Usual course: text(result, summary) returns the section's lines."""
import summary as tables

# heading, key, figure, format
COLUMNS = [("pairs/s, C=1", ("U", 1, 1), "rate", "rate"),
           ("C=16", ("U", 16, 1), "rate", "rate"),
           ("C=256", ("U", 256, 1), "rate", "rate"),
           ("hand-overs/s, W=50", ("D", 50, 2), "rate", "rate"),
           ("W=500", ("D", 500, 2), "rate", "rate"),
           ("commands each, W=500", ("D", 500, 2), "commands", "few"),
           ("disorder, W=500", ("D", 500, 2), "disorder", "few"),
           ("of 500 without a grant in 2 s", ("L", 500, 2), "without", "whole"),
           ("told after, us", ("N", 2, 2), "notify_p50_us", "us"),
           ("bytes per held lock", ("H", 10000, 1), "bytes_per_lock", "whole"),
           ("granted after a crash, ms", ("X", 2, 1), "after_lease_ms", "few")]
PLACEMENTS = [("free", "U"), ("split", "split"), ("one", "one")]  # heading, section
LEFT_OUT = (" 10ms", " herd", " race", " hash", " connections", " fence", " pipelined", " delifeq-fence", " first")


def _cells(columns, view, label):
    for _, key, figure, shown in columns:
        value = view.median(key, label, figure)
        yield "" if value is None else tables.SHOWN[shown](value)


def _labels(columns, view):
    labels = []
    for _, key, _, _ in columns:
        labels += [label for label in view.labels(key)
                   if label not in labels and not label.endswith(LEFT_OUT)]
    order = {"limit": 0, "lockwire": 1}
    return sorted(labels, key=lambda label: order.get(label.split(" ")[0], 2))


def _table(columns, view):
    lines = ["| | " + " | ".join(column[0] for column in columns) + " |",
             "|---" + "|---:" * len(columns) + "|"]
    for label in _labels(columns, view):
        lines.append("| %s | %s |" % (label, " | ".join(_cells(columns, view, label))))
    return lines


def _by_cores(view):
    """Returns the table by cores, or nothing if no pinned cores were measured."""
    columns = [("C=%d, %s" % (clients, heading), (section, clients, 1), "rate", "rate")
               for clients in (1, 16, 256) for heading, section in PLACEMENTS]
    if not any(view.labels(key) for _, key, _, _ in columns if key[0] != "U"):
        return []
    return ["Pairs/s, the cores free, a core for each side (split), and one core for both:", "",
            *_table(columns, view), "", tables.ASLEEP, ""]


def text(result, view):
    facts = result["machine"]
    labels = _labels(COLUMNS, view)
    versions = {row["label"]: row["figures"]["version"] for row in result["rows"]
                if "version" in row.get("figures", {})}
    used = sorted({versions[label] for label in labels if label in versions})
    lines = [*_table(COLUMNS, view), "", *_by_cores(view)]
    lines += ["%s; %d cores of %s, %s, %s, over %s; medians of up to %d repeats. %s."
              % (facts["date"], facts["cores"], facts["cpu"], facts["system"],
                 result["server"]["name"], result["transport"],
                 result["repeats"], "; ".join(used))]
    return lines
