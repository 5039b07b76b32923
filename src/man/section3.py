#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the manual's section 3 of the public header, in the words that stand there.

Owns the form of these pages. A line `/* == NAME(3): title == */` in the header begins a page,
one without a title goes on with it; the header's first comment is lockwire(3). Each function of
a page but the one that names it gets a page that leads there.

    section3.py HEADER FOLDER VERSION FRAGMENTS     writes FOLDER/NAME.3.scd and FOLDER/ALIAS.3
    section3.py HEADER --list                  the names of these files, as meson wants them

A page begins with the function that names it and with FRAGMENTS/NAME.c, if there is one; the other
functions follow, then callbacks, structs and enums.

Happy path: split the header at the marks, each part into comments and declarations, write what
a function, a callback, a struct, an enum is, and its comment below it. A declaration that this
cannot read, or that is on no page, ends it with its text.
"""
import os
import re
import sys

from section7 import shown

MARK = re.compile(r"/\* == (\w+)\(3\)(?:: (.*?))? == \*/", re.S)
CHUNK = re.compile(r"\s*(/\*.*?\*/|#(?:[^\n]*\\\n)*[^\n]*|extern \"C\" \{|\})", re.S)
TERM = re.compile(r" {1,5}(LW_[A-Z]+(?:, LW_[A-Z]+)*)(?:(?:  +|: )(\S.*))?")
RESULT = re.compile(r"X\((\w+), (-?\d+), *\"(.*?)\"\)")
NUMBERED = re.compile(r" *(\d+)\. +(.*)")


def fail(what, text):
    sys.exit(f"section3.py: {what}: {text.strip()[:200]}")


# ---- scdoc's form ----

def plain(text):
    """Words of the header, none of which means anything to scdoc."""
    text = re.sub(r"([\\*_`|<>\[\]#])", r"\\\1", text)
    return re.sub(r"^([-.:=+~&])", r"\\\1", text)


def bold(text):
    return "*" + text.replace("\\", "\\\\").replace("*", "\\*").replace("_", "\\_") + "*"


def term(name, told):
    return [bold(name), "\t" + told, ""] if told else [bold(name), ""]


def literal(lines):
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return ["```"] + [line[indent:] for line in lines] + ["```", ""]


class Text:
    """A comment's lines, as paragraphs, terms, numbered rules and what stands as it is."""

    def __init__(self):
        self.out, self.kind, self.lines = [], None, []

    def end(self):
        if self.kind == "literal":
            self.out += literal(self.lines)
        elif self.kind == "term":
            self.out += term(self.lines[0], plain(" ".join(self.lines[1:])))
        elif self.kind == "rule":
            self.out += [bold(self.lines[0] + ".") + " " + plain(" ".join(self.lines[1:])), ""]
        elif self.kind == "title":
            self.out += ["# " + self.lines[0], ""]
        elif self.kind == "words":
            self.out += [plain(" ".join(self.lines)), ""]
        self.kind, self.lines = None, []

    def begin(self, kind, *lines):
        self.end()
        self.kind, self.lines = kind, list(lines)

    def add(self, line):
        named, rule = TERM.fullmatch(line), NUMBERED.fullmatch(line)
        if not line.strip():
            if self.kind != "literal":
                self.end()
            elif self.lines[-1].strip():
                self.lines.append("")
        elif named:
            self.begin("term", named.group(1), named.group(2) or "")
        elif rule:
            self.begin("rule", *rule.groups())
        elif re.fullmatch(r"[A-Z][A-Z ]{9,}(?: \(.*)?", line):
            self.begin("title", line.split(" (")[0])
        elif line.startswith("   ") and self.kind in ("term", "rule"):
            self.lines.append(line.strip())
        elif line.startswith("  "):
            if self.kind != "literal":
                self.begin("literal")
            self.lines.append(line)
        elif re.search(r"\S +LW_[A-Z]+ {2,}\S", line):
            fail("a list that was filled as prose", line)
        else:
            if self.kind != "words":
                self.begin("words")
            self.lines.append(line.strip())


