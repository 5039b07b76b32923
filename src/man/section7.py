#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the source of a page of section 7: puts in the version, for @version@, and the shown part of
each fragment that a line @fragment NAME@ names.

    section7.py PAGE FRAGMENTS VERSION     writes scdoc's source to the standard output
"""
import os
import re
import sys

SHOWN = re.compile(r"^/\* shown: \*/\n(.*?)^/\* until here \*/$", re.M | re.S)


def shown(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return "```\n" + SHOWN.search(file.read())[1].strip("\n").replace("\\", "\\\\") + "\n```"


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: section7.py PAGE FRAGMENTS VERSION")
    page, folder, version = sys.argv[1:]
    with open(page, encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"^@fragment (\S+)@$", lambda at: shown(folder, at[1]), text, flags=re.M)
    sys.stdout.write(text.replace("@version@", version))


if __name__ == "__main__":
    main()
