#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`lockwire run` in a terminal, typed into common shells: the keys that interrupt and stop, jobs
in the background, pipelines, shells in shells.

Usual course: a line is typed, the shell answers, and the test waits for its output.
"""
import os
import pty
import re
import select
import signal
import sys
import termios
import time
import unittest

from support import COMMAND, LIMIT, ToolTest, alive, until

CTRL_C, CTRL_Z = "\x03", "\x1a"
# Works in one process: a shell that is about to start another process may miss a stop signal.
TICKS = ("import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
         "open('pid', 'w').write(str(os.getpid()))\n"
         "while True:\n"
         "    open('ticks', 'a').write('x'); time.sleep(0.01)\n")


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


class Terminal:
    """A shell in its own terminal."""

    def __init__(self, shell, folder, environment):
        self.seen = ""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(folder)
                os.execvpe(shell[0], shell, environment)
            finally:
                os._exit(127)

    def close(self):
        os.close(self.master)  # hangs up
        try:
            os.kill(self.pid, signal.SIGKILL)
        except OSError:
            pass
        os.waitpid(self.pid, 0)

    def type(self, text):
        os.write(self.master, text.encode())

    def line(self, text):
        self.type(text + "\n")

    def keys(self):
        """Returns true if the terminal delivers each key by itself."""
        return not termios.tcgetattr(self.master)[3] & termios.ICANON

    def expect(self, pattern):
        """Waits for output that matches, and discards the output up to the end of the match."""
        end = time.monotonic() + LIMIT
        while not (found := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.master], [], [], end - time.monotonic())
            if not ready:
                raise AssertionError(f"waited {LIMIT} s in vain for {pattern!r}: {self.seen!r}")
            try:
                self.seen += os.read(self.master, 4096).decode(errors="replace")
            except OSError as error:
                raise AssertionError(f"no {pattern!r} before the end: {self.seen!r}") from error
        self.seen = self.seen[found.end():]
        return found


class TerminalTest(ToolTest):
    SHELL = ("dash", "-i")

    def setUp(self):
        super().setUp()
        self.server = self.redis()
        self.environment.update(LOCKWIRE_URL=self.server.url, TERM="dumb", PS1="ready> ",
                                ENV="/dev/null", HISTFILE="/dev/null", lockwire=COMMAND,
                                inner="inner> ")
        # `tail -f begun` prints its line itself and then waits: no shell is about to start it.
        with open(self.path("begun"), "w", encoding="ascii") as file:
            file.write("begun\n")

    def processes(self):
        """Returns all processes in this test's terminals: those that have the server's URL in
        their environment."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if self.server.url.encode() in file.read():
                        found.append(int(pid))
            except OSError:
                continue
        return found

    def end_all(self):
        def gone():
            found = [pid for pid in self.processes() if alive(pid)]
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            return not found
        until(gone, "nothing is left to write into the folder")

    def shell(self):
        terminal = Terminal(self.SHELL, self.folder, self.environment)
        self.addCleanup(self.end_all)
        self.addCleanup(terminal.close)
        terminal.expect("ready> ")
        return terminal

    def foreground(self, shell):
        """Continues the job, and waits until it runs. A key that stops it would be lost while it
        is being continued, as with every shell."""
        shell.line("fg")
        until(lambda: "T" not in self.states(), "all of it goes on")

    def ticker(self):
        with open(self.path("ticker"), "w", encoding="ascii") as file:
            file.write(TICKS)

    def ticks(self):
        path = self.path("ticks")
        return os.path.getsize(path) if os.path.exists(path) else 0

    def stats(self, only=""):
        """Returns state, parent and group of all processes in this test's terminals, except for
        the keepers."""
        stats = []
        for pid in self.processes():
            try:
                with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                    name, rest = file.read().split("(", 1)[1].rsplit(")", 1)
            except OSError:
                continue
            if only in ("", name):
                stats.append(rest.split()[:3])
        return stats

    def states(self, only=""):
        return [state for state, _, _ in self.stats(only)]

    def has_terminal(self, shell):
        """Returns true if the command itself has the terminal, and is running: until both are
        true, a key would be lost."""
        group = str(os.tcgetpgrp(shell.master))
        others = {str(os.getpgid(shell.pid))} | {its for _, _, its in self.stats("lockwire")}
        return group not in others and "T" not in self.states()

    def is_stopped(self):
        return set(self.states("lockwire")) == {"T"}

    def stop_and_continue_twice(self, shell):
        """Stops and continues, twice, a command that prints `begun` and then reads a line; types
        the line at the end."""
        shell.expect("begun\r\n")
        for _ in range(2):
            until(lambda: self.has_terminal(shell), "it reads")
            shell.type(CTRL_Z)
            shell.expect("(?i)stopped")
            shell.expect("ready> ")
            self.foreground(shell)
        shell.line("a line")
        shell.expect("got a line\r\n")


