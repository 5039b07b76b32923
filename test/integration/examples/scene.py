# SPDX-License-Identifier: MIT
"""The base of the examples' tests: each example is compiled as its head comment says, with
warnings as errors, against the library of this build, and run at a private redis-server.

Independent of any particular example. The environment has LOCKWIRE_EXAMPLES (their folder),
LOCKWIRE_BUILD (this build's), LOCKWIRE_CC, LOCKWIRE_FLAGS.
"""
import os
import re
import shutil
import subprocess

from support import ToolTest

EXAMPLES = os.environ["LOCKWIRE_EXAMPLES"]
BUILD = os.environ["LOCKWIRE_BUILD"]


def command_of(source):
    """Returns the arguments of the compiler in the line of the head comment that compiles the
    example."""
    with open(os.path.join(EXAMPLES, source), encoding="utf-8") as file:
        found = re.search(rf"^ \*     cc ({re.escape(source)} .*)$", file.read(), re.M)
    assert found, f"{source} does not say how it is compiled"
    return found[1]


class ExampleTest(ToolTest):
    source = None  # the file of the example

    def setUp(self):
        super().setUp()
        self.program = self.path(self.source.removesuffix(".c"))
        shutil.copy(os.path.join(EXAMPLES, self.source), self.folder)
        subprocess.run(
            ["sh", "-ec", f"{os.environ['LOCKWIRE_CC']} {os.environ['LOCKWIRE_FLAGS']} "
             f"-Wall -Wextra -Werror {command_of(self.source)}"], cwd=self.folder, check=True,
            env=dict(os.environ, PKG_CONFIG_PATH=":".join(
                [os.path.join(BUILD, "meson-uninstalled"),
                 *os.environ.get("PKG_CONFIG_PATH", "").split(":")])))
        self.server = self.redis()

    def start(self, *words, **more):
        environment = {"LD_LIBRARY_PATH": os.path.join(BUILD, "src"),
                       "LOCKWIRE_URL": self.server.url}
        return self.spawn(self.program, *words,
                          env={**environment, **more.pop("env", {})}, **more)

    def test_it_refuses_to_begin_without_arguments_and_without_a_server(self):
        for words, url, said in (((), self.server.url, "usage: "),
                                 (self.arguments(), "localhost", "the URL must begin with")):
            code, out, err = self.end_of(self.start(*words, env={"LOCKWIRE_URL": url}))
            self.assertEqual((code, out), (1, ""), err)
            self.assertIn(said, err)
