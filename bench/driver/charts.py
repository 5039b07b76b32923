# SPDX-License-Identifier: MIT
"""The charts, by gnuplot: SVG and PNG of each. Must not know how anything is measured.

Happy path: draw(summary, folder) -> the files made."""
import os
import shutil
import subprocess

STYLE = """set datafile missing "-"
set grid back lc rgb "#dddddd"
set border 3 lc rgb "#555555"
set tics nomirror
set key outside right top vertical Left reverse samplen 2
"""
# limits grey and dashed, lockwire thick, each peer a colour of its own
PALETTE = ["#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c564b", "#bcbd22",
           "#7f3c8d", "#b80058", "#a5aa99", "#e73f74", "#80ba5a"]
OURS = ["#0b5fa5", "#0f9ed5", "#1b2f7a", "#5b8def"]
GREYS = ["#222222", "#777777", "#999999", "#bbbbbb", "#555555"]
TERMINALS = [("svg", "svg size 1000,560 dynamic enhanced font 'sans,13' background 'white'"),
             ("png", "pngcairo size 1000,560 font 'sans,11'")]


class Chart:
    def __init__(self, name, title, x, y, **facts):
        self.name, self.title, self.x, self.y = name, title, x, y
        self.log, self.style = facts.get("log", "xy"), facts.get("style", "linespoints")
        self.series = []  # (label, [(x, y), ...])

    def add(self, label, points):
        points = [(x, y) for x, y in points if y is not None and (y > 0 or "y" not in self.log)]
        if points:
            self.series.append((label, points))

    def _plots(self):
        colours = {"limit": iter(GREYS), "lockwire": iter(OURS), "": iter(PALETTE)}
        for i, (label, _) in enumerate(self.series):
            family = label.split(" ")[0]
            family = family if family in colours else ""
            extra = {"limit": "dt 2 lw 2", "lockwire": "lw 4", "": "lw 2"}[family]
            points = " pt %d ps 0.8" % (i + 1) if "points" in self.style else ""
            yield ('$d%d using 1:2 with %s title "%s" noenhanced lc rgb "%s" %s%s'
                   % (i, self.style, label, next(colours[family], "#333333"), extra, points))

    def script(self, terminal, path):
        lines = ["set terminal %s" % terminal, "set output '%s'" % path, STYLE,
                 'set title "%s" noenhanced' % self.title,
                 'set xlabel "%s" noenhanced' % self.x, 'set ylabel "%s" noenhanced' % self.y]
        if self.log:
            lines.append("set logscale %s" % self.log)
        if "y" not in self.log:
            lines.append("set yrange [0:*]")
        plots = self._plots()
        for i, (_, points) in enumerate(self.series):
            lines.append("$d%d << END" % i)
            lines += ["%g %g" % point for point in points] + ["END"]
        lines.append("plot " + ", ".join(plots))
        return "\n".join(lines) + "\n"


def _sweep(chart, summary, section, figure, scale=1.0, wanted=None, x=1):
    labels = []
    for key in summary.keys(section):
        labels += [l for l in summary.labels(key) if l not in labels]
    for label in labels:
        if wanted and not wanted(label):
            continue
        points = []
        for key in summary.keys(section):
            value = summary.median(key, label, figure)
            points.append((key[x], None if value is None else value * scale))
        chart.add(label, points)
    return chart


def _plain(label):
    """One line for each program: not every variant of it."""
    return not label.endswith((" 10ms", " connections", " fence", " pipelined",
                               " delifeq-fence", " v4"))


def _distribution(summary):
    """Share of the waiters served within a time, where most were measured."""
    keys = summary.keys("D")
    if not keys:
        return None
    key = max(keys, key=lambda k: (len(summary.labels(k)), k))
    chart = Chart("waits", "D, W=%d: how long waiters wait" % key[1], "wait, ms",
                  "share of the waiters, %", log="x", style="lines")
    for label in filter(_plain, summary.labels(key)):
        first = min(summary.values(key, label, "wait_quantiles_us").items(), default=None)
        if first:
            chart.add(label, [(value / 1000, share) for share, value in enumerate(first[1])
                              if value > 0])
    return chart


def _charts(summary):
    yield _sweep(Chart("uncontended", "U: pairs of acquire and release, by concurrency",
                       "slots in one process", "pairs/s"), summary, "U", "rate",
                 wanted=_plain)
    yield _sweep(Chart("handovers", "D: hand-overs by waiters", "waiters on one key",
                       "hand-overs/s"), summary, "D", "rate", wanted=_plain)
    yield _distribution(summary)
    yield _sweep(Chart("commands", "D: commands per hand-over, by waiters",
                       "waiters on one key", "commands"), summary, "D", "commands",
                 wanted=_plain)
    held = Chart("held-memory", "H: resident memory per held lock", "held locks",
                 "bytes per lock")
    yield _sweep(held, summary, "H", "bytes_per_lock")
    cpu = Chart("held-cpu", "H: CPU by held locks", "held locks", "% of a core")
    _sweep(cpu, summary, "H", "client_cpu_share", 100)
    cpu.series = [(label + ", client", points) for label, points in cpu.series]
    server = _sweep(Chart("", "", "", "", log="xy"), summary, "H", "server_cpu_share", 100)
    cpu.series += [(label + ", server", points) for label, points in server.series]
    yield cpu
    yield _sweep(Chart("scale-waiters", "Hand-overs by waiters on one key", "waiters",
                       "hand-overs/s"), summary, "waiters", "rate")
    yield _sweep(Chart("held-resident", "H: resident memory by held locks", "held locks",
                       "bytes"), summary, "H", "resident_bytes")
    yield _sweep(Chart("scale-clients", "Pairs by client processes on one server",
                       "processes of 4 slots", "pairs/s", log="x"), summary, "clients", "rate",
                 x=2)


def draw(summary, server, folder):
    """`server`: its name and version, for the titles."""
    if not shutil.which("gnuplot"):
        return None
    made = []
    for chart in _charts(summary):
        if chart is None or not chart.series:
            continue
        chart.title += " (%s)" % server
        for suffix, terminal in TERMINALS:
            path = os.path.join(folder, "%s.%s" % (chart.name, suffix))
            subprocess.run(["gnuplot"], input=chart.script(terminal, path).encode(),
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            made.append(path)
    return made
