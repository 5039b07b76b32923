# SPDX-License-Identifier: MIT
"""Fetches the peers' libraries from their registries and builds the peers.

Owns the content of the cache directory, one folder for each state of a peer's pinned files.
Independent of what the peers do. Each kind has two steps: `fetch`, which needs the toolchain and
the registry (without them it raises Missing), and `build`, which must work.

Usual course: `prepare("go", cache)` returns the folder. The first call fills it, and later ones
reuse it.
"""
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77  # meson's exit code for a skipped test


class Missing(Exception):
    """A toolchain or a registry is missing: the test is skipped, but fails in CI."""


class TooOld(Missing):
    """The distribution has no newer toolchain: the test is skipped everywhere, with the reason."""


def leave(missing):
    """Ends the test program as skipped. In CI it ends as failed, unless the toolchain is only
    too old."""
    if not isinstance(missing, TooOld) and os.environ.get("CI", "") not in ("", "false"):
        sys.exit(f"failed: {missing} (in CI nothing may be missing)")
    print(f"skipped: {missing}")
    sys.exit(SKIPPED)


def need(program):
    if not shutil.which(program):
        raise Missing(f"'{program}' is not installed")


def run(*words, cwd=None, env=None):
    return subprocess.run(words, cwd=cwd, env={**os.environ, **(env or {})}, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)


def fetched(*words, **options):
    done = run(*words, **options)
    if done.returncode:
        raise Missing(f"'{' '.join(words[:4])} …' failed:\n{done.stdout[-2000:]}")
    return done.stdout


def built(*words, **options):
    done = run(*words, **options)
    if done.returncode:
        sys.exit(f"failed: {' '.join(words)}:\n{done.stdout[-4000:]}")


def fetch_python(folder):
    fetched(sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-deps",
            "--require-hashes", "--disable-pip-version-check", "--target",
            str(folder / "packages"), "-r", "requirements.txt", cwd=folder)


def fetch_node(folder):
    need("npm")
    major = re.match(r"v(\d+)", fetched("node", "--version"))
    if not major or int(major[1]) < 20:
        raise TooOld("Node.js is older than 20")
    fetched("npm", "ci", "--ignore-scripts", "--no-progress", cwd=folder)


def go_version(text):
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])


def go_environment(folder):
    """Returns the setting of GOTOOLCHAIN. From 1.21 on, Go fetches the version that go.mod
    requires by itself, through its proxy."""
    wanted = re.search(r"^go (\S+)", (folder / "go.mod").read_text(), re.M)[1]
    there = fetched("go", "env", "GOVERSION", cwd="/", env={"GOTOOLCHAIN": "local"})
    if go_version(there) >= go_version(wanted):
        return {"GOTOOLCHAIN": "local"}
    if go_version(there) < (1, 21):
        raise TooOld(f"Go is older than {wanted}, and than 1.21: {there.strip()}")
    return {"GOTOOLCHAIN": "auto"}


def fetch_go(folder):
    need("go")
    fetched("go", "mod", "download", cwd=folder, env=go_environment(folder))


def build_go(folder):
    built("go", "build", "-mod=readonly", "-o", "program", ".", cwd=folder,
          env={**go_environment(folder), "GOMAXPROCS": "1"})


def fetch_java(folder):
    need("mvn")
    need("javac")
    fetched("mvn", "-B", "-q", "dependency:copy-dependencies",
            f"-DoutputDirectory={folder}/jars", cwd=folder)


def build_java(folder):
    """Checks the jars first, since Maven itself pins no file by its hash."""
    lines = (folder / "jars.sha256").read_text().split("\n")
    pinned = {line.split()[1]: line.split()[0] for line in lines if line}
    there = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest()
             for jar in (folder / "jars").iterdir()}
    if pinned != there:
        strange = sorted(dict(pinned.items() ^ there.items()))
        sys.exit("failed: not as jars.sha256 says: " + ", ".join(strange))
    built("javac", "-Xlint:all", "-Werror", "-cp", "jars/*", "-d", "classes",
          "RedissonPeer.java", cwd=folder)


class NotPackaged(TooOld):
    """No registry has the library: the test is skipped everywhere, with the reason."""


def fetch_cpp(_folder):
    """Fetches nothing: the library has to be installed."""
    need("g++")
    need("pkg-config")
    if run("pkg-config", "--exists", "redis++").returncode:
        raise NotPackaged("redis-plus-plus is not installed, and no release of Debian has it")


def build_cpp(folder):
    flags = fetched("pkg-config", "--cflags", "--libs", "redis++", "hiredis").split()
    built("g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-o", "program",
          "redlock.cpp", *flags, "-pthread", cwd=folder)


def nothing(_folder):
    pass


KINDS = {
    "python": (fetch_python, nothing),
    "node": (fetch_node, nothing),
    "go": (fetch_go, build_go),
    "java": (fetch_java, build_java),
    "cpp": (fetch_cpp, build_cpp),
}


def sources(home):
    """Returns the peer's own files, without folders that a tool run by hand has left there."""
    return sorted(path for path in home.iterdir() if path.is_file())


def fingerprint(home):
    digest = hashlib.sha256()
    for path in sources(home):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def prepare(kind, cache, home=None):
    """Returns the folder with everything that peers of this kind need. Several processes may
    call it at once. `home` is the folder of the sources, if it is not the one here."""
    fetch, build = KINDS[kind]
    home = home or HERE / kind
    cache = pathlib.Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"{kind}-{fingerprint(home)}"
    with open(cache / f"{kind}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for path in sources(home):
                shutil.copy(path, folder)
            fetch(folder)
            build(folder)
            (folder / ".done").touch()
    return folder
