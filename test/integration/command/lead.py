#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`lockwire lead` at a real server: its command runs while it leads, is ended when it loses the
lead, and is started again. Another candidate takes over. Two commands never run at once.

Usual course: the command runs; the lock is lost; the command is ended, and started again.
"""
import os
import signal
import unittest

from support import COMMAND, ToolTest, alive, until
from terminal import CTRL_C, CTRL_Z, Terminal

QUEUE = "lockwire:2:queue:{job}"
LOOP = "while :; do sleep 0.02; done"
# Records itself, and in `twice` that the command before it still runs.
WORK = ('grep -qs "^State:.[^Z]" "/proc/$(cat pid 2>&-)/status" && echo twice >> twice;'
        ' echo $$ > pid;'
        ' echo "$who $LOCKWIRE_FENCE $$" >> works; ')


class LeadTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.environment["LOCKWIRE_URL"] = self.server.url

    def lead(self, *options, script="exec sleep 1000", who="anna"):
        return self.spawn(COMMAND, "lead", "job", *options, "--", "sh", "-c", WORK + script,
                          cwd=self.folder, env={"who": who})

    def works(self):
        """Returns each command that was started: who, fence, pid."""
        if not os.path.exists(self.path("works")):
            return []
        with open(self.path("works"), encoding="ascii") as file:
            return [(who, int(fence), int(pid)) for who, fence, pid in
                    (line.split() for line in file.read().splitlines(True) if line[-1] == "\n")]

    def names(self):
        return [who for who, _, _ in self.works()]

    def worked(self, count):
        return until(lambda: len(self.works()) >= count and self.works(), f"{count} were started")

    def queued(self):
        until(lambda: self.server("ZCARD", QUEUE) == 1, "it queues")

    def check(self):
        works = self.works()
        fences = [fence for _, fence, _ in works]
        self.assertEqual(fences, sorted(set(fences)))
        self.assertFalse(os.path.exists(self.path("twice")), works)


class Alone(LeadTest):
    def test_the_end_of_the_command_is_the_end(self):
        for code in (0, 7):
            self.assertEqual(self.end_of(self.lead(script=f"exit {code}"))[0], code)
            self.assertIsNone(self.server("GET", "job"))
        self.assertEqual(self.end_of(self.spawn(COMMAND, "lead", "job", "/no/such"))[0], 127)

    def test_a_loss_ends_the_command_and_it_is_started_again(self):
        process = self.lead()
        for count in (1, 2, 3):
            _, _, pid = self.worked(count)[-1]
            self.server.take_away("DEL", "job")
            until(lambda: not alive(pid), "the command is ended")
        self.worked(4)
        process.terminate()
        code, _, err = self.end_of(process)
        self.assertEqual(code, 128 + signal.SIGTERM)
        self.assertGreaterEqual(err.count("the lock 'job' was lost"), 3)
        self.assertIsNone(self.server("GET", "job"))
        self.check()

    def test_all_of_the_command_is_gone_before_it_is_started_again(self):
        process = self.lead("--grace", "300ms",
                            script=f'trap "" TERM; (sh -c "echo \\$\\$ >> young; {LOOP}") & {LOOP}')
        self.worked(1)
        first = self.wait_for_file("young")
        self.server.take_away("DEL", "job")
        self.worked(2)
        self.assertFalse(alive(int(first)))
        process.kill()
        self.check()

    def test_a_server_that_ends_and_comes_back(self):
        process = self.lead("--lease", "2s")
        _, _, pid = self.worked(1)[0]
        self.server.kill()
        until(lambda: not alive(pid), "the command is ended")
        self.assertIsNone(process.poll())
        self.server.start()
        _, _, pid = self.worked(2)[1]
        self.assertTrue(alive(pid))
        process.terminate()
        self.assertEqual(self.end_of(process)[0], 128 + signal.SIGTERM)
        self.check()

    def test_the_second_command_finds_signals_as_the_first_did(self):
        process = self.lead(script="grep Sig[IB][gl] /proc/self/status >> signals; exec sleep 1000")
        self.worked(1)
        self.server.take_away("DEL", "job")
        self.worked(2)

        def seen():
            with open(self.path("signals"), encoding="ascii") as file:
                lines = file.read().splitlines()
            return lines if len(lines) == 4 else None
        first_blocked, first_ignored, *second = until(seen, "both have looked")
        self.assertEqual(second, [first_blocked, first_ignored])
        process.kill()

    def test_the_environment_of_redissons_lock(self):
        process = self.spawn(COMMAND, "lead", "job", "--redisson", "--", "sh", "-c",
                             'echo "${LOCKWIRE_FENCE-none}"', env={"LOCKWIRE_FENCE": "17"})
        self.assertEqual(self.end_of(process)[:2], (0, "none\n"))

    def test_a_direct_command(self):
        process = self.lead("--direct")
        _, _, pid = self.worked(1)[0]
        self.server.take_away("DEL", "job")
        _, _, second = self.worked(2)[1]
        self.assertFalse(alive(pid))
        process.terminate()
        self.assertEqual(self.end_of(process)[0], 128 + signal.SIGTERM)
        self.assertFalse(alive(second))
        self.check()


class Signals(LeadTest):
    def test_they_are_the_commands(self):
        process = self.lead(script=f'trap "exit 9" USR1; {LOOP}')
        self.worked(1)
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(self.end_of(process)[0], 9)

    def test_while_waiting_they_end_it(self):
        self.lead()
        self.worked(1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            waiter = self.lead(who="berta")
            self.queued()
            waiter.send_signal(number)
            self.assertEqual(self.end_of(waiter)[0], 128 + number)
            self.assertEqual(self.server("EXISTS", QUEUE), 0)

    def test_one_while_the_command_is_being_ended_ends_it_too(self):
        process = self.lead("--grace", "1s",
                            script=f'trap "echo >> asked" TERM; {LOOP}')
        _, _, pid = self.worked(1)[0]
        self.server.take_away("DEL", "job")
        self.wait_for_file("asked")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(process)[0], 128 + signal.SIGTERM)
        self.assertFalse(alive(pid))
        self.assertEqual(len(self.works()), 1)


class InTerminal(LeadTest):
    def shell(self):
        shell = Terminal(("dash", "-i"), self.folder,
                         dict(self.environment, TERM="dumb", PS1="ready> ", ENV="/dev/null",
                              lockwire=COMMAND))
        self.addCleanup(shell.close)
        shell.expect("ready> ")
        return shell

    def test_an_interrupt_ends_the_script_around_it_too(self):
        with open(self.path("script"), "w", encoding="ascii") as file:
            file.write('"$lockwire" lead job -- sh -c "echo begun; exec sleep 1000"\necho > next\n')
        shell = self.shell()
        shell.line("dash script")
        shell.expect("begun\r\n")
        shell.type(CTRL_C)
        shell.expect("ready> ")
        shell.line('echo "then $?"')
        shell.expect(r"then 130\r\n")
        self.assertFalse(os.path.exists(self.path("next")))
        self.assertIsNone(self.server("GET", "job"))

    def test_each_command_has_the_terminal(self):
        shell = self.shell()
        shell.line('"$lockwire" lead job -- sh -c \'echo $$ >> pids; read x;'
                   ' echo "got $x"; read y\'')
        for count in (1, 2, 3):
            self.has_terminal(shell, count)
            shell.line(f"line {count}")
            shell.expect(f"got line {count}\r\n")
            self.server.take_away("DEL", "job")
            shell.expect("lockwire: the lock 'job' was lost: ")
        self.has_terminal(shell, 4)  # a command that is being ended would ignore the key
        shell.type(CTRL_C)
        shell.expect("ready> ")

    def test_it_stops_while_it_waits_again(self):
        shell = self.shell()
        shell.line('"$lockwire" lead job -- sh -c "echo \\$\\$ >> pids; read x"')
        self.has_terminal(shell, 1)
        self.server.take_away("SET", "job", "another's", "PX", 3600000)
        shell.expect("lockwire: the lock 'job' was lost: ")
        shell.expect("lockwire: job: waiting [0-9]+s, place 1 of 1; ")
        shell.type(CTRL_Z)
        shell.expect("(?i)stopped")
        shell.expect("ready> ")
        shell.line("fg")
        self.server("DEL", "job")
        self.has_terminal(shell, 2)
        shell.type(CTRL_C)
        shell.expect("ready> ")

    def has_terminal(self, shell, count):
        def started():
            if not os.path.exists(self.path("pids")):
                return None
            with open(self.path("pids"), encoding="ascii") as file:
                pids = file.read().split()
            return len(pids) == count and os.tcgetpgrp(shell.master) == int(pids[-1])
        until(started, f"number {count} was started, and has the terminal")


class Several(LeadTest):
    def test_another_takes_over_when_the_first_is_killed(self):
        first = self.lead("--lease", "4s")
        _, _, pid = self.worked(1)[0]
        second = self.lead("--lease", "4s", who="berta")
        self.queued()
        first.kill()
        (_, _, _), (who, _, works) = self.worked(2)
        self.assertEqual(who, "berta")
        self.assertFalse(alive(pid))
        self.assertTrue(alive(works))
        second.terminate()
        self.assertEqual(self.end_of(second)[0], 128 + signal.SIGTERM)
        self.check()

    def test_the_longest_hold_lets_the_next_one_lead(self):
        first = self.lead("--max-hold", "3s")
        self.worked(1)
        second = self.lead(who="berta")  # a slow one may queue only while a later command runs
        names = until(lambda: "berta" in self.names() and self.names(), "berta leads")
        self.assertEqual(names[-1], "berta")
        self.queued()  # anna, again
        self.assertEqual(self.names(), names)
        second.terminate()
        self.end_of(second)
        until(lambda: self.names()[len(names):], "anna leads again")
        first.terminate()
        self.assertIn("--max-hold", self.end_of(first)[2])
        self.check()

    def test_one_that_is_stopped_leads_no_more(self):
        first = self.lead("--lease", "4s")
        _, _, pid = self.worked(1)[0]
        second = self.lead("--lease", "4s", who="berta")
        self.queued()
        first.send_signal(signal.SIGSTOP)
        self.assertEqual(self.worked(2)[1][0], "berta")
        self.assertFalse(alive(pid))
        first.send_signal(signal.SIGCONT)
        self.queued()
        second.terminate()
        self.end_of(second)
        self.assertEqual(self.worked(3)[2][0], "anna")
        first.terminate()
        self.end_of(first)
        self.check()


if __name__ == "__main__":
    unittest.main()
