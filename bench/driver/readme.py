# SPDX-License-Identifier: MIT
"""The comparison for README.md, in Markdown: one line for each program as it is used by
default. Must not know how anything is measured.

Happy path: text(result, summary) -> the section's lines."""
import summary as tables

# heading, key, figure, what it is shown as
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
LEFT_OUT = (" 10ms", " herd", " race", " hash", " connections", " fence", " pipelined", " delifeq-fence", " first")


def _cells(view, label):
    for _, key, figure, shown in COLUMNS:
        value = view.median(key, label, figure)
        yield "" if value is None else tables.SHOWN[shown](value)


def text(result, view):
    facts = result["machine"]
    labels = []
    for _, key, _, _ in COLUMNS:
        labels += [label for label in view.labels(key)
                   if label not in labels and not label.endswith(LEFT_OUT)]
    order = {"limit": 0, "lockwire": 1}
    labels.sort(key=lambda label: order.get(label.split(" ")[0], 2))
    versions = {row["label"]: row["figures"]["version"] for row in result["rows"]
                if "version" in row.get("figures", {})}
    used = sorted({versions[label] for label in labels if label in versions})
    lines = ["| | " + " | ".join(column[0] for column in COLUMNS) + " |",
             "|---" + "|---:" * len(COLUMNS) + "|"]
    for label in labels:
        lines.append("| %s | %s |" % (label, " | ".join(_cells(view, label))))
    lines += ["", "%s; %d cores of %s, %s, %s, over %s; medians of up to %d repeats. %s."
              % (facts["date"], facts["cores"], facts["cpu"], facts["system"],
                 result["server"]["name"], result["transport"],
                 result["repeats"], "; ".join(used))]
    return lines