def prose(comment):
    """scdoc's lines of a comment's words."""
    text = Text()
    for line in re.sub(r"^/\*+|\*/$", "", comment.strip()).split("\n"):
        text.add(re.sub(r"^ *\*(?: |$)", "", line).rstrip() if " *" in line[:9] else line.strip())
    while text.lines and not text.lines[-1].strip():
        text.lines.pop()
    text.end()
    return text.out


# ---- C's ----

def fold(declaration):
    text = " ".join(declaration.split()).replace("( ", "(")
    return text.replace("LW_PUBLIC ", "").replace(" LW_INT_WIDE", "")


def declaration_end(text):
    depth = 0
    for at, char in enumerate(text):
        depth += (char in "{(") - (char in "})")
        if char == ";" and depth == 0 and not in_comment(text, at):
            return at + 1
    fail("a declaration without an end", text)


def in_comment(text, at):
    return text.rfind("/*", 0, at) > text.rfind("*/", 0, at)


def items(text):
    """(comment, declaration) in order; a comment that stands alone has none."""
    comment, at = "", 0
    while text[at:].strip():
        chunk = CHUNK.match(text, at)
        if chunk and chunk.group(1).startswith("/*"):
            if comment:
                yield comment, ""
            comment, at = chunk.group(1), chunk.end()
        elif chunk:
            at = chunk.end()
            if comment and chunk.group(1).startswith("#"):
                yield comment, chunk.group(1)
            comment = ""
        else:
            end = at + declaration_end(text[at:])
            yield comment, text[at:end].strip()
            comment, at = "", end
    if comment:
        yield comment, ""


def members(kind, body):
    """(declaration, comment) of a struct or an enum: a comment stands before it, or begins
    behind it on the same line."""
    found, before, end = [], "", 0
    code = r"[^,/]*\w[^,/]*(?:,|$|(?=/\*))" if kind == "enum" else r"[^;/]+;"
    for match in re.finditer(rf"/\*.*?\*/|{code}", body, re.S):
        token = match.group(0).strip()
        if not token.startswith("/*"):
            if token:
                found.append([fold(token).rstrip(","), before])
            before = ""
        elif found and not found[-1][1] and "\n" not in body[end:match.start()]:
            found[-1][1] = token
        else:
            before = token
        end = match.end()
    return found


def signature(declaration):
    """A declaration in lines that fit a page, which are never filled."""
    lines, words = [], fold(declaration).split(", ")
    for at, word in enumerate(words):
        text = word + (", " if at + 1 < len(words) else "")
        if lines and len(lines[-1] + text.rstrip()) <= 69:
            lines[-1] += text
        else:
            lines.append(("    " if lines else "") + text)
    while len(lines[0].rstrip()) > 69: # a single argument is too long for the first line
        head, rest = lines[0].rsplit("(", 1)
        lines[:1] = [head + "(", "    " + rest]
    return ["```"] + [line.rstrip() for line in lines] + ["```", ""]


# ---- pages ----

def function_of(declaration):
    match = re.match(r"LW_PUBLIC [\w *]*?(lw_\w+)\(", fold_public(declaration))
    return match.group(1) if match else None


def fold_public(declaration):
    return " ".join(declaration.split())


def described(comment, declaration):
    """The part of a page that is about one declaration."""
    if declaration.startswith("#"): # what the results are made of
        return prose(comment) + [line for name, value, text in RESULT.findall(declaration)
                                 for line in term(f"{name} {value}", plain(text))]
    if not declaration or "LW_ERROR_MAP(" in declaration:
        return prose(comment)
    head = re.match(r"(struct|enum) (\w+) \{(.*)\}", declaration, re.S)
    out = []
    if head:
        out += ["## " + plain(f"{head.group(1)} {head.group(2)}"), ""] + prose(comment)
        found = members(head.group(1), head.group(3))
        named = re.findall(r"\w+(?= = )", re.sub(r"/\*.*?\*/", "", head.group(3), flags=re.S))
        if len(named) > len(found):
            fail("an enumerator without an entry", declaration)
        for member, words in found:
            if not member.endswith("_INT_") and not re.match(r"const void \*\w+_", member):
                out += term(member, " ".join(line for line in prose(words) if line))
        return out
    name = function_of(declaration) or re.search(r"typedef \w+ (lw_\w+)\(", declaration)
    if name is None:
        return [] if re.fullmatch(r"struct \w+;", declaration) else fail("what is this?", declaration)
    name = name if isinstance(name, str) else name.group(1)
    return ["## " + plain(name), ""] + signature(declaration) + prose(comment)


