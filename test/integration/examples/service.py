#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""src/examples/*.service and *.timer: systemd-analyze has nothing to report. If the machine has
no systemd-analyze, which needs no running systemd, the whole test is skipped.

The units are verified with their programs replaced by programs that exist.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

EXAMPLES = os.environ["LOCKWIRE_EXAMPLES"]
UNITS = sorted(name for name in os.listdir(EXAMPLES) if name.endswith((".service", ".timer")))


def verify(change=lambda text: text):
    """Returns the output for all units together."""
    with tempfile.TemporaryDirectory() as folder:
        for name in UNITS:
            with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
                text = re.sub(r"^ExecStart=/usr/local/bin/\S+", "ExecStart=/bin/true",
                              file.read(), flags=re.M)
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(change(text))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no",
                               *(os.path.join(folder, name) for name in UNITS)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
    return done.returncode, done.stdout


class Units(unittest.TestCase):
    def test_they_are_in_order(self):
        self.assertEqual(len(UNITS), 3)
        self.assertEqual(verify(), (0, ""))

    def test_what_is_not_is_told(self):
        for was, wrong in (("PrivateTmp=yes", "PrivateTemp=yes"), ("02:00:00", "26:00:00"),
                           ("ExecStart=/bin/true", "ExecStart=/nonexistent")):
            self.assertNotEqual(verify(lambda text, was=was, wrong=wrong:
                                       text.replace(was, wrong)), (0, ""), wrong)


if __name__ == "__main__":
    if not shutil.which("systemd-analyze"):
        print("systemd-analyze is not on this machine")
        sys.exit(77)  # meson's exit code for a skipped test
    unittest.main()
