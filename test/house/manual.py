#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Keeps the manual consistent with the program: each public function has a page, lockwire(1) has
exactly the options of `--help` and all its subcommands and exit codes, `--help` lists each subcommand
of its first lines, each page of ours that a page names exists, and the formatter has no warnings.

Each missing or surplus item is reported; the exit code is 1 then.

    manual.py PAGES MAP LOCKWIRE NEWS     PAGES: a folder of built pages; MAP: the library's
                                          symbols; NEWS names each subcommand
    manual.py --self-test            shows that each rule can fail
"""
import functools
import os
import re
import subprocess
import sys
import tempfile

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
REFERENCE = re.compile(r"(?<![\w-])(?:lockwire[\w.-]*|lw_\w+)\([137]\)")
USAGE = re.compile(r"^(?:usage:)? +lockwire ([a-z]+) (?!\[SUB)", re.M) # not of help
LISTED = re.compile(r"^  ([a-z]+)  ", re.M)
CODE = re.compile(r"^ +(\d+) {2}|  (\d+) {2}", re.M)
# Options of other programs, in examples and comparisons.
FOREIGN = {"--user", "--system"}


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def formatted(page):
    """Returns a page as words, and the formatter's warnings."""
    done = format_page(page)
    return re.sub(r"[\u2010-]\n +", lambda at: "" if at[0][0] == "\u2010" else "-", lines(page)), \
        done.stderr


@functools.cache
def format_page(page):
    return subprocess.run(["man", "--warnings", "--nj", "--encoding=UTF-8", "--local-file", page],
                          env={**os.environ, "MANWIDTH": "80", "MAN_KEEP_FORMATTING": "",
                               "LC_ALL": "C.UTF-8", "MANPAGER": "cat", "GROFF_NO_SGR": "1"},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def lines(page):
    return re.sub(r".\x08", "", format_page(page).stdout)


def check_functions(pages, symbols):
    for name in re.findall(r"\blw_\w+(?=;)", read(symbols)):
        page = os.path.join(pages, name + ".3")
        if not os.path.exists(page):
            yield f"{name} has no page"
            continue
        alias = re.fullmatch(r"\.so man3/(\w+\.3)\n", read(page))
        text, _ = formatted(os.path.join(pages, alias[1]) if alias else page)
        heading = text.split("NAME\n", 1)[-1].split("\n\n", 1)[0]
        if not re.search(rf"\b{name}\b", heading):
            yield f"{os.path.basename(page)} is not about {name}"


def check_forms(pages):
    for name in sorted(os.listdir(pages)):
        page = os.path.join(pages, name)
        if re.search(r"\.[137]$", name) and not read(page).startswith(".so "):
            text, said = formatted(page)
            if said or not text:
                yield f"{name}: {said.strip() or 'the formatter makes nothing of it'}"
            for line in lines(page).splitlines():
                if len(line) > 80:
                    yield f"{name}: wider than 80 columns: {line.strip()}"


def check_references(pages):
    there = {f"{name[:-2]}({name[-1]})" for name in os.listdir(pages)
             if re.search(r"\.[137]$", name)}
    for name in sorted(os.listdir(pages)):
        page = os.path.join(pages, name)
        if re.search(r"\.[137]$", name) and not read(page).startswith(".so "):
            text, _ = formatted(page)
            for other in sorted(set(REFERENCE.findall(text)) - there):
                yield f"{name} names {other}, which is no page"


def helps(command):
    """Returns the help texts of the command, by subcommand."""
    def ask(*words):
        return subprocess.run([command, *words, "--help"], stdout=subprocess.PIPE, text=True,
                              check=True).stdout
    first = ask()
    return {"": first} | {name: ask(name) for name in USAGE.findall(first)}


def check_list(said):
    for name in sorted(set(USAGE.findall(said[""])) ^ set(LISTED.findall(said[""]))):
        yield f"{name}: in the list of lockwire --help or in its first lines, not in both"


def check_command(page, said):
    text, _ = formatted(page)
    options = {word for told in said.values() for word in OPTION.findall(told)}
    for word in sorted(options ^ (set(OPTION.findall(text)) - FOREIGN)):
        yield f"{word}: " + ("not in lockwire(1)" if word in options else "in lockwire(1) alone")
    for name in sorted(set(said) - {""}):
        if not re.search(rf"^ +lockwire {name} ", text, re.M):
            yield f"{name}: not in lockwire(1)"
    codes = {a or b for told in said.values() for a, b in CODE.findall(told)}
    for code in sorted(codes - set(re.findall(r"^ +(\d+)(?: .*)?$", text, re.M))):
        yield f"exit code {code}: not in lockwire(1)"


def check_news(news, said):
    for name in sorted(set(said) - {""}):
        if not re.search(rf"`(?:lockwire )?{name}\b", news):
            yield f"{name}: not in NEWS.md"


def self_test():
    def broken(page, said, **others):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {"lw_a.3": page, "lockwire.1": page, **others}.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            with open(os.path.join(folder, "map"), "w", encoding="utf-8") as file:
                file.write("lw_a;\n")
            return [*check_functions(folder, os.path.join(folder, "map")), *check_forms(folder),
                    *check_references(folder),
                    *check_command(os.path.join(folder, "lockwire.1"), said),
                    *check_list(said), *check_news("`lockwire run`", said)]

    good = (".TH a 3\n.SH NAME\nlw_a - a\n.SH SYNOPSIS\nlockwire run NAME\n.PP\n\\-\\-wait\n"
            ".TP\n64\nusage\n.SH SEE\n")
    first = "usage: lockwire run NAME\n       lockwire help [SUBCOMMAND]\n\n  run  runs\n"
    said = {"": first, "run": "  --wait TIME\n   64  usage\n"}
    bad = {
        "a function without a page": (good, said, {"lw_a.3": ".so man3/lockwire.3\n",
                                                   "lockwire.3": good.replace("lw_a", "lw_b")}),
        "an option that is missing": (good, {"": "", "run": "--wait --lease\n 64  x"}, {}),
        "an option too much": (good.replace("wait", "weight"), {"": "", "run": " 64  x"}, {}),
        "a subcommand that is missing": (good, {**said, "hold": ""}, {}),
        "a subcommand that is not listed": (good, {**said, "": first.replace("  run  runs", "")}, {}),
        "a subcommand without news": (good + "lockwire hold NAME\n", {**said, "hold": ""}, {}),
        "an exit code that is missing": (good, {"": "", "run": "--wait\n   65  data\n"}, {}),
        "a page that another one names and is not there": (good + "lockwire\\-gone(7)\n", said, {}),
        "a warning of the formatter": (good + ".hy no\n.nosuchmacro\n", said, {}),
        "a line that is too wide": (good + ".nf\n" + 30 * "wide" + "\n", said, {}),
    }
    wrong = broken(good, said)
    missed = [what for what, (page, told, others) in bad.items()
              if not broken(page, told, **others)]
    if wrong or missed:
        sys.exit(f"manual.py: wrongly found: {wrong}; not found: {missed}")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 5:
        sys.exit("usage: manual.py --self-test | PAGES MAP LOCKWIRE NEWS")
    pages, symbols, command, news = sys.argv[1:]
    said = helps(command)
    wrong = [*check_functions(pages, symbols), *check_forms(pages),
             *check_references(pages), *check_command(os.path.join(pages, "lockwire.1"), said),
             *check_list(said), *check_news(read(news), said)]
    for line in wrong:
        print(f"manual.py: {line}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
