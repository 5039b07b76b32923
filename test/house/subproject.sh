#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Uses the source tree as a meson subproject of another project, that of the examples, which
# finds it by its name. The subproject builds only the library, has no tests, and installs
# nothing but library, header and pkg-config file. A program that uses libevent itself needs to name
# nothing but lockwire.
# Usage: subproject.sh SOURCE_FOLDER CONSUMER.c
set -eu

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$root/subprojects"
ln -s "$1" "$root/subprojects/lockwire"
cp -R "$1/src/examples/"* "$root"
cp "$2" "$root/consumer.c"
echo "executable('consumer', 'consumer.c', dependencies: lockwire)" >>"$root/meson.build"
run() {
    "$@" >"$root/log" 2>&1 || {
        cat "$root/log"
        exit 1
    }
}
run env PKG_CONFIG_LIBDIR="$(pkg-config --variable pc_path pkg-config)" \
    meson setup "$root/build" "$root"
run ninja -C "$root/build"
"$root/build/consumer"
code=0
env -u LOCKWIRE_URL "$root/build/readme" 2>"$root/said" || code=$?
grep '^readme: LOCKWIRE_URL is missing or invalid$' "$root/said"
[ "$code" = 1 ]

same() { # WHAT EXPECTED FOUND
    [ "$2" = "$3" ] || {
        echo "$1: $3" >&2
        exit 1
    }
}
same 'programs' 'consumer follower gateway leader libuv order readme worker' "$(meson introspect --targets "$root/build" | python3 -c '
import json, sys
print(*sorted(t["name"] for t in json.load(sys.stdin) if t["type"] == "executable"))')"
same 'tests' '[]' "$(meson introspect --tests "$root/build")"
run meson install -C "$root/build" --no-rebuild --destdir "$root/installed"
same 'installed' 'liblockwire.a liblockwire.so lockwire.h lockwire.pc' \
    "$(find "$root/installed" ! -type d | sed 's|.*/||; s|\.so\..*|.so|' | sort -u | xargs)"
