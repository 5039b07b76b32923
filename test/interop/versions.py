#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Clients of two wire versions on the same names: version 1 is 0.1's own command, built
from this repository's history; version 2 is the command of this build, and the library.

Owns what each version sees of the other, in one mode: which client is kept out, which gets the
lock next, that the fencing tokens rise across both, that neither changes the other's keys, and
the output of `status` and `break`. A version hands over to its own waiters. Waiters of the other
version treat it as foreign: they poll, and get the lock when none of its own waiters is left.

The server's monitor shows which names each connection used: no connection may use names of both
versions.

Usual course: `versions.py --lockwire PEER --command LOCKWIRE --root DIR --cache DIR mutex`.
"""
import argparse
import collections
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest

import earlier
import peers
import private_redis
import toolchain

NAME = "job"
LEASE_MS = 3000     # the other version's waiters poll by it: after a third of the remaining lease
LONG_LEASE_MS = 30000
RUNS = 10           # holds of each contending loop

# For each mode, the options of a writer, and those of a waiter behind it. In `shared` the
# waiters are readers, which would read together if they were of one version.
MODES = {
    "mutex": ([], []),
    "exclusive": (["--exclusive"], ["--exclusive"]),
    "shared": (["--exclusive"], ["--shared"]),
    "semaphore": (["--shared", "--permits", "1"], ["--shared", "--permits", "1"]),
}
QUEUES = {1: {True: "lockwire:queue:{%s}", False: "lockwire:rwqueue:{%s}"},
          2: {True: "lockwire:2:queue:{%s}", False: "lockwire:2:rwqueue:{%s}"}}

UUID = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
OTHERS = "lockwire:2:"
EARLIER = re.compile(rf"lockwire:(?:(?:rw)?queue:|{UUID}$)")
TOKEN = re.compile(rf"{UUID}:\d+:\d+([-+]?)")
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')
CALL = re.compile(r"[\d.]+ \[\d+ (\S+)\] (.*)")

# Runs a command that requests a lock, and prints its pid and its exit code. The command begins
# only when it gets a line, so that its output comes after the pid.
PLAYER = ('exec 3<&0; { read -r go <&3; exec "$@" <&3; } & echo "ready $!"; wait $!;'
          ' echo "ended $?"')
# The holder's program: it holds until it gets a line.
HOLD = 'echo "held $LOCKWIRE_FENCE"; read -r line'

# The program of the contending clients. While one is inside, no client of the other version may
# be inside, and no other writer or reader next to a writer. A writer counts; all log their
# fencing token.
STEP = r"""
version=$1 kind=$2 me=$1.$2.$$
trap 'rm -f inside/$me' EXIT
: >inside/$me
look() {
    for who in $(ls inside); do
        case $kind$who in
        ?$me | r$version.r.*) ;;
        *) echo "$me and $who" >>overlaps ;;
        esac
    done
}
look
echo "$LOCKWIRE_FENCE $version $kind" >>numbers
if [ "$kind" = w ]; then
    count=$(expr "$(cat counter)" + 1)
    sleep 0.05
    printf '%020d\n' "$count" >counter
else
    sleep 0.05
fi
look
"""
# Holds the lock `runs` times. After each hold it waits until the other version has had the lock,
# or one of that version's loops has ended. Otherwise the two loops of one version could hand the
# lock to each other until both have ended: the other version's waiters only poll.
LOOP = r"""
runs=$1 version=$2 other=$((3 - $2))
shift 2
trap ': >"ended.$version"' EXIT
while [ "$runs" -gt 0 ]; do
    "$@" || exit
    runs=$((runs - 1))
    while [ ! -e "ended.$other" ] && tail -n 1 numbers | grep -q " $version [rw]$"; do
        sleep 0.02
    done
