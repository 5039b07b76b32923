# SPDX-License-Identifier: MIT
"""The command line: installs and builds what is needed, makes the run, and writes and shows the
results. Independent of workloads and programs, except for their names.

Usual course: options, setup, build, the plan, the run, JSON, tables, charts, verdicts."""
import argparse
import json
import os
import subprocess
import sys

import cases
import charts
import cores
import load
import machine
import measure
import programs
import readme
import runner
import server
import steady
import summary
import targets


def _numbers(text):
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 2:
        raise argparse.ArgumentTypeError("'%s': numbers from 2 on, like 50,500" % text)
    return numbers


def _sections(text):
    sections = text.split(",")
    for section in sections:
        if section not in cases.SECTIONS:
            raise argparse.ArgumentTypeError("'%s' is none of %s"
                                             % (section, ",".join(cases.SECTIONS)))
    return sections


def read_options():
    parser = argparse.ArgumentParser(
        prog="bench/run", description="Measures lockwire against what raw hiredis can do "
        "and against its peers, in turn, against throw-away redis-servers.")
    add = parser.add_argument
    add("--quick", action="store_true", help="under two minutes, once built; says little")
    add("--only", type=_sections, default=cases.SECTIONS, metavar="U,D,...",
        help="of %s" % ",".join(cases.SECTIONS))
    add("--peers", metavar="NAMES", help="only these; 'none': none")
    add("--waiters", type=_numbers, metavar="W,...", help="of D and L (50,500,5000; "
        "then peers only up to 500 unless this is given)")
    add("--repeats", type=int, help="of the limits and of lockwire (5); of peers as many "
        "of them as --minutes leaves time for")
    add("--minutes", type=float, help="how long it may take, the building not counted (27)")
    add("--resume", action="store_true", help="go on with a run that was interrupted, or, "
        "given more --minutes in all, repeat the peers")
    add("--server", default="redis-server", metavar="PROGRAM", help="the redis-server, of "
        "whatever kind, by its path or as PATH has it (redis-server)")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--tcp", action="store_true", help="over loopback (the default)")
    place.add_argument("--unix", action="store_true", help="over unix sockets, where possible")
    add("--check", action="store_true", help="print each target as met or missed; "
        "exit 1 where one is missed")
    add("--no-setup", action="store_true", help="install nothing (else: scripts/setup bench)")
    add("--no-build", action="store_true", help="what was built is up to date")
    add("--build", default=os.path.join(programs.TREE, "build", "bench"), metavar="DIR")
    add("--out", metavar="DIR", help="for the JSON and the charts (DIR of --build/results)")
    add("--readme", action="store_true", help="print the comparison for README.md, too")
    add("--from", dest="source", metavar="JSON", help="measure nothing: show that run again")
    return _complete(parser.parse_args())


def _complete(options):
    quick = options.quick
    given = options.waiters
    options.waiters = given or ([50, 500] if quick else [50, 500, 5000])
    options.peer_waiters = 50 if quick else max(given) if given else 500
    options.repeats = options.repeats or (1 if quick else 5)
    options.minutes = options.minutes or (95 / 60 if quick else 27)
    options.seconds = 0.3 if quick else 0.6
    options.drain_limit = 3 if quick else 5
    options.build = os.path.abspath(options.build)
    options.out = os.path.abspath(options.out or os.path.join(options.build, "results"))
    if quick and options.only == cases.SECTIONS:
        options.only = [s for s in cases.SECTIONS
                        if s not in ("split", "one", "scale", "tls")]
    return options


def build(options, peers):
    os.makedirs(options.build, exist_ok=True)
    path = os.path.join(options.build, "build.log")
    with open(path, "w" if not options.no_build else "a") as log:
        if not options.no_build:
            print("building lockwire and the limits (%s)" % path, flush=True)
            try:
                programs.build_own(options.build, log)
            except subprocess.CalledProcessError as error:
                sys.exit("bench/run: %s failed, see %s" % (error.cmd[0], path))
        for peer in peers:
            if not options.no_build:
                print("building %s" % peer.name, flush=True)
                peer.build(log)
            elif not os.path.isdir(peer.places["out"]):
                peer.missing = "not built"
            if peer.missing:
                print("missing: %s: %s" % (peer.name, peer.missing), flush=True)


def knowing(options, kind):
    """Returns lockwire's subjects, and those of the peers that know such servers (`kind` is one
    of programs.DEPLOYMENTS). Builds them first."""
    peers = [] if options.peers == "none" else [
        peer for peer in programs.peers(options.build,
                                        options.peers and options.peers.split(","))
        if kind in peer.facts]
    build(options, peers)
    found = list(programs.own(options.build, server.facts(), False)[0])
    for peer in peers:
        found += [] if peer.missing else list(peer.subjects())
    return found


