# SPDX-License-Identifier: MIT
"""Keeps which mutations were caught, so that only those run again for which something changed.

A result is stored below a hash of

- the edits, and the whole files that they edit;
- the test and its words; the sources from which meson builds its program, without the library's,
  with how they are compiled; all headers of tests in the folders of these sources and in those
  where the compiler looks for headers; for a test in Python all files of its folder and the Python
  files of test/lib; each file that the test has as an argument;
- all scripts, because the tests send them, and the model server runs them;
- the code in this folder that runs the tests; and the versions of the compiler, the libraries and
  the server.

The rest of the library is left out on purpose: otherwise each commit would run everything again.
So the store does not see that a change of another file hides a mutation (a second check that does
what the removed one did), or that a test no longer reaches the edited line because of one. Changes
of the system that leave the versions as they are are not seen either. --no-store runs everything;
what is caught then is stored, and what is not caught is removed.

Only a mutation whose test failed at its first run is stored, and a test with real clocks must have
failed twice in succession. An entry that no run has read for MAX_AGE_S is removed.
"""
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

from lists import FOLDER, find

MAX_AGE_S = 60 * 24 * 3600
RUNNER = ('judge.py', 'lists.py', 'run.py', 'store.py', 'tree.py')
SERVERS = ('redis-server', 'valkey-server')


def default_folder():
    cache = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
    return pathlib.Path(cache) / 'lockwire' / 'mutations'


class Store:
    def __init__(self, folder, reads=True):
        self.folder, self.reads = folder, reads
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if time.time() - path.stat().st_mtime > MAX_AGE_S:
                path.unlink(missing_ok=True)

    def get(self, key):
        """Returns the seed and why it failed, or None."""
        try:
            entry = json.loads((self.folder / key).read_text()) if self.reads else None
            os.utime(self.folder / key)
        except (OSError, ValueError):
            return None
        return (entry['seed'], entry['why']) if entry else None

    def put(self, key, name, found):
        with tempfile.NamedTemporaryFile('w', dir=self.folder, delete=False) as file:
            json.dump({'mutation': name, 'seed': found[0], 'why': found[1]}, file)
        os.replace(file.name, self.folder / key)

    def remove(self, key):
        (self.folder / key).unlink(missing_ok=True)


@functools.cache
def version_of(*command):
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True).stdout
    except OSError:
        return ''


def versions(build):
    """Returns what is installed, as far as results depend on it."""
    dependencies = json.loads((build / 'meson-info/intro-dependencies.json').read_text())
    server = next(filter(None, map(shutil.which, SERVERS)), None)
    return [sorted((one['name'], one['version']) for one in dependencies),
            version_of(*os.environ.get('CC', 'cc').split(), '--version'),
            version_of(server, '--version') if server else '']


class Statements:
    """The statements of build.ninja: for each file that is built, the text, which has the
    arguments of compiler and linker, and the files that it is built from."""

    def __init__(self, text):
        self.of = {}
        for statement in re.findall(r'^build .*\n(?:[ \t].*\n)*', text, re.M):
            outputs, _, inputs = statement.splitlines()[0][len('build '):].partition(': ')
            sources = inputs.partition(' || ')[0].replace(' | ', ' ').split()[1:]
            for output in outputs.split():
                self.of[output] = statement, sources

    def sources_of(self, targets):
        """Returns the statements for the targets and what they are built from, and the source
        files. Leaves out what is built below src, which is the library and the command."""
        statements, files, todo = set(), set(), list(targets)
        seen = set(todo)
        while todo:
            name = todo.pop()
            if name.startswith('src/'):
                continue
            if name not in self.of:
                files.add(name)
                continue
            statement, sources = self.of[name]
            statements.add(statement)
            todo += set(sources) - seen
            seen.update(sources)
        return statements, files


class Keys:
    """Computes the hashes for a tree in which nothing needs to be built."""

    def __init__(self, tree):
        self.tree, self.hashes, self.tests = tree, {}, {}
        self.statements = Statements((tree.build / 'build.ninja').read_text())
        self.common = [self.files((tree.tree / 'scripts').glob('*.lua')),
                       self.files(FOLDER / name for name in RUNNER), versions(tree.build)]

    def files(self, paths):
        """Returns the names and the hashes of the contents."""
        for path in (paths := {pathlib.Path(os.path.normpath(path)) for path in paths}):
            if path not in self.hashes:
                self.hashes[path] = hashlib.sha256(path.read_bytes()).hexdigest()
        return sorted((os.path.relpath(path, self.tree.tree if path.is_relative_to(self.tree.tree)
                                       else FOLDER), self.hashes[path]) for path in paths)

    def plain(self, text):
        """Returns the text without the places of the tree, which is another one in each run, and
        of the sources, which another clone has elsewhere."""
        return text.replace(str(self.tree.tree.parent), '').replace(str(self.tree.source), '')

    def in_tree(self, names):
        """Returns those of the names, as the build folder has them, that are in the sources."""
        paths = {pathlib.Path(os.path.normpath(self.tree.build / name)) for name in names}
        return {path for path in paths if path.is_relative_to(self.tree.tree)}

    def of_test(self, test):
        """Returns what the test is made of."""
        statements, files = self.statements.sources_of(self.tree.outputs_of(test))
        paths = self.in_tree(files)
        folders = {path.parent for path in paths} | self.in_tree(
            name for statement in statements for name in re.findall(r' -I(\S+)', statement))
        paths |= {header for folder in folders if folder.is_relative_to(self.tree.tree / 'test')
                  for header in folder.glob('*.h')}
        made_of = [sorted(map(self.plain, statements))]
        if '/' not in test:
            entry = self.tree.tests[test]
            made_of += [[self.plain(word) for word in entry['cmd']],
                        sorted((key, self.plain(value)) for key, value in entry['env'].items())]
            for path in filter(pathlib.Path.is_file, self.in_tree(entry['cmd'])):
                paths.add(path)
                if path.suffix == '.py':
                    paths |= {*filter(pathlib.Path.is_file, path.parent.rglob('*')),
                              *(self.tree.tree / 'test' / 'lib').glob('*.py')}
        return made_of + [self.files(paths)]

    def key(self, mutation):
        if mutation.test not in self.tests:
            self.tests[mutation.test] = self.of_test(mutation.test)
        edited = {find(self.tree.tree, place, old)[0] for place, old, _ in mutation.edits}
        parts = [mutation.edits, mutation.test, mutation.words, self.tests[mutation.test],
                 self.files(self.tree.tree / path for path in edited), self.common]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
