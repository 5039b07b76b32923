# SPDX-License-Identifier: MIT
"""A copy of the sources with a build of its own, in which one mutation at a time is compiled."""
import json
import os
import pathlib
import re
import shutil
import subprocess

from lists import find

LIBRARY = 'src/liblockwire.so.0' # which programs find next to them


def run(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, **more)
    if done.returncode != 0:
        raise RuntimeError(f'{command[0]} failed:\n{done.stdout[-2000:]}')


class Tree:
    """Compiles nothing until it is asked to. meson uses ccache if the machine has it."""

    def __init__(self, source, place):
        self.source, self.tree, self.build = source, place / 'tree', place / 'build'
        shutil.copytree(source, self.tree,
                        ignore=shutil.ignore_patterns('.git', 'build', '__pycache__'))
        run(['meson', 'setup', self.build, self.tree, '-Dbench=false', '-Dtests=enabled',
             '-Doptimization=1', '-Ddebug=false', '-Dwerror=false'])
        self.read()

    def read(self):
        """Reads what meson has written about tests and targets."""
        info = self.build / 'meson-info'
        self.tests = {test['name']: test
                      for test in json.loads((info / 'intro-tests.json').read_text())}
        self.outputs = {
            target['id']: [os.path.relpath(name, self.build) for name in target['filename']]
            for target in json.loads((info / 'intro-targets.json').read_text())}

    def outputs_of(self, test):
        """Returns the built files that a test needs, as targets of ninja."""
        if '/' in test:
            return [test]
        if test not in self.tests:
            raise RuntimeError(f'meson knows no test {test}')
        return [name for target in self.tests[test]['depends'] for name in self.outputs[target]]

    def compile(self, targets):
        run(['ninja', '-C', self.build, '-j1', *targets])

    def compile_with(self, edits, targets):
        """Compiles the targets with the edits in the sources, and takes these back."""
        kept = []
        try:
            for place, old, new in edits:
                path, text = find(self.tree, place, old)
                kept.append((path, text))
                (self.tree / path).write_text(text.replace(old, new))
            self.compile(targets)
        finally:
            for path, text in reversed(kept):
                (self.tree / path).write_text(text)

    def copy_to(self, folder, targets):
        """Copies what was built, and the library, so that the next mutation can be compiled."""
        for name in (*targets, LIBRARY):
            built, copy = self.build / name, folder / name
            if built.is_dir():
                shutil.copytree(built, copy, dirs_exist_ok=True)
            elif built.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(built, copy)

    def command_of(self, name, folder):
        """Returns the arguments and the environment of a test of meson, with the built files in
        `folder`, and with the original sources, which no mutation changes."""
        def moved(text):
            text = text.replace(f'{self.build}/../tree', str(self.source))
            return text.replace(str(self.build), str(folder)).replace(str(self.tree),
                                                                      str(self.source))
        test = self.tests[name]
        return ([moved(word) for word in test['cmd']],
                {key: moved(value) for key, value in test['env'].items()})
