#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`lockwire take`, `lockwire release`, `--token` and `--at-least` at a real server, and at
sentinels and in a cluster, also after failovers.

Usual course: take prints a token and exits, and the lock stays held. With the token the lease is
extended, or a command is run, or the lock is released. After that the token no longer holds.
"""
import datetime
import json
import os
import pwd
import re
import signal
import socket
import subprocess
import time
import unittest

from clustered import Clustered
from support import COMMAND, LIMIT, ToolTest, until
from watched import Watched

TOKEN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+:[0-9]+-\n")
KINDS = ((), ("-x",), ("-s",), ("-s", "--permits", "2"), ("-x", "--owner", "anna"))
HOUR = 3600 * 1000
SPARE = 2 * LIMIT * 1000
# The servers below sentinels do not have the setting, and a cluster of Redis 6.2 has no channels of
# slots.
WARNING = re.compile("min-replicas-to-write|SPUBLISH is unknown|refused SSUBSCRIBE")


class TakeTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.environment["LOCKWIRE_URL"] = self.server.url

    def run_(self, *words, input_=None, **more):
        """Returns the exit code, output and messages of a command that ends by itself."""
        if input_ is not None:
            more["stdin"] = subprocess.PIPE
        process = self.spawn(COMMAND, *words, **more)
        out, err = process.communicate(input_, timeout=LIMIT)
        return process.returncode, out, err

    def good(self, *words, **more):
        code, out, err = self.run_(*words, **more)
        # after a failover the sentinels do not know the master's run id for up to 10 s
        err = re.sub("^lockwire: it is not certain that .* is the master .*\n", "", err)
        self.assertEqual((code, err), (0, ""), words)
        return out

    def bad(self, code, said, *words, **more):
        got, out, err = self.run_(*words, **more)
        self.assertEqual((got, out), (code, ""), f"{words}: {err}")
        self.assertIn(said, err)

    def take(self, *options):
        out = self.good("take", "job", *options)
        self.assertRegex(out, TOKEN)
        return out.rstrip("\n")

    def left(self, name="job"):
        return self.server("PTTL", name)

    def assert_left(self, ms, name="job"):
        left = self.left(name)
        self.assertTrue(ms - SPARE < left <= ms, left)


class Life(TakeTest):
    def test_taken_prolonged_and_released(self):
        for kind in KINDS:
            token = self.take("--lease", "1h", *kind)
            self.assert_left(HOUR)
            self.assertEqual(self.run_("run", "job", "-n", "-x", "--", "true")[0], 75)
            prolonged = self.take("--lease", "2h", "--token", token, *kind)
            self.assertNotEqual(prolonged, token)
            self.assert_left(2 * HOUR)
            self.bad(70, "not held by the given --token", "take", "job", "--token", token, *kind)
            self.bad(70, "not held by the given TOKEN", "release", "job", token)
            self.assert_left(2 * HOUR)
            self.assertEqual(self.good("release", "job", prolonged), "")
            self.assertEqual(self.server("EXISTS", "job"), 0)
            self.bad(70, "not held", "release", "job", prolonged)

    def test_a_shorter_lease_ends_earlier(self):
        token = self.take("--lease", "1h")
        begun = time.monotonic()
        self.take("--lease", "700ms", "--token", token)
        self.good("run", "job", "--", "true")  # waits for the end of the lease
        self.assertGreaterEqual(time.monotonic() - begun, 0.7)

    def test_a_command_under_the_token(self):
        for kind in KINDS:
            token = self.take("--lease", "1h", *kind)
            out = self.good("run", "job", "--token", token, *kind, "--", "sh", "-c",
                            'echo "$LOCKWIRE_NAME $LOCKWIRE_TOKEN $LOCKWIRE_FENCE"')
            name, new, fence = out.split()
            self.assertEqual(name, "job")
            self.assertRegex(new + "\n", TOKEN)
            self.assertNotEqual(new, token)
            self.assertGreater(int(fence), 1 << 50)
            self.assertEqual(self.server("EXISTS", "job"), 0)
            self.bad(70, "not held by the given --token", "run", "job", "--token", token, *kind,
                     "--", "touch", self.path("ran"))
        self.assertFalse(os.path.exists(self.path("ran")))

    def test_a_token_that_does_not_hold_runs_nothing(self):
        """The command does not run even if the lock is free and could be acquired."""
        for kind in KINDS:
            token = self.take(*kind)
            self.good("release", "job", token)
            self.bad(70, "not held by the given --token", "run", "job", "--token", token, *kind,
                     "--", "touch", self.path("ran"))
            self.assertFalse(os.path.exists(self.path("ran")))

    def test_the_command_gets_the_token_that_holds(self):
        script = f'echo "$LOCKWIRE_TOKEN"; exec {COMMAND} status job --json'
        for words in (*(("run", "job", *kind) for kind in KINDS), ("lead", "job"),
                      ("run", "job", "--and", "other")):
            token, seen = self.good(*words, "--", "sh", "-c", script).split("\n", 1)
            self.assertEqual([token], [holder["token"] for holder in json.loads(seen)["holders"]])

    def test_waiters_get_it_in_turn(self):
        token = self.take("--lease", "1h")
        waiter = self.spawn(COMMAND, "run", "job", "--", "echo", "ran")
        until(lambda: self.server("ZCARD", "lockwire:2:queue:{job}") == 1, "it queues")
        token = self.take("--lease", "1h", "--token", token)  # the queue is kept
        self.assertEqual(self.server("ZCARD", "lockwire:2:queue:{job}"), 1)
        self.assertIsNone(waiter.poll())
        self.good("release", "job", token)
        self.assertEqual(self.end_of(waiter), (0, "ran\n", ""))

    def test_waiting_and_the_code_of_a_conflict(self):
        token = self.take("--lease", "1h")
        self.bad(75, "held by another client", "take", "job", "-n")
        self.bad(9, "timed out", "take", "job", "-w", "100ms", "-E", "9")
        waiter = self.spawn(COMMAND, "take", "job", "--lease", "2h")
        until(lambda: self.server("ZCARD", "lockwire:2:queue:{job}") == 1, "it queues")
        self.good("release", "job", token)
        code, out, err = self.end_of(waiter)
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, TOKEN)
        self.assert_left(2 * HOUR)
        waiter = self.spawn(COMMAND, "take", "job")
        until(lambda: self.server("ZCARD", "lockwire:2:queue:{job}") == 1, "it queues")
        waiter.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(waiter)[0], 128 + signal.SIGTERM)

    def test_json(self):
        before = datetime.datetime.now(datetime.timezone.utc)
        fences = []
        for kind in KINDS:
            taken = json.loads(self.good("take", "job", "--json", "--lease", "1h", *kind))
            self.assertEqual(list(taken), ["name", "token", "fence", "until"])
            self.assertEqual(taken["name"], "job")
            until_ = datetime.datetime.fromisoformat(taken["until"].replace("Z", "+00:00"))
            after = datetime.datetime.now(datetime.timezone.utc)
            hour, second = datetime.timedelta(hours=1), datetime.timedelta(seconds=1)
            self.assertTrue(before + hour - second < until_ <= after + hour + second,
                            taken["until"])
            fences.append(taken["fence"])
            self.good("release", "job", taken["token"])
        self.assertEqual(fences, sorted(set(fences)))

    def test_a_token_that_cannot_be_written(self):
        """The lock is released: without its token it would stay locked for the hour."""
        for output in (">/dev/full", ">&-"):
            for words in ("", "--json"):
                process = subprocess.run(
                    ["sh", "-c", f'exec "$0" take job --lease 1h {words} {output}', COMMAND],
                    stderr=subprocess.PIPE, env=self.environment, text=True, timeout=LIMIT,
                    check=False)
                self.assertEqual(process.returncode, 71, process.stderr)
                self.assertIn("cannot write to the standard output: ", process.stderr)
                self.assertEqual(self.server("EXISTS", "job"), 0, output)


class FromElsewhere(TakeTest):
    """The token is not visible in the list of processes."""

    def test_a_file(self):
        path = self.path("token")
        with open(path, "w", encoding="ascii") as file:
            self.assertEqual(subprocess.run([COMMAND, "take", "job"], stdout=file, check=True,
                                            env=self.environment, timeout=LIMIT).returncode, 0)
        with open(path + "2", "w", encoding="ascii") as file:
            file.write(self.good("take", "job", "--token", "@" + path))
        with open(path + "3", "w", encoding="ascii") as file:
            file.write(self.good("run", "job", "--token", f"@{path}2", "--", "echo", "ran"))
        token = self.take("--lease", "1h")
        with open(path, "w", encoding="ascii") as file:
            file.write(token)  # without a newline
        self.bad(64, "cannot read the file", "release", "job", "@" + self.path("none"))
        self.good("release", "job", "@" + path)

    def test_the_standard_input(self):
        token = self.take("--lease", "1h")
        out = self.good("take", "job", "--lease", "1h", "--token", "-", input_=token + "\n")
        out = self.good("run", "job", "--token", "-", "--", "cat", input_=out + "the rest\n")
        self.assertEqual(out, "the rest\n")
        token = self.take("--lease", "1h")
        self.good("release", "job", "-", input_=token + "\nmore\n")
        self.assertEqual(self.server("EXISTS", "job"), 0)
        self.bad(64, "is empty", "release", "job", "-", input_="")
        self.bad(64, "only one of", "release", "job", "-", "--password-file", "-")
        self.bad(64, "only one of", "run", "job", "--token", "-", "--password-file", "-", "--",
                 "true")

    def test_break_reads_one_as_well(self):
        token = self.take("--lease", "1h")
        self.good("break", "job", "--token", "-", input_=token + "\n")
        self.assertEqual(self.server("EXISTS", "job"), 0)


class Interop(TakeTest):
    COMPARE_AND_DELETE = ("if redis.call('GET', KEYS[1]) == ARGV[1] then "
                          "return redis.call('DEL', KEYS[1]) end return 0")

    def test_a_plain_script_releases_what_was_taken(self):
        token = self.take("--lease", "1h")
        self.assertEqual(self.server("GET", "job"), token)
        self.assertEqual(self.server("EVAL", self.COMPARE_AND_DELETE, 1, "job", token), 1)
        self.bad(70, "not held", "release", "job", token)

    def test_what_another_library_has_taken_is_released(self):
        self.assertEqual(self.server("SET", "job", "its own token", "NX", "PX", HOUR), "OK")
        self.bad(70, "not held", "release", "job", "another")
        self.good("release", "job", "its own token")
        self.assertEqual(self.server("EXISTS", "job"), 0)


class AtLeast(TakeTest):
    def test_two_hosts_run_a_short_job_once(self):
        path = self.path("log")
        words = ("run", "job", "-n", "--at-least", "1h", "--", "sh", "-c", f"echo ran >> {path}")
        self.good(*words)
        self.assert_left(HOUR)
        self.assertEqual(self.run_(*words)[0], 75)
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), "ran\n")

    def test_every_kind(self):
        for kind in KINDS:
            self.good("run", "job", "--at-least", "1h", *kind, "--", "true")
            self.assert_left(HOUR)
            self.server("DEL", "job")

    def test_the_time_counts_from_the_grant(self):
        begun = time.monotonic()
        self.good("run", "job", "--at-least", "800ms", "--", "true")
        self.assertLess(self.left(), 801)
        self.good("run", "job", "--", "true")
        self.assertGreaterEqual(time.monotonic() - begun, 0.8)
        self.good("run", "job", "--at-least", "10ms", "--", "sleep", "0.05")
        self.assertEqual(self.server("EXISTS", "job"), 0)

    def test_a_command_that_fails_or_is_ended(self):
        self.assertEqual(self.run_("run", "job", "--at-least", "1h", "--", "false")[0], 1)
        self.assert_left(HOUR)
        self.server("DEL", "job")
        process = self.spawn(COMMAND, "run", "job", "--at-least", "1h", "--", "sh", "-c",
                             "echo > held; exec sleep 1000", cwd=self.folder)
        self.wait_for_file("held", process)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(process)[0], 128 + signal.SIGTERM)
        self.assert_left(HOUR)

    def test_with_several_locks(self):
        self.good("run", "job", "--and", "other", "--at-least", "1h", "--", "true")
        self.assert_left(HOUR)
        self.assert_left(HOUR, "other")

    def test_lead(self):
        code = self.run_("lead", "job", "--at-least", "1h", "--", "sh", "-c", "exit 3")[0]
        self.assertEqual(code, 3)
        self.assert_left(HOUR)


class Described(TakeTest):
    """Status and list show which client has taken a lock, its user, since when, and a note, for
    as long as the lock is held."""
    NOTE = "migration \u2192 v2, ask J\u00f6rg"

    def holder(self, name="job"):
        holders = json.loads(self.good("status", name, "--json"))["holders"]
        self.assertEqual(len(holders), 1)
        return holders[0]

    def assert_described(self, client, note, name="job"):
        seen = self.holder(name)
        self.assertEqual(seen["client"].split()[:2], [client, socket.gethostname()])
        self.assertRegex(seen["client"].split()[2], "^[0-9]+$")
        self.assertEqual(seen["user"], pwd.getpwuid(os.geteuid()).pw_name)
        self.assertEqual(seen["note"], note)
        now = datetime.datetime.now(datetime.timezone.utc)
        since = datetime.datetime.fromisoformat(seen["since"].replace("Z", "+00:00"))
        self.assertLess(abs((now - since).total_seconds()), 4 * LIMIT)
        return seen["since"]

    def assert_gone(self, name="job"):
        self.assertEqual(self.run_("status", name)[0], 1)
        self.assertEqual(self.server("EXISTS", name, f"lockwire:2:holder:{{{name}}}"), 0)

    def test_what_was_taken(self):
        for kind in KINDS:
            token = self.take("--lease", "1h", *kind)
            since = self.assert_described("lockwire-take", None)
            token = self.take("--lease", "1h", "--token", token, "--note", self.NOTE, *kind)
            self.assertEqual(self.assert_described("lockwire-take", self.NOTE), since)
            for words in (("status", "job"), ("list",)):
                out = self.good(*words, "--wide")
                self.assertIn("lockwire-take " + socket.gethostname(), out)
                self.assertIn(self.NOTE, out)
            self.assertIn(since, self.good("status", "job", "--wide"))
            self.good("run", "job", "--token", token, *kind, "--", "sh", "-c",
                      f"{COMMAND} status job --json > seen", cwd=self.folder)
            with open(self.path("seen"), encoding="utf-8") as file:
                seen = json.load(file)["holders"][0]
            self.assertEqual((seen["note"], seen["since"]), (self.NOTE, since))
            self.assertIn("lockwire-run ", seen["client"])
            self.assert_gone()

    def test_what_is_released_or_broken(self):
        for kind in KINDS:
            for end in (("release", "job"), ("break", "job", "--token")):
                token = self.take("--lease", "1h", "--note", "n", *kind)
                self.assert_described("lockwire-take", "n")
                self.good(*end, token)
                self.assert_gone()

    def test_what_stays_for_a_minimum_time(self):
        for kind in KINDS:
            self.good("run", "job", "--at-least", "1h", *kind, "--", "true")
            self.assert_described("lockwire-run", None)
            self.good("break", "job")
            self.assert_gone()
        self.good("run", "job", "--and", "other", "--at-least", "1h", "--note", "both", "--", "true")
        self.assert_described("lockwire-run", "both")
        self.assert_described("lockwire-run", "both", "other")
        self.good("lead", "leader", "--at-least", "1h", "--note", "l", "--", "sh", "-c", "exit 0")
        self.assert_described("lockwire-lead", "l", "leader")

    def test_what_expires(self):
        self.take("--lease", "300ms", "--note", "n")
        until(lambda: self.server("EXISTS", "job") == 0, "the lease ends")
        self.assert_gone()

    def test_a_command_with_a_note(self):
        out = self.good("run", "job", "--lease", "600ms", "--note", "n", "--", "sh", "-c",
                        f"sleep 1; exec {COMMAND} status job --json")
        seen = json.loads(out)["holders"][0]
        self.assertEqual((seen["note"], seen["user"]),
                         ("n", pwd.getpwuid(os.geteuid()).pw_name))
        self.assert_gone()

    def test_without_an_identity(self):
        self.take("--lease", "1h", "--no-identity")
        seen = self.holder()
        self.assertEqual([seen[key] for key in ("client", "user", "since", "note")], 4 * [None])
        self.good("break", "job")
        self.take("--lease", "1h", "--no-identity", "--note", "n")
        seen = self.holder()
        self.assertEqual([seen[key] for key in ("client", "user", "note")], [None, None, "n"])
        self.assertIsNotNone(seen["since"])
        for key in self.server("KEYS", "*"):
            self.assertNotIn(socket.gethostname(), str(key))
            if key.startswith("lockwire:2:holder"):
                self.assertNotIn(socket.gethostname(), self.server("GET", key))

    def test_a_watcher_sees_it(self):
        self.take("--lease", "1h", "--note", "n")
        watcher = self.spawn(COMMAND, "watch", "job", "--interval", "10ms")
        line = watcher.stdout.readline()
        while " mutex " not in line:
            line = watcher.stdout.readline()
        self.assertRegex(line, r" lockwire-take \S+ \d+ \S+:\d+:\d+- n\n$")
        watcher.send_signal(signal.SIGTERM)
        watcher.communicate(timeout=LIMIT)


class Usage(TakeTest):
    def refused(self, said, *words):
        self.bad(64, said, *words)
        self.assertEqual(self.server("DBSIZE"), 0)

    def test_arguments(self):
        token = "3f1c0a9b-7d5e-4468-8a1b-0123456789ab:7:2000"
        self.refused("the lock's NAME is missing", "take")
        self.refused("the lock's NAME is missing", "release")
        self.refused("the TOKEN is missing", "release", "job")
        self.refused("TOKEN is empty", "release", "job", "")
        self.refused("TOKEN is empty", "release", "job", "@")
        self.refused("--token is empty", "take", "job", "--token", "")
        self.refused("unexpected argument 'more' after TOKEN", "release", "job", token, "more")
        self.refused("unexpected argument 'more' after NAME", "take", "job", "more")
        self.refused("token is a token of another version", "take", "job", "--token", token)
        self.refused("no lock token", "run", "job", "--token", "nonsense", "--", "true")
        self.refused("a token of LW_REDISSON", "run", "job", "--token", token[:38], "--", "true")
        self.refused("--token is not for --redisson", "run", "job", "--token", token, "--redisson",
                     "--", "true")
        self.refused("--token and --and exclude each other", "run", "job", "--token", token,
                     "--and", "other", "--", "true")
        self.refused("unknown option --redisson", "take", "job", "--redisson")
        self.refused("unknown option --token", "lead", "job", "--token", token, "--",
                     "true")
        self.refused("--lease '1ms': must be between", "take", "job", "--lease", "1ms")

    def test_a_server_that_ends_with_the_command(self):
        for words in (("take", "job"), ("release", "job", "token")):
            self.refused("end with lockwire", *words, "--redis", "embedded:")

    def test_at_least(self):
        run = ("run", "job", "--", "true")
        self.refused("--at-least 2000ms is longer than --max-hold 1000ms", "run", "job",
                     "--at-least", "2", "--max-hold", "1", *run[2:])
        self.refused("--at-least '597h': must be at most 596h", "run", "job", "--at-least", "597h",
                     *run[2:])
        self.refused("--at-least is not for --redisson", "run", "job", "--redisson", "--at-least",
                     "1s", *run[2:])
        self.refused("--at-least 40000ms is too long for --guard 45000ms: use --at-least 33000ms "
                     "or less, or --guard 52000ms or more", "run", "job", "--guard", "45",
                     "--at-least", "40", *run[2:])
        self.refused("unknown option --at-least", "hold", "job", "--at-least", "1s")

    def test_notes(self):
        self.refused("--note: the note is longer than 100 bytes", "take", "job", "--note", 101 * "n")
        for text, byte in (("\n", "0x0a"), ("\x7f", "0x7f"), ("\u0085", "0xc2")):
            self.refused("--note: the note has a control character, or no UTF-8, at position 2: "
                         f"byte {byte}", "hold", "job", "--note", "a" + text)
        self.refused("--note is not for --redisson", "run", "job", "--note", "n", "--redisson", "--",
                     "true")
        self.refused("unknown option --note", "release", "job", "x", "--note", "n")

    def test_the_token_of_another_kind_or_name(self):
        token = self.take("--lease", "1h")
        self.bad(64, "no read-write lock", "run", "job", "-x", "--token", token, "--", "true")
        self.bad(70, "not held", "run", "other", "--token", token, "--", "true")
        self.good("release", "job", token)
        token = self.take("--lease", "1h", "-s")
        self.bad(64, "no mutex", "run", "job", "--token", token, "--", "true")
        self.bad(64, "another mode", "take", "job", "-x", "--token", token)
        self.bad(64, "owner", "take", "job", "-s", "--owner", "bob", "--token", token)
        self.assert_left(HOUR)


class Servers(TakeTest):
    def test_without_a_server(self):
        token = self.take("--lease", "1h")
        self.server.kill()
        self.assertEqual(self.run_("take", "job", "-n")[0], 69)
        self.assertEqual(self.run_("take", "job", "--token", token, "-w", "300ms")[0], 69)
        self.assertEqual(self.run_("release", "job", token)[0], 69)

    def test_a_server_that_refuses(self):
        token = self.take("--lease", "1h")
        self.server("CONFIG", "SET", "requirepass", "right")
        self.assertEqual(self.run_("take", "job", "--token", token)[0], 77)
        self.assertEqual(self.run_("release", "job", token)[0], 77)

    def test_a_lease_that_the_server_refuses_to_set(self):
        """The lock has no lease to rely on, so no token is printed."""
        self.server("ACL", "SETUSER", "default", "-pexpire")
        self.bad(77, "the lease of 'job' could not be set; it stays locked", "take", "job",
                 "--lease", "1h")
        self.assertEqual(self.server("EXISTS", "job"), 1)


class ManyServers(TakeTest):
    """Takes one lock of each kind. Their names are in one slot of a cluster."""
    COUNT = range(len(KINDS))
    SLOT = "{t}"

    def run_(self, *words, **more):
        code, out, err = super().run_(*words, **more)
        return code, out, "".join(line for line in err.splitlines(True)
                                  if not WARNING.search(line))

    def name(self, i):
        return f"{self.SLOT}job{i}"

    def take_all(self):
        """Returns the tokens and the fencing tokens."""
        taken = [json.loads(self.good("take", self.name(i), "--json", "--lease", "1h", "--note",
                                      f"note {i}", *KINDS[i]))
                 for i in self.COUNT]
        self.assert_described()
        return [each["token"] for each in taken], [each["fence"] for each in taken]

    def prolong_all(self, tokens):
        for i in self.COUNT:
            self.assertEqual(self.run_("run", self.name(i), "-n", "-x", "--", "true")[0], 75)
        return [self.good("take", self.name(i), "--lease", "1h", "--token", tokens[i],
                          *KINDS[i]).rstrip("\n") for i in self.COUNT]

    def run_all(self, tokens, fences):
        """Runs a command under each token. Afterwards all locks are free."""
        for i in self.COUNT:
            fence = self.good("run", self.name(i), "--token", tokens[i], *KINDS[i], "--", "sh",
                              "-c", "echo $LOCKWIRE_FENCE")
            self.assertGreater(int(fence), fences[i])
            self.bad(70, "not held by the given TOKEN", "release", self.name(i), tokens[i])

    def release_all(self, tokens):
        for i in self.COUNT:
            self.good("release", self.name(i), tokens[i])
            self.assertIn(": free\n", self.run_("status", self.name(i))[1])

    def refuse_all(self, tokens):
        for i in self.COUNT:
            token = ("--token", tokens[i], *KINDS[i])
            self.bad(70, "not held by the given --token", "take", self.name(i), *token)
            self.bad(70, "not held by the given --token", "run", self.name(i), *token, "--",
                     "touch", self.path("ran"))
            self.bad(70, "not held by the given TOKEN", "release", self.name(i), tokens[i])
        self.assertFalse(os.path.exists(self.path("ran")))

    def assert_described(self):
        for i in self.COUNT:
            seen = json.loads(self.good("status", self.name(i), "--json"))["holders"][0]
            self.assertEqual(seen["note"], f"note {i}")
            self.assertRegex(seen["client"], "^lockwire-take ")

    def assert_carried_over(self, change):
        """Checks that tokens from before the change can be used after it."""
        tokens, fences = self.take_all()
        change()
        self.assert_described()
        self.run_all(self.prolong_all(tokens), fences)
        self.release_all(self.take_all()[0])

    def holder(self, token):
        """Starts a command that runs under the token until the file `stop` exists."""
        process = self.spawn(COMMAND, "run", self.name(0), "--token", token, "--lease", "6s", "--",
                             "sh", "-c", "echo > held; while [ ! -e stop ]; do sleep 0.02; done; "
                             "exit 5", cwd=self.folder)
        self.wait_for_file("held", process)
        return process

    def end_holder(self, process):
        with open(self.path("stop"), "w", encoding="ascii"):
            pass
        code, _, err = self.end_of(process)
        self.assertEqual(code, 5, err)
        self.assertIn(": free\n", self.run_("status", self.name(0))[1])


class Sentinels(ManyServers):
    def setUp(self):
        super().setUp()
        self.watched = Watched()
        self.addCleanup(self.watched.stop)
        self.environment["LOCKWIRE_URL"] = self.watched.url

    def fail_over(self):
        self.watched.fail_over()
        self.watched.until_promoted()

    def kill_master(self):
        self.watched.kill_master()
        self.watched.until_promoted()

    def test_every_kind(self):
        self.assert_carried_over(lambda: None)

    def test_a_failover(self):
        self.assert_carried_over(self.fail_over)

    def test_a_master_that_is_gone(self):
        self.assert_carried_over(self.kill_master)

    def test_released_after_a_failover(self):
        tokens, _ = self.take_all()
        self.fail_over()
        self.release_all(tokens)

    def test_a_new_master_without_the_locks(self):
        """Simulates that the last writes did not reach the new master."""
        tokens, _ = self.take_all()
        self.watched.until_known()
        self.watched.replica("CONFIG", "SET", "replica-read-only", "no")
        self.watched.replica("FLUSHALL")
        self.kill_master()
        self.refuse_all(tokens)

    def test_an_outage_is_waited_out(self):
        tokens, fences = self.take_all()
        self.watched.kill_master()
        waiting = [self.spawn(COMMAND, "take", self.name(i), "--lease", "1h", "--token", tokens[i],
                              *KINDS[i]) for i in self.COUNT]
        ends = [self.end_of(process) for process in waiting]
        self.assertEqual([code for code, _, _ in ends], [0] * len(KINDS), ends)
        self.watched.until_promoted()  # at every sentinel
        self.run_all([out.rstrip("\n") for _, out, _ in ends], fences)

    def test_a_failover_while_a_command_runs(self):
        process = self.holder(self.take_all()[0][0])
        self.fail_over()
        self.end_holder(process)


class Cluster(ManyServers):
    def setUp(self):
        super().setUp()
        self.cluster = Clustered()
        self.addCleanup(self.cluster.stop)
        self.environment["LOCKWIRE_URL"] = self.cluster.url
        self.slot = self.cluster.slot(self.SLOT)

    def replica(self):
        return self.cluster.replicas[self.cluster.masters.index(self.cluster.owner(self.slot))]

    def fail_over(self):
        self.cluster.fail_over(self.replica())

    def kill_master(self):
        """Kills the master. The last writes are lost if the replica does not have them."""
        old = self.cluster.owner(self.slot)
        self.cluster.kill(old)
        until(lambda: self.cluster.owner(self.slot) is not old, "the replica is the master")
        self.cluster.until_well()

    def move(self):
        self.cluster.move(self.slot, next(node for node in self.cluster.masters
                                          if node is not self.cluster.owner(self.slot)))

    def until_replicated(self):
        old, new = self.cluster.owner(self.slot), self.replica()
        written = int(old.says("replication", "master_repl_offset"))
        until(lambda: int(new.says("replication", "slave_repl_offset")) >= written,
              "the replica has it")

    def test_every_kind(self):
        self.assert_carried_over(lambda: None)
        for i in self.COUNT:
            self.good("run", self.name(i), "--at-least", "300ms", *KINDS[i], "--", "true")
            self.good("run", self.name(i), *KINDS[1 if KINDS[i] else 0], "--", "true")

    def test_a_failover(self):
        self.assert_carried_over(self.fail_over)

    def test_a_master_that_is_gone(self):
        def kill():
            self.until_replicated()
            self.kill_master()

        self.assert_carried_over(kill)

    def test_a_slot_that_has_moved(self):
        self.assert_carried_over(self.move)

    def test_released_after_a_failover_and_a_move(self):
        tokens, _ = self.take_all()
        self.fail_over()
        self.move()
        self.release_all(tokens)

    def test_a_new_master_without_the_locks(self):
        tokens, _ = self.take_all()
        self.until_replicated()
        self.replica()("CONFIG", "SET", "replica-read-only", "no")
        self.replica()("FLUSHALL")
        self.kill_master()
        self.refuse_all(tokens)

    def test_a_failover_and_a_move_while_a_command_runs(self):
        process = self.holder(self.take_all()[0][0])
        self.fail_over()
        self.move()
        self.end_holder(process)


UNIT = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                    "../../../src/examples/lockwire-nightly.service")


class Nightly(TakeTest):
    """The command of src/examples/lockwire-nightly.service, with another server and another job."""

    def night(self, job):
        """Returns the exit code of the unit's command on one host, in which this is the job."""
        with open(UNIT, encoding="utf-8") as file:
            text = re.search(r"^ExecStart=((?:.*\\\n)*.*)", file.read(), re.M)[1].replace("\\\n", "")
        words = re.sub(r"--password-file \S+ ", "", text).split()
        words[0], words[words.index("--redis") + 1] = COMMAND, self.server.url
        code, _, err = self.end_of(self.spawn(*words[:words.index("--") + 1], *job))
        return code, err

    def test_the_first_host_runs_the_job(self):
        """Also if it fails: its exit code is the unit's, and no other host runs it again."""
        for job, code in ((("true",), 0), (("sh", "-c", "exit 3"), 3)):
            self.server("FLUSHALL")
            self.assertEqual(self.night(job), (code, ""))
            self.assertGreater(self.server("PTTL", "nightly"), 4 * 60 * 1000)
            busy, err = self.night(("touch", self.path("again")))
            self.assertEqual(busy, 75, err)
            self.assertFalse(os.path.exists(self.path("again")))


if __name__ == "__main__":
    unittest.main()
