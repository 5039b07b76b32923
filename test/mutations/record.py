# SPDX-License-Identifier: MIT
"""Records, for each mutation, every test that finds it, and reports which tests are never needed.

The first line of a record has what each test costs without a mutation, and the tests that were left
out, because they are skipped or fail then, too. Each further line has a mutation and the tests that
find it, with the names that they report. A test finds a mutation if it fails twice, the second time
alone. A record that exists is continued.
"""
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import threading
import time

from judge import SKIPPED
from simulator import SIM
from tree import Tree

WORLDS = ('', '--cluster', '--sets', '--detach', '--guard', '--quorum')
WORLD_LIMIT_S = 3600
WAITING = 8 # concurrent tests of meson, per job
NAMES = re.compile(r'^\[  FAILED  \] ([a-z]\w*)$|^(?:FAIL|ERROR): (\w+) \(|^seed (\d+)'
                   r'(?: at [\d.]+ ms)?: ', re.M)


class Outcome:
    """One run of a test: the exit code, the names of what failed, and what it has cost."""

    def __init__(self, command, env, limit_s, stops):
        began, lines = time.monotonic(), []
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, errors='replace', stdin=subprocess.DEVNULL,
                                   env=dict(os.environ, **env), start_new_session=True)
        end = threading.Timer(limit_s, os.killpg, (process.pid, signal.SIGKILL))
        end.start()
        for line in process.stdout:
            lines.append(line)
            if stops and NAMES.match(line): # the first seed that fails is enough
                process.kill()
        _, status, used = os.wait4(process.pid, 0)
        end.cancel()
        process.returncode = self.code = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        self.names = list(dict.fromkeys(''.join(one) for one in NAMES.findall(''.join(lines))))
        self.cost = {'cpu_s': round(used.ru_utime + used.ru_stime, 2),
                     'wall_s': round(time.monotonic() - began, 2)}
        self.failed = self.code not in (0, SKIPPED)


class Recorder:
    def __init__(self, options, place):
        self.options, self.tree = options, Tree(options.source, place)
        chosen = {f'lockwire:{suite}' for suite in options.suites.split(',') if suite}
        known = {suite for test in self.tree.tests.values() for suite in test['suite']}
        if chosen - known:
            raise RuntimeError(f'no test is in {", ".join(chosen - known)}')
        self.tests = [name for name, test in self.tree.tests.items()
                      if chosen.intersection(test['suite']) and not name.startswith('mutations')]
        self.worlds = [f'worlds {world}'.strip() for world in WORLDS]
        self.targets = sorted({SIM, *(target for name in self.tests
                                      for target in self.tree.outputs_of(name))})

    def run(self, name):
        if name in self.worlds:
            seeds = ['--seeds', f'1..{self.options.seeds}']
            return Outcome([self.tree.build / SIM, *seeds, *name.split()[1:]], {}, WORLD_LIMIT_S,
                           stops=True)
        command, env = self.tree.command_of(name, self.tree.build)
        return Outcome(command, env, self.tree.tests[name]['timeout'], stops=False)

    def outcomes(self, without=()):
        """Runs all tests, tests with real clocks first. What fails is run again, alone."""
        found = {}
        for names, count in ((self.tests, WAITING * self.options.jobs),
                             (self.worlds, self.options.jobs)):
            names = [name for name in names if name not in without]
            with concurrent.futures.ThreadPoolExecutor(count) as pool:
                found.update(zip(names, pool.map(self.run, names)))
        for name, outcome in found.items():
            if outcome.failed and name not in self.worlds: # a seed is the same run each time
                found[name] = self.run(name)
        return found

    def costs(self):
        self.tree.compile(self.targets)
        found = self.outcomes()
        return {'costs': {name: one.cost for name, one in found.items() if one.code == 0},
                'left out': sorted(name for name, one in found.items() if one.code != 0)}

    def finds(self, mutation, without):
        self.tree.compile_with(mutation.edits, self.targets)
        found = self.outcomes(without)
        return {name: one.names for name, one in found.items() if one.failed}

    def play(self, mutations):
        path = self.options.record
        lines = []
        if path.exists():
            lines = [json.loads(line) for line in path.read_text().splitlines()]
        with path.open('a') as file:
            def write(line):
                print(json.dumps(line), file=file, flush=True)
            if not lines:
                lines = [self.costs()]
                write(lines[0])
            done = {line['mutation'] for line in lines[1:]}
            for mutation in mutations:
                if mutation.name not in done:
                    finds = self.finds(mutation, lines[0]['left out'])
                    write({'mutation': mutation.name, 'found by': finds})
                    print(f'{len(finds):>6}  {mutation.name}', flush=True)


def report(path):
    """Prints the tests that are neither the only nor the cheapest one for any mutation."""
    first, *lines = [json.loads(line) for line in path.read_text().splitlines()]
    costs = first['costs']
    count = {name: 0 for name in costs}
    needed = {}
    for line in lines:
        finders = [name for name in line['found by'] if name in costs]
        for name in finders:
            count[name] += 1
        if finders:
            cheapest = min(finders, key=lambda name: costs[name]['cpu_s'])
            only, total = needed.get(cheapest, (0, 0))
            needed[cheapest] = only + (len(finders) == 1), total + 1

    def show(names, rest):
        for name in sorted(names, key=lambda name: -costs[name]['cpu_s']):
            print(f'{costs[name]["cpu_s"]:>8} {costs[name]["wall_s"]:>8} {count[name]:>6}  '
                  f'{name}{rest(name)}')
    print(f'{len(lines)} mutations, {len(costs)} tests\n   CPU s   wall s  finds\nNeeded:')
    show(needed, lambda name: ': the only one for {}, the cheapest for {}'.format(*needed[name]))
    print('Never the only nor the cheapest one:')
    show(set(costs) - set(needed), lambda name: '')
    for line in lines:
        if not line['found by']:
            print(f'Found by no test: {line["mutation"]}')
    for name in first['left out']:
        print(f'Left out: {name}')
