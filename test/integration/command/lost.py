#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""--on-lost and --keep-running of `lockwire run`, `lead` and `hold` at a real server: when CMD
is started, its environment, and that it delays nothing.

Usual course: the key is deleted; CMD writes its environment into a file; the exit code is 70.
"""
import os
import signal
import subprocess
import unittest

from support import COMMAND, LIMIT, ToolTest, alive, keeper_of, status_of, until

# Appends CMD's environment, one line for each start.
NOTE = ('echo "$LOCKWIRE_LOST_STATE|$LOCKWIRE_NAME|$LOCKWIRE_LOST_REASON|$LOCKWIRE_FENCE"'
        ' >> noted')
HANGS = "echo $$ > hook; exec sleep 1000"


class LostTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.environment["LOCKWIRE_URL"] = self.server.url

    def run_(self, *options, script="exec sleep 1000", subcommand="run", name="job", **more):
        """Starts a command that holds the lock. Returns it and the pid of its program."""
        process = self.spawn(COMMAND, subcommand, name, *options, "--", "sh", "-c",
                             "echo $LOCKWIRE_FENCE > fence; echo $$ > held; " + script,
                             cwd=self.folder, **more)
        return process, int(self.wait_for_file("held", process))

    def notes(self):
        if not os.path.exists(self.path("noted")):
            return []
        with open(self.path("noted"), encoding="utf-8") as file:
            return [tuple(line.rstrip("\n").split("|")) for line in file if line[-1] == "\n"]

    def losses(self, count=1):
        """Waits for `count` losses, and returns their notes. (On a slow machine a lock may be at
        risk as well.)"""
        def lost():
            return [note for note in self.notes() if note[0] == "lost"]

        until(lambda: len(lost()) >= count, f"CMD was started for {count} losses")
        return lost()

    def outcome(self, process):
        """Returns the exit code and the messages. A CMD that hangs still has its outputs open."""
        process.wait(timeout=LIMIT)
        return process.returncode, self.rest_of(process)

    @staticmethod
    def looks(keeper):
        """Returns how often the process has waited for something; -1 when it has ended."""
        try:
            return int(status_of(keeper, "voluntary_ctxt_switches"))
        except OSError:
            return -1

    def hook(self):
        """Returns the pid of a CMD that hangs, and ends CMD with the test."""
        pid = int(self.wait_for_file("hook"))
        self.addCleanup(lambda: alive(pid) and os.kill(pid, signal.SIGKILL))
        return pid


class OnLost(LostTest):
    def test_a_lock_that_is_taken_away(self):
        for more in ((), ("--direct",), ("--and", "other")):
            process, pid = self.run_("--on-lost", NOTE, *more)
            fence = self.wait_for_file("fence").strip()
            self.server.take_away("DEL", "job")
            code, err = self.outcome(process)
            self.assertEqual(code, 70, err)
            self.assertFalse(alive(pid))
            self.assertEqual(self.losses(), [("lost", "job", "the lock is not held", fence)])
            for name in ("noted", "held", "fence"):
                os.remove(self.path(name))

    def test_a_silent_server_puts_it_at_risk_first(self):
        process, pid = self.run_("--lease", "1500ms", "--on-lost", NOTE)
        self.server.pause()
        code, err = self.outcome(process)
        self.assertEqual(code, 70, err)
        self.assertFalse(alive(pid))
        self.losses()
        notes = self.notes()[-2:]
        self.assertEqual([note[0] for note in notes], ["at-risk", "lost"])
        self.assertEqual(notes[0][2], "the lease was not renewed yet")
        self.assertIn("could not be renewed in time", notes[1][2])
        self.assertRegex(err, r"the lock 'job' is at risk, \d+ ms are left\n")

    def test_the_token_is_not_its_own(self):
        """CMD has neither the token of its own lockwire nor that of an outer one."""
        for more in ((), ("--token", "")):
            if more:
                taken = self.end_of(self.spawn(COMMAND, "take", "job"))[1]
                more = ("--token", taken.strip())
            process, _ = self.run_("--on-lost", 'echo "<$LOCKWIRE_TOKEN>" >&2',
                                   *more, env={"LOCKWIRE_TOKEN": "outer"})
            self.server.take_away("DEL", "job")
            code, err = self.outcome(process)
            self.assertEqual(code, 70, err)
            while "<" not in err:
                err += self.line_of(process.stderr)
            self.assertIn("<>\n", err)
            os.remove(self.path("held"))

    def test_with_a_minimum_time(self):
        """A lock whose key was deleted stays free."""
        process, _ = self.run_("--at-least", "1h", "--on-lost", NOTE)
        self.server.take_away("DEL", "job")
        self.assertEqual(self.outcome(process)[0], 70)
        self.assertEqual(self.losses()[0][:3], ("lost", "job", "the lock is not held"))
        self.assertEqual(self.server("EXISTS", "job"), 0)

    def test_the_longest_hold_is_a_loss(self):
        process, _ = self.run_("--max-hold", "500ms", "--on-lost", NOTE)
        self.assertEqual(self.outcome(process)[0], 70)
        self.assertEqual([note[:3] for note in self.losses()],
                         [("lost", "job", "the time of --max-hold has passed")])

    def test_no_loss_no_start(self):
        process, pid = self.run_("--on-lost", NOTE)
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(self.outcome(process)[0], 128 + 9)
        self.assertEqual(self.notes(), [])

    def test_a_lock_that_is_gone_at_the_release(self):
        process, pid = self.run_("--on-lost", NOTE)
        self.server("DEL", "job")
        os.kill(pid, signal.SIGTERM)
        self.assertEqual(self.outcome(process)[0], 70)
        self.assertEqual([note[:3] for note in self.losses()],
                         [("lost", "job", "the lock is not held")])

    def test_one_that_hangs_holds_nothing_up(self):
        for more in ((), ("--direct",)):
            process, pid = self.run_("--on-lost", HANGS, *more)
            self.server.take_away("DEL", "job")
            code, err = self.outcome(process)
            self.assertEqual(code, 70, err)
            self.assertFalse(alive(pid))
            hook = self.hook()
            self.assertTrue(alive(hook)) # it continues without lockwire
            self.assertEqual(os.getsid(hook), hook)
            os.kill(hook, signal.SIGKILL)
            until(lambda: not alive(hook), "it ends")
            for name in ("hook", "held"):
                os.remove(self.path(name))

    def test_one_that_ignores_sigterm_is_not_the_jobs(self):
        """SIGKILL after the grace time is sent only to the command."""
        process, pid = self.run_("--grace", "200ms", "--on-lost", HANGS,
                                 script='trap "" TERM; while :; do sleep 0.02; done')
        self.server.take_away("DEL", "job")
        self.assertEqual(self.outcome(process)[0], 70)
        self.assertFalse(alive(pid))
        self.assertTrue(alive(self.hook()))

    def test_one_that_fails_is_reported(self):
        for hook, said in (("exit 3", "the --on-lost command exited with 3\n"),
                           ("/no/such/program", "the --on-lost command exited with 127\n"),
                           ("kill -KILL $$", "the --on-lost command was terminated by signal 9\n")):
            for more in ((), ("--direct",)):
                process, pid = self.run_("--keep-running", "--on-lost", hook,
                                         *more)
                self.server.take_away("DEL", "job")
                err = ""
                while said not in err:
                    err += self.line_of(process.stderr)
                self.assertEqual(err.count("/no/such/program"), "/no" in hook and 1)
                os.kill(pid, signal.SIGTERM)
                self.assertEqual(self.outcome(process)[0], 70)
                os.remove(self.path("held"))

    def test_its_output_is_an_error_output(self):
        process, _ = self.run_("--on-lost", "echo said; cat; ls /proc/self/fd")
        self.server.take_away("DEL", "job")
        code, out, err = self.end_of(process)
        self.assertEqual((code, out), (70, ""))
        self.assertIn("said\n", err)


class KeepRunning(LostTest):
    def test_the_command_goes_on_and_another_holder_works(self):
        process, pid = self.run_("--keep-running", "--on-lost", NOTE,
                                 script="trap 'exit 5' USR1; while :; do sleep 0.02; done")
        self.server.take_away("DEL", "job")
        self.losses()
        other = self.spawn(COMMAND, "run", "job", "--", "true")
        self.assertEqual(self.end_of(other)[0], 0)
        self.assertTrue(alive(pid))
        process.send_signal(signal.SIGUSR1) # it is still forwarded
        code, err = self.outcome(process)
        self.assertEqual(code, 70, err)
        self.assertIn("sh continues without the lock (--keep-running)", err)
        self.assertFalse(alive(pid))

    def test_an_outage_beyond_the_lease(self):
        """The watchdog does not end the command either, also while lockwire is stopped."""
        process, pid = self.run_("--lease", "3s", "--keep-running", "--on-lost", NOTE)
        keeper = until(lambda: keeper_of(process), "there is a keeper")
        os.remove(self.path("held"))
        later, ended = self.run_("--lease", "3s", name="later")
        for stopped in process, later:
            self.addCleanup(stopped.send_signal, signal.SIGCONT)
            stopped.send_signal(signal.SIGSTOP)
        self.server.pause()
        until(lambda: not alive(ended), "lw-keeper ends a command that began later")
        looks = self.looks(keeper)
        until(lambda: self.looks(keeper) < 0 or self.looks(keeper) > looks + 1,
              "the other keeper looks at the time, too")
        self.assertTrue(alive(pid))
        process.send_signal(signal.SIGCONT)
        self.losses()
        self.server.resume()
        os.kill(pid, signal.SIGTERM)
        self.assertEqual(self.outcome(process)[0], 70)

    def test_without_a_loss_the_code_is_the_commands(self):
        process, pid = self.run_("--keep-running", script="exit 4")
        self.assertEqual(self.outcome(process)[0], 4)

    def test_if_lockwire_is_killed_the_command_ends(self):
        process, pid = self.run_("--keep-running")
        process.kill()
        until(lambda: not alive(pid), "lw-keeper ends it")


class Others(LostTest):
    def test_lead_starts_it_at_each_loss(self):
        process, _ = self.run_("--on-lost", NOTE, subcommand="lead")
        for count in (1, 2):
            until(lambda: self.server("EXISTS", "job") == 1, "it leads")
            os.remove(self.path("held"))
            self.server.take_away("DEL", "job")
            self.losses(count)
            self.wait_for_file("held")
        fences = [int(note[3]) for note in self.losses()]
        self.assertLess(fences[0], fences[1])
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.outcome(process)[0], 128 + 15)

    def test_hold_starts_it_and_ends(self):
        process = self.spawn(COMMAND, "hold", "job", "--on-lost",
                             NOTE + "; " + HANGS, stdin=subprocess.PIPE, cwd=self.folder)
        self.addCleanup(process.stdin.close)
        fence = self.line_of(process.stdout).strip()
        self.server.take_away("DEL", "job")
        self.assertEqual(self.outcome(process)[0], 70)
        self.assertEqual(process.stdout.read(), "") # CMD does not keep the output open
        self.hook()
        self.assertEqual(self.losses(), [("lost", "job", "the lock is not held", fence)])


if __name__ == "__main__":
    unittest.main()
