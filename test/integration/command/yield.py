#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`lockwire yield` at a real server: what run, lead and hold do when they are asked for their lock,
--on-yield, and which holders are reached.

Usual course: a command runs under the lock; `lockwire yield` exits with 0; the command gets SIGTERM,
and ends when it wants; the lock is free.
"""
import os
import signal
import subprocess
import unittest

from lead import LOOP, QUEUE, LeadTest
from lost import HANGS, LostTest
from support import COMMAND, LIMIT, PREFIX, alive, until

# Appends CMD's environment, one line for each start.
NOTE = ('echo "$LOCKWIRE_NAME|$LOCKWIRE_FENCE|'
        '$LOCKWIRE_LOST_STATE$LOCKWIRE_LOST_REASON$LOCKWIRE_TOKEN" >> noted')
OUTER = {"LOCKWIRE_LOST_STATE": "lost", "LOCKWIRE_LOST_REASON": "outer", "LOCKWIRE_TOKEN": "outer"}
# Notes each SIGTERM, and ends with 5 when the file `stop` is there.
STAYS = 'trap "echo >> got" TERM; while [ ! -e stop ]; do sleep 0.02; done; exit 5'


def own(err):
    """Returns the messages without those of a shell about its children."""
    return err.replace("Terminated\n", "")


class Asking:
    """For a test with a server and a folder."""

    def ask(self, code=0, name="job", *words):
        """Asks for the lock. Returns the output."""
        got, out, err = self.end_of(self.spawn(COMMAND, "yield", name, *words))
        self.assertEqual((got, out), (code, ""), err)
        return err

    def said(self, process, text):
        """Waits for the line of its messages that ends with this text."""
        line = self.line_of(process.stderr)
        while not line.endswith(text + "\n"):
            self.assertTrue(line, f"it has ended without {text!r}")
            line = self.line_of(process.stderr)

    def lines(self, name):
        if not os.path.exists(self.path(name)):
            return []
        with open(self.path(name), encoding="utf-8") as file:
            return [line[:-1] for line in file if line[-1] == "\n"]

    def stop(self):
        with open(self.path("stop"), "w", encoding="ascii"):
            pass


class Run(Asking, LostTest):
    def test_the_command_gets_SIGTERM_and_the_lock_is_released_at_its_end(self):
        for more in ((), ("--direct",)):
            process, pid = self.run_(*more, script=f'trap "exit 7" TERM; {LOOP}')
            self.assertEqual(self.ask(), "")
            code, err = self.outcome(process)
            self.assertEqual((code, own(err)), (7, "lockwire: asked to release 'job': sh gets SIGTERM\n"))
            self.assertFalse(alive(pid))
            self.assertEqual(self.server("EXISTS", "job"), 0)
            os.remove(self.path("held"))

    def test_the_command_takes_its_time_and_gets_one_signal(self):
        process, pid = self.run_("--grace", "0", script=STAYS)
        self.ask()
        self.said(process, "asked to release 'job': sh gets SIGTERM")
        until(lambda: self.lines("got"), "it gets SIGTERM")
        self.ask()
        self.said(process, "asked again to release 'job'")
        self.assertTrue(alive(pid))
        self.assertEqual(self.server("EXISTS", "job"), 1)
        self.stop()
        code, err = self.outcome(process)
        self.assertEqual((code, own(err)), (5, ""))
        self.assertEqual(len(self.lines("got")), 1)

    def test_any_of_several_names(self):
        process, _ = self.run_("--and", "other", script=f'trap "exit 7" TERM; {LOOP}')
        self.ask(0, "other")
        code, err = self.outcome(process)
        self.assertEqual((code, own(err)), (7, "lockwire: asked to release 'other': sh gets SIGTERM\n"))
        self.assertEqual(self.server("EXISTS", "job", "other"), 0)

    def test_one_that_waits_is_not_asked(self):
        process, _ = self.run_(script=f'trap "exit 7" TERM; {LOOP}')
        waiter = self.spawn(COMMAND, "run", "job", "--", "sh", "-c", "echo mine; exec sleep 1000")
        until(lambda: self.server("ZCARD", QUEUE) == 1, "it queues")
        self.ask()
        self.assertEqual(self.outcome(process)[0], 7)
        self.assertEqual(self.line_of(waiter.stdout), "mine\n")
        waiter.kill()
        self.assertEqual(self.end_of(waiter)[2], "")

    def test_a_shared_lock_has_all_its_holders_asked(self):
        holders = [self.run_("--shared", script="exec sleep 1000")[0]]
        os.remove(self.path("held"))
        holders.append(self.run_("--shared", script="exec sleep 1000")[0])
        self.assertEqual(self.ask(), "")
        for process in holders:
            self.assertEqual(self.outcome(process)[0], 128 + signal.SIGTERM)


class OnYield(Asking, LostTest):
    def test_it_runs_for_each_request_in_place_of_SIGTERM(self):
        process, pid = self.run_("--on-yield", NOTE, script=STAYS, env=OUTER)
        fence = self.wait_for_file("fence").strip()
        for count in (1, 2):
            self.ask()
            until(lambda: len(self.lines("noted")) == count, f"CMD was started {count} times")
            self.said(process, "asked to release 'job'")
        self.assertEqual(self.lines("noted"), [f"job|{fence}|"] * 2)
        self.assertTrue(alive(pid))
        self.stop()
        self.assertEqual(self.outcome(process), (5, ""))
        self.assertEqual(self.lines("got"), [])

    def test_it_gives_the_command_another_signal(self):
        process, _ = self.run_("--on-yield", "kill -USR1 $PPID", script=f'trap "exit 9" USR1; {LOOP}')
        self.ask()
        self.assertEqual(self.outcome(process)[0], 9)

    def test_one_that_hangs_is_not_started_again(self):
        process, pid = self.run_("--on-yield", HANGS)
        self.ask()
        hook = self.hook()
        self.ask()
        self.said(process, "the --on-yield command of an earlier event is still running; it is not "
                           "started again")
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(process.wait(LIMIT), 128 + 9)
        self.assertTrue(alive(hook))

    def test_one_that_fails_is_reported(self):
        process, pid = self.run_("--on-yield", "exit 3")
        self.ask()
        self.said(process, "the --on-yield command exited with 3")
        os.kill(pid, signal.SIGKILL)
        self.outcome(process)

    def test_a_loss_is_the_other_command_s(self):
        process, _ = self.run_("--on-yield", "echo yield >> noted", "--on-lost", "echo lost >> noted")
        self.ask()
        until(lambda: self.lines("noted") == ["yield"], "it is asked")
        self.server.take_away("DEL", "job")
        self.assertEqual(self.outcome(process)[0], 70)
        until(lambda: self.lines("noted")[-1] == "lost", "it is lost")
        self.assertEqual(self.lines("noted").count("yield"), 1)


class Lead(Asking, LeadTest):
    def again(self, process, count):
        """As worked(), for a process that goes on."""
        until(lambda: len(self.works()) >= count or process.poll() is not None, f"{count} were started")
        self.assertIsNone(process.poll())
        return self.works()

    def test_it_leads_again_if_no_other_waits(self):
        process = self.lead()
        for count in (1, 2, 3):
            _, _, pid = self.again(process, count)[-1]
            self.ask()
            until(lambda: not alive(pid), "the command ends")
        self.again(process, 4)
        process.terminate()
        code, _, err = self.end_of(process)
        self.assertEqual(code, 128 + signal.SIGTERM)
        self.assertEqual(own(err), "lockwire: asked to release 'job': sh gets SIGTERM\n" * 3)
        self.assertIsNone(self.server("GET", "job"))
        self.check()

    def test_the_one_that_waits_leads(self):
        first = self.lead()
        self.worked(1)
        second = self.lead(who="berta")
        self.queued()
        self.ask()
        self.assertEqual(self.worked(2)[1][0], "berta")
        self.queued()  # anna, again
        self.ask()
        self.assertEqual(self.worked(3)[2][0], "anna")
        self.assertEqual(self.names(), ["anna", "berta", "anna"])
        for process in second, first:
            process.terminate()
            self.assertEqual(self.end_of(process)[0], 128 + signal.SIGTERM)
        self.check()

    def test_a_signal_after_the_request_ends_it(self):
        process = self.lead(script=STAYS)
        self.worked(1)
        self.ask()
        until(lambda: self.lines("got"), "it gets SIGTERM")
        process.send_signal(signal.SIGTERM)
        until(lambda: len(self.lines("got")) == 2, "it gets that signal, too")
        self.stop()
        self.assertEqual(self.end_of(process)[0], 5)
        self.assertEqual(len(self.works()), 1)

    def test_after_on_yield_the_end_of_the_command_is_no_end_either(self):
        process = self.lead("--on-yield", "kill -USR1 $PPID", script=f'trap "exit 0" USR1; {LOOP}')
        self.worked(1)
        self.ask()
        self.again(process, 2)
        process.terminate()
        self.assertEqual(self.end_of(process)[0], 128 + signal.SIGTERM)
        self.check()

    def test_a_request_after_a_loss_counts_for_the_hold_that_follows(self):
        """The command of the lost hold is still being ended, and the lock is held again."""
        first = self.lead("--grace", "14s", script=STAYS)
        self.worked(1)
        self.server.take_away("DEL", "job")
        until(lambda: self.lines("got"), "the command is being ended")
        until(lambda: self.server("EXISTS", "job"), "the lock is held again")
        second = self.lead(who="berta")
        self.queued()
        self.ask()
        self.said(first, "asked to release 'job'; the command is already being ended")
        self.stop()
        self.assertEqual(self.worked(2)[1][0], "berta")
        for process in second, first:
            process.terminate()
            self.end_of(process)
        self.check()


class Hold(Asking, LostTest):
    def hold(self, *options):
        process = self.spawn(COMMAND, "hold", "job", *options, stdin=subprocess.PIPE, cwd=self.folder)
        self.addCleanup(process.stdin.close)
        return process, self.line_of(process.stdout).strip()

    def test_it_releases_the_lock_and_exits(self):
        process, _ = self.hold()
        self.assertEqual(self.ask(), "")
        self.assertEqual(self.outcome(process), (0, "lockwire: asked to release 'job'\n"))
        self.assertEqual(self.server("EXISTS", "job"), 0)

    def test_with_on_yield_it_goes_on(self):
        process, fence = self.hold("--on-yield", NOTE)
        self.ask()
        until(lambda: self.lines("noted"), "CMD is started")
        self.assertEqual(self.lines("noted"), [f"job|{fence}|"])
        self.assertEqual(self.server("EXISTS", "job"), 1)
        process.stdin.close()
        self.assertEqual(self.outcome(process)[0], 0)


class Reached(Asking, LostTest):
    """The exit codes of yield, which releases nothing in any case."""

    def test_a_lock_that_is_free(self):
        self.assertEqual(self.ask(1), "lockwire: cannot ask the holder of 'job': the lock is not held\n")

    def test_keys_of_another_format(self):
        for words in (("HSET", "job", "field", "value"), ("RPUSH", "job", "value")):
            self.server(*words)
            err = self.ask(1)
            self.assertIn("cannot ask the holder of 'job': ", err)
            self.assertNotIn("the lock is not held", err)
            self.assertEqual(self.server("EXISTS", "job"), 1)
            self.server("DEL", "job")

    def unreached(self, *words):
        self.assertEqual(self.ask(75, "job", *words),
                         "lockwire: cannot ask the holder of 'job': not reached; its client is gone, is "
                         "another library's, has detached the lock, or may not subscribe (`lockwire break` "
                         "releases the lock by force)\n")
        self.assertEqual(self.server("EXISTS", "job"), 1)

    def test_a_lock_that_was_left_to_others(self):
        self.assertEqual(self.end_of(self.spawn(COMMAND, "take", "job"))[0], 0)
        self.unreached()

    def test_a_value_of_another_library(self):
        self.server("SET", "job", "theirs", "PX", 600000)
        self.unreached()

    def test_a_holder_that_is_gone(self):
        process, _ = self.run_()
        process.kill()
        process.wait()
        until(lambda: not self.server("PUBSUB", "CHANNELS"), "its connections have ended")
        self.unreached()

    def test_a_holder_that_may_not_subscribe(self):
        port = self.server.listen()
        self.server("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-subscribe")
        process, pid = self.run_("--redis", f"redis://app:secret@127.0.0.1:{port}")
        self.unreached()
        os.kill(pid, signal.SIGKILL)
        self.outcome(process)

    def test_one_of_two_holders(self):
        process, _ = self.run_("--shared", "--on-yield", "echo >> noted")
        self.assertEqual(self.end_of(self.spawn(COMMAND, "take", "job", "--shared"))[0], 0)
        self.assertEqual(self.ask(), "lockwire: 1 of 2 holders of 'job' were reached\n")
        until(lambda: self.lines("noted"), "the other one is asked")
        process.kill()

    @unittest.skipIf(PREFIX, "about an account")
    def test_an_account_that_may_not_publish(self):
        process, pid = self.run_()
        port = self.server.listen()
        self.server("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-publish")
        err = self.ask(77, "job", "--redis", f"redis://app:secret@127.0.0.1:{port}")
        self.assertIn("cannot ask the holder of 'job': refused by the server: ", err)
        self.assertTrue(alive(pid))
        process.kill()


if __name__ == "__main__":
    unittest.main()
