#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows that the tests find bugs: breaks a copy of the sources in one place at a time, and counts
the simulator's seeds until a run fails. The count is 0 if another test fails.

    run.py [--seeds N] [--jobs N] [--only WORD] SOURCE-TREE
    run.py --check SOURCE-TREE     only checks that each edit's text is there

The lists of mutations are the other files of this folder: each has a list MUTATIONS of groups.
Independent of the simulator's checks. The text of an edit must occur in its folder or file exactly
once; otherwise the sources have changed, which is a failure, too. Each worker copies the tree and
builds it once. For each mutation it builds again, runs the seeds from 1 until one fails, and
restores the sources. Tests with real clocks, which mostly wait, run in the background, on copies of
the built programs. On a machine that is too slow they may miss a mutation, which is tried again
after all others.
"""

import argparse
import concurrent.futures
import importlib
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading

from command import COMMAND
from simulator import SIM

GROUPS = [group for path in sorted(pathlib.Path(__file__).parent.glob('*.py'))
          if path != pathlib.Path(__file__) for group in importlib.import_module(path.stem).MUTATIONS]
LIBRARY = ('src/liblockwire.so.0',) # which programs find next to them
WAITING = 6 # concurrent tests with real clocks, per job


def run(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, **more)
    if done.returncode != 0:
        raise RuntimeError(f'{command[0]} failed:\n{done.stdout[-2000:]}')


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


def failed_test(unit, words=()):
    """Returns the first test that fails, of those that match the first word. cmocka reports an
    error if the tear-down fails as well, as after an assertion in a callback of the event loop."""
    done = subprocess.run([unit], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=dict(os.environ, **({'LOCKWIRE_TEST': words[0]} if words else {})))
    found = re.search(r'FAILED  \] (\w+)', done.stdout)
    if not found and 'Test teardown failed' in done.stdout:
        found = re.search(r'ERROR   \] (\w+)', done.stdout)
    return found and (0, found[1])


def failed_command_test(command, tree, file, test):
    """The same for a test of the command."""
    done = subprocess.run([sys.executable, '-B', tree / 'test/integration/command' / file, test],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=dict(os.environ, LOCKWIRE_COMMAND=str(command),
                                   PYTHONPATH=str(tree / 'test/lib')))
    found = re.search(r'^FAIL: (\w+)', done.stdout, re.M)
    return found and (0, found[1])


def find(tree, place, old):
    """Returns the path and the content of the file in `place`, a file or a folder, that has `old`.
    It must occur there exactly once."""
    paths = [place] if (tree / place).is_file() else sorted(
        path.relative_to(tree) for path in (tree / place).glob('*.[ch]'))
    contents = [(path, (tree / path).read_text()) for path in paths]
    count = sum(text.count(old) for _, text in contents)
    if count != 1:
        raise RuntimeError(f'{place} has its text {count} times: {old.splitlines()[0]}')
    return next((path, text) for path, text in contents if old in text)


def check(tree):
    bad = 0
    for mutations, _, _ in GROUPS:
        for what, *edits in mutations:
            for place, old, _ in edits:
                try:
                    find(tree, place, old)
                except (RuntimeError, OSError) as error:
                    print(f'{what}: {error}')
                    bad += 1
    sys.exit(bad > 0)


class Worker:
    """A copy of the tree with a build of its own."""

    def __init__(self, source, place):
        self.tree, self.build = place / 'tree', place / 'build'
        shutil.copytree(source, self.tree,
                        ignore=shutil.ignore_patterns('.git', 'build', '__pycache__'))
        run(['meson', 'setup', self.build, self.tree, '-Dbench=false', '-Dtests=enabled',
             '-Doptimization=1', '-Ddebug=false', '-Dwerror=false'])
        self.compile(SIM)

    def compile(self, program):
        run(['ninja', '-C', self.build, '-j1', program])

    def edit(self, place, old, new):
        """Returns the path and the former content of the file."""
        path, text = find(self.tree, place, old)
        (self.tree / path).write_text(text.replace(old, new))
        return path, text

    def compile_mutant(self, edits, program, folder):
        """Leaves a copy of the program in `folder`, with the library in its place next to it."""
        kept = []
        try:
            for edit in edits:
                kept.append(self.edit(*edit))
            self.compile(program)
        finally:
            for path, text in reversed(kept):
                (self.tree / path).write_text(text)
        for name in (program, *LIBRARY):
            if (self.build / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.build / name, folder / name)


def report(what, seeds, why):
    print(f'{seeds:>6}  {what:<50} {why}', flush=True)


def seeds_to_catch(options, folder, program, words):
    """Returns the seed that shows the mutation, or 0 and the test that does, or None."""
    if program == SIM:
        return first_failure(folder / SIM, options.seeds, words)
    found, tries = None, 3 # tests with real clocks pass on a machine that is too slow
    while not found and tries > 0:
        found = (failed_command_test(folder / program, options.source, *words)
                 if program == COMMAND else failed_test(folder / program, words))
        tries -= 1
    return found


class Run:
    """The mutations to be tried, and the results."""

    def __init__(self, options, place):
        self.options, self.place = options, place
        self.todo, self.caught, self.failures = queue.Queue(), [], []
        self.missed = [] # by tests with real clocks: these are tried again at the end
        self.waiting = concurrent.futures.ThreadPoolExecutor(WAITING * options.jobs)

    def fail(self, what, error):
        report(what, '-', f'FAILED: {error}')
        self.failures.append(what)

    def judge(self, what, folder, program, words, again=False):
        try:
            found = seeds_to_catch(self.options, folder, program, words)
            if found:
                report(what, *found)
                self.caught.append(what)
            elif program == SIM:
                self.fail(what, f'not seen in {self.options.seeds} seeds')
            elif again:
                self.fail(what, 'no test fails')
            else:
                self.missed.append((what, folder, program, words))
                return
        except (RuntimeError, OSError, ValueError) as error:
            self.fail(what, error)
        shutil.rmtree(folder, ignore_errors=True)

    def work(self, number):
        try:
            worker = Worker(self.options.source, self.place / str(number))
            for words in sorted({words for _, program, words in GROUPS if program == SIM}):
                if found := first_failure(worker.build / SIM, 10, words):
                    raise RuntimeError(f'seed {found[0]} fails without any mutation: {found[1]}')
        except (RuntimeError, OSError) as error:
            self.failures.append(str(error))
            return
        while True:
            try:
                (what, *edits), program, words = self.todo.get_nowait()
            except queue.Empty:
                return
            folder = pathlib.Path(tempfile.mkdtemp(dir=self.place))
            try:
                worker.compile_mutant(edits, program, folder)
            except (RuntimeError, OSError) as error:
                self.fail(what, error)
                continue
            if program == SIM:
                self.judge(what, folder, program, words)
            else:
                self.waiting.submit(self.judge, what, folder, program, words)

    def play(self):
        """Returns true if all were caught."""
        count = self.todo.qsize()
        threads = [threading.Thread(target=self.work, args=(i,))
                   for i in range(min(self.options.jobs, count))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.waiting.shutdown()
        for missed in self.missed:
            self.judge(*missed, again=True)
        for failure in self.failures:
            print(f'FAILED: {failure}')
        print(f'{len(self.caught)} of {count} mutations were caught')
        return len(self.caught) == count and not self.failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--seeds', type=int, default=4000)
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--only', default='')
    parser.add_argument('--check', action='store_true')
    parser.add_argument('source', type=lambda path: pathlib.Path(path).resolve())
    options = parser.parse_args()
    if options.check:
        check(options.source)
    print(' seeds  mutation', flush=True)
    with tempfile.TemporaryDirectory(prefix='lockwire-mutations-') as place:
        mutants = Run(options, pathlib.Path(place))
        for mutations, program, words in sorted(GROUPS, key=lambda group: group[1] == SIM):
            for mutation in mutations: # the simulator's come last, while other tests wait
                if options.only in mutation[0]:
                    mutants.todo.put((mutation, program, words))
        sys.exit(0 if mutants.play() else 1)


main()
