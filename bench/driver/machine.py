# SPDX-License-Identifier: MIT
"""The environment of a run: the machine, the kernel, the versions, the commit, the load at the
start. Only facts that matter for speed; the machine's name is not among them. Usual course:
describe()."""
import datetime
import os
import platform
import subprocess

from programs import TREE

MEASURED = ["src", "include", "scripts", "bench", "meson.build"]


def _said(*argv):
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, cwd=TREE, timeout=20)
    except OSError:
        return ""
    return done.stdout.decode().strip().split("\n")[0]


def _cpu():
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def _system():
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def sources():
    """Returns the last commit of the measured and the measuring sources."""
    return _said("git", "log", "-1", "--format=%h", "--", *MEASURED)


def describe():
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _said("git", "rev-parse", "--short", "HEAD"),
        "changed": bool(_said("git", "status", "--porcelain", "--untracked-files=no", "--",
                              *MEASURED)),
        "cpu": _cpu(), "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1), "system": _system(),
        "kernel": platform.release(), "load_at_start": os.getloadavg()[0],
        "compiler": _said("cc", "--version"),
        "hiredis": _said("pkg-config", "--modversion", "hiredis"),
        "libevent": _said("pkg-config", "--modversion", "libevent_core"),
        "python": platform.python_version(), "node": _said("node", "--version"),
        "go": _said("go", "version"), "java": _said("javac", "-version"),
        "rust": _said("rustc", "--version"),
    }


def line(facts, server):
    """Returns the facts of describe() as a line."""
    return "%s, %d cores of %s, load %.1f at the start, %s, commit %s%s, hiredis %s" % (
        facts["date"], facts["cores"], facts["cpu"], facts["load_at_start"], server,
        facts["commit"], " with changes" if facts["changed"] else "", facts["hiredis"])
