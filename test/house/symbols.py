#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the symbols that the shared library exports with its map and with the public header.

Usage: symbols.py LIBRARY MAP HEADER

The three lists must be equal and not empty, and every symbol must have its version.
"""
import re
import subprocess
import sys


def exported(library):
    """Returns the names with their versions, as the dynamic linker sees them."""
    out = subprocess.run(["nm", "--dynamic", "--defined-only", "--with-symbol-versions",
                          library], check=True, stdout=subprocess.PIPE, text=True).stdout
    symbols = [line.split()[-1] for line in out.splitlines()]
    return {symbol for symbol in symbols if not symbol.startswith("LOCKWIRE_")}


def mapped(path):
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    return {f"{symbol}@@{version}"
            for version, body in re.findall(r"(LOCKWIRE_[\d.]+)\s*\{(.*?)\}", text, re.S)
            for symbol in re.findall(r"\b(lw_\w+)\s*;", body)}


def declared(path):
    with open(path, encoding="utf-8") as file:
        return set(re.findall(r"^LW_PUBLIC\s[^;(]*?\b(lw_\w+)\(", file.read(), re.M))


def main():
    library, map_file, header = sys.argv[1:]
    out, want, names = exported(library), mapped(map_file), declared(header)
    wrong = [f"exported but not in the map: {name}" for name in sorted(out - want)]
    wrong += [f"in the map but not exported: {name}" for name in sorted(want - out)]
    bare = {name.split("@")[0] for name in want}
    wrong += [f"in the map but not in the header: {name}" for name in sorted(bare - names)]
    wrong += [f"in the header but not in the map: {name}" for name in sorted(names - bare)]
    if not names:
        wrong.append("no LW_PUBLIC function in the header")
    print("\n".join(wrong) or f"{len(names)} symbols")
    sys.exit(1 if wrong else 0)


main()
