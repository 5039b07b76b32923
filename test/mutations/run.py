#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows that the tests find bugs: breaks a copy of the sources in one place at a time, and counts
the simulator's seeds until a run fails. The count is 0 if another test fails.

    run.py [--seeds N] [--jobs N] [--only WORD]... [--no-store] SOURCE-TREE
    run.py --check SOURCE-TREE     only checks that each edit's text is there
    run.py --record FILE --suites SUITE,... [--only WORD]... [--seeds N] SOURCE-TREE
    run.py --report FILE

--only takes the mutations whose name contains one of the words.
What was caught by the same test of the same sources is not run again (store.py says what "the same"
is), except with --no-store or LOCKWIRE_NO_STORE=1 in the environment.

--record runs all tests of these suites of meson, and the simulator's worlds, for each mutation, and
adds to the file which of them find it; this takes hours. --report prints the tests of such a file
that were never needed (record.py).

lists.py explains the lists of mutations. Independent of the simulator's checks. The text of an edit
must occur in its folder or file exactly once; otherwise the sources have changed, which is a
failure, too.

One copy of the tree is compiled with one mutation after the other, and the sources are restored
each time. In the meantime the tests run on copies of the built programs: the simulator in as many
processes as there are jobs, and others, which mostly wait, in more. Each test must pass without a
mutation first; for the simulator these are ten seeds. On a machine that is too slow a test with
real clocks may miss a mutation, which is then tried again, and once more after all others.
"""
import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import resource
import shutil
import sys
import tempfile
import threading

import lists
import record
from judge import failure_of
from simulator import SIM
from store import Keys, Store, default_folder
from tree import Tree

WAITING = 6 # concurrent tests with real clocks, per job
TRIES = 3 # of a test with real clocks
SOUND_SEEDS = 10


def report(what, seeds, why):
    print(f'{seeds:>6}  {what:<50} {why}', flush=True)


def cpu_seconds():
    """Returns what this process and its children have used. (Servers that outlive the test that
    started them are not counted.)"""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Run:
    """The mutations to be tried, and the results."""

    def __init__(self, options, place):
        self.options, self.place = options, place
        self.tree = Tree(options.source, place)
        self.store = Store(default_folder(), reads=options.store)
        self.keys = Keys(self.tree)
        self.key_of = {} # while the tree has no mutation
        self.caught, self.failures = [], []
        self.stored = 0 # how many of those that were caught are from the store
        self.missed = [] # by tests with real clocks: these are tried again at the end
        self.sound = {} # what fails without a mutation, or None, as futures
        self.lock = threading.Lock()
        self.computing = concurrent.futures.ThreadPoolExecutor(options.jobs)
        self.waiting = concurrent.futures.ThreadPoolExecutor(WAITING * options.jobs)

    def fail(self, mutation, error):
        report(mutation.name, '-', f'FAILED: {error}')
        with self.lock:
            self.failures.append(mutation.name)

    def pool(self, mutation):
        return self.computing if mutation.test == SIM else self.waiting

    def compile(self, mutation, edits):
        """Returns a folder with what the mutation's test needs."""
        targets = self.tree.outputs_of(mutation.test)
        self.tree.compile_with(edits, targets)
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.place))
        self.tree.copy_to(folder, targets)
        return folder

    def failure(self, mutation, folder, seeds):
        return failure_of(self.tree, folder, mutation.test, mutation.words, seeds)

    def is_stored(self, mutation):
        """Returns true if the mutation was caught before, and counts and reports that."""
        self.key_of[mutation] = self.keys.key(mutation)
        found = self.store.get(self.key_of[mutation])
        if not found or found[0] > self.options.seeds:
            return False
        report(mutation.name, found[0], f'{found[1]} (stored)')
        self.caught.append(mutation.name)
        self.stored += 1
        return True

    def catch(self, mutation, folder, again):
        """Returns what is found, after several tries with real clocks. Stores it only if the first
        try finds it, and then the test that failed does, alone, since a machine that is slow can
        make a test fail, too."""
        key = self.key_of[mutation]
        if mutation.test == SIM:
            found = self.failure(mutation, folder, self.options.seeds)
            steady = True
        else:
            for tried in range(TRIES):
                if found := self.failure(mutation, folder, None):
                    break
            alone = mutation
            if found and '/' in mutation.test:
                alone = mutation._replace(words=(found[1],))
            steady = found and not (again or tried) and self.failure(alone, folder, None)
        if found and steady:
            self.store.put(key, mutation.name, found)
        elif not found:
            self.store.remove(key)
        return found

    def check_sound(self, mutation):
        """Starts the mutation's test without a mutation, unless that has been done."""
        key = (mutation.test, mutation.words)
        if key in self.sound:
            return
        folder = self.compile(mutation, ())

        def fails():
            try: # that it fails once is no proof on a machine that is too slow
                for _ in range(TRIES):
                    found = self.failure(mutation, folder, SOUND_SEEDS)
                    if not found or mutation.test == SIM:
                        break
                return found
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        self.sound[key] = self.pool(mutation).submit(fails)

    def judge(self, mutation, folder, again=False):
        try:
            if fails := self.sound[mutation.test, mutation.words].result():
                self.fail(mutation, f'its test fails without it: {fails[0]} {fails[1]}')
            elif found := self.catch(mutation, folder, again):
                report(mutation.name, *found)
                with self.lock:
                    self.caught.append(mutation.name)
            elif mutation.test == SIM:
                self.fail(mutation, f'not seen in {self.options.seeds} seeds')
            elif again:
                self.fail(mutation, 'no test fails')
            else:
                with self.lock:
                    self.missed.append((mutation, folder))
                return
        except (RuntimeError, OSError, ValueError) as error:
            self.fail(mutation, error)
        shutil.rmtree(folder, ignore_errors=True)

    def play(self, mutations):
        """Returns true if all were caught."""
        for mutation in mutations:
            try:
                if self.is_stored(mutation):
                    continue
                self.check_sound(mutation)
                folder = self.compile(mutation, mutation.edits)
            except (RuntimeError, OSError) as error:
                self.fail(mutation, error)
                continue
            self.pool(mutation).submit(self.judge, mutation, folder)
        self.computing.shutdown()
        self.waiting.shutdown()
        for mutation, folder in self.missed:
            self.judge(mutation, folder, again=True)
        for failure in self.failures:
            print(f'FAILED: {failure}')
        print(f'{self.stored} results were stored before; {cpu_seconds():.0f} s of CPU time')
        print(f'{len(self.caught)} of {len(mutations)} mutations were caught')
        return 0 < len(self.caught) == len(mutations)


