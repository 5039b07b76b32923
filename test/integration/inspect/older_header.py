#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the public header as an earlier version may have had it: struct lw_inspected lacks its
last fields, so that it is smaller than the library's.

Usage: older_header.py HEADER OLDER_HEADER
"""
import re
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
older, count = re.subn(r"(\nstruct lw_inspected \{.*?const char \*client;\n).*?(\n\};\n)",
                       r"\1\2", text, flags=re.S)
if count != 1:
    sys.exit("older_header.py: struct lw_inspected was not found")
with open(sys.argv[2], "w", encoding="utf-8") as file:
    file.write(older)
