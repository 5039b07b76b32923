#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests that a stored result is forgotten when something changes on which it depends, and at no
other change; in a small tree that is never built."""
import json
import os
import pathlib
import tempfile
import time
import unittest

import store
from lists import Mutation
from tree import Tree

FILES = {
    'scripts/acquire.lua': 'return 1\n',
    'src/lock/machine.c': 'int one = 1;\n',
    'src/lock/turns.c': 'int two = 2;\n',
    'src/slot.c': 'int slot;\n',
    'test/command/other.py': '',
    'test/command/take.py': '',
    'test/lib/server.h': '',
    'test/lib/support.py': '',
    'test/unit/machine.c': '',
    'test/unit/other.c': '',
    'test/unit/scene.h': '',
}
STATEMENTS = '''\
rule c_COMPILER
 command = cc $ARGS -c $in

build test/unit/unit_machine.p/machine.c.o: c_COMPILER ../tree/test/unit/machine.c || src/scripts.h
 ARGS = -Itest/unit -I../tree/test/lib -ISOURCE/build/deps/hiredis/include -O1

build test/unit/libscene.a: LINKER ../tree/src/slot.c
build test/unit/unit_machine: c_LINKER test/unit/unit_machine.p/machine.c.o | src/library.a $
 test/unit/libscene.a
 LINK_ARGS = -lcmocka

build test/unit/unit_other.p/other.c.o: c_COMPILER ../tree/test/unit/other.c
build test/unit/unit_other: c_LINKER test/unit/unit_other.p/other.c.o
build src/library.a: LINKER src/turns.c.o
build src/turns.c.o: c_COMPILER ../tree/src/lock/turns.c
'''.replace(' $\n', '')
EDIT = ('src/lock', 'one = 1', 'one = 2')
UNIT = Mutation('unit', (EDIT,), 'test/unit/unit_machine', ())
COMMAND = Mutation('command', (EDIT,), 'command_take', ('Life.test_a',))


class Small(Tree):
    """What meson would have written for the files above."""

    def __init__(self, place):
        self.source, self.tree = pathlib.Path('/clones') / place.name, place / 'tree'
        self.build = place / 'build'
        take = str(self.build / '../tree/test/command/take.py')
        for path, text in {
                **{self.tree / name: text for name, text in FILES.items()},
                self.build / 'build.ninja': STATEMENTS.replace('SOURCE', str(self.source)),
                self.build / 'meson-info/intro-dependencies.json':
                    json.dumps([{'name': 'hiredis', 'version': '1.2.0'}]),
                self.build / 'meson-info/intro-tests.json': json.dumps([
                    {'name': 'command_take', 'cmd': ['python3', '-B', take], 'env': {},
                     'depends': ['tool']}]),
                self.build / 'meson-info/intro-targets.json': json.dumps([
                    {'id': 'tool', 'filename': [str(self.build / 'src/tool/lockwire')]}]),
        }.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.read()


class StoreTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix='lockwire-store-')
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)
        self.tree = Small(self.place)

    def key(self, mutation):
        return store.Keys(self.tree).key(mutation)

    def changes(self, mutation, name):
        """Returns true if the key is another one after a change of the file."""
        path, before = self.tree.build / name, self.key(mutation)
        text = path.read_text()
        path.write_text(text.replace('-O1', '-O2').replace('1.2.0', '1.3.0') if '-O1' in text or
                        '1.2.0' in text else f'{text}\n')
        self.tree.read()
        after = self.key(mutation)
        path.write_text(text)
        self.assertEqual(before, self.key(mutation))
        return before != after

    def test_what_a_program_depends_on(self):
        for name in ('src/lock/machine.c', 'test/unit/machine.c', 'test/unit/scene.h',
                     'test/lib/server.h', 'src/slot.c', 'scripts/acquire.lua'):
            self.assertTrue(self.changes(UNIT, f'../tree/{name}'), name)
        for name in ('build.ninja', 'meson-info/intro-dependencies.json'):
            self.assertTrue(self.changes(UNIT, name), name)

    def test_where_a_program_does_not_look_for_headers(self):
        other = UNIT._replace(test='test/unit/unit_other')
        self.assertTrue(self.changes(other, '../tree/test/unit/scene.h'))
        self.assertFalse(self.changes(other, '../tree/test/lib/server.h'))

    def test_what_a_program_does_not_depend_on(self):
        for name in ('src/lock/turns.c', 'test/unit/other.c', 'test/command/take.py',
                     'test/lib/support.py'):
            self.assertFalse(self.changes(UNIT, f'../tree/{name}'), name)

    def test_what_a_test_in_python_depends_on(self):
        for name in ('src/lock/machine.c', 'test/command/take.py', 'test/command/other.py',
                     'test/lib/support.py', 'scripts/acquire.lua'):
            self.assertTrue(self.changes(COMMAND, f'../tree/{name}'), name)
        for name in ('src/lock/turns.c', 'test/unit/machine.c'):
            self.assertFalse(self.changes(COMMAND, f'../tree/{name}'), name)

    def test_the_mutation(self):
        key = self.key(UNIT)
        self.assertEqual(key, self.key(UNIT._replace(name='another name')))
        for other in (UNIT._replace(edits=(('src/lock', 'one = 1', 'one = 3'),)),
                      UNIT._replace(edits=(EDIT, ('src/lock', 'two = 2', 'two = 3'))),
                      UNIT._replace(test='test/unit/unit_other'), UNIT._replace(words=('test_a',))):
            self.assertNotEqual(key, self.key(other))

    def test_the_place_of_the_tree_does_not_matter(self):
        keys = [self.key(one) for one in (UNIT, COMMAND)]
        self.tree = Small(self.place / 'elsewhere')
        self.assertEqual(keys, [self.key(one) for one in (UNIT, COMMAND)])

    def test_the_runner(self):
        key, store.FOLDER = self.key(UNIT), self.place
        self.addCleanup(setattr, store, 'FOLDER', pathlib.Path(store.__file__).parent)
        for name in store.RUNNER:
            (self.place / name).write_text('')
        self.assertNotEqual(key, self.key(UNIT))

    def test_what_is_stored(self):
        folder = self.place / 'stored'
        kept = store.Store(folder)
        self.assertIsNone(kept.get('a'))
        kept.put('a', 'unit', (7, 'op 3: late'))
        self.assertEqual(kept.get('a'), (7, 'op 3: late'))
        self.assertIsNone(store.Store(folder, reads=False).get('a'))
        (folder / 'b').write_text('{"cut off')
        self.assertIsNone(kept.get('b'))
        kept.remove('a')
        self.assertIsNone(kept.get('a'))

    def test_what_nobody_reads_is_removed(self):
        folder = self.place / 'stored'
        kept = store.Store(folder)
        for key in ('read', 'unread'):
            kept.put(key, 'unit', (0, 'why'))
            old = time.time() - store.MAX_AGE_S - 1
            os.utime(folder / key, (old, old))
        kept.get('read')
        store.Store(folder)
        self.assertEqual([path.name for path in folder.iterdir()], ['read'])


if __name__ == '__main__':
    unittest.main()
