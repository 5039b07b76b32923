#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The command line: accepted words, refusals and their messages, help. Needs no server, except
for a name that only the library can refuse.

Each test gives words and checks the exit code and the text.
"""
import re
import subprocess
import unittest

from support import COMMAND, ToolTest

NOWHERE = ("--redis", "unix:///nonexistent/socket")


SUBCOMMANDS = ("run", "lead", "hold", "take", "release", "status", "watch", "list", "yield", "break", "doctor")

# What is typed, and the first line of the reply. Where something else can be typed, it says what.
BEGIN = ("the URL must begin with redis://, redis-sentinel://, redis-cluster:// or redis-quorum:// "
         "(rediss for TLS, the same with valkey), or unix://")
TIME = "expected a time such as 500ms, 30s, 5m or 1.5h"
UNIT = "expected ms, s, m or h as the unit"
NO_TOKEN = ("token is no lock token of lockwire (lw_lock_token, LOCKWIRE_TOKEN, or what `lockwire take` "
            "printed)")
WRONG = (
    # subcommands, NAME and COMMAND
    ("", "the subcommand is missing"),
    ("--redis redis://h run x", "the subcommand is missing before '--redis'"),
    ("tkae x", "unknown subcommand 'tkae'; did you mean take?"),
    ("walk x", "unknown subcommand 'walk'"),
    ("help walk", "unknown subcommand 'walk'"),
    ("help stats", "unknown subcommand 'stats'; did you mean status?"),
    ("run --wait 5s", "run: the lock's NAME is missing"),
    ("run -- ls", 'run: the lock\'s NAME is missing before "--"'),
    ("lead -n 3 -- ls -l", "lead: unknown option -n (`lockwire lead --help` has a list)"),
    ("lead --lease 3s -- ls -l", 'lead: the lock\'s NAME is missing before "--"'),
    ("lead make", "lead: the COMMAND to run is missing; the NAME is 'make'"),
    ("status x y", "status: unexpected argument 'y' after NAME"),
    ("yield x y", "yield: unexpected argument 'y' after NAME"),
    ("yield x --json", "yield: unknown option --json (`lockwire yield --help` has a list)"),
    ("list a b", "list: unexpected argument 'b' after PATTERN"),
    ("run lockwire:x true", 'the name begins with "lockwire:", which is reserved'),
    # options
    ("run x --colour true", "run: unknown option --colour (`lockwire run --help` has a list)"),
    ("run x --colour=3 true", "run: unknown option --colour=3 (`lockwire run --help` has a list)"),
    ("run x --lesae 3s true", "run: unknown option --lesae; did you mean --lease? "
     "(`lockwire run --help` has a list)"),
    ("run x --maxwaiting=3 true", "run: unknown option --maxwaiting=3; did you mean --max-waiting? "
     "(`lockwire run --help` has a list)"),
    ("run x --jsn true", "run: unknown option --jsn (`lockwire run --help` has a list)"),
    ("list --jsn", "list: unknown option --jsn; did you mean --json? (`lockwire list --help` has a list)"),
    ("hold x -Q", "hold: unknown option -Q (`lockwire hold --help` has a list)"),
    ("lead x --wait 5s true", "lead: unknown option --wait (`lockwire lead --help` has a list)"),
    ("status x --se y", "status: ambiguous option --se: --sentinel-user or --sentinel-password-file"),
    ("run x --wait", "--wait needs a value"),
    ("run x -w", "-w needs a value"),
    ("status x --json=yes", "--json takes no value"),
    ("run x --permits 3 true", "--permits needs --shared"),
    ("run x -s --permits none true", "--permits 'none': must be a number from 1 to 2147483647"),
    # times
    ("run x --wait 5x true", f"--wait '5x', at character 2: {UNIT}"),
    ("run x --lease 1d true", f"--lease '1d', at character 2: {UNIT}"),
    ("run x --at-least soon true", f"--at-least 'soon', at character 1: {TIME}"),
    ("run x --connect-timeout -1s true", f"--connect-timeout '-1s', at character 1: {TIME}"),
    ("run x --lease 10ms true", "--lease '10ms': must be between 100ms and 596h"),
    ("run x --guard 10s true", "--guard '10s': must be between 15s and 10m, or none"),
    # URLs
    ("status x --redis localhost", BEGIN),
    ("status x --redis http://h", BEGIN),
    ("status x --redis redis://", "the host is missing"),
    ("status x --redis redis://h:port", 'port "port" is not between 1 and 65535'),
    ("status x --redis redis://h/a", 'database "a" is not a number from 0 to 2147483647'),
    ("status x --redis redis://h,i", 'byte 0x2c at position 2 of host "h,i" is not allowed; several '
     "hosts are for redis-sentinel://, redis-cluster:// and redis-quorum://"),
    ("status x --redis redis-quorum://h,i", "a quorum has 3, 5 or 7 servers; 2 are listed"),
    ("status x --redis redis-sentinel://h", 'the service is missing; write "/" and the name under which '
     "the sentinels monitor the master after the hosts"),
    ("status x --redis redis://h?guard=5",
     'guard "5" is neither "none" nor a time between 15s and 10m'),
    ("status x --redis redis://u@h", "a username is given without a password (in the URL, or "
     "options->password; the command has --password-file)"),
    ("status x --map h=i", "--map needs a URL that begins with redis-sentinel://, rediss-sentinel://, "
     "redis-cluster:// or rediss-cluster:// (or with valkey in place of redis)"),
    # tokens
    ("run x --token abc true", NO_TOKEN),
    ("take x --token abc", NO_TOKEN),
    ("release x", "release: the TOKEN is missing"),
    ("run x --token= true", "--token is empty"),
    # files
    ("run x --token @/none true", "--token '/none': cannot read the file: No such file or directory"),
    ("release x @/dev/null", "TOKEN '/dev/null': the first line is empty"),
    ("status x --password-file /none",
     "--password-file '/none': cannot read the file: No such file or directory"),
    ("status x --password-file /dev/null", "--password-file '/dev/null': the first line is empty"),
    ("status x --cert a", "--cert needs a URL that begins with rediss://, rediss-sentinel://, "
     "rediss-cluster:// or rediss-quorum:// (or with valkey in place of redis)"),
)


class Usage(ToolTest):
    def check(self, code, *words, env=None):
        process = self.spawn(COMMAND, *words, env=env or {}, stdin=subprocess.PIPE) # for hold
        got, out, err = self.end_of(process)
        self.assertEqual(got, code, f"{words}: {out}{err}")
        return out + err

    def test_each_wrong_input_has_its_text(self):
        for words, text in WRONG:
            said = self.check(64, *words.split(), env={"LOCKWIRE_URL": NOWHERE[1]})
            self.assertEqual(said.splitlines()[0], f"lockwire: {text}", words)

    def test_nothing_given(self):
        self.assertIn("usage:", self.check(64))

    def test_unknown_subcommand_is_named(self):
        self.assertIn("'walk'", self.check(64, "walk", "x"))

    def test_unknown_option_is_named(self):
        self.assertIn("--colour", self.check(64, "run", "x", "--colour", "--", "true"))

    def test_option_without_its_value_is_named(self):
        self.assertIn("--lease", self.check(64, "run", "x", "--lease"))

    def test_name_missing(self):
        self.assertIn("NAME", self.check(64, "run", "--wait", "0"))
        self.assertIn("NAME", self.check(64, "lead", "--lease", "1s"))

    def test_command_missing(self):
        for subcommand in ("run", "lead"):
            self.assertIn(f"{subcommand}: the COMMAND", self.check(64, subcommand, "x", "--"))

    def test_hold_has_no_command(self):
        self.assertIn("hold: unexpected argument 'true' after NAME\n",
                      self.check(64, "hold", "x", "--", "true"))
        self.assertIn("NAME is missing", self.check(64, "hold"))
        self.assertIn("--direct", self.check(64, "hold", "x", "--direct"))

    def test_a_second_pair_of_dashes_is_no_command(self):
        for words in (("x", "--", "--", "true"), ("x", "--", "--"), ("--wait", "0", "x", "--", "--")):
            self.assertIn('run: unexpected second "--" in place of COMMAND\n',
                          self.check(64, "run", *words))

    def test_bad_times_say_option_and_place(self):
        for option in ("--lease", "--wait", "--grace"):
            for text, place in (("", "character 1"), ("5x", "character 2"),
                                ("1.", "character 3"), ("-3", "character 1"),
                                ("0x10", "character 2"), ("10 s", "character 3"),
                                ("99999999999999999999h", "too long")):
                said = self.check(64, "run", "x", *NOWHERE, option, text, "--", "true")
                self.assertIn(option, said)
                self.assertIn(f"'{text}'", said)
                self.assertIn(place, said)

    def test_the_connect_timeout_has_bounds(self):
        for subcommand, more in (("run", ("--", "true")), ("hold", ()), ("status", ()), ("lead", ("--", "true"))):
            for text in ("0", "99ms", "600h"):
                said = self.check(64, subcommand, "x", f"--connect-timeout={text}", *more)
                self.assertIn(f"--connect-timeout '{text}': must be between 100ms and 596h, or "
                              "forever\n", said)
            said = self.check(64, subcommand, "x", "--connect-timeout", "never", *more)
            self.assertIn("--connect-timeout 'never', at character 1: expected a time", said)
        for text in ("100ms", "596h", "forever"):
            self.check(69, "run", "x", *NOWHERE, "-n", "--connect-timeout", text, "--", "true")

    def test_lease_has_bounds(self):
        for lease in ("99ms", "600h"):
            self.assertIn("--lease", self.check(64, "run", "x", *NOWHERE, "--lease", lease,
                                                "--", "true"))

    def test_a_lease_has_room_for_the_grace_time(self):
        for lease, grace, words in (("2s", "3s", ("--lease 2000ms", "3000ms", "899ms")),
                                    ("30s", "15s", ("--lease 30000ms", "15000ms", "14499ms")),
                                    ("100ms", "45ms", ("--lease 100ms", "45ms", "44ms"))):
            said = self.check(64, "run", "x", *NOWHERE, "--lease", lease, "--grace", grace,
                              "--", "true")
            for word in words:
                self.assertIn(word, said)
            fits, would_do = words[2], re.search(r"use --lease (\d+ms) or more", said)[1]
            for times in (("--lease", lease, "--grace", fits),
                          ("--lease", would_do, "--grace", grace)):
                self.check(69, "run", "x", *NOWHERE, "--wait", "0", *times, "--", "true")
        self.assertIn("15000ms", self.check(64, "run", "x", *NOWHERE, "--grace", "15s", "--", "true"))
        self.assertIn("--grace '299h'",
                      self.check(64, "run", "x", *NOWHERE, "--grace", "299h", "--", "true"))
        for lease in ("100ms", "2s", "20s", "596h"):
            self.check(69, "run", "x", *NOWHERE, "--wait", "0", "--lease", lease, "--", "true")
        self.check(69, "run", "x", *NOWHERE, "--wait", "0", "--lease", "596.5h", "--grace", "298h",
                   "--", "true")

    def test_bad_url_is_refused_without_its_password(self):
        for url in ("http://localhost", "redis://u:secret@localhost:bad", "localhost"):
            said = self.check(64, "run", "x", "--redis", url, "--", "true")
            self.assertNotIn("secret", said)
            self.assertGreater(len(said), 10)

    def test_url_of_the_environment_is_checked_as_well(self):
        self.check(64, "run", "x", "--", "true", env={"LOCKWIRE_URL": "http://x"})

    def test_what_changes_locks_has_no_default_server(self):
        for words in (("run", "x", "--", "true"), ("lead", "x", "--", "true"), ("hold", "x"),
                      ("take", "x"), ("release", "x", "y")):
            said = self.check(64, *words).splitlines()[0]
            self.assertEqual(said, f"lockwire: {words[0]}: no server is given: use --redis URL, or set "
                                   "LOCKWIRE_URL (the server of this host is redis://localhost)")
            self.assertIn("There is no default:", self.check(0, words[0], "--help"))
        self.assertIn("The default is\n  redis://localhost.", self.check(0, "status", "--help"))

    def test_an_empty_variable_is_no_server(self):
        for subcommand in ("run", "lead", "hold", "take", "release", "status", "watch", "list", "yield",
                           "break", "doctor"):
            words = {"release": ("y",), "run": ("true",), "lead": ("true",)}.get(subcommand, ())
            said = self.check(64, subcommand, "x", *words, env={"LOCKWIRE_URL": ""})
            self.assertIn(f"{subcommand}: LOCKWIRE_URL is empty: ", said)
            self.assertIn("--redis URL", said)

    def test_bad_names(self):
        for name in ("", "a\x01b", "x" * 513, "lockwire:2:queue:{x}", "a}b"):
            self.check(64, "run", *NOWHERE, "--wait", "0", name, "true")
        self.assertIn("reserved", self.check(64, "status", *NOWHERE, "--", "lockwire:-"))

    def test_modes_that_do_not_go_together(self):
        for words, named in ((("--owner", "anna"), "--owner"),
                             (("--permits", "2"), "--permits"),
                             (("--exclusive", "--permits", "2"), "--permits"),
                             (("--exclusive", "--shared"), "--shared"),
                             (("--shared", "--owner", "a b"), "owner"),
                             (("--shared", "--owner", ""), "owner"),
                             (("-x", "-s"), "--shared"),
                             (("--redisson", "-x"), "--redisson"),
                             (("--redisson", "--owner", "anna"), "--owner"),
                             (("--redisson", "--permits", "2"), "--permits"),
                             (("--redisson", "--redis", "redis-cluster://h"), "LW_REDISSON")):
            for subcommand, command in (("run", ("--", "true")), ("lead", ("--", "true")),
                                        ("hold", ())):
                self.assertIn(named, self.check(64, subcommand, "x", *NOWHERE, *words, *command))

    def test_the_exit_code_of_a_conflict_is_one(self):
        for text in ("", "-1", "256", "1x", "x", "99999999999999999999"):
            for words in (("-E", text), (f"--conflict-exit-code={text}",)):
                said = self.check(64, "run", "x", *NOWHERE, *words, "--", "true")
                self.assertIn(f"--conflict-exit-code '{text}'", said)

    def test_letters_that_are_none_are_named(self):
        unknown = "unknown option -Q (`lockwire "
        for words, named in ((("-Q",), unknown), (("-nQ",), unknown), (("-Qn",), unknown),
                             (("--wait=0", "-nQx"), unknown),
                             (("-w",), "-w needs a value"), (("-nE",), "-E needs a value"),
                             (("-w", "5x"), "--wait '5x', at character 2"),
                             (("-w5x",), "--wait '5x', at character 2")):
            for subcommand in ("run", "hold"):
                self.assertIn(named, self.check(64, subcommand, "x", *words))

    def test_options_may_be_shortened(self):
        for redis in ("--r", "--re", "--red", "--redi", "--redis"):
            self.check(69, "run", "x", redis, NOWHERE[1], "--n", "--e", "--l", "1s", "--m", "1h",
                       "--o=anna", "--v", "--g", "0", "--d", "--con", "3", "--", "true")
        for conflict in ("--co", "--con", "--conf"):
            self.assertIn("--conflict-exit-code 'x'", self.check(64, "run", "x", conflict, "x"))
        for words in (("--conn", "1h"), ("--ma", "1h"), ("--max", "1h"), ("--max-", "1h"), ("--max-h", "1h"),
                      ("--max-w", "3"), ("--ow", "anna", "-x"), ("--on", "true"), ("--on-", "true"), ("--on-y", "true")):
            self.check(69, "run", "x", *NOWHERE, "-n", *words, "--", "true")
        self.assertIn("--and: 'x' is given twice\n",
                      self.check(64, "run", "x", *NOWHERE, "--a", "x", "--", "true"))
        for key in ("--k", "--ke", "--key"):
            self.assertIn("--key needs a URL that begins with rediss://",
                          self.check(64, "run", "x", *NOWHERE, key, "file", "--", "true"))
        self.assertIn("run: ambiguous option --c: --conflict-exit-code or --connect-timeout or "
                      "--cacert or --cert\n",
                      self.check(64, "run", "x", "--c", "y", "--", "true"))

    def test_max_waiting_has_bounds(self):
        for text in ("0", "-1", "", "x", "1.5", "2147483648", "99999999999999999999"):
            for subcommand, more in (("run", ("--", "true")), ("lead", ("--", "true")), ("hold", ())):
                said = self.check(64, subcommand, "x", *NOWHERE, f"--max-waiting={text}", *more)
                self.assertIn(f"--max-waiting '{text}': must be a number from 1 to 2147483647; use "
                              "--wait 0 not to wait at all\n", said)
        self.assertIn("--max-waiting is not for --redisson, which has no queue\n",
                      self.check(64, "run", "x", *NOWHERE, "--redisson", "--max-waiting", "1", "true"))
        self.check(69, "run", "x", *NOWHERE, "-n", "--max-waiting", "2147483647", "--", "true")
        self.check(69, "take", "x", *NOWHERE, "-n", "--max-waiting", "3")
        for subcommand, more in (("run", ("--", "true")), ("take", ())): # TOKEN is refused
            said = self.check(64, subcommand, "x", *NOWHERE, "--max-waiting", "3", "--token", "y", *more)
            self.assertIn("no lock token", said)
        self.assertIn("status: unknown option --max-waiting (`lockwire status --help`",
                      self.check(64, "status", "x", "--max-waiting", "1"))

    def test_on_lost_on_yield_and_keep_running(self):
        for subcommand, more in (("run", ("--", "true")), ("lead", ("--", "true")), ("hold", ())):
            for option in ("--on-lost", "--on-yield"):
                self.assertIn(f"{option} is empty\n",
                              self.check(64, subcommand, "x", *NOWHERE, option, "", *more))
            for option in ("--on", "--on-"):
                self.assertIn("--on-lost is empty\n",
                              self.check(64, subcommand, "x", *NOWHERE, option, "", *more))
        self.assertIn("take: unknown option --on-yield (",
                      self.check(64, "take", "x", *NOWHERE, "--on-yield", "true"))
        for subcommand, more in (("lead", ("--", "true")), ("hold", ())):
            self.assertIn(f"{subcommand}: unknown option --keep-running (",
                          self.check(64, subcommand, "x", *NOWHERE, "--keep-running", *more))

    def test_a_value_for_an_option_without_one(self):
        self.assertIn("--nb takes no value\n", self.check(64, "run", "x", "--nb=3", "--", "true"))
        self.assertIn("--json takes no value\n", self.check(64, "status", "x", "--json=yes"))

    def test_lead_waits_and_nothing_else(self):
        for word in ("-n", "-w1", "-E1", "--wait", "--nonblock", "--nb", "--conflict-exit-code"):
            said = self.check(64, "lead", "x", word, "--", "true")
            self.assertIn("lead: unknown option "
                          f"{word[:2] if word[1] != '-' else word} (", said)

    def test_the_longest_hold_has_bounds(self):
        for text, said in (("99ms", "at least 100ms"), ("0", "at least 100ms"), ("x", "character 1")):
            self.assertIn(f"--max-hold '{text}'",
                          self.check(64, "run", "x", *NOWHERE, "--max-hold", text, "--", "true"))
            self.assertIn(said, self.check(64, "hold", "x", *NOWHERE, f"--max-hold={text}"))
        said = self.check(64, "run", "x", *NOWHERE, "--max-hold", "8s", "--grace", "4s", "--", "true")
        self.assertIn("--grace 4000ms does not fit into --max-hold 8000ms", said)
        for words in (("--max-hold", re.search(r"use --max-hold (\d+ms) or more", said)[1]),
                      ("--max-hold", "100ms", "--grace", "44ms"), ("--max-hold", "1000000h"),
                      ("--max-hold", "100ms", "--lease", "596h")):
            grace = () if "--grace" in words or len(words) > 2 else ("--grace", "4s")
            self.check(69, "run", "x", *NOWHERE, "-n", *grace, *words, "--", "true")

    def test_permits_are_a_number(self):
        for text in ("", "0", "-1", "2x", "x", " 1", "99999999999"):
            said = self.check(64, "run", "x", "--shared", f"--permits={text}", "--", "true")
            self.assertIn(f"--permits '{text}'", said)

    def test_the_others_take_a_name_and_nothing_more(self):
        for subcommand in ("status", "yield", "break", "watch"):
            self.assertIn("NAME is missing", self.check(64, subcommand))
            self.assertIn("'more'", self.check(64, subcommand, *NOWHERE, "x", "more"))
            self.assertIn("--wait", self.check(64, subcommand, "x", "--wait", "0"))
            self.assertIn("--redis", self.check(64, subcommand, "x", "--redis"))
            self.assertIn(f"lockwire {subcommand} NAME", self.check(64, subcommand))

    def test_bad_values_of_the_others(self):
        for interval in ("9ms", "x", "600h"):
            self.assertIn("--interval", self.check(64, "watch", "x", "--interval", interval))
        self.assertIn("--token", self.check(64, "break", "x", "--token", ""))
        for subcommand in ("run", "status", "watch"):
            self.assertIn("--foreign", self.check(64, subcommand, "x", "--foreign"))

    def test_tls_needs_such_a_url_and_whole_pairs(self):
        for option in ("--cacert", "--cert", "--key", "--sni"):
            for url in ("redis://h", "redis-cluster://h", "unix:///h", "embedded:"):
                said = self.check(64, "status", "x", option, "y", "--redis", url)
                self.assertIn(f"{option} needs a URL that begins with rediss://, rediss-sentinel://, "
                              "rediss-cluster:// or rediss-quorum://", said)
        for option in ("--cert", "--key"):
            self.assertIn("--cert and --key must be given together\n",
                          self.check(64, "status", "x", option, "y", "--redis", "rediss://h"))

    def test_what_sentinels_are_logged_in_to_with_needs_sentinels(self):
        for option in ("--sentinel-user", "--sentinel-password-file"):
            for url in ("redis://h", "rediss://h", "unix:///h", "embedded:"):
                for subcommand in ("run", "status", "yield", "break", "watch"):
                    said = self.check(64, subcommand, "x", option, "y", "--redis", url,
                                      *(("true",) if subcommand == "run" else ()))
                    self.assertIn(f"{option} needs a URL that begins with redis-sentinel:// or "
                                  "rediss-sentinel://", said)
        self.assertIn("--sentinel-user needs --sentinel-password-file",
                      self.check(64, "status", "x", "--sentinel-user", "y", "--redis",
                                 "Redis-Sentinel://h/s"))

    def test_the_standard_input_has_one_password(self):
        said = self.check(64, "status", "x", "--password-file", "-", "--sentinel-password-file",
                          "-", "--redis", "redis-sentinel://h/s")
        self.assertIn("only one of --password-file and --sentinel-password-file can be the "
                      "standard input", said)

    def test_urls_of_sentinels_say_what_is_wrong_and_where(self):
        for url, said in (
                ("redis-sentinel:/h", "the URL must begin with redis://"),
                ("redis-sentinel://h1,h2", "the service is missing"),
                ("redis-sentinel://h1,h2/", "the service is missing"),
                ("redis-sentinel:///the-master", "the host is missing"),
                ("redis-sentinel://", "the host is missing"),
                ("redis-sentinel://h1,,h3/m", "host 2 of the list: the host is missing"),
                ("redis-sentinel://h1,h2:65536/m", 'host 2 of the list: port "65536"'),
                ("redis-sentinel://h1:0/m", 'port "0" is not between 1 and 65535'),
                ("redis-sentinel://h/the master", "service: byte 0x20 at position 4"),
                ("redis-sentinel://h/m/16x", 'database "16x"'),
                ("redis-sentinel://redis://h/m", '"://" occurs twice'),
                ("redis-sentinel://:s3cret@h1,redis-sentinel://h2/m", '"://" occurs twice')):
            for words in (("run", "x", "--redis", url, "true"), ("status", "x", "--redis", url)):
                text = self.check(64, *words)
                self.assertIn(said, text)
                self.assertNotIn("s3cret", text)
                self.assertEqual(text.count("\n"), 1, text)

    def test_help(self):
        self.assertIn("run", self.check(0, "--help"))
        holding = ("--lease", "--grace", "--max-hold", "-x, -e, --exclusive", "-s, --shared",
                   "--redisson", "--owner", "--permits", "--verbose", "--max-waiting", "--on-lost", "--on-yield",
                   "LOCKWIRE_LOST_REASON", "LOCKWIRE_LOST_STATE")
        waiting = ("-w, --wait", "-n, --nonblock", "-E, --conflict-exit-code")
        for subcommand, words in (("run", holding + waiting), ("lead", holding),
                                  ("hold", holding + waiting),
                                  ("take", waiting + ("--max-waiting", "--token", "--json", "70")),
                                  ("release", ("TOKEN", "@FILE", "70", "77")),
                                  ("status", ("--json", "--wide", "    1  the lock is free", "69", "77")),
                                  ("yield", (" 1 ", "69", "75", "77")),
                                  ("break", ("--token", "--foreign", " 1 ", "69", "77")),
                                  ("watch", ("--interval", "--json", "69", "77", "SIGINT"))):
            said = self.check(0, subcommand, "--help")
            self.assertIn(subcommand, self.check(0, "--help"))
            for word in words + ("--redis", "--password-file", "rediss://", "redis-sentinel://",
                                 "--sentinel-user", "--sentinel-password-file", "--cacert", "--cert",
                                 "--key", "--sni", "--help", "64", "71",
                                 "LOCKWIRE_URL"):
                self.assertIn(word, said)
        said = self.check(0, "run", "--help")
        for word in ("--lease", "--wait", "--grace", "--direct", "setsid", "--redis", "LOCKWIRE_URL",
                     "LOCKWIRE_NAME", "LOCKWIRE_FENCE", "embedded:", "75", "69", "70", "77"):
            self.assertIn(word, said)

    def test_help_names_no_option_of_another_subcommand(self):
        for subcommand in ("take", "release"):
            self.assertNotIn("--redisson", self.check(0, subcommand, "--help"))

    def test_help_is_grouped(self):
        lock = ["Waiting", "Holding", "Description", "Kind of lock"]
        end = ["Exit codes", "Environment"]
        asked = ["If the lock is lost", "If the lock is asked for", "Environment"]
        job = ["Exit codes", "Processes and signals"] + asked
        for words, headings in (
                ((), ["Subcommands", "Options"]),
                (("run",), lock + ["Several locks", "Server", "Times"] + job),
                (("lead",), lock + ["Server", "Times"] + job),
                (("hold",), lock + ["Server", "Times", "Exit codes"] + asked),
                (("take",), ["Output"] + lock + ["Server", "Times"] + end),
                (("release",), ["Server"] + end),
                (("status",), ["Output", "Server"] + end),
                (("watch",), ["Output", "Server", "Times"] + end),
                (("list",), ["Output", "Server"] + end),
                (("yield",), ["Server"] + end),
                (("break",), ["Which holder", "Server"] + end)):
            said = self.check(0, *words, "--help")
            self.assertEqual(re.findall(r"\n\n([A-Z][A-Za-z ]+):\n  \S", said), headings)
            self.assertEqual(re.findall(r"\n\n\n| \n", said), [])

    def test_help_fits_80_columns(self):
        for words in ((), *((name,) for name in SUBCOMMANDS)):
            for option in ("-h", "--help"):
                for line in self.check(0, *words, option).splitlines():
                    self.assertLessEqual(len(line), 80, line)

    def test_the_short_help_is_one_screen_of_what_the_long_one_has(self):
        for name in SUBCOMMANDS:
            short, long = self.check(0, name, "-h"), self.check(0, name, "--help")
            self.assertLessEqual(short.count("\n"), 24, short)
            self.assertEqual(short.splitlines()[0], long.splitlines()[0])
            options, codes = re.findall(r"(?<![\w-])--?[a-z][a-z-]*", short), re.findall(r"\b\d\d\b ", short)
            self.assertIn("--help", options)
            for word in options + codes:
                self.assertRegex(long, rf"(?<![\w-]){word}(?![a-z-])")

    def test_these_are_all_subcommands(self):
        found = re.findall(r"^(?:usage:)? +lockwire ([a-z]+) (?!\[SUB)", self.check(0, "-h"), re.M)
        self.assertEqual(sorted(found), sorted(SUBCOMMANDS))

    def test_help_of_a_subcommand(self):
        self.assertEqual(self.check(0, "help"), self.check(0, "--help"))
        self.assertEqual(self.check(0, "-h"), self.check(0, "--help"))
        for name in SUBCOMMANDS:
            self.assertEqual(self.check(0, "help", name), self.check(0, name, "--help"))

    def test_version(self):
        for word in ("--version", "-V"):
            self.assertRegex(self.check(0, word), r"^lockwire \d+\.\d+\.\d+ ")


if __name__ == "__main__":
    unittest.main()
