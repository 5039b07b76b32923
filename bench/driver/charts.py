# SPDX-License-Identifier: MIT
"""The charts, by gnuplot: SVG, for light pages and for dark ones, and a PNG of each. Independent
of the way of measuring.

Usual course: draw(summary, folder) returns the files that it made."""
import os
import shutil
import subprocess

STYLE = """set datafile missing "-"
set grid back lc rgb "{faint}"
set border 3 lc rgb "{text}" lw 1.5
set tics nomirror textcolor rgb "{text}"
set key outside right top vertical Left reverse samplen 1.5 spacing 0.95 font ",19"
set key maxrows 24 textcolor rgb "{text}"
set format "%.0s%c"
set title textcolor rgb "{text}"
set xlabel textcolor rgb "{text}"
set ylabel textcolor rgb "{text}"
"""
# Limits are grey and dashed, lockwire is thick, and each peer has its own colour. All can be
# distinguished on white and on black.
PALETTE = ["#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#a5765c", "#bcbd22",
           "#a259b3", "#d3347c", "#8a9a5b", "#e73f74", "#80ba5a"]
OURS = ["#2f7fd6", "#12a5d8", "#6f6ff0", "#5b8def"]
GREYS = ["#808080", "#9a9a9a", "#6a6a6a", "#b0b0b0", "#8a8a8a"]
# For light and dark pages, where a chart is shown at half its size; a text then has 11 points.
SIZE = "size 1100,680"
LIGHT, DARK = {"text": "#24292f", "faint": "#d8dee4"}, {"text": "#d1d7e0", "faint": "#3d444d"}
FORMS = [(".svg", LIGHT, "svg %s dynamic enhanced font 'sans,22' background '#ffffff'" % SIZE),
         ("-dark.svg", DARK, "svg %s dynamic enhanced font 'sans,22' background '#0d1117'" % SIZE),
         (".png", LIGHT, "pngcairo %s font 'sans,16' background '#ffffff'" % SIZE)]


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
        """Returns the lines, the highest first, which is their order in the key. The colours go
        by the order of the labels."""
        plots = list(zip(self.series, self._lines()))
        plots.sort(key=lambda one: -max(y for _, y in one[0][1]))
        return [line for _, line in plots]

    def _lines(self):
        colours = {"limit": iter(GREYS), "lockwire": iter(OURS), "": iter(PALETTE)}
        for i, (label, _) in enumerate(self.series):
            family = label.split(" ")[0]
            family = family if family in colours else ""
            extra = {"limit": "dt 2 lw 3", "lockwire": "lw 6", "": "lw 3"}[family]
            points = " pt %d ps 1.2" % (i + 1) if "points" in self.style else ""
            yield ('$d%d using 1:2 with %s title "%s" noenhanced lc rgb "%s" %s%s'
                   % (i, self.style, label.removesuffix(" default"),
                      next(colours[family], "#808080"), extra, points))

    def script(self, terminal, path, tone):
        lines = ["set terminal %s" % terminal, "set output '%s'" % path, STYLE.format(**tone),
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


class Spread:
    """A bar for each label, from a low value to a high one, with both as numbers next to it."""

    def __init__(self, name, title, x):
        self.name, self.title, self.x = name, title, x
        self.series = []  # (label, low, high)

    def script(self, terminal, path, tone):
        lines = ["set terminal %s" % terminal, "set output '%s'" % path, STYLE.format(**tone),
                 'set title "%s" noenhanced' % self.title, 'set xlabel "%s" noenhanced' % self.x,
                 "set logscale x", "set yrange [%g:0.2]" % (len(self.series) + 1), "unset key",
                 "set offsets graph 0, graph 0.28, 0, 0", "set ytics noenhanced scale 0",
                 'set format x "%g"',
                 "$d << END"]
        for i, (label, low, high) in enumerate(self.series, 1):
            colour = OURS[0] if label.startswith("lockwire") else \
                GREYS[0] if label.startswith("limit") else PALETTE[0]
            lines.append('%d %g %g "%s" %s "  %s to %s"' % (
                i, low, high, label.removesuffix(" default"), colour.replace("#", "0x"),
                *("%.3g" % value if value < 100 else "%.0f" % value for value in (low, high))))
        lines += ["END",
                  "plot $d using 2:1:($3-$2):(0):5:ytic(4) with vectors nohead lw 9 lc rgb variable,"
                  ' $d using 3:1:6 with labels left textcolor rgb "%s"' % tone["text"]]
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
    """Returns false for the variants that the charts leave out."""
    return not label.endswith((" 10ms", " connections", " fence", " pipelined",
                               " delifeq-fence", " v4", " race", " herd"))


def _distribution(summary):
    """Charts the share of the waiters served within a time, for the size with the most subjects."""
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


def _spread(summary):
    """Charts p50 to p99 of the wait, the shortest first, for the size with the most subjects."""
    keys = summary.keys("D")
    if not keys:
        return None
    key = max(keys, key=lambda k: (len(summary.labels(k)), k))
    chart = Spread("waits-spread", "D, W=%d: the wait, p50 to p99" % key[1], "ms")
    for label in filter(_plain, summary.labels(key)):
        low, high = (summary.median(key, label, "wait_p%d_us" % share) for share in (50, 99))
        if low and high:
            chart.series.append((label, low / 1000, high / 1000))
    chart.series.sort(key=lambda bar: bar[2])
    return chart


def _charts(summary):
    yield _sweep(Chart("uncontended", "U: pairs of acquire and release, by concurrency",
                       "slots in one process", "pairs/s"), summary, "U", "rate",
                 wanted=_plain)
    yield _sweep(Chart("handovers", "D: hand-overs by waiters", "waiters on one key",
                       "hand-overs/s"), summary, "D", "rate", wanted=_plain)
    yield _distribution(summary)
    yield _spread(summary)
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
    """Draws all charts. `server` is its name and version, for the titles."""
    if not shutil.which("gnuplot"):
        return None
    made = []
    for chart in _charts(summary):
        if chart is None or not chart.series:
            continue
        chart.title += " (%s)" % server
        for suffix, tone, terminal in FORMS:
            path = os.path.join(folder, chart.name + suffix)
            subprocess.run(["gnuplot"], input=chart.script(terminal, path, tone).encode(),
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            made.append(path)
    return made