class Keys(TerminalTest):
    def test_an_interrupt_ends_the_command(self):
        shell = self.shell()
        shell.line('"$lockwire" run job -- tail -f begun; echo "code $?"')
        shell.expect("begun\r\n")
        shell.type(CTRL_C)
        shell.expect("ready> ")
        shell.line('echo "then $?"')
        shell.expect(r"then (130|0)\r\n")
        self.assertIsNone(self.server("GET", "job"))

    def test_an_interrupt_comes_to_the_command_once(self):
        shell = self.shell()
        shell.line('"$lockwire" run job -- sh -c \'trap "echo got" INT; echo begun;'
                   ' while [ ! -e stop ]; do sleep 0.02; done; exit 5\'; echo "code $?"')
        shell.expect("begun\r\n")
        shell.type(CTRL_C)
        shell.expect("got\r\n")
        with open(self.path("stop"), "w", encoding="ascii"):
            pass
        shell.expect("(?s)code (.*?)\r\n")
        self.assertNotIn("got", shell.seen)
        os.remove(self.path("stop"))

    def test_an_interrupt_ends_the_script_around_it_too(self):
        for name, line in (("plain", '"$lockwire" run job -- tail -f begun'),
                           ("reads", '"$lockwire" run job -- sh -c "read x; exec tail -f begun"')):
            with open(self.path(name), "w", encoding="ascii") as file:
                file.write(f"{line}\necho next > next\n")
            shell = self.shell()
            shell.line(f"{self.SHELL[0]} {name}")
            if name == "reads":
                shell.line("a line")
            shell.expect("begun\r\n")
            shell.type(CTRL_C)
            shell.expect("ready> ")
            self.assertFalse(os.path.exists(self.path("next")))

    def test_an_interrupt_ends_the_loop_around_it_too(self):
        shell = self.shell()
        shell.line('for i in 1 2 3; do "$lockwire" run job -- tail -f begun; done')
        shell.expect("begun\r\n")
        shell.type(CTRL_C)
        shell.expect("ready> ")
        self.assertNotIn("begun", shell.seen)

    def test_an_interrupt_while_it_waits_ends_the_script_around_it(self):
        self.server("SET", "job", "somebody else")
        with open(self.path("script"), "w", encoding="ascii") as file:
            file.write('"$lockwire" run job -- true\necho next > next\n')
        shell = self.shell()
        shell.line(f"{self.SHELL[0]} script")
        until(lambda: self.server("EXISTS", "lockwire:2:queue:{job}"), "it waits")
        shell.type(CTRL_C)
        shell.expect("ready> ")
        self.assertFalse(os.path.exists(self.path("next")))

    def test_all_of_it_is_stopped_and_continued(self):
        shell = self.shell()
        self.ticker()
        shell.line(f'"$lockwire" run job -- sh -c \'timeout 1000 {sys.executable} ticker; :\'')
        until(self.ticks, "it works")
        worker = int(self.wait_for_file("pid"))
        shell.type(CTRL_Z)
        shell.expect("(?i)stopped")
        until(self.is_stopped, "lockwire is stopped")
        until(lambda: state_of(worker) == "T", "it is stopped as well")
        before = self.ticks()
        self.foreground(shell)
        until(lambda: self.ticks() > before, "it works again")

    def test_what_loses_the_lock_while_stopped_is_ended_by_the_keeper(self):
        shell = self.shell()
        self.ticker()
        shell.line(f'"$lockwire" run job --lease 1s -- {sys.executable} ticker')
        until(self.ticks, "it works")
        worker = int(self.wait_for_file("pid"))
        shell.type(CTRL_Z)
        until(lambda: not alive(worker), "its time is over")
        until(self.is_stopped, "lockwire is stopped still")

    def test_stopped_and_continued_it_reads_on(self):
        shell = self.shell()
        shell.line('"$lockwire" run job -- sh -c \'echo begun; read x; echo "got $x"\'')
        shell.expect("begun\r\n")
        shell.type(CTRL_Z)
        shell.expect("(?i)stopped")
        shell.expect("ready> ")
        self.assertTrue(until(self.is_stopped, "lockwire is stopped as well"))
        self.foreground(shell)
        shell.line("a line")
        shell.expect("got a line\r\n")
        shell.expect("ready> ")
        until(lambda: self.server("GET", "job") is None, "it is over")

    def test_stopped_twice(self):
        shell = self.shell()
        shell.line('"$lockwire" run job -- sh -c \'echo begun; read x; echo "got $x"\'')
        self.stop_and_continue_twice(shell)

    def test_what_lost_the_lock_while_stopped_never_runs_on(self):
        shell = self.shell()
        self.ticker()
        shell.line(f'"$lockwire" run job --lease 1s -- {sys.executable} ticker; echo "code $?"')
        until(self.ticks, "it works")
        shell.type(CTRL_Z)
        shell.expect("(?i)stopped")
        until(self.is_stopped, "lockwire is stopped")
        until(lambda: not self.server("EXISTS", "job"), "its lease is over")
        before = self.ticks()
        shell.line("fg")
        shell.expect("was lost")
        shell.expect("ready> ")
        self.assertEqual(self.ticks(), before)
        os.remove(self.path("ticks"))

    def test_what_waits_for_the_lock_stops_and_goes_on(self):
        shell = self.shell()
        self.server("SET", "job", "somebody else")
        shell.line('"$lockwire" run job -- echo begun')
        until(lambda: self.server("EXISTS", "lockwire:2:queue:{job}"), "it waits")
        shell.type(CTRL_Z)
        shell.expect("(?i)stopped")
        until(self.is_stopped, "lockwire is stopped")
        shell.line("fg")
        self.server("DEL", "job")
        shell.expect("begun\r\n")