def store(options, name, result):
    """Stores the result next to those of bench/run."""
    path = os.path.join(options.build, "results", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        json.dump(result, file, indent=1)


def setup():
    """Installs what is missing, if the machine allows it. Otherwise the run reports what could
    not be measured."""
    done = subprocess.run([os.path.join(programs.TREE, "scripts/setup"), "bench"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    said = done.stdout.decode(errors="replace").strip().split("\n")
    print(said[-1] if done.returncode == 0 else "setup failed: " + " ".join(said[-3:]),
          flush=True)


def counts_of(options):
    """Returns the allocations, as the steady program counts them."""
    program = os.path.join(options.build, "bench/lockwire/bench_steady")
    return {"allocations": steady.allocations(program)} if os.path.exists(program) else None


def _planned(options, subjects):
    planned = cases.plan(options, subjects)
    if "G" in options.only and load.missing():
        print("missing: " + load.missing())
        planned = [case for case in planned if case.section != "G"]
    for placement in {case.cores: None for case in planned if cores.missing(case.cores)}:
        print("left out: %s: %s" % (placement, cores.missing(placement)))
        planned = [case for case in planned if case.cores != placement]
    return planned


def make_run(options):
    server.use(options.server)
    if not options.no_setup and not options.no_build:
        setup()
    peers = [] if options.peers == "none" else programs.peers(
        options.build, options.peers and options.peers.split(","))
    build(options, peers)
    measure.raise_limits()
    served = server.facts()
    subjects, missing = programs.own(options.build, served, programs.has_tls(options.build))
    for label, why in missing.items():
        print("left out: %s: %s" % (label, why), flush=True)
    for peer in peers:
        subjects += [] if peer.missing else list(peer.subjects())
    facts = machine.describe()
    what = {"transport": "unix" if options.unix else "tcp", "quick": options.quick,
            "repeats": options.repeats, "minutes": options.minutes, "server": served,
            "missing": {**missing,
                        **{peer.name: peer.missing for peer in peers if peer.missing}},
            "subjects": {s.label: s.note for s in subjects}}
    header = {"sources": machine.sources(), "only": options.only, "waiters": options.waiters,
              **what}
    rows = runner.Runner(options, _planned(options, subjects), header,
                         os.path.join(options.out, "rows.jsonl")).run()
    return {"machine": facts, **what, "counts": counts_of(options), "rows": rows}


def _print_facts(result):
    facts = result["machine"]
    print("\n%s, %s, %d cores of %s, %s, kernel %s, load %.1f at the start"
          % (facts["date"], facts["system"], facts["cores"], facts["cpu"],
             result["server"]["name"], facts["kernel"], facts["load_at_start"]))
    print("commit %s%s, hiredis %s, libevent %s, over %s, %d repeats; medians, +- half of the "
          "range, n: how many" % (facts["commit"], " with changes" if facts["changed"] else "",
                                  facts["hiredis"], facts["libevent"], result["transport"],
                                  result["repeats"]))
    for name, why in result["missing"].items():
        print("missing: %s: %s" % (name, why))


def _print_subjects(result, view):
    versions = {}
    for row in result["rows"]:
        version = row.get("figures", {}).get("version")
        if version:
            versions[row["label"]] = version
    print("\nwhat was used")
    for label in versions:
        print("  %-28s %s; %s" % (label, result["subjects"].get(label, ""), versions[label]))


def main():
    try:
        options = read_options()
        os.makedirs(options.out, exist_ok=True)
        if options.source:
            with open(options.source) as file:
                result = json.load(file)
        else:
            result = make_run(options)
    except ValueError as error:
        sys.exit("bench/run: %s" % error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit("bench/run: nobody reads any more; --resume goes on")
    except KeyboardInterrupt:
        sys.exit("\nbench/run: interrupted; --resume goes on")
    path = os.path.join(options.out, "results.json")
    if not options.source:
        with open(path, "w") as file:
            json.dump(result, file, separators=(",", ":"))
    view = summary.Summary(result["rows"])
    _print_facts(result)
    _print_subjects(result, view)
    print("\n".join(summary.tables(view, result["server"]["name"])))
    made = charts.draw(view, result["server"]["name"], options.out)
    print("\n%s%s" % ("" if options.source else path + ", ",
                      "no charts: gnuplot is missing" if made is None
                      else "%d charts in %s" % (len(made), options.out)))
    if options.readme:
        print("\n" + "\n".join(readme.text(result, view)))
    if options.check:
        verdicts = targets.judge(view, result["counts"], result["server"]["compares"])
        print("\ntargets, of a server that %s" % (
            "compares and deletes by %s" % result["server"]["compares"]
            if result["server"]["compares"] else "compares and deletes in scripts alone"))
        for met, what, figure in verdicts:
            print("  %-6s %s: %s" % ("met" if met else "MISSED", what, figure))
        sys.exit(0 if all(met for met, _, _ in verdicts) else 1)
