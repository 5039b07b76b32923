#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the picture of src/README.md: the life of a lock, and a hand-over.

    picture.py FOLDER            writes lock.svg and lock-dark.svg there
    picture.py --check FOLDER    fails if they are not what it would write

Independent of the library: the times are those of a lease of 30 s, not to scale.
"""
import os
import sys

THEMES = {
    "lock.svg": {"text": "#1f2328", "line": "#59636e", "held": "#2da44e", "wait": "#bf8700",
                 "redis": "#0969da", "soft": "#d1d9e0", "on": "#ffffff"},
    "lock-dark.svg": {"text": "#f0f6fc", "line": "#9198a1", "held": "#2ea043", "wait": "#9e6a03",
                      "redis": "#1f6feb", "soft": "#3d444d", "on": "#ffffff"},
}
WIDTH, HEIGHT = 920, 290
LANES = {"A": 30, "Redis": 125, "B": 220}  # the middle of each lane
BAR = 26


class Picture:
    def __init__(self, theme):
        self.theme = theme
        self.parts = []

    def add(self, part):
        self.parts.append(part)

    def text(self, x, y, words, *, color="text", anchor="middle", size=13, weight="normal"):
        self.add(f'<text x="{x}" y="{y}" fill="{self.theme[color]}" font-size="{size}" '
                 f'font-weight="{weight}" text-anchor="{anchor}">{words}</text>')

    def lane(self, name, label):
        y = LANES[name]
        self.text(12, y + 4, label, anchor="start", weight="bold")
        self.add(f'<line x1="110" y1="{y}" x2="{WIDTH - 10}" y2="{y}" '
                 f'stroke="{self.theme["soft"]}" stroke-width="1"/>')

    def bar(self, name, start, end, color, words):
        y = LANES[name] - BAR / 2
        self.add(f'<rect x="{start}" y="{y:g}" width="{end - start}" height="{BAR}" rx="4" '
                 f'fill="{self.theme[color]}"/>')
        self.text((start + end) / 2, LANES[name] + 4, words, color="on")

    def arrow(self, x, source, target, words="", *, dashed=False, side="start"):
        """From one lane's bar to another's, with a slant: a message takes time."""
        down = LANES[target] > LANES[source]
        y1 = LANES[source] + (BAR / 2 if down else -BAR / 2)
        y2 = LANES[target] + (-BAR / 2 if down else BAR / 2)
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.add(f'<line x1="{x}" y1="{y1:g}" x2="{x + 14}" y2="{y2:g}" '
                 f'stroke="{self.theme["line"]}" stroke-width="1.5" marker-end="url(#tip)"{dash}/>')
        if words:
            shift = 14 if side == "start" else 0
            self.text(x + shift, (y1 + y2) / 2 + 4, words, anchor=side, size=12)

    def svg(self):
        tip = (f'<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
               f'markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" '
               f'fill="{self.theme["line"]}"/></marker></defs>')
        body = "\n".join([tip, *self.parts])
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
                f'font-family="system-ui, sans-serif">\n{body}\n</svg>\n')


def draw(theme):
    p = Picture(theme)
    p.lane("A", "client A")
    p.lane("Redis", "Redis")
    p.lane("B", "client B")
    p.bar("A", 165, 578, "held", "A holds, until a deadline by its own clock")
    p.bar("Redis", 145, 590, "redis", "key = A's token, TTL 30 s")
    p.bar("Redis", 592, 900, "redis", "key = B's token")
    p.bar("B", 285, 612, "wait", "B waits: in the queue, polls now and then")
    p.bar("B", 614, 900, "held", "B holds, with a larger fencing token")
    p.arrow(130, "A", "Redis", "SET NX PX", side="start")
    p.arrow(290, "A", "Redis", "renewal", side="start")
    p.arrow(430, "A", "Redis", "renewal", side="start")
    p.arrow(262, "B", "Redis", "request: joins the queue", side="start")
    p.arrow(578, "A", "Redis", "release", side="start")
    p.arrow(600, "Redis", "B", "hand-over message", side="end")
    p.arrow(640, "B", "Redis", "renewal, to a full lease", side="start")
    p.text(12, 276, "The script that releases sets the key to B's token: the lock is never free in "
           "between, and no other client is woken.", anchor="start", size=12)
    return p.svg()


def main():
    check = sys.argv[1:2] == ["--check"]
    if len(sys.argv) != 2 + check:
        sys.exit("usage: picture.py [--check] FOLDER")
    for name, theme in THEMES.items():
        path = os.path.join(sys.argv[-1], name)
        if not check:
            with open(path, "w", encoding="utf-8") as file:
                file.write(draw(theme))
        else:
            with open(path, encoding="utf-8") as file:
                if file.read() != draw(theme):
                    sys.exit(f"{path} is not what picture.py draws")


if __name__ == "__main__":
    main()
