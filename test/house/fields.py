#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the fields of the library's shared structs that more than one file writes.

    fields.py [--list] SOURCE-FOLDER
    fields.py --self-test

Reads the structs of the headers in HEADERS, and finds the writes to their fields in the files
of FOLDERS: assignments, ++ and --, and the lists of utlist. A function that only assigns its
arguments to fields is a setter, and each file that calls it is a writer. The initialization of
a whole struct, and what a module does with its own struct inside another one (a timer, a
command), are no writes to a field.

A comment that begins with names of files ("turns.c, handle.c: ...") says who writes the field
that it follows, or, on lines of its own, each field up to the next empty line. Fails if
  - more than MOST fields have more than one writer;
  - such a comment names other files than those that write the field.
`--list` prints each field with several writers. `--self-test` shows that each rule can fail."""
import os
import re
import sys

HEADERS = ["hold/hold.h", "lock/lock_private.h", "quorum/quorum_private.h"]
FOLDERS = ["hold", "lock", "look", "quorum"]
MOST = 5
LINKS = {"next", "prev"}  # utlist's

COMMENT = re.compile(r"/\*.*?\*/", re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
STRUCT = re.compile(r"^struct (\w+) \{\n(.*?)^\};", re.S | re.M)
LABEL = re.compile(r"/\*\s*((?:\w+\.c(?:, | and )?)+)(?::|;|\s*\*/)")
NESTED = re.compile(r"\b(?:struct|union) \{([^{}]*)\}( \w+)?;")
DECLARATOR = re.compile(r"([\w@]+)(?:\[[^\]]*\])*(?: : \d+)?$")
FUNCTION = re.compile(r"^(?:static |inline |const )*(?:struct (\w+) \*|[\w ]+?[ *])(\w+)"
                      r"\(([^;{]*?)\)\n\{\n(.*?)^\}", re.S | re.M)
RETURNS = re.compile(r"\bstruct (\w+) \*(\w+)\(")
VARIABLE = re.compile(r"\bstruct (\w+) ((?:\*?(?!struct\b|const\b)\w+(?:\[\w*\])*(?: = [^;,]*)?(?:, )?)+)")
CALL = r"\w+(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?"
PLACE = r"(?:" + CALL + r")(?:\[[^\]]*\])?(?:(?:->|\.)\w+(?:\[[^\]]*\])?)+"
GIVEN = re.compile(r"&(" + PLACE + r")\b(?!->|\.|\[)")
WRITES = [re.compile(r"(?<![\w.>)])(" + PLACE + r")\s*(?:=(?!=)|[-+*/|&^%]=|<<=|>>=|\+\+|--)"),
          re.compile(r"(?:\+\+|--)(" + PLACE + ")"),
          re.compile(r"\b(?:DL|LL|HASH)_(?:APPEND|PREPEND|DELETE|CONCAT|ADD_STR|DEL)2?"
                     r"\(\s*(" + PLACE + ")")]


# ---- the structs ----

def fields_in(body, prefix=""):
    """Yields (name, its struct or None, offset) for each field, those of named nested structs
    as `outer.inner`."""
    for found in NESTED.finditer(body):
        name = (found.group(2) or "").strip()
        inner = prefix + name + "." if name else prefix
        for field, kind, at in fields_in(found.group(1), inner):
            yield field, kind, found.start(1) + at
    flat = NESTED.sub(lambda found: " " * len(found.group(0)), body)
    for found in re.finditer(r"[^;]+;", flat):
        text = " ".join(found.group(0)[:-1].split())
        if not text or "(*" in text:
            continue
        kind = re.match(r"(?:const )?struct (\w+)", text)
        for part in text.split(","):
            name = DECLARATOR.search(part.strip())
            if name and " " in text:
                end = found.end() - 1
                yield prefix + name.group(1), kind and kind.group(1), end


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def labels_of(body):
    """Returns, for each line, the files that its comment names, and those that the comment of
    its group names; None: no comment."""
    labels, group, at = [], None, 0
    for line in body.split("\n"):
        stripped = line.strip()
        own = None
        if not stripped or re.match(r"\}|(?:struct|union) \{", stripped):
            group = None
        if stripped.startswith("/*"):
            found = LABEL.match(body[at + line.index("/*"):])
            group = named(found) if found else group
        elif LABEL.search(line):
            own = named(LABEL.search(line))
        labels.append((own, group))
        at += len(line) + 1
    return labels


def named(label):
    return set(re.findall(r"\w+\.c", label.group(1)))


def read_structs(text):
    """Returns {struct: {field: (its struct, the files that its comment names)}}."""
    structs = {}
    for name, body in STRUCT.findall(text):
        labels = labels_of(body)
        bare = COMMENT.sub(blank, body)
        while True:  # unions of structs: the inner ones first
            inner = re.search(r"\b(?:struct|union) \{[^{}]*\{", bare)
            if not inner:
                break
            deepest = list(NESTED.finditer(bare))
            if not deepest:
                break
            bare = flatten(bare, deepest)
        fields = {}
        for field, kind, at in fields_in(bare):
            own, group = labels[bare.count("\n", 0, at)]
            fields[field.replace("@", ".")] = (kind, own or group or set())
        structs[name] = fields
    return structs


def flatten(bare, deepest):
    """Replaces each innermost struct by its fields, named `outer@inner`, at the same offsets
    as far as lines are concerned."""
    for found in reversed(deepest):
        name = (found.group(2) or "").strip()
        inner = found.group(1)
        if name:
            inner = re.sub(r"(\w+)((?:\[[^\]]*\])*(?: : \d+)?)(?=[,;])",
                           lambda one: f"{name}@{one.group(1)}{one.group(2)}", inner)
        bare = bare[:found.start()] + inner + bare[found.end():]
    return bare


# ---- the writes ----

def variables(text):
    """Returns {variable: its struct} of declarations or parameters, of whose initializers the
    arguments of calls are left out."""
    found = {}
    text = re.sub(r"(\b\w+)\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", r"\1", text)
    for struct, declared in VARIABLE.findall(text):
        for part in declared.split(", "):
            name = re.match(r"\*?(\w+)", part)
            if name:
                found[name.group(1)] = struct
    return found


def resolve(place, kinds, returns, structs):
    """Returns (struct, field) for an expression such as `lw__handles(claim)->holder`."""
    call = re.match(r"(\w+)\(", place)
    steps = re.sub(CALL, lambda one: one.group(0).split("(")[0], place, count=1)
    steps = re.sub(r"\[[^\]]*\]", "", steps)
    names = re.split(r"->|\.", steps)
    kind = returns.get(names[0]) if call else kinds.get(names[0])
    path = ""
    for index, name in enumerate(names[1:]):
        path += name
        if kind not in structs:
            return None
        if path not in structs[kind]:
            path += "."  # a named nested struct
            continue
        if index == len(names) - 2:
            return kind, path
        kind, path = structs[kind][path][0], ""
    return None


def setter_fields(parameters, body, places):
    """Returns the places that a setter writes, or none if the function is no setter."""
    statements = [one.strip() for one in body.split(";") if one.strip()]
    names = set(re.findall(r"(\w+)(?:,|$)", parameters))
    simple = [one for one in statements if re.fullmatch(PLACE + r"\s*=\s*(\w+)", one)
              and one.split("=")[1].strip() in names]
    return places if statements and len(simple) == len(statements) else []


def writes_of(files, structs):
    """Returns {(struct, field): {file, ...}}, and the same for fields whose address is given to
    a function, which may write them."""
    texts = {name: STRING.sub('""', COMMENT.sub(blank, text)) for name, text in files.items()}
    returns = {}
    for text in texts.values():
        returns.update((function, kind) for kind, function in RETURNS.findall(text))
    written, setters, given = {}, {}, {}
    for name, text in texts.items():
        for _kind, function, parameters, body in FUNCTION.findall(text):
            kinds = variables(parameters) | variables(body)
            found = [resolve(place, kinds, returns, structs)
                     for rule in WRITES for place in rule.findall(body)]
            found = [one for one in found if one and one[1].split(".")[-1] not in LINKS]
            for one in found:
                written.setdefault(one, set()).add(os.path.basename(name))
            for place in GIVEN.findall(body):
                one = resolve(place, kinds, returns, structs)
                if one:
                    given.setdefault(one, set()).add(os.path.basename(name))
            for one in setter_fields(parameters, body, found):
                setters.setdefault(function, set()).add(one)
    for function, fields in setters.items():
        for name, text in texts.items():
            if re.search(rf"(?<!\w ){function}\(|\breturn {function}\(", text) and re.search(
                    rf"^\s+.*\b{function}\(", text, re.M):
                for one in fields:
                    written[one].add(os.path.basename(name))
    return written, given


def check(files):
    structs = {}
    for header in HEADERS:
        structs |= read_structs(files.get(header, ""))
    written, given = writes_of(files, structs)
    wrong = []
    shared = {one: writers for one, writers in written.items() if len(writers) > 1}
    if len(shared) > MOST:
        wrong.append(f"{len(shared)} fields have more than one writer, {MOST} are allowed")
    for struct, fields in structs.items():
        for field, (_kind, label) in fields.items():
            writers = written.get((struct, field), set())
            maybe = writers | given.get((struct, field), set())
            if label and writers and not writers <= label <= maybe:
                wrong.append(f"struct {struct}: {field} is written by {', '.join(sorted(writers))}"
                             f", and its comment names {', '.join(sorted(label))}")
    return wrong, shared, sum(len(fields) for fields in structs.values())


# ---- self-test ----

def self_test():
    header = ("struct lw__claim {\n    /* claim.c */\n    int n;\n    struct lw__name *name;\n\n"
              "    union {\n        struct {\n            int place; /* claim.c, votes.c */\n"
              "        } asking;\n        struct {\n            int left;\n        } held;\n"
              "    };\n    int free; /* a word */\n};\n")
    plain = {"hold/hold.h": header,
             "hold/claim.c": "static void f(struct lw__claim *claim)\n{\n    claim->n = 1;\n"
                             "    claim->asking.place++;\n    if (claim->free == 1) {\n    }\n}\n",
             "quorum/votes.c": "void g(struct lw__vote *vote)\n{\n"
                               "    struct lw__claim *claim = vote->claim;\n\n"
                               "    claim->asking.place = 2;\n}\n"}
    wrong, shared, count = check(plain)
    if wrong or list(shared) != [("lw__claim", "asking.place")] or count != 5:
        sys.exit(f"fields.py: wrongly found: {wrong} {shared} {count}")
    bad = {
        "another writer": ("lock/turns.c", "void h(struct lw__claim *claim)\n{\n"
                                           "    claim->n -= 1;\n}\n"),
        "a writer by a function": ("lock/turns.c", "void h(struct lw__command *c)\n{\n"
                                                   "    lw__claim_of(c)->n = 1;\n}\n"
                                                   "struct lw__claim *lw__claim_of(int c);\n"),
        "a writer that counts": ("lock/turns.c", "void h(struct lw__claim *claim)\n{\n"
                                                 "    ++claim->n;\n}\n"),
        "a label for a file that does not write": ("quorum/votes.c", ""),
    }
    missed = [what for what, (name, text) in bad.items() if not check(plain | {name: text})[0]]
    setter = {"lock/lock.c": "void lw__set(struct lw__claim *claim, int n)\n{\n"
                             "    claim->n = n;\n}\n",
              "lock/turns.c": "void h(struct lw__claim *claim)\n{\n    lw__set(claim, 1);\n}\n"}
    if "turns.c" not in check(plain | setter)[1].get(("lw__claim", "n"), set()):
        missed.append("a setter's caller")
    many = "struct lw__many {\n" + "".join(f"    int f{i};\n" for i in range(MOST + 1)) + "};\n"
    body = "".join(f"    many->f{i} = 0;\n" for i in range(MOST + 1))
    writer = f"void m(struct lw__many *many)\n{{\n{body}}}\n"
    if not check({"hold/hold.h": many, "hold/claim.c": writer, "lock/turns.c": writer})[0]:
        missed.append("too many fields with several writers")
    if missed:
        sys.exit(f"fields.py: not caught: {missed}")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    lists = "--list" in sys.argv
    folder = sys.argv[-1]
    files = {}
    for room in FOLDERS:
        for name in os.listdir(os.path.join(folder, room)):
            if name.endswith((".c", ".h")):
                with open(os.path.join(folder, room, name), encoding="utf-8") as file:
                    files[f"{room}/{name}"] = file.read()
    wrong, shared, count = check(files)
    if lists:
        for (struct, field), writers in sorted(shared.items()):
            print(f"{struct}: {field}: {', '.join(sorted(writers))}")
    for line in wrong:
        print(f"fields.py: {line}")
    print(f"{count} fields, {len(shared)} with more than one writer")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
