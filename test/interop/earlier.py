# SPDX-License-Identifier: MIT
"""Builds the command `lockwire` of an earlier version from the repository's history.

Owns the content of the cache directory, one folder for each version. Independent of the use of
the command.

Usual course: `command(root, cache)` returns the program of version 0.1, which the first call
builds.
"""
import fcntl
import pathlib
import shutil

import toolchain

# The last commit of wire version 1.
COMMIT = "dc8c6b501e41265ab0d4d569f9514ded13663096"
OPTIONS = ("--buildtype=debugoptimized", "-Dtests=disabled", "-Dbench=false",
           "-Dwerror=false")


class NoHistory(toolchain.TooOld):
    """There is no full history (a tarball or a shallow clone). Skips everywhere, with the
    reason."""


def git(root, *words):
    return toolchain.run("git", "-C", str(root), *words)


def need_history(root):
    """Checks that the commit can be had. In a complete repository it must be there."""
    toolchain.need("git")
    shallow = git(root, "rev-parse", "--is-shallow-repository")
    if shallow.returncode:
        raise NoHistory(f"{root} is not in a git repository: {shallow.stdout.strip()}")
    if git(root, "cat-file", "-e", COMMIT + "^{commit}").returncode == 0:
        return
    if shallow.stdout.strip() == "true":
        raise NoHistory(f"{root} is a shallow clone, without version 0.1 ({COMMIT[:7]})")
    raise toolchain.Missing(f"version 0.1 ({COMMIT[:7]}) is not in the repository")


def build(root, folder):
    source, made = folder / "source", folder / "build"
    source.mkdir(parents=True)
    toolchain.built("git", "-C", str(root), "archive", "-o", str(folder / "source.tar"),
                    COMMIT)
    toolchain.built("tar", "-xf", str(folder / "source.tar"), "-C", str(source))
    toolchain.built("meson", "setup", *OPTIONS, str(made), str(source))
    toolchain.built("ninja", "-C", str(made), "src/tool/lockwire")


def command(root, cache):
    """Returns the program. Several processes may call this at once."""
    need_history(root)
    cache = pathlib.Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / COMMIT[:12]
    with open(cache / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            build(root, folder)
            (folder / ".done").touch()
    return folder / "build" / "src" / "tool" / "lockwire"
