#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`lockwire run` and all the processes of its command: none of them works on without the lock,
whichever process dies, and the lock is not released while one of them works.

Usual course: a command has children of its own; something happens; all of them are gone.
"""
import contextlib
import os
import signal
import sys
import unittest

from support import COMMAND, LIMIT, ToolTest, alive, children, keeper_of, stat_of, status_of, until

LOOP = "while :; do sleep 0.02; done"
AT_WORK = "while [ ! -s worker ]; do sleep 0.02; done"
STUBBORN = f'trap "" TERM; echo $$ > worker; {LOOP}'
# Prints the time while it works, on a clock that all processes share, and ignores SIGTERM.
CLOCK = ("import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
         "while True:\n"
         "    print(time.monotonic(), flush=True); time.sleep(0.005)\n")
# Each process ends as soon as it has started the next, so that an observer hardly sees one of
# them. The chain goes on while the file `go` exists. (A shell allows no more than 1,000 nested
# calls.)
CHAIN = ('trap "" TERM; f() { if [ "$1" -gt 0 ]; then f $(($1 - 1)) & exit 3; fi;'
         ' if [ -e go ]; then exec sh -c "$CHAIN f 900"; fi;'
         ' echo done > done; exit; };')
BEGIN = CHAIN + " echo $$ > worker; f 900"
APART = ("import os, sys\n"
         "if os.fork():\n"
         "    os._exit(3)\n"
         "os.setpgid(0, 0)\n"
         "os.execvp('sh', ['sh', '-c', sys.argv[1]])\n")
CHAINS = (("sh", "-c", BEGIN), (sys.executable, "-c", APART, BEGIN))
# The first thread ends; another one works, in its own process group.
THREAD = ("import ctypes, os, threading, time\n"
          "os.setpgid(0, 0)\n"
          "def work():\n"
          "    open('worker', 'w').write(str(os.getpid())); time.sleep(1000)\n"
          "threading.Thread(target=work).start()\n"
          "ctypes.CDLL(None).pthread_exit(None)\n")


def group_lives(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


class ProcessesTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.environment["LOCKWIRE_URL"] = self.server.url

    def run_(self, *words, **more):
        return self.spawn(COMMAND, "run", *words, cwd=self.folder, **more)

    def working(self, script, *options):
        """Starts a command of several processes. Returns it and the pid in the file `worker`."""
        process = self.run_("job", *options, "--", "sh", "-c", script)
        worker = int(self.wait_for_file("worker", process))
        self.addCleanup(self.kill, worker)
        return process, worker

    def following(self, words, *options):
        """Starts a chain of processes. Returns the command and the chain's process group."""
        with open(self.path("go"), "wb"):
            pass
        process = self.run_("job", *options, "--", *words, env={"CHAIN": CHAIN})
        group = int(self.wait_for_file("worker", process))
        os.remove(self.path("worker"))
        return process, group

    @staticmethod
    def kill(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


class Lease(ProcessesTest):
    """No process works during the next holder's lease."""

    def check(self, cut, url, code_of_first):
        first = self.spawn(
            "sh", "-c", 'exec "$0" "$@" >first', COMMAND, "run", "job", "--lease", "10s",
            "--grace", "4s", "--redis", url, "--", sys.executable, "-c", CLOCK, cwd=self.folder)
        self.wait_for_file("first", first)
        second = self.run_("job", "--", sys.executable, "-c",
                           "import time; print(time.monotonic())")
        until(lambda: self.server("EXISTS", "lockwire:2:queue:{job}"), "the second one waits")
        cut(first)
        code, began, err = self.end_of(second)
        self.assertEqual(code, 0, err)
        first.send_signal(signal.SIGCONT)
        self.assertEqual(self.end_of(first)[0], code_of_first)
        with open(self.path("first"), encoding="ascii") as file:
            ended = file.read().split()[-1]
        self.assertLess(float(ended), float(began))

    def test_when_the_connections_are_cut(self):
        port = self.server.listen()
        self.server("ACL", "SETUSER", "anna", "on", ">right", "~*", "&*", "+@all")

        def cut(_):
            self.server("ACL", "SETUSER", "anna", "off")
            self.server("CLIENT", "KILL", "USER", "anna")
        self.check(cut, f"redis://anna:right@127.0.0.1:{port}", 77) # the account is off

    def test_when_lockwire_is_stopped(self):
        self.check(lambda first: first.send_signal(signal.SIGSTOP), self.server.url, 70)


class Lost(ProcessesTest):
    def check(self, script, *options):
        process, worker = self.working(script, "--grace", "200ms", *options)
        self.server.take_away("SET", "job", "somebody else")
        code, _, err = self.end_of(process)
        self.assertEqual(code, 70, err)
        self.assertFalse(alive(worker))

    def test_a_worker_in_the_background(self):
        self.check("sleep 1000 & echo $! > worker; wait")

    def test_a_worker_that_does_not_listen(self):
        self.check(f"sh -c '{STUBBORN}' & wait")

    def test_a_worker_whose_parent_has_ended(self):
        self.check(f"sh -c '{STUBBORN}' & exit 0")

    def test_a_worker_in_a_group_of_its_own(self):
        self.check(f"timeout 1000 sh -c '{STUBBORN}'")

    def test_a_worker_in_a_group_of_its_own_whose_parents_have_ended(self):
        self.check(f"(timeout 1000 sh -c '{STUBBORN}' &); {AT_WORK}")

    def test_processes_that_follow_each_other_fast(self):
        for chain in CHAINS:
            process, group = self.following(chain, "--grace", "200ms")
            self.server.take_away("SET", "job", "somebody else")
            self.assertEqual(self.end_of(process)[0], 70)
            self.assertFalse(group_lives(group))
            self.server("DEL", "job")

    @unittest.skipUnless(os.geteuid() == 0, "only root makes namespaces everywhere")
    def test_where_proc_is_of_other_processes(self):
        process = self.spawn(
            "unshare", "--fork", "--pid", "--kill-child", "sh", "-c", '"$@"; exit $?', "sh",
            COMMAND, "run", "job", "--", "sh", "-c",
            "echo > held; sleep 1000 & wait", cwd=self.folder)
        try:
            self.wait_for_file("held", process)
        except AssertionError:
            self.skipTest("no namespaces here")
        self.server.take_away("SET", "job", "somebody else")
        self.assertEqual(self.end_of(process)[0], 70)

    def test_a_command_that_is_stopped_never_runs_on(self):
        process = self.run_("job", "--grace", "200ms", "--", sys.executable, "-c", CLOCK)
        self.line_of(process.stdout)
        (child,) = (pid for pid, (name, _) in children(process.pid).items()
                    if name != "lw-keeper")
        os.kill(child, signal.SIGSTOP)
        until(lambda: stat_of(child)[0] == "T", "it is stopped")
        self.server.take_away("SET", "job", "somebody else")
        self.assertEqual(self.end_of(process)[0], 70)
        self.assertFalse(alive(child))


class Signals(ProcessesTest):
    def test_all_of_it_is_signalled(self):
        process, _ = self.working(
            f"sh -c 'trap \"echo got > got; exit\" TERM; echo $$ > worker; {LOOP}' & wait")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(process)[0], 128 + signal.SIGTERM)
        self.assertEqual(self.wait_for_file("got"), "got\n")

    def test_who_started_lockwire_may_have_blocked_them(self):
        process = self.run_("job", "--", "sh", "-c", "exit 3", preexec_fn=lambda: (
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM})))
        self.assertEqual(self.end_of(process)[0], 3)

    @unittest.skipUnless(os.path.exists("/proc/self/status"), "the system does not tell")
    def test_the_command_finds_them_as_lockwire_did(self):
        look = ("grep", "^Sig[BI]", "/proc/self/status")
        _, without, _ = self.end_of(self.spawn(*look))
        for options in (), ("--direct",):
            _, out, _ = self.end_of(self.run_("job", *options, "--", *look))
            self.assertEqual(out, without)

    def test_direct_signals_and_awaits_one_process_only(self):
        process, worker = self.working("sleep 1000 >/dev/null 2>&1 & echo $! > worker; wait",
                                       "--direct")
        self.assertEqual(os.getpgid(worker), os.getpgid(process.pid))
        self.assertIsNone(keeper_of(process))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(process)[0], 128 + signal.SIGTERM)
        self.assertTrue(alive(worker))

    def test_direct_ends_a_lost_command(self):
        process, worker = self.working(STUBBORN, "--direct", "--grace", "200ms")
        self.server.take_away("SET", "job", "somebody else")
        self.assertEqual(self.end_of(process)[0], 70)
        self.assertFalse(alive(worker))

    @unittest.skipUnless(sys.platform == "linux", "the system has no signal for this")
    def test_direct_ends_with_lockwire(self):
        process, worker = self.working("echo $$ > worker; exec sleep 1000", "--direct")
        process.kill()
        until(lambda: not alive(worker), "it gets SIGTERM")

    def test_what_is_left_is_signalled(self):
        process, _ = self.working("sleep 1000 & echo $! > worker; exit 3")
        self.line_of(process.stderr)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(process)[0], 3)


