#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Keeps the documents true, with cheap checks. Each path that a document names exists. The README
leads to each document. test/README.md lists exactly the folders of test/ and test/integration/.
src/README.md lists exactly the folders of src/, and the files and names that it mentions exist in
the source. src/examples/README.md lists every file next to it. scripts/lua/README.md lists every
script, with as many KEYS and ARGV as the script's head. The account in the manual has the
permissions that the scripts need, and no permission that the source does not mention. NEWS.md
begins with the version of the header, which is also the build's. The comments of the header have at
most HEADER_WORDS words, and README.md has at most README_WORDS of prose.

Owns the list of documents. A path is a word in `backquotes`, in a link or in an indented line
that begins with a folder of this tree (or of the document's own, if a table names it) and has no
sign of a pattern. Paths that begin with build/ are not checked, since they may not exist yet.

    documents.py ROOT           exit code 1 if a check fails
    documents.py --self-test    shows that each rule can fail
"""
import os
import re
import sys
import tempfile

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "NEWS.md", "bench/README.md",
             "scripts/lua/README.md", "src/README.md", "src/examples/README.md", "test/README.md")
FOUND_FROM_README = ("CONTRIBUTING.md", "SECURITY.md", "NEWS.md", "bench/README.md",
                     "scripts/lua/README.md", "src/README.md", "src/examples/README.md", "test/README.md")
MANUAL = "src/man/lockwire.7.scd"
QUOTED = re.compile(r"`([^`\n]+)`|\]\(([^)\s]+)\)")
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*/?")
VERSIONS = { # the files that have the version, and its pattern
    "include/lockwire.h": r'^#define LW_VERSION "([\d.]+)"', "NEWS.md": r"^## ([\d.]+)",
}
LISTED = re.compile(r"^\| `(?:src/)?([\w-]+)/` \|", re.M)
FILE = re.compile(r"[\w-]+\.(?:c|h|lua|py)")
GRANT = re.compile(r"\+([a-z]+)(?:\|([a-z]+))?")
COMMAND = re.compile(r"(?<![A-Z])[A-Z]+(?![A-Z])")
CALL = re.compile(r"\b(?:call|pcall|pcall_type)\('([A-Z]+)'")
HEADER_WORDS = 7000 # in /* */, without the stars; mechanisms belong in lockwire(7)
README_WORDS = 1100 # without code, tables and pictures
COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
NO_PROSE = re.compile(r"^```.*?^```|<picture>.*?</picture>|^(?: {4}|\|).*?$", re.M | re.S)
SPAN = re.compile(r"`([^`]+)`")
FRAGMENT = re.compile(r"-- (?:include|inline): (\S+)\.lua")
HEAD = re.compile(r"^-- KEYS: (.*?)^-- ARGV: (.*?)^-- Reply: ", re.M | re.S)
SCRIPT_ROW = re.compile(r"^\| `(\w+)` \|((?:\\\||[^|\n])*)\|((?:\\\||[^|\n])*)\|", re.M)


def words(text):
    """Yields the words of a document that may be paths."""
    for quoted, link in QUOTED.findall(text):
        yield from (quoted or link).split()
    for line in text.splitlines():
        if line.startswith("    "):
            yield from line.split()


def named(root, text):
    """Yields the words that begin with a folder of the tree, or are a document."""
    for word in words(text):
        path = word.strip(",.:;'\"()")
        first = path.split("/")[0]
        if not PATH.fullmatch(path) or first == "build":
            continue
        if "/" in path and os.path.isdir(os.path.join(root, first)) or path.endswith(".md"):
            yield path


def folders(path):
    return {entry.name for entry in os.scandir(path)
            if entry.is_dir() and not entry.name.startswith(("_", "."))}


def files(path):
    return {entry.name for entry in os.scandir(path) if entry.is_file()}


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def check_rooms(root, document, *parents):
    listed = set(LISTED.findall(read(root, document)))
    there = set().union(*(folders(os.path.join(root, parent)) for parent in parents))
    for name in sorted(there - listed):
        yield f"{document} does not list {name}/"
    for name in sorted(listed - there):
        yield f"{document} lists {name}/, which is not there"


def check_names(root):
    """Checks that each word in backquotes in src/README.md is a file, a function or a word of
    the source."""
    files, known = set(), set()
    for parent in ("src", "include", "scripts"):
        for folder, _, names in os.walk(os.path.join(root, parent)):
            files.update(names)
            for name in names:
                if name.endswith((".c", ".h", ".lua", ".py", ".build")):
                    known.update(re.findall(r"\w+", read(folder, name)))
    for span in SPAN.findall(read(root, "src/README.md")):
        for word in span.split():
            if FILE.fullmatch(word) and word not in files:
                yield f"src/README.md tells of {word}, which is not there"
            if re.fullmatch(r"\w+", word) and word not in known:
                yield f"src/README.md tells of {word}, of which the source knows nothing"


def check_examples(root):
    document = "src/examples/README.md"
    told = {word for span in SPAN.findall(read(root, document)) for word in span.split()}
    for name in sorted(os.listdir(os.path.join(root, "src/examples"))):
        if name != "README.md" and name not in told:
            yield f"{document} does not tell of {name}"


def count_items(text):
    """Returns the number of items in a list of KEYS or ARGV. Items are separated by semicolons,
    or by commas if there are no semicolons. Text that begins with a colon, a full stop or "or"
    is no item."""
    text = re.sub(r"\([^)]*\)|`[^`]*`", "it", re.sub(r"\s+(?:--\s+)?", " ", text).strip())
    text = re.split(r"[.:](?: |$)|; or ", text)[0]
    if text.startswith("none"):
        return 0
    return len(text.split(";" if ";" in text else ","))


def check_scripts(root):
    """Checks that scripts/lua/README.md has a row for each script, with the KEYS and ARGV of the
    script's head."""
    document = "scripts/lua/README.md"
    rows = {row[1]: (row[2], row[3]) for row in SCRIPT_ROW.finditer(read(root, document))}
    texts, parts = ({name[:-4]: read(root, f"{folder}/{name}")
                     for name in files(os.path.join(root, folder)) if name.endswith(".lua")}
                    for folder in ("scripts/lua", "scripts/lua/fragments"))
    included = {name for text in (texts | parts).values() for name in FRAGMENT.findall(text)}
    yield from (f"{name}.lua is either a script or a fragment, by its folder and by who includes it"
                for name in sorted(set(texts) & included | set(parts) - included))
    scripts = set(texts)
    for name in sorted(scripts ^ set(rows)):
        yield f"{document} does not list {name}" if name in scripts else \
            f"{document} lists {name}, which is no script"
    for name in sorted(scripts & set(rows)):
        head = HEAD.search(texts[name])
        for what, cell, text in zip(("KEYS", "ARGV"), rows[name], head.groups() if head else "  "):
            if count_items(cell) != count_items(text):
                yield f"{document}: {name} has {count_items(cell)} {what}, in its head " \
                    f"{count_items(text)}"


def check_account(root):
    """Checks that the account of lockwire(7) may call all commands that the scripts call, and
    only commands that the source mentions. The permissions that are needed in use are tested by
    test/integration/server/account.c."""
    granted = GRANT.findall(read(root, MANUAL))
    may, known = {command for command, _ in granted}, {""}
    for folder in ("scripts/lua", "scripts/lua/fragments", "src/redis", "src/look"):
        for name in sorted(files(os.path.join(root, folder)) - {"README.md"}):
            text = read(root, f"{folder}/{name}")
            known.update(command.lower() for command in COMMAND.findall(text))
            for command in CALL.findall(text) if name.endswith(".lua") else ():
                if command.lower() not in may:
                    yield f"{MANUAL}: the account may not {command}, which {name} does"
    for command in sorted({word for words in granted for word in words} - known):
        yield f"{MANUAL}: the account may {command}, of which the source knows nothing"


def check_versions(root):
    versions = {}
    for path, pattern in VERSIONS.items():
        found = re.search(pattern, read(root, path), re.M)
        versions[path] = found and found[1]
    if len(set(versions.values())) != 1 or None in versions.values():
        yield f"the version is not everywhere the same: {versions}"


def check_sizes(root):
    comments = COMMENT.findall(read(root, "include/lockwire.h"))
    words = sum(len(re.sub(r"^\s*\*", "", text, flags=re.M).split()) for text in comments)
    if words > HEADER_WORDS:
        yield f"include/lockwire.h has {words} words of comment, more than {HEADER_WORDS}"
    words = len(re.findall(r"\w\S*", NO_PROSE.sub("", read(root, "README.md"))))
    if words > README_WORDS:
        yield f"README.md has {words} words of prose, more than {README_WORDS}"


def check(root):
    for document in DOCUMENTS:
        for path in named(root, read(root, document)):
            if not os.path.exists(os.path.join(root, path)):
                yield f"{document} names {path}, which is not there"
    readme = set(named(root, read(root, "README.md")))
    for document in FOUND_FROM_README:
        if document not in readme:
            yield f"README.md does not lead to {document}"
    yield from check_rooms(root, "test/README.md", "test", "test/integration")
    yield from check_rooms(root, "src/README.md", "src")
    yield from check_names(root)
    yield from check_examples(root)
    yield from check_scripts(root)
    yield from check_account(root)
    yield from check_versions(root)
    yield from check_sizes(root)


def self_test():
    good = {name: "" for name in DOCUMENTS}
    good["include/lockwire.h"] = '#define LW_VERSION "1.2.3"\n'
    good["NEWS.md"] = "## 1.2.3 (soon)\n## 1.2.2\n"
    good["README.md"] = " ".join(f"`{name}`" for name in FOUND_FROM_README)
    good[MANUAL] = "+get"
    good["test/README.md"] = ("| `unit/` | `test/unit/*.c` |\n| `integration/` | |\n"
                              "| `api/` | `build/gone`, `either/or` |\n")
    good["scripts/lua/ask.lua"] = ("-- KEYS: name (a; b), queue\n-- ARGV: one of\n--   two; `a; b`, "
                               "c: d; e\n-- Reply: 0\n-- include: part.lua\n"
                               "redis.pcall('GET', name)\n")
    good["scripts/lua/fragments/part.lua"] = ""
    good["scripts/lua/README.md"] = "| `ask` | name; queue | one; `<a\\|b>` | 0 |\n"
    good["src/base/log.c"] = "void lw__log(void);\n"
    good["src/README.md"] = ("| `src/base/` |\n| `src/examples/` |\n| `src/look/` |\n| `src/man/` |\n| `src/redis/` |\n"
                             "`log.c` has `lw__log`.\n")
    good["src/examples/one.c"] = ""
    good["src/examples/README.md"] = "`one.c`"
    bad = {
        "a path that is gone": ("SECURITY.md", "See `test/unit/gone.c`."),
        "one in a command": ("CONTRIBUTING.md", "    python3 -B test/gone.py\n"),
        "one in a link": ("bench/README.md", "[it](test/gone)"),
        "a document that nobody finds": ("README.md", ""),
        "a room that is not listed": ("test/README.md", "| `unit/` |\n| `integration/` |\n"),
        "a command that the account may not": 
            ("scripts/lua/ask.lua", good["scripts/lua/ask.lua"] + "pcall_type('ZRANK', queue)"),
        "one that it may in vain": (MANUAL, "+get +set"),
        "a subcommand that it may in vain": (MANUAL, "+get +get|set"),
        "news of another version": ("NEWS.md", "## 1.2.2\n"),
        "a header of another one": ("include/lockwire.h", '#define LW_VERSION "1.2.4"\n'),
        "a header with long comments":
            ("include/lockwire.h", good["include/lockwire.h"] + "/* " + 7001 * "x\n * " + "*/"),
        "a long introduction": ("README.md", good["README.md"] + 1101 * " word"),
        "a room that is not there": ("test/README.md", good["test/README.md"] + "| `x/` |\n"),
        "a room of the source that is not listed": ("src/README.md", ""),
        "a file of the source that is gone": ("src/README.md", good["src/README.md"] + "`gone.c`"),
        "an example that nobody finds": ("src/examples/README.md", ""),
        "a fragment among the scripts": ("scripts/lua/part.lua", ""),
        "a script among the fragments": ("scripts/lua/fragments/alone.lua", ""),
        "a script that is not listed": ("scripts/lua/README.md", ""),
        "a fragment that is listed":
            ("scripts/lua/README.md", good["scripts/lua/README.md"] + "| `part` | none | none | 0 |"),
        "a script with another number of keys": ("scripts/lua/README.md", "| `ask` | name | a; b | 0 |"),
        "a script with another number of words":
            ("scripts/lua/ask.lua", good["scripts/lua/ask.lua"].replace("; `a; b`, c", "")),
        "a function that is gone": ("src/README.md", good["src/README.md"] + "`lw__gone`"),
    }
    with tempfile.TemporaryDirectory() as root:
        for folder in ("test/unit", "test/integration/api", "bench", "src/base", "src/redis",
                       "src/examples", "src/man", "src/look", "include",
                       "scripts/lua/fragments"):
            os.makedirs(os.path.join(root, folder))

        def problems(**changes):
            for name, text in {**good, **changes}.items():
                with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                    file.write(text)
            return list(check(root))

        wrong = problems()
        missed = [what for what, (name, text) in bad.items() if not problems(**{name: text})]
    if wrong or missed:
        sys.exit(f"documents.py: wrongly found: {wrong}; not found: {missed}")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 2:
        sys.exit("usage: documents.py --self-test | ROOT")
    wrong = list(check(sys.argv[1]))
    for line in wrong:
        print(f"documents.py: {line}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
