# SPDX-License-Identifier: MIT
"""Runs the test that decides about a mutation. What is found is the seed and why it fails; for
tests that have no seeds, 0 and the first test that fails."""
import os
import re
import signal
import subprocess

from simulator import SIM

SKIPPED = 77
LIMIT_S = 1200 # generous: the machine may have other work


def first_failure(sim, seeds, words=()):
    """Returns the first seed that fails and why, or None."""
    process = subprocess.Popen([sim, '--seeds', f'1..{seeds}', *words], text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    found = None
    for line in process.stderr:
        found = re.match(r'seed (\d+)(?: at [\d.]+ ms)?: (.*)', line)
        if found:
            break
    process.kill()
    process.communicate()
    return found and (int(found[1]), found[2])


def output_of(command, env, folder=None):
    """Runs it in this folder; returns the exit code and the output. Kills the test and its servers
    if it takes longer than LIMIT_S, and raises RuntimeError."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors='replace', stdin=subprocess.DEVNULL, env=dict(os.environ, **env),
                          cwd=folder, start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise RuntimeError(f'{command[0]} takes longer than {LIMIT_S} s') from None
    return process.returncode, output


def failed_test(output):
    """Returns the name of the first test that fails, or None. cmocka reports an error if the
    tear-down fails as well, as after an assertion in a callback of the event loop."""
    found = re.search(r'FAILED  \] (\w+)', output) or re.search(r'^FAIL: (\w+)', output, re.M)
    if not found and 'Test teardown failed' in output:
        found = re.search(r'ERROR   \] (\w+)', output)
    return found and found[1]


def failure_of_program(program, words):
    code, output = output_of([program], {'LOCKWIRE_TEST': words[0]} if words else {})
    name = failed_test(output)
    if not name and code == -signal.SIGABRT: # an assertion ended the whole program
        name = re.findall(r'RUN      \] (\w+)', output)[-1]
    return name and (0, name)


def failure_of_test(tree, folder, name, words):
    """Returns what fails in a test of meson, also if that is only the exit code."""
    command, env = tree.command_of(name, folder)
    if any(word.endswith('.py') for word in command):
        command += words
    elif words:
        env['LOCKWIRE_TEST'] = words[0]
    code, output = output_of(command, env, folder) # as meson does, in the build folder
    if code == SKIPPED:
        raise RuntimeError(f'{name} was skipped')
    return (0, failed_test(output) or f'exit code {code}') if code != 0 else None


def failure_of(tree, folder, test, words, seeds):
    """Returns what fails in the copies in `folder`, or None."""
    if test == SIM:
        return first_failure(folder / SIM, seeds, words)
    if '/' in test:
        return failure_of_program(folder / test, words)
    return failure_of_test(tree, folder, test, words)