class Left(ProcessesTest):
    """The command has ended, but a process that it started has not."""

    def check(self, script):
        process, worker = self.working(script)
        self.assertIn("'job' stays locked", self.line_of(process.stderr))
        code, _, _ = self.end_of(self.run_("job", "--wait", "0", "--", "true"))
        self.assertEqual(code, 75, "the lock is not given back")
        os.kill(worker, signal.SIGKILL)
        self.assertEqual(self.end_of(process)[0], 3, "the command's own code")
        self.assertIsNone(self.server("GET", "job"))

    def test_in_its_group(self):
        self.check("sleep 1000 & echo $! > worker; exit 3")

    def test_in_a_group_of_its_own(self):
        self.check("timeout 1000 sh -c 'echo $$ > worker; exec sleep 1000' &"
                   f" {AT_WORK}; exit 3")

    def test_whose_first_thread_has_ended(self):
        self.check(f"{sys.executable} -c \"{THREAD}\" & {AT_WORK}; exit 3")

    def test_processes_that_follow_each_other_fast(self):
        for chain in CHAINS:
            process, _ = self.following(chain, "--lease", "10m")
            self.server("PERSIST", "lockwire:fence")
            until(lambda: self.server("PTTL", "lockwire:fence") > 0,
                  "a heartbeat, for which lockwire finds the time")
            os.remove(self.path("go"))
            process.wait(LIMIT)
            self.assertTrue(os.path.exists(self.path("done")), "nobody else had the lock before")
            self.assertEqual(self.end_of(process)[0], 3)
            os.remove(self.path("done"))

    def test_a_daemon_is_left_alone(self):
        process, worker = self.working(
            "setsid sh -c 'echo $$ > worker; exec sleep 1000' >/dev/null 2>&1 &"
            f" {AT_WORK}; exit 3")
        self.assertEqual(self.end_of(process)[::2], (3, ""))
        self.assertTrue(alive(worker))

    def test_what_was_there_before_is_left_alone(self):
        """The processes are children of the shell that exec'ed lockwire."""
        process = self.spawn(
            "sh", "-c", 'sleep 1000 >/dev/null 2>&1 & echo $! > worker; exec "$0" run job --'
            ' sh -c "exit 3"', COMMAND, cwd=self.folder)
        worker = int(self.wait_for_file("worker"))
        self.addCleanup(self.kill, worker)
        self.assertEqual(self.end_of(process)[::2], (3, ""))
        self.assertTrue(alive(worker))

    def test_orphans_are_reaped(self):
        process, worker = self.working("(true & setsid true &); echo $$ > worker; exec sleep 1000")
        until(lambda: "Z" not in [state for _, state in children(process.pid).values()],
              "nobody waits to be reaped")
        self.assertTrue(alive(worker))