def in_order(mutations):
    """Returns them in the order in which they are compiled: those of the simulator last, while
    other tests wait; and those of the same file together, because the next compilation compiles
    the restored file as well."""
    return sorted(mutations,
                  key=lambda one: (one.test == SIM, one.edits[0][0], one.test, one.words))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--seeds', type=int, help='4000, or 60 to record')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--only', action='append', metavar='WORD')
    parser.add_argument('--check', action='store_true')
    parser.add_argument('--no-store', dest='store', action='store_false',
                        default=os.environ.get('LOCKWIRE_NO_STORE') != '1')
    parser.add_argument('--record', type=pathlib.Path, metavar='FILE')
    parser.add_argument('--suites', default='')
    parser.add_argument('--report', type=pathlib.Path, metavar='FILE')
    parser.add_argument('source', nargs='?', default='.',
                        type=lambda path: pathlib.Path(path).resolve())
    options = parser.parse_args()
    options.seeds = options.seeds or (60 if options.record else 4000)
    if options.report:
        record.report(options.report)
        return
    if os.getsid(0) == os.getpid(): # as a test: what computes leaves the processors to what waits
        with contextlib.suppress(OSError):
            pathlib.Path('/proc/self/autogroup').write_text('10')
    if options.check:
        sys.exit(0 if lists.check(options.source) else 1)
    words = options.only or ['']
    mutations = in_order([one for one in lists.load()
                          if any(word in one.name for word in words)])
    with tempfile.TemporaryDirectory(prefix='lockwire-mutations-') as place:
        if options.record:
            print(' tests  mutation', flush=True)
            record.Recorder(options, pathlib.Path(place)).play(mutations)
            return
        print(' seeds  mutation', flush=True)
        sys.exit(0 if Run(options, pathlib.Path(place)).play(mutations) else 1)


main()
