# SPDX-License-Identifier: MIT
"""The run: makes all planned measurements in turn, within the given time, and stores each row on
disk as soon as it is known. Independent of what is measured.

Usual course: Runner(options, cases, header).run() returns the rows. The limits and lockwire have
all their repeats; the peers as many as the time allows, at least one. A measurement that fails
or hangs becomes a row with an error; if it is a peer's, the peer is not tried again at that
point."""
import json
import os
import threading
import time

import cases
import crash
import held
import load
import measure
import summary

MEASURES = {"X": crash.run, "G": load.run}


class Pace:
    """The durations of runs: estimated at first, then as measured."""

    def __init__(self):
        self.seen, self.guessed, self.used = {}, 1.0, 1.0

    def note(self, run, seconds):
        self.guessed += cases.guess_s(run)
        self.used += seconds
        self.seen[run.key[:-1] + (run.repeat == 0,)] = seconds

    def seconds(self, run):
        seen = self.seen.get(run.key[:-1] + (run.repeat == 0,))
        return cases.guess_s(run) * self.used / self.guessed if seen is None else seen

    def of(self, passes):
        return sum(max(self.seconds(run) for run in runs) for runs in passes)


def _identity(header):
    """Returns the part of the header that a resumed run must share: all but the minutes, which
    may differ."""
    return {name: value for name, value in header.items() if name != "minutes"}


class Log:
    """The rows on disk: a line that identifies the run, then one for each row."""

    def __init__(self, path, header, resume):
        self.path, self.rows = path, []
        if resume and os.path.exists(path):
            self._read(header)
        self.file = open(path, "w")
        for line in [header] + self.rows:  # written again: the last line may be torn
            self._write(line)

    def _read(self, header):
        with open(self.path) as file:
            lines = file.read().split("\n")[:-1]  # a torn last line is dropped
        before = json.loads(lines[0]) if lines else {}
        if _identity(before) != _identity(json.loads(json.dumps(header))):
            raise ValueError("%s is of another run: options, commit or versions differ; "
                             "without --resume it begins anew" % self.path)
        rows = [json.loads(line) for line in lines[1:]]
        self.rows = [row for row in rows if "error" not in row or row["family"] == "peer"]

    def _write(self, what):
        self.file.write(json.dumps(what, separators=(",", ":")) + "\n")
        self.file.flush()

    def add(self, row):
        self.rows.append(row)
        self._write(row)


def _key_of(row):
    return (row["section"], row["size"], row["processes"], row["label"], row["repeat"])


class Runner:
    def __init__(self, options, planned, header, path):
        self.options, self.planned = options, planned
        self.log = Log(path, header, options.resume)
        self.pace, self.began = Pace(), time.monotonic()
        self.known = {_key_of(row): row for row in self.log.rows}
        self.earlier = sum(row["seconds"] for row in self.log.rows)
        self.given_up = {_key_of(row)[:-1] for row in self.log.rows
                         if "error" in row and row["family"] == "peer"}
        self.lock = threading.Lock()

    def _elapsed(self):
        return self.earlier + time.monotonic() - self.began

    def _passes_left(self, repeat):
        """Returns the passes from that repeat on, with the peers in as many of them as the time
        allows."""
        repeats = range(repeat, 1 + max(case.repeats for case in self.planned))
        ours = [list(cases.one_pass(self.planned, i, peers=False)) for i in repeats]
        everybody = [list(cases.one_pass(self.planned, i)) for i in repeats]
        left = self.options.minutes * 60 - self._elapsed() - sum(map(self.pace.of, ours))
        passes = []
        for mine, everybodys in zip(ours, everybody):
            left -= self.pace.of(everybodys) - self.pace.of(mine)
            passes.append(everybodys if left >= 0 else mine)
        return passes

    def _measured(self, run, gate):
        case, subject, unix = run.case, run.subject, self.options.unix
        try:
            if case.workload == "H":
                return {"figures": held.run(case, subject, unix, gate)}
            if case.workload in MEASURES:
                return {"figures": MEASURES[case.workload](case, subject, unix)}
            return {"figures": measure.run(case, subject, unix, counting=run.repeat == 0)}
        except measure.Failed as error:
            return {"error": str(error)}
        except Exception as error:  # any other failure is a row, too, and does not end the run
            return {"error": "%s: %s" % (type(error).__name__, error)}

    def _one(self, run, left_s, gate):
        case, subject, start = run.case, run.subject, time.monotonic()
        row = {"section": case.section, "workload": case.workload, "size": case.size,
               "processes": case.processes, "family": subject.family,
               "label": subject.label, "repeat": run.repeat}
        if self.options.unix and not subject.unix:
            row["remark"] = "over tcp: knows no unix sockets"
        row.update(self._measured(run, gate))
        row["seconds"] = round(time.monotonic() - start, 3)
        with self.lock:
            self.log.add(row)
            self.pace.note(run, row["seconds"])
            if "error" in row and run.of_a_peer:
                self.given_up.add(run.key[:-1])
            print("[%d:%02d, %d:%02d left] %s %s, %s: %s"
                  % (*divmod(self._elapsed(), 60), *divmod(max(0, left_s), 60),
                     run.repeat or "commands", case.label, subject.label, _shown(row)),
                  flush=True)

    def _together(self, runs, left_s):
        """Makes the runs at the same time; usually there is only one."""
        fresh = [run for run in runs if run.key not in self.known
                 and run.key[:-1] not in self.given_up]
        for run in runs:
            if run.key in self.known:
                self.pace.note(run, self.known[run.key]["seconds"])
        gate = held.Gate(len(fresh))
        if len(fresh) == 1:
            self._one(fresh[0], left_s, gate)
            return
        threads = [threading.Thread(target=self._one, args=(run, left_s, gate), daemon=True)
                   for run in fresh]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _pass(self, passed, later_s):
        for at, runs in enumerate(passed):
            self._together(runs, later_s + self.pace.of(passed[at:]))

    def _quick(self):
        for runs in cases.quick_pass(self.planned):
            if self._elapsed() > self.options.minutes * 60:
                print("the time of --quick is over: something is left out")
                break
            self._together(runs, self.options.minutes * 60 - self._elapsed())

    def run(self):
        if self.options.quick:
            self._quick()
            return self.log.rows
        counting = list(cases.one_pass(self.planned, 0))
        repeats = max((case.repeats for case in self.planned), default=0)
        for repeat in range(1, 1 + repeats):
            passes = self._passes_left(repeat)
            if repeat == 1:
                passes[0] = list(cases.one_pass(self.planned, 1))
                passes.insert(1, counting)
            self._pass(passes[0], sum(map(self.pace.of, passes[1:])))
            if repeat == 1:
                self._pass(counting, sum(map(self.pace.of, passes[2:])))
        return self.log.rows


def _shown(row):
    if "error" in row:
        return "failed: " + row["error"]
    figures = row["figures"]
    if row["repeat"] == 0:
        return "%s each" % (figures["commands"] and round(figures["commands"], 2))
    heading, figure, shown = summary.COLUMNS[row["section"]][0]
    value = figures.get(figure)
    return "-" if value is None else "%s %s" % (summary.SHOWN[shown](value), heading)
