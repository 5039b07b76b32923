#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Keeps the arrows between the library's files pointing down.

Owns the list of layers. Reads the #include lines of src/*.[ch] and fails where
  - a file includes a header of a higher layer than its own, or is in no layer;
  - hiredis or libevent is included outside the files that fence it in;
  - a user's callback is called outside notify.c.
`layers.py --self-test` shows that each rule can fail.
"""
import os
import re
import sys

# Highest first. A file may include headers of its own layer and of those below.
LAYERS = [
    "client lock turns redisson line token renewal wait inspect note notify name core",
    "node backlog",
    "subscription",
    "session",
    "protocol answer classify",
    "link link_inside link_open link_subscribe awaited channels guard reply wire",
    "loop lookup hosts",
    "machine heap address url error log told id hash forked base",
]
ANYWHERE = {"lockwire.h", "scripts.h"}
FENCES = {
    "hiredis/": {"guard.c", "guard.h", "reply.c", "wire.c", "wire.h"},
    "event2/": {"loop.c", "lookup.c"},
}
ALLOWED = {("url.c", "event2/http.h")}
LIBC_ONLY = {"machine.c": {"stdbool.h", "stddef.h", "stdint.h", "string.h"}}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.S)
# What a user handed in, called by its field or by a variable of such a type.
FIELD_CALL = re.compile(r"\b(?:lock|extension|client)->(?:done|lost|released|closed)\s*\("
                        r"|\binquiry->(?:inspected|broken)\s*\("
                        r"|\boptions(?:\.|->)link\s*\(")
CALLBACK_VARIABLE = re.compile(r"\blw_(?:lock|close|link|inspect|break)_cb \*(\w+)")


def rank(name):
    stem = os.path.splitext(name)[0]
    for depth, layer in enumerate(LAYERS):
        if stem in layer.split():
            return depth
    return None


def check_include(name, included):
    for fence, inside in FENCES.items():
        if included.startswith(fence) and name not in inside:
            if (name, included) not in ALLOWED:
                yield f"{name} includes {included}, which only {sorted(inside)} may"
    if name in LIBC_ONLY and rank(included) is None:
        if included not in LIBC_ONLY[name] | ANYWHERE:
            yield f"{name} includes {included}, and may not"
    depth = rank(included)
    if depth is not None and rank(name) is not None and depth < rank(name):
        yield f"{name} includes {included}, of a higher layer"


def callback_calls(text):
    text = COMMENT.sub("", text)
    calls = FIELD_CALL.findall(text)
    for variable in set(CALLBACK_VARIABLE.findall(text)):
        calls += re.findall(rf"(?<![\w>.*]){variable}\s*\(", text)
    return calls


def check_file(name, text):
    if rank(name) is None:
        yield f"{name} is in no layer: put it into LAYERS"
    for included in INCLUDE.findall(text):
        yield from check_include(name, included)
    if name.endswith(".c") and name != "notify.c":
        for call in callback_calls(text):
            yield f"{name} calls a user's callback, {call}...), and only notify.c may"


def check(files):
    return [wrong for name, text in sorted(files.items()) for wrong in check_file(name, text)]


def self_test():
    bad = {
        "link.c": '#include "core.h"\n',
        "node.c": "#include <hiredis/hiredis.h>\n",
        "lock.c": "#include <event2/event.h>\n",
        "machine.c": "#include <stdio.h>\n",
        "turns.c": "lock->done(lock, 0, lock->arg);\n",
        "inspect.c": "inquiry->broken(client, 0, 0, inquiry->arg);\n",
        "client.c": "void f(lw_close_cb *done) { done(client, arg); }\n",
        "unheard_of.c": "",
    }
    good = {
        "link.c": '#include "link.h"\n',
        "reply.c": "#include <hiredis/hiredis.h>\n",
        "loop.c": "#include <event2/event.h>\n",
        "url.c": "#include <event2/http.h>\n",
        "notify.c": "lock->done(lock, 0, lock->arg);\n",
        "turns.c": "/* lock->done() */ events->lost(token); done(x);\n",
    }
    missed = [name for name, text in bad.items() if not check({name: text})]
    wrong = check(good)
    if missed or wrong:
        sys.exit(f"layers.py: not caught: {missed}; wrongly caught: {wrong}")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 2:
        sys.exit("usage: layers.py --self-test | SOURCE_FOLDER")
    files = {}
    for name in os.listdir(sys.argv[1]):
        if name.endswith((".c", ".h")):
            with open(os.path.join(sys.argv[1], name), encoding="utf-8") as file:
                files[name] = file.read()
    wrong = check(files)
    for line in wrong:
        print(f"layers.py: {line}")
    if not any(name.endswith(".c") for name in files):
        sys.exit(f"layers.py: no sources in {sys.argv[1]}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
