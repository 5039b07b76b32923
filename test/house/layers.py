#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Keeps the library's layers apart. A layer is a folder of src/, except that the files of lock
in TOP are a layer of their own: they are above quorum and look, the other files below.

    layers.py SOURCE-FOLDER STATIC-LIBRARY NM
    layers.py --self-test

The order of the layers, and of the files in each, is that of `sources` in src/meson.build,
highest first. Fails if
  - a function of a higher file is called, according to the symbols of the objects in the library,
    or an inline function of its header, according to the text (a lower file calls a higher one
    only through a registered table of functions);
  - a header of a higher layer is included, or hiredis, OpenSSL or libevent outside of the files
    that are meant for them, or by the command (tool) any header of the library except the public
    header and those in FOR_TOOL;
  - a function that other files may call does not begin with its file's name;
  - a user's callback is called outside of lock/deliver.c, except by lock/keep.c and
    lock/all.c, which are built on the public header, and include only a few more headers;
  - a field of the machine is written outside of hold/machine.c;
  - a file of hold names a handle, a client or a quorum: a claim asks its owner by a table of
    functions;
  - a file is not in the list, or not in its place.
`--self-test` shows that each rule can fail.
"""
import os
import re
import subprocess
import sys

ROOMS = ["top", "quorum", "look", "lock", "hold", "redis", "loop", "base"]
FOLDERS = ROOMS[1:]
TOP = {"lock/all.c", "lock/keep.c", "lock/client.c", "lock/deliver.c"}
TOOL = "tool"
FOR_TOOL = {"base/check.h", "base/degraded.h", "base/duration.h", "base/escape.h", "base/first_line.h", "base/outcome.h", "base/url.h"}
ANYWHERE = {"lockwire.h", "scripts.h"}
FENCES = {
    "hiredis/": {"redis/reader.c", "redis/reader.h", "redis/reply.c", "redis/wire.c",
                 "redis/tls.c", "redis/wire.h"},
    "openssl/": {"redis/tls.c", "redis/tls_files.c", "redis/tls_private.h"},
    "event2/": {"loop/loop.c", "loop/resolve.c"},
}
PURE = {"hold/machine.c": {"hold/machine.h"}, "hold/machine.h": set()}
# Files that are written as a caller of the library would write them: see their comments.
CALLER = {"lock/keep.c": {"lock/extension.h"},
          "lock/all.c": {"base/check.h", "base/escape.h", "lock/extension.h", "loop/loop.h"}}
# The prefixes of the functions of files that have others than the file's name.
PREFIXES = {"loop/loop.c": {"loop", "timer", "defer", "late_check", "now"},
            "lock/handle.c": {"handle", "handles"}}
# Files whose objects are empty in a build without TLS.
TLS = ["redis/tls.c", "redis/tls_files.c"]
# How the files of hold would name what is above them.
OWNER = re.compile(r"\bstruct lw_(?:lock|client)\b|\blw__(?:handles?|quorum|client)_\w+|\blw__handles\b"
                   r"|(?:->|\.)(?:waiting|holder|releasing|client|quorum)\b")
LIBC = {"stdbool.h", "stddef.h", "stdint.h", "string.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.S)
# A callback of the user, called by its field or by a variable of such a type.
FIELD_CALL = re.compile(r"(?<!\bevents)(?:\.|->)"
                        r"(?:done|lost|released|closed|inspected|broken|link|credentials)\)?\s*\(")
CALLBACK_VARIABLE = re.compile(r"\blw_(?:lock|close|link|inspect|break)_cb \*(\w+)")
# A field of the machine assigned, incremented or decremented; and any way to do so by another
# name.
MACHINE_WRITE = re.compile(r"\bmachine(?:\.|->)\w+\s*(?:(?:[-+*/%|&^]|<<|>>)?=(?!=)|\+\+|--)"
                           r"|(?:\+\+|--)[\w>.-]*\bmachine(?:\.|->)\w+"
                           r"|\bmachine\s*=(?!=)|&[\w>.-]*\bmachine(?:\.|->)\w+")
MACHINE_NAMED = re.compile(r"(?<!const )struct lw__machine\b(?!\s*;)(?! \{)")
MACHINE_TAKEN = re.compile(r"(?<!lw__machine_init\()(?<!lw__machine_step\()"
                           r"(?<!lw__machine_release_status\()"
                           r"&[\w>.-]*\bmachine\b(?!\.|->)")
INLINE = re.compile(r"^static inline [^;{]*?\b(lw__\w+)\(", re.M)
# liblockwire.a:lock_name.c.o:0000000000000000 T lw__name_find
SYMBOL = re.compile(r"([^:/]+\.o):\s*[0-9a-fA-F]*\s+([A-Za-z])\s+(\S+)$")
MACHINE_HOME = {"hold/machine.c", "hold/machine.h"}
MACHINE_MEMBER = "struct lw__machine machine;"


def ordered(build):
    """Returns the files of `sources`, in their order."""
    listed = re.search(r"^sources = files\((.*?)\)", build, re.S | re.M)
    return re.findall(r"'([^']+)'", listed.group(1)) if listed else []


def room(name):
    return "top" if name in TOP else name.split("/")[0]


# ---- by the text ----

def check_include(name, included):
    if room(name) == TOOL:
        if room(included) in ROOMS and included not in FOR_TOOL:
            yield f"{name} includes {included}, and the command uses the public header"
        return
    for fence, inside in FENCES.items():
        if included.startswith(fence) and name not in inside:
            yield f"{name} includes {included}, which only {sorted(inside)} may"
    if name in CALLER and room(included) in ROOMS and included not in CALLER[name]:
        yield f"{name} includes {included}, and stands on the public header"
    if name in PURE and included not in PURE[name] | LIBC | ANYWHERE:
        yield f"{name} includes {included}, and may not"
    if room(included) in ROOMS and ROOMS.index(room(included)) < ROOMS.index(room(name)):
        yield f"{name} includes {included}, of a higher room"


def callback_calls(text):
    calls = FIELD_CALL.findall(text)
    for variable in set(CALLBACK_VARIABLE.findall(text)):
        calls += re.findall(rf"(?<![\w>.*]){variable}\s*\(", text)
    return calls


def check_machine(name, text):
    if name == "hold/hold.h":
        text = text.replace(MACHINE_MEMBER, "", 1)
    for rule in (MACHINE_WRITE, MACHINE_NAMED, MACHINE_TAKEN):
        for found in rule.finditer(text):
            yield (f"{name} may change the machine: \"{found.group(0)}\"; that is"
                   " hold/machine.c's alone")


def check_file(name, text):
    for included in INCLUDE.findall(text):
        yield from check_include(name, included)
    text = COMMENT.sub("", text)
    if name.endswith(".c") and name not in {"lock/deliver.c", *CALLER} and room(name) != TOOL:
        for call in callback_calls(text):
            yield f"{name} calls a user's callback, {call}...), and only lock/deliver.c may"
    if name not in MACHINE_HOME and room(name) != TOOL:
        yield from check_machine(name, text)
    if room(name) == "hold":
        for found in OWNER.findall(text):
            yield f"{name} names an owner, {found}: a claim has `terms` and events for that"


def check_places(files, order):
    sources = {name for name in files if name.endswith(".c") and room(name) in ROOMS}
    yield from (f"{name} is not among `sources` of meson.build" for name in sorted(sources - set(order)))
    yield from (f"{name} is not there" for name in sorted(set(order) - sources))
    rooms = [room(name) for name in order]
    if rooms != sorted(rooms, key=ROOMS.index):
        yield "`sources` of meson.build does not go from room to room"


# ---- by the symbols ----

def read_symbols(library, nm, order):
    """Returns for each file the symbols that its object defines, and those that it needs from
    others."""
    names = {name.replace("/", "_") + ".o": name for name in order}
    defined, wanted = {}, {}
    out = subprocess.run([nm, "-A", "-g", library], check=True, stdout=subprocess.PIPE,
                         text=True).stdout
    for line in out.splitlines():
        found = SYMBOL.search(line)
        if found:
            member, kind, symbol = found.groups()
            symbols = wanted if kind == "U" else defined
            symbols.setdefault(names.get(member, member), set()).add(symbol)
    return defined, wanted


def family(name, files):
    """Returns the stem of a file, and that of the file to which it belongs, if any: link_tls.c
    belongs to link.c, since both use link_private.h."""
    folder, base = name.split("/")
    stem = os.path.splitext(base)[0]
    head = stem.split("_")[0]
    private = {f"{folder}/{head}_{word}.h" for word in ("inside", "private")}
    return {stem, head} if private & files.keys() else {stem, f"{folder}_{stem}"}


def check_names(defined, files, order):
    for name in order:
        for symbol in sorted(defined.get(name, ())):
            if not symbol.startswith("lw__"):
                continue
            own = symbol[len("lw__"):]
            if not any(own == stem or own.startswith(stem + "_")
                       for stem in PREFIXES.get(name) or family(name, files)):
                yield f"{symbol} is {name}'s, and does not say so"


def check_calls(defined, wanted, files, order):
    home = {symbol: name for name, symbols in defined.items() for symbol in symbols}
    rank = {name: place for place, name in enumerate(order)}
    for name in order:
        for symbol in sorted(wanted.get(name, ())):
            callee = home.get(symbol)
            if (callee in rank and rank[callee] < rank[name] and
                    not family(callee, files) & family(name, files)):
                yield f"{name} calls {symbol}, which is higher: {callee}"


def check_inlines(files, order):
    """Checks the inline functions of headers. They leave no symbol; each belongs to the header's
    file."""
    rank = {name: place for place, name in enumerate(order)}
    for header in sorted(name for name in files if name.endswith(".h")):
        home = rank.get(header[:-len("h")] + "c", -1)
        for symbol in INLINE.findall(files[header]):
            for name in order[home + 1 if home >= 0 else len(order):]:
                if family(header, files) & family(name, files):
                    continue
                if re.search(rf"\b{symbol}\(", COMMENT.sub("", files.get(name, ""))):
                    yield f"{name} calls {symbol}, which is higher: {header}"


def check(files, order, defined, wanted):
    wrong = [line for name, text in sorted(files.items()) for line in check_file(name, text)]
    wrong += check_places(files, order)
    wrong += check_names(defined, files, order)
    wrong += check_calls(defined, wanted, files, order)
    wrong += check_inlines(files, order)
    return wrong


# ---- self-test ----

def self_test():
    order = ["lock/all.c", "lock/keep.c", "lock/client.c", "quorum/votes.c", "look/list.c",
             "lock/turns.c", "hold/renewal.c", "hold/machine.c", "redis/link.c", "redis/link_tls.c", "base/log.c"]
    plain = {name: "" for name in order} | {"redis/link_private.h": ""}
    bad = {
        "a higher room's header": ("redis/link.c", '#include "lock/lock_private.h"\n'),
        "a handle's header in a hold": ("hold/renewal.c", '#include "lock/lock_private.h"\n'),
        "a quorum's header in a hold":
            ("hold/renewal.c", '#include "quorum/quorum_private.h"\n'),
        "a quorum's header in a lock":
            ("lock/turns.c", '#include "quorum/quorum_private.h"\n'),
        "an inspection's header in a lock": ("lock/turns.c", '#include "look/look.h"\n'),
        "hiredis": ("lock/turns.c", "#include <hiredis/hiredis.h>\n"),
        "libevent": ("lock/turns.c", "#include <event2/event.h>\n"),
        "a private header in the command": ("tool/main.c", '#include "lock/lock_private.h"\n'),
        "a private header in a keep": ("lock/keep.c", '#include "base/log.h"\n'),
        "a private header in all.c": ("lock/all.c", '#include "lock/lock_private.h"\n'),
        "not libc": ("hold/machine.c", "#include <stdio.h>\n"),
        "a callback by its field": ("lock/turns.c", "lock->done(lock, 0, lock->arg);\n"),
        "a callback of what a function finds":
            ("lock/turns.c", "holder_of(claim)->done(lock, 0, arg);\n"),
        "a callback by a variable":
            ("lock/turns.c", "void f(lw_close_cb *done) { done(client, arg); }\n"),
        "a field assigned": ("lock/turns.c", "claim->machine.deadline_us = 0;\n"),
        "a callback of another's handle":
            ("lock/turns.c", "claim->holder->done(claim->holder, 0, arg);\n"),
        "credentials asked for":
            ("lock/turns.c", "client->options.credentials(client, &given, arg);\n"),
        "a callback in brackets": ("lock/turns.c", "(lock->released)(lock, 0, arg);\n"),
        "a field shifted": ("lock/turns.c", "claim->machine.failures <<= 1;\n"),
        "a field counted up": ("lock/turns.c", "claim->machine.failures++;\n"),
        "a field's address": ("lock/turns.c", "clear(&claim->machine.phase);\n"),
        "the machine by another name":
            ("lock/turns.c", "struct lw__machine *m = &claim->machine;\n"),
        "the machine given away": ("lock/turns.c", "change(&claim->machine);\n"),
        "a handle in a hold": ("hold/renewal.c", "x = claim->holder;\n"),
        "a handle's struct in a hold": ("hold/hold.h", "struct lw_lock *holder;\n"),
        "a client in a hold": ("hold/renewal.c", "x = claim->client->loop;\n"),
        "a file that is not listed": ("lock/unheard_of.c", ""),
    }
    good = {
        "redis/link.c": '#include "redis/link_private.h"\n#include "base/log.h"\n',
        "redis/link.h": "static inline int lw__link_now(void)\n{\n}\n",
        "lock/client.c": '#include "look/look.h"\n#include "quorum/quorum_private.h"\n',
        "quorum/votes.c": '#include "lock/lock_private.h"\n',
        "look/list.c": '#include "lock/lock_private.h"\n#include "hold/hold.h"\n',
        "lock/all.c": '#include "lock/extension.h"\nall->done(all, 0, all->arg);\n',
        "lock/keep.c": '#include "lock/extension.h"\nkeep->lost(keep, reason, keep->arg);\n',
        "tool/main.c": '#include "base/escape.h"\n#include <event2/event.h>\n',
        "lock/turns.c": "/* lock->done() */ events->lost(claim); done(x);\n"
                        "claim->mode->decode_released(r, a);\n"
                        "if (claim->machine.phase == LW__HELD) {}\n"
                        "const struct lw__machine *m = 0;\n"
                        "lw__machine_step(&claim->machine, input);\n",
        "hold/renewal.c": "terms.renews = claim->next_renewal; /* claim->holder */\n",
        "hold/machine.c": "m->deadline_us = lw__link_now();\n",
    }
    missed = [what for what, (name, text) in bad.items()
              if not check(plain | {name: text}, order, {}, {})]
    symbols = {"lock/turns.c": {"lw__turns_join"}, "redis/link.c": {"lw__link_send"},
               "redis/link_tls.c": {"lw__link_tls_begin"}, "base/log.c": {"lw__log"}}
    down = {"lock/turns.c": {"lw__log", "lw__link_send"}, "redis/link.c": {"malloc"}}
    wrong = check(plain | good, order, symbols, down)
    if not check(plain, order, symbols, {"redis/link.c": {"lw__turns_join"}}):
        missed.append("a call up into another room")
    if not check(plain, order, symbols, {"hold/renewal.c": {"lw__turns_join"}}):
        missed.append("a call of a handle by a hold")
    for caller in ("hold/renewal.c", "lock/turns.c", "look/list.c"):
        if not check(plain, order, symbols | {"quorum/votes.c": {"lw__votes_ask"}},
                     {caller: {"lw__votes_ask"}}):
            missed.append(f"a call of a quorum by {caller}")
    if not check(plain, order, symbols, {"base/log.c": {"lw__link_send"}}):
        missed.append("a call up into redis")
    if not check(plain, order, {"hold/renewal.c": {"lw__renewal_plan"}},
                 {"hold/machine.c": {"lw__renewal_plan"}}):
        missed.append("a call up in a room")
    inline = {"redis/link.h": "static inline int lw__link_now(void)\n{\n}\n",
              "base/log.c": "x = lw__link_now();\n"}
    if not check(plain | inline, order, {}, {}):
        missed.append("an inline function of a higher file")
    if not check(plain, order, {"base/log.c": {"lw__logged"}}, {}):
        missed.append("another file's prefix")
    if not check(plain | {"lock/wrong_place.c": ""}, order + ["lock/wrong_place.c"], {}, {}):
        missed.append("rooms that are mixed")
    if missed or wrong:
        sys.exit(f"layers.py: not caught: {missed}; wrongly caught: {wrong}")


def read_files(folder):
    files = {}
    for name in [TOOL, *FOLDERS]:
        for file_name in os.listdir(os.path.join(folder, name)):
            if file_name.endswith((".c", ".h")):
                with open(os.path.join(folder, name, file_name), encoding="utf-8") as file:
                    files[f"{name}/{file_name}"] = file.read()
    return files


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 4:
        sys.exit("usage: layers.py --self-test | SOURCE-FOLDER STATIC-LIBRARY NM")
    folder, library, nm = sys.argv[1:]
    with open(os.path.join(folder, "meson.build"), encoding="utf-8") as file:
        order = ordered(file.read())
    defined, wanted = read_symbols(library, nm, order)
    silent = [name for name in order if name not in defined]
    if not order or silent not in ([], TLS):
        sys.exit(f"layers.py: no symbols of {silent or 'any file'} in {library}")
    wrong = check(read_files(folder), order, defined, wanted)
    for line in wrong:
        print(f"layers.py: {line}")
    print(f"{len(order)} files, {sum(len(symbols) for symbols in defined.values())} symbols")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
