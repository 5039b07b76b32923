#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests the completions of `lockwire` in bash, by calling its function, in zsh, by typing in a
terminal, and in fish, which prints them.

    completion.py FOLDER LOCKWIRE     FOLDER: of the completions

Checks that each shell completes each line of QUESTIONS to its answer, each subcommand, and the name
of a held lock with each subcommand that needs a NAME and acquires no lock. If a shell is missing, it
is reported, and the exit code is 1: the tests of a build need all.
"""
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

# The typed line, and the only completion of its last word.
QUESTIONS = {
    "lockwire sta": "status",
    "lockwire --vers": "--version",
    "lockwire run --leas": "--lease",
    "lockwire run nightly --perm": "--permits",
    "lockwire hold nightly --max-h": "--max-hold",
    "lockwire lead nightly --max-w": "--max-waiting",
    "lockwire hold nightly --on-l": "--on-lost",
    "lockwire run nightly --on-y": "--on-yield",
    "lockwire run nightly --keep": "--keep-running",
    "lockwire lead scheduler some-comma": "some-command",
    "lockwire list --wi": "--wide",
    "lockwire status --js": "--json",
    "lockwire status job --cace": "--cacert",
    "lockwire watch --inter": "--interval",
    "lockwire run nightly --cert ./some-fi": "./some-file.pem",
    "lockwire run nightly -- some-comma": "some-command",
    "lockwire run --wait 5s nightly some-comma": "some-command",
    "lockwire run --wait 5s nightly --lea": "--lease",
    "lockwire run nightly -- some-command some-fi": "some-file.pem",
    "lockwire run nightly some-command --cert some-fi": "some-file.pem",
    "lockwire break --foreign nigh": "nightly-42",
    "lockwire watch --json job:4": "job:42",
}
NOTHING = ("lockwire status --leas", "lockwire run --lease --perm", "lockwire run nigh",
           "lockwire status nightly-42 nigh")
HELD = ("nightly-42", "job:42")
LIMIT_S = 60

ASK_BASH = r"""
source "$1/lockwire.bash"
COMP_WORDS=($2) COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$2 COMP_POINT=${#2}
_lockwire
printf '%s\n' "${COMPREPLY[@]}"
"""


def bash(folder, line):
    """Returns the completions. Of a word with colons bash completes what follows the last one."""
    kept = re.match(r"(?:.*:)?", line.rsplit(" ", 1)[1])[0]
    done = subprocess.run(["bash", "--norc", "-c", ASK_BASH, "bash", folder, line],
                          stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                          timeout=LIMIT_S, check=True)
    return [kept + word for word in done.stdout.split()]


def fish(folder, line):
    done = subprocess.run(["fish", "--no-config", "-c", 'source "$argv[1]/lockwire.fish"; complete -C "$argv[2]"',
                           folder, line], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                          text=True, timeout=LIMIT_S, check=True)
    return [word.split("\t")[0] for word in done.stdout.splitlines()]


class Zsh:
    """A zsh in a terminal, with the completions, but without this machine's settings."""

    def __init__(self, folder):
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.execlp("zsh", "zsh", "-f", "-i")
        self.text = ""
        self.say(f"PS1='>'; fpath=({folder} $fpath); autoload -Uz compinit; "
                 "compinit -u -D; setopt no_list_beep no_auto_menu; echo re''ady\n")
        self.wait_for("ready\r\n")
        self.wait_for(">")

    def say(self, text):
        os.write(self.terminal, text.encode())

    def wait_for(self, what):
        """Waits for `what`. Returns the text before it, and discards both."""
        until = time.monotonic() + LIMIT_S
        while what not in self.text:
            if not select.select([self.terminal], [], [], until - time.monotonic())[0]:
                sys.exit(f"zsh: waited for {what!r}, there is {self.text!r}")
            self.text += os.read(self.terminal, 65536).decode(errors="replace")
        before, self.text = self.text.split(what, 1)
        return before

    def completed(self, line):
        """Returns the edited line after a TAB, which a widget asks the line editor for."""
        self.say("\x15" + line + "\t" + "\x18p")
        self.wait_for("<<")
        return self.wait_for(">>")

    def begin(self):
        self.say("tell() { zle -M \"<\"\"<$BUFFER>\"\">\" }; zle -N tell; bindkey '^Xp' tell; "
                 "echo re''ady\n")
        self.wait_for("ready\r\n")


def subcommands():
    """The questions for each subcommand that the command itself has."""
    def ask(*words):
        return subprocess.run(["./lockwire", *words, "--help"], stdout=subprocess.PIPE, text=True,
                              check=True).stdout
    found = re.findall(r"^(?:usage:)? +lockwire ([a-z]+) (NAME)?", ask(), re.M)
    return {f"lockwire {name[:-1]}": name for name, _ in found if name != "help"} | {
        f"lockwire {name} nigh": "nightly-42" for name, needs in found
        if needs and "  --lease TIME" not in ask(name)}


def compare(folder):
    """Yields what is completed otherwise than expected."""
    zsh = Zsh(folder)
    zsh.begin()
    for line, becomes in (QUESTIONS | subcommands()).items():
        start = line.rsplit(" ", 1)[0]
        told = set(bash(folder, line)), zsh.completed(line).strip(), fish(folder, line)
        if told != ({becomes}, f"{start} {becomes}", [becomes]):
            yield f"{line}: {told}"
    for line in NOTHING:
        told = bash(folder, line), zsh.completed(line).strip(), fish(folder, line)
        if told != ([], line, []):
            yield f"{line}: {told}"


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: completion.py FOLDER LOCKWIRE")
    for shell in ("bash", "zsh", "fish"):
        if shutil.which(shell) is None:
            sys.exit(f"completion.py: there is no {shell}; scripts/setup installs it")
    folder, command = (os.path.abspath(word) for word in sys.argv[1:])
    if "LOCKWIRE_URL" not in os.environ: # begins again with a server that has held locks
        words = [sys.executable, "-B", os.path.abspath(__file__), folder, command]
        for name, url in zip(HELD, ((), ("--redis", "embedded:"))):
            words = [command, "run", name, *url, "--", *words]
        os.execv(command, words)
    with tempfile.TemporaryDirectory() as here:
        os.chdir(here)
        os.symlink(command, "lockwire")
        for name in ("some-command", "some-file.pem"):
            with open(name, "w", encoding="utf-8"):
                os.chmod(name, 0o700)
        os.environ |= {"PATH": here + ":" + os.environ["PATH"], "TERM": "dumb", "HOME": here}
        wrong = list(compare(folder))
    for line in wrong:
        print(f"completion.py: {line}")
    sys.exit(1 if wrong else 0)


main()