class Jobs(TerminalTest):
    def test_the_first_of_a_pipeline_may_read(self):
        shell = self.shell()
        shell.line('"$lockwire" run job -- sh -c \'read x; echo "got $x"\' | sed "s/got/have/"')
        shell.line("a line")
        shell.expect("have a line\r\n")

    def test_another_of_a_pipeline_may_read(self):
        shell = self.shell()
        shell.line('"$lockwire" run job -- sh -c \'echo begun; while [ ! -e stop ]; do sleep 0.02;'
                   " done' | sh -c 'read y; read x </dev/tty; echo \"got $x\"; : > stop'")
        shell.line("a line")
        shell.expect("got a line\r\n")
        shell.expect("ready> ")

    def test_an_interrupted_pipeline(self):
        shell = self.shell()
        shell.line('"$lockwire" run job -- tail -f begun | cat')
        shell.expect("begun\r\n")
        shell.type(CTRL_C)
        shell.expect("ready> ")
        until(lambda: self.server("GET", "job") is None, "it is over")

    def test_a_stopped_pipeline(self):
        shell = self.shell()
        shell.line('"$lockwire" run job -- sh -c \'echo begun; read x; echo "got $x"\' | cat')
        self.stop_and_continue_twice(shell)

    def test_a_pipeline_of_which_the_command_stops_itself(self):
        with open(self.path("stops"), "w", encoding="ascii") as file:
            file.write("import os, signal, time\n"
                       "signal.signal(signal.SIGTSTP, lambda *_: os.kill(os.getpid(), signal.SIGSTOP))\n"
                       "print('begun', flush=True)\n"
                       "while True:\n"
                       "    time.sleep(0.02)\n")
        shell = self.shell()
        shell.line(f'"$lockwire" run job -- {sys.executable} stops | cat')
        shell.expect("begun\r\n")
        shell.type(CTRL_Z)
        shell.expect("(?i)stopped")
        shell.expect("ready> ")

    def test_what_stops_another_of_a_pipeline_stops_the_command_too(self):
        self.ticker()
        shell = self.shell()
        shell.line(f'"$lockwire" run job -- sh -c \'read x; exec {sys.executable} ticker\' |'
                   " sh -c 'while [ ! -e go ]; do sleep 0.02; done; read y </dev/tty'")
        shell.line("a line")  # the command gets the terminal to read it
        until(self.ticks, "it works")
        worker = int(self.wait_for_file("pid"))
        with open(self.path("go"), "w", encoding="ascii"):
            pass
        shell.expect("(?i)stopped")
        until(lambda: self.is_stopped() and state_of(worker) == "T", "both are stopped")

    def test_what_is_left_behind_may_read(self):
        shell = self.shell()
        shell.line('"$lockwire" run job -- sh -c \'(while [ ! -e go ]; do sleep 0.02; done;'
                   ' read x </dev/tty; echo "got $x") & exit 0\'')
        shell.expect("stays locked until")
        with open(self.path("go"), "w", encoding="ascii"):
            pass
        shell.line("a line")
        shell.expect("got a line\r\n")
        shell.expect("ready> ")

    def test_the_modes_come_back_when_the_command_was_killed(self):
        shell = self.shell()
        shell.line('"$lockwire" run job -- sh -c \'stty -echo raw; kill -9 $$\'')
        shell.expect("ready> ")
        shell.line("echo still here")
        shell.expect("echo still here\r\nstill here\r\n")

    def test_in_the_background_it_stops_when_it_wants_to_read(self):
        shell = self.shell()
        shell.line('"$lockwire" run job -- sh -c \'read x; echo "got $x"\' &')
        until(self.is_stopped, "it wants to read")
        self.foreground(shell)
        shell.line("a line")
        shell.expect("got a line\r\n")

    def test_what_nobody_can_ever_give_the_terminal_is_hung_up(self):
        shell = self.shell()
        shell.line('("$lockwire" run job -- sh -c \'echo $$ > held; read x </dev/tty\''
                   " >/dev/null 2>&1 &)")
        child = int(self.wait_for_file("held"))
        until(lambda: not alive(child), "it ends")
        until(lambda: self.server("GET", "job") is None, "the lock is given back")
        os.remove(self.path("held"))

    def test_what_nobody_can_ever_give_the_terminal_and_does_not_listen_is_killed(self):
        shell = self.shell()
        shell.line('("$lockwire" run job -- sh -c \'trap "" HUP; echo $$ > held;'
                   ' while :; do read x </dev/tty; done\' >/dev/null 2>&1 &)')
        child = int(self.wait_for_file("held"))
        until(lambda: not alive(child), "it ends")
        os.remove(self.path("held"))