class Keeper(ProcessesTest):
    """lockwire is killed, and its keeper remains."""

    def check(self, script, *options):
        process, worker = self.working(script, *options)
        until(lambda: keeper_of(process), "there is a keeper")
        process.kill()
        until(lambda: not alive(worker), "nobody works without a keeper of the lock")
        self.assertIsNotNone(self.server("GET", "job"), "nor when the lease is over")

    def test_a_worker_in_the_background(self):
        self.check("sleep 1000 & echo $! > worker; wait")

    def test_a_worker_that_does_not_listen(self):
        self.check(f"sh -c '{STUBBORN}' & wait", "--grace", "200ms")

    def test_a_worker_whose_parent_has_ended(self):
        self.check(f"sh -c '{STUBBORN}' & exit 0", "--grace", "200ms")

    def test_a_worker_in_a_group_of_its_own(self):
        self.check(f"timeout 1000 sh -c '{STUBBORN}' & wait", "--grace", "200ms")

    def test_a_worker_in_a_group_of_its_own_whose_parents_have_ended(self):
        process, worker = self.working(f"(timeout 1000 sh -c '{STUBBORN}' &); {AT_WORK}",
                                       "--grace", "200ms")
        self.assertIn("stays locked", self.line_of(process.stderr))
        process.kill()
        until(lambda: not alive(worker), "the keeper had seen it")

    def test_a_worker_in_a_group_of_its_own_whose_parent_has_ended(self):
        process, worker = self.working(f"(timeout 1000 sh -c '{STUBBORN}' &); sleep 1000",
                                       "--lease", "4s", "--grace", "200ms")
        keeper = until(lambda: keeper_of(process), "there is a keeper")
        waits = int(status_of(keeper, "voluntary_ctxt_switches"))
        until(lambda: int(status_of(keeper, "voluntary_ctxt_switches")) > waits + 3, "it looks")
        process.kill()
        until(lambda: not alive(worker), "the keeper had seen it")

    def test_processes_that_follow_each_other_fast(self):
        process, group = self.following(CHAINS[0], "--grace", "200ms")
        process.kill()
        until(lambda: not group_lives(group), "nobody is left")

    def test_a_stopped_keeper_is_not_taken_for_a_dead_one(self):
        process, worker = self.working(
            f'trap "echo got > got" USR1; echo $$ > worker; {LOOP}')
        keeper = until(lambda: keeper_of(process), "there is a keeper")
        os.kill(keeper, signal.SIGSTOP)
        until(lambda: stat_of(keeper)[0] == "T", "it is stopped")
        process.send_signal(signal.SIGUSR1)
        self.wait_for_file("got")  # lockwire has handled all earlier signals
        self.assertEqual(keeper_of(process), keeper)
        os.kill(keeper, signal.SIGCONT)
        os.kill(worker, signal.SIGKILL)
        self.assertEqual(self.end_of(process)[0], 128 + signal.SIGKILL)

    def test_what_is_stopped_with_a_killed_lockwire_does_not_run_on(self):
        """When lockwire is killed, the kernel continues the stopped command. The keeper kills it at
        once, without a grace time."""
        process = self.run_("job", "--", "sh", "-c",
                            'trap "" HUP; echo $$ > worker; exec "$0" -c "$1" > ticks',
                            sys.executable, CLOCK,
                            preexec_fn=os.setpgrp)  # a job that can be continued
        worker = int(self.wait_for_file("worker"))
        self.wait_for_file("ticks")
        process.send_signal(signal.SIGTSTP)
        until(lambda: stat_of(process.pid)[0] == stat_of(worker)[0] == "T", "both are stopped")
        before = len(self.wait_for_file("ticks").split())
        process.kill()
        until(lambda: not alive(worker), "the keeper kills it")
        self.assertLess(len(self.wait_for_file("ticks").split()) - before, 100)

    def test_a_command_may_tidy_up(self):
        process, worker = self.working(f'trap "echo tidy > tidy; exit" TERM; echo $$ > worker; {LOOP}')
        process.kill()
        self.assertEqual(self.wait_for_file("tidy"), "tidy\n")
        until(lambda: not alive(worker), "it ends")

    def test_killed_while_a_lost_command_is_ended(self):
        process, worker = self.working(STUBBORN, "--grace", "3s")
        self.server.take_away("SET", "job", "somebody else")
        while "was lost" not in self.line_of(process.stderr):
            pass
        process.kill()
        until(lambda: not alive(worker), "its time is not counted anew for ever")

    def test_a_killed_keeper_has_a_successor(self):
        process, worker = self.working("sleep 1000 & echo $! > worker; wait")
        first = until(lambda: keeper_of(process), "there is a keeper")
        os.kill(first, signal.SIGKILL)
        until(lambda: keeper_of(process) not in (None, first), "there is another")
        self.assertTrue(alive(worker))
        process.kill()
        until(lambda: not alive(worker), "which knows what to do")

    def test_it_ends_with_the_command_and_holds_nothing(self):
        process, worker = self.working("echo $$ > worker; exec sleep 1000")
        keeper = until(lambda: keeper_of(process), "there is a keeper")
        until(lambda: sorted(os.listdir(f"/proc/{keeper}/fd")) == ["0", "1", "2"],
              "a pipe, and /dev/null twice")
        for fd in 1, 2:
            self.assertEqual(os.readlink(f"/proc/{keeper}/fd/{fd}"), "/dev/null")
        os.kill(worker, signal.SIGTERM)
        self.end_of(process)
        self.assertFalse(alive(keeper))

    def test_no_signal_ends_it(self):
        process, worker = self.working("echo $$ > worker; exec sleep 1000")
        keeper = until(lambda: keeper_of(process), "there is a keeper")
        for number in signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT:
            os.kill(keeper, number)
            until(lambda bit=1 << (number - 1): int(status_of(keeper, "ShdPnd"), 16) & bit,
                  "it is kept waiting")
        self.assertEqual(keeper_of(process), keeper)
        os.kill(worker, signal.SIGKILL)
        self.assertEqual(self.end_of(process)[0], 128 + signal.SIGKILL)


class EmbeddedServer(ProcessesTest):
    def test_one_that_dies_is_reaped_and_its_folder_removed(self):
        self.environment["TMPDIR"] = self.folder
        process, worker = self.working("echo $$ > worker; exec sleep 1000", "--redis", "embedded:")
        (server,) = (pid for pid, (name, _) in children(process.pid).items() if "redis" in name)
        os.kill(server, signal.SIGKILL)
        until(lambda: server not in children(process.pid), "it is reaped")
        with contextlib.suppress(ProcessLookupError):  # the lock may have been lost
            os.kill(worker, signal.SIGTERM)
        self.assertIn(self.end_of(process)[0], (69, 70))  # not released, or lost
        self.assertEqual(os.listdir(self.folder), ["worker"])


if __name__ == "__main__":
    unittest.main()
