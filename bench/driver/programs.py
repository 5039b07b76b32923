# SPDX-License-Identifier: MIT
"""The subjects: the limits, lockwire, the peers. Owns the way they are built and called.
Independent of the workloads' arithmetic.

Usual course: catalogue(build) returns the subjects; subject.argv(...) returns a command line."""
import glob
import json
import os
import shutil
import subprocess

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PEERS = os.path.join(TREE, "bench", "peers")
BUILD_LIMIT_S = 1800
DEPLOYMENTS = ["sentinel", "cluster", "quorum"]  # a peer's manifest names those that it knows


class Subject:
    """A subject: one program in one variant."""

    def __init__(self, family, name, variant, argv, **facts):
        self.family, self.name, self.variant = family, name, variant
        self.command = argv
        self.note = facts.get("note", "")
        self.tls = facts.get("tls", False)
        self.unix = facts.get("unix", not self.tls)
        self.contended_only = facts.get("contended", False)
        self.compares = facts.get("compares", False)  # needs a server with such a command
        self.workloads = facts.get("workloads", "UDLN")
        # The set-up for several servers, by their kind.
        self.set_up = {kind: facts.get(kind, "all its defaults") for kind in DEPLOYMENTS}
        self.key = facts.get("key", "{name}")
        self.polls_ms = facts.get("polls_ms", 0)  # 0: it does not poll
        self.rounds = facts.get("rounds", False)  # for N: uses rounds by the clock
        self.renews_at = facts.get("renews_at")  # share of the lease; None: no renewal
        self.holds = facts.get("holds", 1000000)  # the most locks in H
        self.clients = facts.get("clients", False)  # each slot has its own client

    @property
    def label(self):
        return "%s %s" % (self.name, self.variant)

    def argv(self, workload, **options):
        words = list(self.command)
        at = words.index("WORKLOAD")
        words[at] = workload
        for name, value in options.items():
            if value is not None:
                words += ["--" + name.replace("_", "-"), str(value)]
        return words


def _own(build):
    limit = os.path.join(build, "bench/limit/bench_limit")
    lockwire = os.path.join(build, "bench/lockwire/bench_lockwire")
    limits = [("plain", "U", "SET NX PX, then compare-and-delete"),
              ("hash", "U", "re-entrant hash scripts"),
              ("fence", "U", "SET and INCR in a script, then compare-and-delete"),
              ("pipelined", "U", "SET NX PX and INCR, then compare-and-delete"),
              ("delifeq", "U", "SET NX PX, then the server's own compare-and-delete"),
              ("delifeq-fence", "U", "the same, pipelined with INCR"),
              ("connections", "U", "plain, a connection for each slot"),
              ("handover", "DLN", "the release hands over, the message grants"),
              ("turns", "DL", "the same, 16 local turns"),
              ("race", "DLN", "publish, then one of each process races with SET NX"),
              ("herd", "DL", "publish to all")]
    for variant, workloads, note in limits:
        yield Subject("limit", "limit", variant, [limit, "WORKLOAD", "--variant", variant],
                      workloads=workloads, note=note, compares="delifeq" in variant)
    yield Subject("limit", "limit", "first", [limit, "WORKLOAD", "--variant", "handover"],
                  workloads="N", note="handover in the rhythm of lockwire first", rounds=True)
    yield Subject("limit", "limit", "tls", [limit, "WORKLOAD"], workloads="", tls=True,
                  note="plain, over TLS as hiredis_ssl has it")
    own = [("default", "", "UDLN", "fence, 16 local turns"),
           ("nofence", "nofence", "U", "LW_NO_FENCE"),
           ("noturns", "noturns", "DLN", "local_turns 1"),
           ("exclusive", "exclusive", "UDL", "LW_EXCLUSIVE")]
    for label, variant, workloads, note in own:
        yield Subject("lockwire", "lockwire", label,
                      [lockwire, "WORKLOAD"] + (["--variant", variant] if variant else []),
                      workloads=workloads + ("MHXEF" if label == "default" else ""), note=note,
                      renews_at=1 / 3)
    yield Subject("lockwire", "lockwire", "busy-poll",
                  [lockwire, "WORKLOAD", "--busy-poll", "60"], workloads="U",
                  note="default, busy_poll_us 60")
    yield Subject("lockwire", "lockwire", "first", [lockwire, "WORKLOAD"], workloads="N",
                  note="default, each release the first of its name", rounds=True)
    yield Subject("lockwire", "lockwire", "clients", [lockwire, "WORKLOAD"], workloads="",
                  note="default, a client for each waiter", clients=True)
    for label, words, note in [("tls", [], "default, over TLS"),
                               ("tls-nofence", ["--variant", "nofence"], "nofence, over TLS")]:
        yield Subject("lockwire", "lockwire", label, [lockwire, "WORKLOAD"] + words,
                      workloads="", tls=True, note=note)
    gateway = os.path.join(build, "bench/gateway")
    for label, words, note in [("gift", [], "with the lock"),
                               ("unlocked", ["--unlocked"], "the same without the lock"),
                               ("healthz", [], "no work, no lock")]:
        yield Subject("gateway", "gateway", label, [gateway] + words, workloads="G",
                      note=note)


