#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`lockwire run` at a real server: exit codes, environment, exclusion, waiting, signals, and the
program's end when the lock is lost.

Usual course: a command runs while its key is in Redis; its exit code is returned, and the key is
gone.
"""
import os
import signal
import subprocess
import time
import unittest

from support import COMMAND, LIMIT, ToolTest, alive, until

QUEUE = "lockwire:2:queue:{job}"


class RunTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.environment["LOCKWIRE_URL"] = self.server.url

    def run_(self, *words, **more):
        return self.spawn(COMMAND, "run", *words, **more)

    def code(self, *words, **more):
        return self.end_of(self.run_(*words, **more))[0]

    def holder(self, *options, script="echo $$ > held; exec sleep 1000", name="job"):
        """Starts a command that holds the lock. Returns it and the pid of its program."""
        process = self.run_(name, *options, "--", "sh", "-c", script, cwd=self.folder)
        return process, int(self.wait_for_file("held", process))


class Codes(RunTest):
    def test_the_programs_code_comes_back(self):
        for code in (0, 1, 3, 64, 255):
            self.assertEqual(self.code("job", "--", "sh", "-c", f"exit {code}"), code)

    def test_a_signal_that_ended_the_program_comes_back(self):
        self.assertEqual(self.code("job", "--", "sh", "-c", "kill -KILL $$"), 128 + 9)

    def test_no_such_program(self):
        code, _, err = self.end_of(self.run_("job", "--", "/no/such/program"))
        self.assertEqual(code, 127)
        self.assertIn("/no/such/program", err)

    def test_not_executable(self):
        self.assertEqual(self.code("job", "--", self.folder), 126)

    def test_no_server(self):
        for wait in ("0", "300ms"):
            code, _, err = self.end_of(self.run_("job", "--wait", wait, "--redis",
                                                 "unix:///nonexistent/socket", "--", "true"))
            self.assertEqual(code, 69)
            self.assertIn("no connection", err)

    def test_a_refused_password_is_told_and_stays_secret(self):
        port = self.server.listen()
        self.server("ACL", "SETUSER", "anna", "on", ">right", "~*", "&*", "+@all")
        for user, code in (("anna:wr0ng@", 77), ("anna:right@", 0)):
            got, _, err = self.end_of(self.run_(
                "job", "--wait", "0", "--redis", f"redis://{user}127.0.0.1:{port}", "--",
                "true"))
            self.assertEqual(got, code, err)
            self.assertNotIn("wr0ng", err)
            self.assertEqual("WRONGPASS" in err, code == 77, err)

    def test_valkey_in_the_url(self):
        url = f"valkey://127.0.0.1:{self.server.listen()}/3"
        code, out, err = self.end_of(self.run_("job", "--redis", url, "--", COMMAND, "status",
                                               "job", "--redis", url))
        self.assertEqual((code, out.splitlines()[0], err), (0, "job: 1 holder", ""))
        self.environment["LOCKWIRE_URL"] = url
        code, out, err = self.end_of(self.run_("job", "--", "sh", "-c", "echo $LOCKWIRE_URL"))
        self.assertEqual((code, out, err), (0, f"{url}\n", ""))

    def test_the_server_refuses(self):
        self.server("ACL", "SETUSER", "default", "-set", "-eval", "-evalsha")
        code, _, err = self.end_of(self.run_("job", "--", "true"))
        self.assertEqual(code, 77)
        self.assertIn("NOPERM", err)


class Holding(RunTest):
    def test_the_key_is_there_while_the_program_runs_and_then_gone(self):
        process, pid = self.holder()
        self.assertIsNotNone(self.server("GET", "job"))
        self.assertGreater(self.server("PTTL", "job"), 0)
        os.kill(pid, signal.SIGTERM)
        self.assertEqual(self.end_of(process)[0], 128 + signal.SIGTERM)
        self.assertIsNone(self.server("GET", "job"))

    def test_environment_name_and_growing_fence(self):
        fences = []
        for _ in range(3):
            _, out, _ = self.end_of(self.run_(
                "job", "--", "sh", "-c", 'echo "$LOCKWIRE_NAME" "$LOCKWIRE_FENCE"'))
            name, fence = out.split()
            self.assertEqual(name, "job")
            fences.append(int(fence))
        self.assertGreater(fences[0], 0)
        self.assertEqual(fences, sorted(set(fences)))

    def test_input_and_output_are_the_programs(self):
        process = self.run_("job", "--", "cat", stdin=subprocess.PIPE)
        out, _ = process.communicate("hello", timeout=LIMIT)
        self.assertEqual(out, "hello")

    def test_options_before_and_after_the_name_with_and_without_dashes(self):
        for words in (("job", "--wait", "0", "--", "echo", "-n", "--wait"),
                      ("--wait=0", "job", "echo", "-n", "--wait")):
            self.assertEqual(self.end_of(self.run_(*words))[1], "--wait")

    def test_letters_as_flock_has_them(self):
        for words in (("-n", "job", "--", "echo", "-n", "-x"), ("job", "-n", "echo", "-n", "-x"),
                      ("-nx", "job", "echo", "-n", "-x"), ("-sw5", "job", "echo", "-n", "-x"),
                      ("-e", "job", "-w", "5", "--", "echo", "-n", "-x"),
                      ("-E1", "-x", "job", "echo", "-n", "-x")):
            self.assertEqual(self.end_of(self.run_(*words)), (0, "-x", ""))
        for words, kind in (((), "string"), (("-s",), "hash"), (("-x",), "hash"), (("-e",), "hash")):
            process = self.run_(*words, "job", "--", "sh", "-c", "echo held; read x",
                                stdin=subprocess.PIPE)
            self.assertEqual(self.line_of(process.stdout), "held\n")
            self.assertEqual(self.server("TYPE", "job"), kind)
            self.assertEqual(self.code("-ns", "job", "true"), 0 if "-s" in words else 75)
            self.end_of(process)

    def test_redissons_lock(self):
        _, pid = self.holder("--redisson")
        self.assertEqual(self.server("TYPE", "job"), "hash")
        self.assertEqual(self.code("job", "--redisson", "-n", "--", "true"), 75)
        waiter = self.run_("job", "--redisson", "--", "sh", "-c", 'echo "${LOCKWIRE_FENCE-none}"',
                           env={"LOCKWIRE_FENCE": "17"})
        os.kill(pid, signal.SIGTERM)
        self.assertEqual(self.end_of(waiter), (0, "none\n", ""))

    def test_a_lease_is_renewed(self):
        process, _ = self.holder("--lease", "3s")
        least = self.server("PTTL", "job")
        for _ in range(2):
            def grew():
                nonlocal least
                before, least = least, self.server("PTTL", "job")
                return least > before
            until(grew, "the key's time to live grows again")
        self.assertIsNone(process.poll())


class Waiting(RunTest):
    def test_busy_at_once(self):
        self.holder()
        code, _, err = self.end_of(self.run_("job", "--wait", "0", "--", "true"))
        self.assertEqual(code, 75)
        self.assertIn("job", err)

    def test_busy_with_a_code_of_its_own(self):
        self.holder()
        for words, code in ((("-n",), 75), (("-n", "-E", "0"), 0), (("-nE255",), 255),
                            (("-w", "50ms", "--conflict-exit-code", "3"), 3)):
            self.assertEqual(self.code("job", *words, "--", "true"), code)

    def test_another_name_is_free(self):
        self.holder()
        self.assertEqual(self.code("other", "--wait", "0", "--", "true"), 0)

    def test_busy_after_the_wait(self):
        self.holder()
        begin = time.monotonic()
        self.assertEqual(self.code("job", "--wait", "400ms", "--", "true"), 75)
        self.assertGreaterEqual(time.monotonic() - begin, 0.4)
        self.assertEqual(self.server("EXISTS", QUEUE), 0)

    def test_waits_until_the_holder_ends(self):
        _, pid = self.holder()
        waiter = self.run_("job", "--", "sh", "-c", "echo mine")
        until(lambda: self.server("ZCARD", QUEUE) == 1, "the waiter queues")
        self.assertIsNone(waiter.poll())
        os.kill(pid, signal.SIGTERM)
        self.assertEqual(self.end_of(waiter)[:2], (0, "mine\n"))

    def test_a_signal_while_waiting_leaves_the_queue(self):
        self.holder()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT,
                       signal.SIGUSR1, signal.SIGUSR2):
            waiter = self.run_("job", "--", "true")
            until(lambda: self.server("EXISTS", QUEUE), "the waiter queues")
            waiter.send_signal(number)
            self.assertEqual(self.end_of(waiter)[0], 128 + number)
            self.assertEqual(self.server("EXISTS", QUEUE), 0)

    def test_many_exclude_each_other(self):
        count = self.path("count")
        with open(count, "w", encoding="ascii") as file:
            file.write("0")
        script = 'n=$(cat "$0"); sleep 0.01; echo $((n + 1)) > "$0"'
        runs = [self.run_("job", "--", "sh", "-c", script, count) for _ in range(12)]
        self.assertEqual([self.end_of(run)[0] for run in runs], [0] * 12)
        with open(count, encoding="ascii") as file:
            self.assertEqual(int(file.read()), 12)


class Signals(RunTest):
    def test_each_is_passed_on(self):
        script = ('for s in INT TERM HUP QUIT USR1 USR2; do'
                  ' trap "echo $s > got; exit 7" $s; done;'
                  ' echo $$ > held; while :; do sleep 0.02; done')
        for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2"):
            process, _ = self.holder(script=script)
            process.send_signal(getattr(signal, "SIG" + name))
            self.assertEqual(self.end_of(process)[0], 7)
            self.assertEqual(self.wait_for_file("got").strip(), name)
            self.assertIsNone(self.server("GET", "job"))
            os.remove(self.path("held"))
            os.remove(self.path("got"))

    def test_an_ignored_one_stays_ignored(self):
        process = self.spawn(
            "sh", "-c", 'trap "" HUP; exec "$0" run job -- sh -c "$1"', COMMAND,
            "echo $$ > held; while [ ! -e go ]; do sleep 0.02; done; kill -HUP $$;"
            " echo survived", cwd=self.folder)
        self.wait_for_file("held", process)
        process.send_signal(signal.SIGHUP)
        with open(self.path("go"), "w", encoding="ascii"):
            pass
        self.assertEqual(self.end_of(process)[:2], (0, "survived\n"))

    def test_a_killed_parent_takes_the_program_along(self):
        process, pid = self.holder()
        process.kill()
        until(lambda: not alive(pid), "the program gets SIGTERM")


class Losing(RunTest):
    def test_a_stolen_lock_ends_the_program(self):
        process, pid = self.holder()
        self.server.take_away("SET", "job", "somebody else")
        code, _, err = self.end_of(process)
        self.assertEqual(code, 70)
        self.assertIn("lost", err)
        self.assertFalse(alive(pid))
        self.assertEqual(self.server("GET", "job"), "somebody else")

    def test_a_silent_server_ends_the_program_within_the_lease(self):
        process, pid = self.holder("--lease", "3s")
        self.server.pause()
        until(lambda: not alive(pid), "the program is ended")
        self.assertEqual(self.end_of(process)[0], 70)

    def test_the_longest_hold(self):
        process, pid = self.holder("--max-hold", "1s",
                                   script='trap "" TERM; echo $$ > held; while :; do sleep 0.02; done')
        code, _, err = self.end_of(process)
        self.assertEqual(code, 70)
        self.assertEqual(err, "lockwire: the lock 'job' was lost: the time of --max-hold has "
                              "passed\n")
        self.assertFalse(alive(pid))
        self.assertIsNone(self.server("GET", "job"))

    def test_what_ends_before_the_longest_hold_does(self):
        self.assertEqual(self.code("job", "--max-hold", "1h", "--", "sh", "-c", "exit 4"), 4)

    def test_a_program_that_ignores_sigterm_gets_sigkill_after_the_grace_time(self):
        process, pid = self.holder(
            "--grace", "200ms",
            script='trap "" TERM; echo $$ > held; while :; do sleep 0.02; done')
        self.server.take_away("DEL", "job")
        self.assertEqual(self.end_of(process)[0], 70)
        self.assertFalse(alive(pid))

    def test_a_program_may_tidy_up_within_the_grace_time(self):
        process, _ = self.holder(
            "--grace", "10s",
            script='trap "echo tidy; exit 0" TERM; echo $$ > held;'
                   ' while :; do sleep 0.02; done')
        self.server.take_away("DEL", "job")
        self.assertEqual(self.end_of(process)[:2], (70, "tidy\n"))


class Several(RunTest):
    """With --and the command runs while all locks are held."""

    def test_all_are_held_with_a_fence_each_in_the_given_order(self):
        script = 'echo $LOCKWIRE_NAME $LOCKWIRE_FENCE $LOCKWIRE_FENCE_2 $LOCKWIRE_FENCE_3 ' \
                 '${LOCKWIRE_FENCE_4-none}'
        fences = []
        for names in (("c", "a", "b"), ("b", "c", "a")):
            process = self.run_(names[0], "--and", names[1], "--and", names[2], "--", "sh", "-c",
                                script + "; read x", stdin=subprocess.PIPE,
                                env={"LOCKWIRE_FENCE_4": "17"})
            name, *numbers, none = self.line_of(process.stdout).split()
            self.assertEqual((name, none), (names[0], "none"))
            fences.append(dict(zip(names, map(int, numbers))))
            self.assertEqual(self.server("EXISTS", "a", "b", "c"), 3)
            self.assertEqual(self.end_of(process)[0], 1)  # the code of read at the end of input
            self.assertEqual(self.server("EXISTS", "a", "b", "c"), 0)
        for name in "abc":
            self.assertLess(fences[0][name], fences[1][name])

    def test_a_fence_of_an_outer_run_is_not_inherited(self):
        inner = f'"{COMMAND}" run c -- sh -c \'echo ${{LOCKWIRE_FENCE_2-none}}\''
        self.assertEqual(self.end_of(self.run_("a", "--and", "b", "--", "sh", "-c", inner)),
                         (0, "none\n", ""))

    def test_one_busy_name_is_named_and_nothing_is_held(self):
        self.holder(name="b")
        for wait, said in (("0", "cannot lock 'b': held by another client"),
                           ("300ms", "timed out waiting for 'b'")):
            self.assertEqual(self.end_of(self.run_("c", "--and", "b", "--and", "a", "--wait",
                                                   wait, "--", "true")),
                             (75, "", f"lockwire: {said}\n"))
            self.assertEqual(self.server("EXISTS", "a", "c"), 0)

    def test_a_wait_for_one_name_holds_the_smaller_ones(self):
        holder, pid = self.holder(name="b")
        waiter = self.run_("c", "--and", "a", "--and", "b", "--verbose", "--", "echo", "ran")
        until(lambda: self.server("ZCARD", "lockwire:2:queue:{b}") == 1, "it queues")
        self.assertEqual(self.server("EXISTS", "a", "c"), 1)
        self.assertIn("lockwire: b: waiting, place 1 of 1; held by ", self.line_of(waiter.stderr))
        os.kill(pid, signal.SIGTERM)
        self.assertEqual(self.end_of(waiter)[:2], (0, "ran\n"))
        self.end_of(holder)

    def test_any_lock_lost_ends_the_command(self):
        for name in ("a", "b", "c"):
            process = self.run_("b", "--and", "a", "--and", "c", "--lease", "9s", "--", "sh",
                                "-c", "echo held; exec sleep 1000")
            self.assertEqual(self.line_of(process.stdout), "held\n")
            self.server("DEL", name)
            code, _, err = self.end_of(process)
            self.assertEqual(code, 70)
            self.assertEqual(err, f"lockwire: the lock '{name}' was lost: the lock is not held\n")
            self.assertEqual(self.server("EXISTS", "a", "b", "c"), 0)

    def test_the_lock_that_was_gone_at_the_release_is_named(self):
        for name in ("a", "b", "c"):
            process = self.run_("b", "--and", "a", "--and", "c", "--", "sh", "-c",
                                "echo held; read x", stdin=subprocess.PIPE)
            self.assertEqual(self.line_of(process.stdout), "held\n")
            self.server("DEL", name)
            self.assertEqual(self.end_of(process)[2], f"lockwire: '{name}' was lost before it "
                             "could be released\n")
            self.assertEqual(self.server("EXISTS", "a", "b", "c"), 0)

    def test_opposite_orders_never_deadlock(self):
        loop = 'for i in 1 2 3 4 5 6 7 8; do "$0" run "$1" --and "$2" -- true || exit 9; done'
        both = [self.spawn("sh", "-c", loop, COMMAND, *names) for names in ("ab", "ba")]
        for process in both:
            self.assertEqual(self.end_of(process), (0, "", ""))

    def test_what_is_refused(self):
        for words, said in ((("a", "--and", "b", "-x"), "--and is for mutexes"),
                            (("a", "--and", "b", "-s"), "--and is for mutexes"),
                            (("a", "--and", "b", "--redisson"), "--and is for mutexes"),
                            (("a", *16 * ("--and", "b")), "at most 16 locks"),
                            (("a", "--and", "b", "--and", "a"), "'a' is given twice"),
                            (("a", "--and", ""), "--and: the name is empty")):
            code, _, err = self.end_of(self.run_(*words, "--", "true"))
            self.assertEqual(code, 64, err)
            self.assertIn(said, err)


if __name__ == "__main__":
    unittest.main()