done
"""


def said(words):
    """Returns the wire versions of the names in these words of a command."""
    found = set()
    for word in words:
        if word.startswith(OTHERS):
            found.add(2)
        elif EARLIER.match(word):
            found.add(1)
        if "redis.call" not in word:  # else it is a script's text
            found.update(2 if mark else 1 for mark in TOKEN.findall(word))
    return found


def named(lines):
    """Returns for each connection the versions whose names it used. A connection is named by its
    address and its number at that address, since each connection begins with CLIENT ID. Commands
    of a script count for its caller, whose line is the one before."""
    found, begun, caller = {}, collections.Counter(), None
    for line in lines:
        call = CALL.match(line)
        if not call:
            continue
        address, words = call[1], WORD.findall(call[2])
        begun[address] += words[:2] == ["CLIENT", "ID"]
        if address != "lua":
            caller = address, begun[address]
        found.setdefault(caller, set()).update(said(words))
    return found


class Versions(unittest.TestCase):
    program = None  # the library as a peer
    commands = {}
    mode = None

    def setUp(self):
        self.server = private_redis.PrivateRedis(tcp=True)
        self.enterContext(self.server)
        self.holds, self.waits = MODES[self.mode]
        self.fences = []

    # ---- players ----

    def url(self):
        return f"redis://127.0.0.1:{self.server.port}"

    def words(self, version, subcommand, *options, name=NAME):
        """Returns the words of a command. LD_LIBRARY_PATH is unset, so that the earlier version
        does not find the new library."""
        return ["env", "-u", "LD_LIBRARY_PATH", self.commands[version], subcommand, name,
                "--redis", self.url(), *options]

    def asks(self, version, options, *more, lease_ms=LEASE_MS):
        argv = self.words(version, "run", *options, "--lease", f"{lease_ms}ms", *more,
                          "--", "sh", "-c", HOLD)
        player = peers.Peer(f"version {version}", ["sh", "-c", PLAYER, "sh", *argv], {})
        player.number, player.pid = version, int(player.version)
        self.addCleanup(player.close)
        self.addCleanup(self.ends, player)
        player.send("go")
        return player

    @staticmethod
    def ends(player):
        """Kills the command if a failed test left it waiting or stopped."""
        if player.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(player.pid, signal.SIGKILL)

    def waiter(self, version, *more):
        """Returns a waiter that is in its version's queue."""
        before = self.queued(version)
        player = self.asks(version, self.waits, *more)
        self.eventually(lambda: self.queued(version) == before + 1, "it queues")
        return player

    def library(self):
        library = peers.Peer("the library", [self.program, self.url(), "30000"], {})
        library.number = 2
        self.addCleanup(library.close)
        return library

    def library_waits(self):
        """Returns the library as a waiter for a mutex."""
        before, library = self.queued(2), self.library()
        library.send(f"acquire {NAME} {LEASE_MS} -1")
        self.eventually(lambda: self.queued(2) == before + 1, "it queues")
        return library

    def held(self, player, above=None):
        """Checks that the player holds, with a fencing token above all earlier ones, or above
        `above`. (The library as a peer reports no fencing token.)"""
        answer = player.answer("held")
        if answer.isdigit():
            above = max(self.fences, default=0) if above is None else above
            self.assertGreater(int(answer), above)
            self.fences.append(int(answer))

    @staticmethod
    def goes(player):
        if hasattr(player, "pid"):
            player.send("go")
            return player.answer("ended")
        return {"released": "0"}[player.ask("release", "released", "gone")]

    def look(self, version, subcommand, *options):
        done = subprocess.run(self.words(version, subcommand, *options), text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=peers.LIMIT_S, check=False)
        return done.returncode, done.stdout

    # ---- the server ----

    def queue(self, version, name=NAME):
        return QUEUES[version][self.mode == "mutex"] % name

    def queued(self, version):
        return self.server("ZCARD", self.queue(version))

    def tokens(self):
        if self.mode == "mutex":
            return [self.server("GET", NAME)]
        return [field[2:] for field in self.server("HKEYS", NAME) if field[:2] == "h:"]

    def monitor(self):
        monitor = self.server.monitor()
        self.addCleanup(monitor.close)
        return monitor

    def told(self, monitor):
        return monitor.told(self.server)

    def eventually(self, true, what):
        deadline = time.monotonic() + peers.LIMIT_S
        while not true():
            self.assertLess(time.monotonic(), deadline, "never: " + what)
            time.sleep(0.005)

    def await_polls(self, monitor, version, count):
        """Waits until clients of this version have polled `count` times from now on."""
        queue, before = f'"{self.queue(version)}"', len(self.told(monitor))
        self.eventually(lambda: sum(queue in line and " lua] " not in line
                                    for line in monitor.lines[before:]) >= count,
                        f"version {version} polls")

    def handed_over(self, lines, version):
        """Counts the messages by which clients of this version got their turn."""
        channel = OTHERS if version == 2 else "lockwire:"
        words = [WORD.findall(line) for line in lines if ' lua] "PUBLISH"' in line]
        return sum(word[2][:2] in ("t ", "r ") and word[1].startswith(channel)
                   and said(word) == {version} for word in words)

    def assert_apart(self, lines):
        found = {who: versions for who, versions in named(lines).items()
                 if not who[0].startswith("unix:")}  # this test's own connection
        self.assertFalse([who for who, versions in found.items() if len(versions) > 1], found)
        self.assertEqual(set().union(*found.values()), {1, 2})

    # ---- what they see of each other ----

    def test_the_monitor_would_show_who_names_both(self):
        uuid = "01234567-89ab-cdef-0123-456789abcdef"
        lines = [f'1.5 [0 127.0.0.1:7] "EVALSHA" "ab" "2" "job" "{self.queue(1)}" '
                 f'"{uuid}:1:2000"',
                 '1.5 [0 lua] "GET" "job"', f'1.5 [0 127.0.0.1:8] "GET" "{uuid}:1:2000-"',
                 f'1.5 [0 127.0.0.1:9] "SUBSCRIBE" "lockwire:{uuid}"']
        ours = f'1.5 [0 lua] "PUBLISH" "{OTHERS}{uuid}" "t"'
        one = ("127.0.0.1:7", 0)
        self.assertEqual(named(lines), {one: {1}, ("127.0.0.1:8", 0): {2},
                                        ("127.0.0.1:9", 0): {1}})
        self.assertEqual(named([lines[0], ours]), {one: {1, 2}})
        another = '1.5 [0 127.0.0.1:7] "CLIENT" "ID"'
        self.assertEqual(named([lines[0], another, ours]), {one: {1}, (one[0], 1): {2}})

    def test_each_hands_over_to_its_own_and_is_polled_by_the_other(self):
        monitor = self.monitor()
        for holding, polling in ((1, 2), (2, 1)) * 2:
            holder = self.asks(holding, self.holds)
            self.held(holder)
            strangers = [self.waiter(polling)]
            mate = self.waiter(holding)
            if self.mode == "mutex" and polling == 2:
                strangers.append(self.library_waits())
            else:
                strangers.append(self.waiter(polling))
            self.await_polls(monitor, polling, 3)
            self.assertEqual(self.queued(holding), 1)
            before = len(self.told(monitor))
            self.assertEqual(self.goes(holder), "0")
            self.held(mate)
            lines = self.told(monitor)[before:]
            self.assertEqual(self.handed_over(lines, holding), 1, lines)
            self.assertEqual(self.handed_over(lines, polling), 0, lines)
            for stranger in strangers:
                self.assertFalse(stranger.answered(), stranger.lines)
            self.assertEqual(self.goes(mate), "0")
            self.take_turns(strangers)
        self.assertEqual(self.server("EXISTS", NAME, self.queue(1), self.queue(2)), 0)
        self.assert_apart(self.told(monitor))

    def take_turns(self, players):
        """Each player gets the lock once. Readers may hold it together, and then with fencing
        tokens in any order."""
        begun, waiting = time.monotonic(), list(players)
        above = max(self.fences) if self.mode == "shared" else None
        while waiting:
            self.eventually(lambda: any(player.answered() for player in waiting),
                            "somebody's turn")
            player = next(player for player in waiting if player.answered())
            waiting.remove(player)
            self.held(player, above)
            if len(waiting) + 1 == len(players):
                print(f"    version {player.number} has it after "
                      f"{time.monotonic() - begun:.2f} s", flush=True)
            if self.mode != "shared":
                self.assertFalse(any(other.answered() for other in waiting))
            self.assertEqual(self.goes(player), "0")

    def test_a_queue_is_left_alone_by_the_other_version(self):
        """The queue has one member, which is stopped. The other version changes nothing in the
        queue; its TTL only falls."""
        for holding, polling in ((1, 2), (2, 1)):
            monitor = self.monitor()
            holder = self.asks(holding, self.holds)
            self.held(holder)
            mate = self.waiter(holding)
            os.kill(mate.pid, signal.SIGSTOP)
            queue = self.queue(holding)
            members, left = self.server("DUMP", queue), self.server("PTTL", queue)
            self.assertEqual(self.asks(polling, self.waits, "--wait", "0").answer("ended"),
                             "75")
            strangers = [self.waiter(polling), self.waiter(polling, "--wait", "2s")]
            self.assertEqual(strangers.pop().answer("ended"), "75")
            self.await_polls(monitor, polling, 2)
            leaves = self.waiter(polling)
            os.kill(leaves.pid, signal.SIGTERM)
            self.assertEqual(leaves.answer("ended"), str(128 + signal.SIGTERM))
            self.assertEqual(self.queued(polling), 1)
            self.assertEqual(self.server("DUMP", queue), members)
            self.assertGreater(self.server("PTTL", queue), 0)
            self.assertLess(self.server("PTTL", queue), left)
            os.kill(mate.pid, signal.SIGCONT)
            self.assertEqual(self.goes(holder), "0")
            self.held(mate)
            self.assertEqual(self.goes(mate), "0")
            self.take_turns(strangers)
            self.assert_apart(self.told(monitor))

    def test_readers_of_one_version_read_together_and_not_with_the_others(self):
        if self.mode != "shared":
            self.skipTest("there are no readers")
        for reading, polling in ((1, 2), (2, 1)):
            monitor = self.monitor()
            readers = [self.asks(reading, self.waits), self.asks(reading, self.waits)]
            for reader in readers:
                reader.answer("held")
            stranger = self.waiter(polling)
            self.await_polls(monitor, polling, 3)
            self.assertFalse(stranger.answered(), stranger.lines)
            for reader in readers:
                self.assertEqual(self.goes(reader), "0")
            self.held(stranger)
            self.assertEqual(self.goes(stranger), "0")
            self.assert_apart(self.told(monitor))

    def test_one_that_dies_is_outlived_by_its_lease_alone(self):
        for holding, polling in ((1, 2), (2, 1)):
            holder = self.asks(holding, self.holds)
            self.held(holder)
            stranger = self.waiter(polling)
            os.kill(holder.pid, signal.SIGKILL)
            self.held(stranger)
            self.assertEqual(self.goes(stranger), "0")

    # ---- status and break ----

    def test_status_tells_of_the_others_hold(self):
        for holding, looking in ((1, 2), (2, 1)):
            holder = self.asks(holding, self.holds, lease_ms=LONG_LEASE_MS)
            self.held(holder)
            waiter = self.waiter(looking)
            code, text = self.look(looking, "status", "--json")
            self.assertEqual(code, 0, text)
            seen = json.loads(text)
            if self.mode == "mutex":
                self.assertEqual([held["token"] for held in seen["holders"]], self.tokens())
            else:
                foreign = seen.get("foreign", seen.get("stranger")) # as version 0.1 calls it
                self.assertEqual((foreign, seen["holders"]), ("hash", []))
            self.assertEqual(seen["waiter_total"], 1)
            code, text = self.look(looking, "status")
            self.assertEqual(code, 0, text)
            self.assertRegex(text, {1: f"{NAME}: held by (1|a stranger, the key is a hash)\\b",
                                    2: f"{NAME}: (1 holder|held by another program, the key "
                                       "is a hash)\\b"}[looking])
            self.assertEqual(self.goes(holder), "0")
            self.take_turns([waiter])

    def test_break_takes_it_away_or_says_why_not(self):
        """0.1's `break` releases a mutex, since any client may have written its value. Ours does
        so with --foreign. In all other cases each reports that the lock is foreign."""
        for holding, breaking in ((1, 2), (2, 1)):
            holder = self.asks(holding, self.holds)
            self.held(holder)
            tokens = self.tokens()
            code, text = self.look(breaking, "break")
            if breaking == 2 and self.mode == "mutex":
                self.assertEqual(code, 1, text)
                self.assertIn("held by another library or version with the token", text)
                self.assertEqual(self.tokens(), tokens)
                code, text = self.look(breaking, "break", "--foreign")
            if self.mode == "mutex":
                self.assertEqual(code, 0, text)
                self.assertEqual(self.server("EXISTS", NAME), 0)
                self.assertEqual(holder.answer("ended"), "70")  # lost at its next renewal
            else:
                self.assertEqual(code, 1, text)
                self.assertIn({1: "stranger", 2: "in an unknown format"}[breaking], text)
                self.assertEqual(self.tokens(), tokens)
                self.assertEqual(self.goes(holder), "0")

    def test_a_broken_mutex_goes_to_the_first_who_waits(self):
        """The first waiter of the version that breaks the lock gets it: that version sees only
        its own waiters."""
        if self.mode != "mutex":
            self.skipTest("only a mutex' format is one in both versions")
        for holding, breaking, foreign in ((1, 2, ["--foreign"]), (2, 1, [])):
            holder = self.asks(holding, self.holds)
            self.held(holder)
            mate, stranger = self.waiter(holding), self.waiter(breaking)
            code, text = self.look(breaking, "break", *foreign)
            self.assertEqual(code, 0, text)
            self.held(stranger)
            self.assertEqual(holder.answer("ended"), "70")
            self.assertFalse(mate.answered(), mate.lines)
            self.assertEqual(self.goes(stranger), "0")
            self.held(mate)
            self.assertEqual(self.goes(mate), "0")

    # ---- all at once ----

    def contend(self, names):
        """Runs two loops of each version, and for a mutex the library's. `names` has each
        version's name."""
        folder = self.server.directory
        for file, text in (("counter", f"{0:020}\n"), ("overlaps", ""), ("numbers", ""),
                           ("step", STEP)):
            with open(f"{folder}/{file}", "w", encoding="ascii") as made:
                made.write(text)
        for version in (1, 2):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{folder}/ended.{version}")
        os.makedirs(folder + "/inside", exist_ok=True)
        loops, writers = [], 0
        for version in (1, 2):
            for options in (self.holds, self.waits):
                kind = "r" if options == ["--shared"] else "w"
                writers += RUNS * (kind == "w")
                words = self.words(version, "run", *options, "--lease", f"{LEASE_MS}ms",
                                   "--", "sh", "step", str(version), kind,
                                   name=names[version])
                loops.append(subprocess.Popen(["sh", "-c", LOOP, "sh", str(RUNS), str(version),
                                               *words],
                                              cwd=folder, stdin=subprocess.DEVNULL))
                self.addCleanup(loops[-1].kill)
        if self.mode == "mutex":
            writers += self.contend_as_library(folder, names[2])
        for loop in loops:
            self.assertEqual(loop.wait(4 * peers.LIMIT_S), 0)
        with open(folder + "/counter", encoding="ascii") as counter:
            lost = writers - int(counter.read())
        with open(folder + "/overlaps", encoding="ascii") as overlaps:
            found = overlaps.read().splitlines()
        with open(folder + "/numbers", encoding="ascii") as numbers:
            grants = [line.split() for line in numbers]
        print(f"    {len(grants)} grants, {self.passages(grants)} from one version to the "
              f"other, {lost} lost updates, {len(found)} overlaps", flush=True)
        return lost, found, [(int(fence), version, kind) for fence, version, kind in grants]

    def contend_as_library(self, folder, name):
        library = self.library()
        for _ in range(RUNS):
            library.send(f"round {name} {LEASE_MS} 50 {folder}/counter lock")
            library.answer("held")
            self.assertTrue(library.answer("wrote").endswith("released"))
        return RUNS

    @staticmethod
    def passages(grants):
        return sum(one[1] != other[1] for one, other in zip(grants, grants[1:]))

    def test_they_exclude_each_other(self):
        monitor = self.monitor()
        lost, overlaps, grants = self.contend({1: NAME, 2: NAME})
        self.assertEqual((lost, overlaps), (0, []))
        self.assertEqual(len(grants), 4 * RUNS)
        self.assertGreaterEqual(self.passages(grants), 2 * (RUNS - 1))
        for (fence, version, kind), later in zip(grants, grants[1:]):
            together = kind == later[2] == "r" and version == later[1]
            self.assertTrue(together or later[0] > fence, grants)
        self.assert_apart(self.told(monitor))

    def test_with_a_name_for_each_version_they_are_seen_together(self):
        """Shows that the test above can fail: with a name for each version, their holds overlap."""
        self.eventually(lambda: self.contend({1: NAME, 2: NAME + "2"})[1], "an overlap")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--lockwire", required=True, help="lockwire's peer program")
    parser.add_argument("--command", required=True, help="this version's")
    parser.add_argument("--root", required=True, help="the repository")
    parser.add_argument("--cache", required=True, help="where version 0.1 is built")
    options, rest = parser.parse_known_args()
    private_redis.clean_up_when_ended()
    try:
        first = str(earlier.command(options.root, options.cache))
    except toolchain.Missing as missing:
        toolchain.leave(missing)
    Versions.program = options.lockwire
    Versions.commands = {1: first, 2: os.path.realpath(options.command)}
    Versions.mode = options.mode
    unittest.main(module="__main__", argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