class Peer:
    """A peer: a folder of bench/peers with its manifest, peer.json."""

    def __init__(self, folder, build):
        with open(os.path.join(folder, "peer.json")) as file:
            self.facts = json.load(file)
        self.name = self.facts["name"]
        self.places = {"peers": PEERS, "peer": folder,
                       "out": os.path.join(build, "peers", self.name)}
        self.missing = None

    def _fill(self, words):
        return [word.format(**self.places) for word in words]

    def build(self, log):
        lacking = [tool for tool in self.facts["needs"] if not shutil.which(tool)]
        if lacking:
            self.missing = "needs " + ", ".join(lacking)
            return
        os.makedirs(self.places["out"], exist_ok=True)
        try:
            done = subprocess.run(self._fill(self.facts["build"]), stdin=subprocess.DEVNULL,
                                  stdout=log, stderr=log, timeout=BUILD_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.missing = "building took longer than %d s" % BUILD_LIMIT_S
            return
        if done.returncode:
            self.missing = "building failed (%d), see %s" % (done.returncode, log.name)

    def subjects(self):
        for variant in self.facts["variants"]:
            facts = {"workloads": "UDLNX", "key": "{name}", **self.facts, **variant}
            if "renews_at" in facts:
                facts["workloads"] += "H"
            command = self._fill(self.facts["run"]) + ["WORKLOAD"] + variant.get("args", [])
            facts.pop("name")
            yield Subject("peer", self.name, variant["label"], command, **facts)


def peers(build, wanted=None):
    """Returns all peers, or those with the wanted names. Raises ValueError for an unknown name."""
    known = {}
    for manifest in sorted(glob.glob(os.path.join(PEERS, "*", "peer.json"))):
        peer = Peer(os.path.dirname(manifest), build)
        known[peer.name] = peer
    if wanted is None:
        return list(known.values())
    for name in wanted:
        if name not in known:
            raise ValueError("--peers: '%s' is none of %s" % (name, ", ".join(known)))
    return [known[name] for name in wanted]


def build_own(build, log):
    """Builds the limits, lockwire and the gateway. Raises an error if that fails: nothing can be
    measured then."""
    if not os.path.exists(os.path.join(build, "build.ninja")):
        subprocess.run(["meson", "setup", build, TREE, "--buildtype=release",
                        "-Dtests=disabled"],
                       stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)
    subprocess.run(["ninja", "-C", build, "-j", "1"], stdin=subprocess.DEVNULL, stdout=log,
                   stderr=log, check=True)


def has_tls(build):
    with open(os.path.join(build, "meson-info/intro-dependencies.json")) as file:
        return any(found["name"] == "hiredis_ssl" for found in json.load(file))


def _lacking(subject, server, tls):
    if subject.compares and not server["compares"]:
        return server["name"] + " has no compare-and-delete of its own"
    if subject.tls and not tls:
        return "the build has no TLS, for which it needs hiredis_ssl and OpenSSL"
    if subject.tls and not server["tls"]:
        return server["name"] + " was built without TLS"
    return None


def own(build, server, tls):
    """Returns the subjects that can be measured with such a server (its facts) and such a build,
    and the reasons for the others."""
    subjects = list(_own(build))
    missing = {s.label: _lacking(s, server, tls) for s in subjects}
    return ([s for s in subjects if not missing[s.label]],
            {label: why for label, why in missing.items() if why})
