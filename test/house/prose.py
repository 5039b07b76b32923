#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts sentences that a newcomer would have to read twice, by their commonest patterns.

    prose.py SOURCE-TREE           fails if a file has more of them than prose.json allows
    prose.py --list SOURCE-TREE    shows each, with the rule and the advice
    prose.py --store SOURCE-TREE   lowers the allowances to what is there; raises none
    prose.py --self-test           shows that each rule finds something, and spares good prose

Looks at the comments of C and Lua, at the texts in C strings, and at the documents. Independent of
the programs' meaning. About one finding in five is good prose: those are in prose.json.
"""
import json
import os
import re
import sys

FOLDERS = ("include", "src", "scripts", "bench", "test")
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "NEWS.md", "test/README.md")
KINDS = (".c", ".h", ".lua", ".md", ".scd")
ALLOWED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prose.json")

VERBS = (r"(?:waits?|holds?|asks?|tries|joins|polls|gets|has|had|may|can(?:not)?|wants?|comes|came|"
         r"follows|reads|writes|sends?|sent|knows|stands|listens|gives?|gave|draws|enters|queues|"
         r"is|was|are|were|does|did|never|refuses|changes)")
START = r"(?:^|(?<=[.;:] ))"
# A rule: its name, the advice, its pattern, a sentence that it finds.
RULES = [
    ("headless who", "name the actor: holder, waiter, client, caller, operator",
     rf"{START}Who {VERBS} [a-z](?![^.]*\?)"
     rf"|(?:, and|, but|;| as| for| to| than| where| from| by|, so) who {VERBS}\b"
     r"|\b(?:from|by|to|for|of) whom(?:ever)?\b", "The lock is given to who waits longest"),
    ("nobody", "say that there are no waiters, or name the party",
     r"\b(?:nobody|everybody|anybody|whomever)\b", "nobody waits for it"),
    ("headless what", "use the noun: command, request, reply, key, value, lock",
     rf"{START}(?:What|Of what|To what) (?:is|was|it|comes|waits|lets|keeps|goes|has|no)\b(?![^.]*\?)"
     r"|\b(?:that|those) of (?:who|whom|what|that|its)\b|\bof what (?:is|was|it|comes|they)\b"
     r"|\bwhat (?:is|was) (?:told|held|asked|said|wanted|awaited|known|left)\b",
     "What is left of it is of no interest"),
    ("told", "call, return, reply, report, publish or log",
     r"\b(?:is|are|was|were|be|been|being|not|never) told\b|\btelling\b"
     r"|\btold (?:of|as|by|last|once)\b", "the caller is told"),
    ("where", "if for conditions, when for events",
     rf"{START}Where (?:it|that|the|a|an|this|there|no|they|one|servers?|Redis|such|some) (?![^.]*\?)"
     r"|\bwhere (?:nobody|somebody|there is|they are not|that is not)\b", "Where the server refuses it"),
    ("fronted of", "subject first",
     rf"{START}Of (?:a|an|the|each|one|those|such|its|this|all|several|two|any|no|it|which) ",
     "Of a claim without handles it is zero"),
    ("bookish adverb", "again, next to, besides, in the meantime, indefinitely, without success",
     r"\b(?:anew|thereof|thereby|wherein|for ever|lest|hereby|in vain|meanwhile)\b|\bupon which\b"
     r"|\bbeside\b(?! (?:it|them)self)|\bin good order\b", "it connects anew"),
    ("state", "up, down, open, closed, expired, invalid, unusable, pending",
     r"\bof (?:no|any|some) use\b|\b(?:is|are|was|were|be) over\b|\b(?:is|are) none\b"
     r"|\b(?:not|no|nothing) [a-z ]{0,20}any more\b"
     r"|\b(?:link|connection|session|key|hold|lock|it|that|value|name|token) (?:stands|stood)\b",
     "the link stands"),
    ("but", "except",
     r"\b(?:all|any|anything|nothing|none|each|every|everything|else|no [a-z]+) but "
     r"(?:for|by|with|of|the|those|that|an?|one)\b|, but (?:for|those|by) ", "all but the first"),
    ("let go", "release, discard, break",
     r"\blet(?:s|ting)? go of\b|\bg(?:iv(?:en|es?|ing)|ave) back\b|\bt(?:ak(?:en|es?|ing)|ook) away\b",
     "it is given back"),
    ("word order", "subject, verb, object",
     r"\bas [\w`']+(?: [a-z]+)? (?:has|have|says?) (?:it|so)\b|\bby (?:the|its) [a-z]+'s (?:word|way)\b"
     r"|\bis to be (?:told|asked|given|said|had|taken)\b", "as the server has it"),
]
PATTERNS = [(name, advice, re.compile(pattern, re.I if name == "nobody" else 0))
            for name, advice, pattern, _ in RULES]


# ---- the prose of a file, as (line, text) ----

def of_document(text):
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not re.match(r"    \S", line):
            yield number, line


def of_c(text):
    for found in re.finditer(r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", text, re.S):
        number = text.count("\n", 0, found.start()) + 1
        part = found.group(0)
        if part.startswith('"') and (" " not in part or text[:found.start()].endswith("#include ")):
            continue
        for line in part.strip('"').split("\n"):
            yield number, re.sub(r"^\s*(?:/?\*+/?\s?)", "", line)
            number += 1


def of_lua(text):
    for number, line in enumerate(text.split("\n"), 1):
        if "--" in line:
            yield number, line.split("--", 1)[1].strip()


def findings(name, text):
    prose = of_document if name.endswith((".md", ".scd")) else \
        of_lua if name.endswith(".lua") else of_c
    for number, line in prose(text):
        for rule, advice, pattern in PATTERNS:
            for found in pattern.finditer(line):
                yield number, rule, advice, found.group(0).strip()


def read_tree(root):
    names = list(DOCUMENTS)
    for folder in FOLDERS:
        for at, _, files in os.walk(os.path.join(root, folder)):
            names += [os.path.relpath(os.path.join(at, name), root) for name in files
                      if name.endswith(KINDS)]
    for name in sorted(names):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            yield name, list(findings(name, file.read()))


def check(found, allowed):
    for name, hits in found:
        if len(hits) > allowed.get(name, 0):
            yield f"{name}: {len(hits)} findings, {allowed.get(name, 0)} are allowed"
            for number, rule, advice, words in hits:
                yield f"    line {number}: \"{words}\" ({rule}: {advice})"


def store(found, allowed):
    lower = {}
    for name, hits in found:
        count = min(len(hits), allowed.get(name, 0)) if allowed else len(hits)
        if count:
            lower[name] = count
    with open(ALLOWED, "w", encoding="utf-8") as file:
        json.dump(lower, file, indent=1, sort_keys=True)
        file.write("\n")
    print(f"{sum(lower.values())} allowed in {len(lower)} files")


def self_test():
    good = ("The holder releases the lock, and the server replies.\nReturns NULL if there are no "
            "waiters.\nIf the server refuses, the client retries.\nIt knows who holds the lock.\n")
    missed = [name for (name, _, _, sentence) in RULES
              if name not in [rule for _, rule, _, _ in findings("x.md", sentence)]]
    wrong = list(findings("x.md", good))
    in_c = list(findings("x.c", 'int beside; /* the link stands */\nchar s[] = "connects anew";\n'))
    if missed or wrong or [hit[0] for hit in in_c] != [1, 2]:
        sys.exit(f"prose.py: not found: {missed}; wrongly found: {wrong}; in C: {in_c}")
    if not list(check([("x.md", in_c)], {"x.md": 1})) or list(check([("x.md", in_c)], {"x.md": 2})):
        sys.exit("prose.py: an allowance is not compared")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    mode = sys.argv[1] if len(sys.argv) == 3 else ""
    if len(sys.argv) not in (2, 3) or mode not in ("", "--list", "--store"):
        sys.exit("usage: prose.py [--list|--store] SOURCE-TREE | --self-test")
    allowed = {}
    if os.path.exists(ALLOWED):
        with open(ALLOWED, encoding="utf-8") as file:
            allowed = json.load(file)
    found = list(read_tree(sys.argv[-1]))
    if mode == "--list":
        for name, hits in found:
            for number, rule, advice, words in hits:
                print(f"{name}:{number}: \"{words}\" ({rule}: {advice})")
    if mode == "--store":
        return store(found, allowed)
    wrong = list(check(found, allowed))
    print("\n".join(wrong + [f"{sum(len(hits) for _, hits in found)} findings"]))
    sys.exit(1 if wrong and not mode else 0)


if __name__ == "__main__":
    main()