class Nested(TerminalTest):
    def test_a_shell_with_jobs_of_its_own(self):
        shell = self.shell()
        for inner in ("bash --norc --noprofile -i", "dash -i"):
            shell.line(f'PS1="$inner" "$lockwire" run job -- {inner}')
            shell.expect("inner> ")
            shell.line("tail -f begun")
            shell.expect("begun\r\nbegun\r\n")
            shell.type(CTRL_Z)
            shell.expect("(?i)stopped")
            shell.expect("inner> ")
            shell.line("fg")
            with open(self.path("begun"), "a", encoding="ascii") as file:
                file.write("more\n")
            shell.expect("more\r\n")
            shell.type(CTRL_C)
            shell.expect("inner> ")
            self.assertIsNotNone(self.server("GET", "job"))
            shell.line("exit")
            shell.expect("ready> ")
            until(lambda: self.server("GET", "job") is None, "it is over")

    def test_a_lock_in_a_lock(self):
        shell = self.shell()
        shell.line('"$lockwire" run one -- "$lockwire" run two -- '
                   'sh -c \'echo begun; read x; echo "got $x"\'')
        shell.expect("begun\r\n")
        for _ in range(2):
            shell.type(CTRL_Z)
            shell.expect("(?i)stopped")
            until(self.is_stopped, "both are stopped")
            self.foreground(shell)
        shell.line("a line")
        shell.expect("got a line\r\n")
        shell.expect("ready> ")
        until(lambda: self.server("EXISTS", "one", "two") == 0, "both are over")

    def test_the_terminal_comes_back_when_a_shell_is_lost(self):
        shell = self.shell()
        shell.line('PS1="$inner" "$lockwire" run job -- bash --norc --noprofile -i')
        shell.expect("inner> ")
        self.server.take_away("SET", "job", "somebody else")
        shell.expect("was lost")
        shell.expect("ready> ")
        shell.line("echo still here")
        shell.expect("\nstill here\r\n")
        self.server("DEL", "job")


class KeysInBash(Keys):
    SHELL = ("bash", "--norc", "--noprofile", "-i")


class JobsInBash(Jobs):
    SHELL = KeysInBash.SHELL


class NestedInBash(Nested):
    SHELL = KeysInBash.SHELL


if __name__ == "__main__":
    unittest.main()
