# SPDX-License-Identifier: MIT
"""Joins the lists of mutations: every other file of this folder that has a list MUTATIONS. Such a
list has groups: the mutations, the test that catches them, and its words.

A mutation is a name and its edits, each with a folder or a file, a text that occurs there exactly
once, and the replacement.

    test                    words
    test/sim/sim            options of the simulator, one of whose seeds must fail
    a path of a program     a pattern of names of tests, in place of all
    a name of a test        the same, or the arguments of a test in Python; `meson test --list` has
                            the names
"""
import importlib
import pathlib
import typing

FOLDER = pathlib.Path(__file__).resolve().parent


class Mutation(typing.NamedTuple):
    name: str
    edits: tuple
    test: str
    words: tuple


def load():
    """Returns all mutations."""
    modules = [importlib.import_module(path.stem) for path in sorted(FOLDER.glob('*.py'))
               if path.stem not in ('run', 'lists')]
    return [Mutation(name, tuple(edits), test, tuple(words)) for module in modules
            for mutations, test, words in getattr(module, 'MUTATIONS', ())
            for name, *edits in mutations]


def find(tree, place, old):
    """Returns the path and the content of the file in `place`, a file or a folder, that has `old`.
    Raises RuntimeError unless it occurs there exactly once."""
    paths = [pathlib.Path(place)] if (tree / place).is_file() else sorted(
        path.relative_to(tree) for path in (tree / place).glob('*.[ch]'))
    contents = [(path, (tree / path).read_text()) for path in paths]
    count = sum(text.count(old) for _, text in contents)
    if count != 1:
        raise RuntimeError(f'{place} has its text {count} times: {old.splitlines()[0]}')
    return next((path, text) for path, text in contents if old in text)


def check(tree):
    """Prints the edits whose text is not in the tree. Returns true if there are none."""
    bad = 0
    for mutation in load():
        for place, old, _ in mutation.edits:
            try:
                find(tree, place, old)
            except (RuntimeError, OSError) as error:
                print(f'{mutation.name}: {error}')
                bad += 1
    return bad == 0