class Page:
    def __init__(self, name):
        self.name, self.title, self.parts = name, "", []

    def functions(self):
        return [name for _, text in self.parts if (name := function_of(text))]

    def ordered(self, fragments):
        """The lines of all parts: what the page is named for, its fragment, and the others."""
        own = [part for part in self.parts if function_of(part[1]) == self.name]
        calls = [part for part in self.parts if function_of(part[1]) and part not in own]
        types = [part for part in self.parts if not function_of(part[1])]
        example = os.path.join(fragments, self.name + ".c")
        lines = [line for part in own for line in described(*part)]
        if os.path.exists(example):
            lines += ["# EXAMPLE", "", shown(fragments, self.name + ".c"), ""]
        for heading, parts in (("OTHER CALLS", calls), ("TYPES", types)):
            found = [line for part in parts for line in described(*part)]
            lines += (["# " + heading, ""] if found and lines else []) + found
        return lines

    def write(self, folder, version, others, fragments):
        functions = self.functions()
        named = [self.name] + [name for name in functions if name != self.name]
        lines = [f'{self.name}(3) "lockwire {version}" "Library"', "",
                 "# NAME", "", f"{', '.join(named)} - {self.title}", ""]
        if functions:
            lines += ["# SYNOPSIS", "", "*#include <lockwire.h>*", ""]
            for _, text in self.parts:
                if function_of(text):
                    lines += signature(text)
        lines += ["# DESCRIPTION", ""] + self.ordered(fragments)
        lines += ["# SEE ALSO", "", ", ".join(f"*{other}*(3)" for other in others) +
                  ", *lockwire*(7)", ""]
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
        with open(os.path.join(folder, self.name + ".3.scd"), "w", encoding="utf-8") as file:
            file.write(text)
        for name in named[1:]:
            with open(os.path.join(folder, name + ".3"), "w", encoding="utf-8") as file:
                file.write(f".so man3/{self.name}.3\n")


def pages(header):
    """By name, in the header's order; lockwire(3) is its first comment."""
    first = re.search(r"#define LOCKWIRE_H\n(/\*.*?\*/)", header, re.S)
    overview = Page("lockwire.h")
    title, body = first.group(1).split("\n *\n", 1)
    overview.title = re.sub(r"^/\*\s*\* lockwire: |\.$", "", title)
    overview.parts = [("/*\n" + body, "")]
    found = {overview.name: overview}
    marks = list(MARK.finditer(header))
    for mark, after in zip(marks, marks[1:] + [None]):
        page = found.setdefault(mark.group(1), Page(mark.group(1)))
        page.title = page.title or " ".join((mark.group(2) or "").replace("\n *", " ").split())
        page.parts += items(header[mark.end():after.start() if after else None])
    everything = set(re.findall(r"^LW_PUBLIC [\w\s*]*?(lw_\w+)\(", header, re.M))
    told = {name for page in found.values() for name in page.functions()}
    if everything != told:
        fail("on no page", " ".join(sorted(everything ^ told)))
    return found


def main():
    if len(sys.argv) not in (3, 5):
        sys.exit("usage: section3.py HEADER --list | FOLDER VERSION FRAGMENTS")
    with open(sys.argv[1], encoding="utf-8") as file:
        found = pages(file.read())
    if sys.argv[2] == "--list":
        for page in found.values():
            print(page.name + ".3.scd", *(name + ".3" for name in page.functions()
                                          if name != page.name), sep="\n")
        return
    for page in found.values():
        page.write(sys.argv[2], sys.argv[3],
                   [name for name in found if name != page.name], sys.argv[4])


main()
