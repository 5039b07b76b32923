#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Uses the source tree as a meson subproject of another project, found by its name: it builds
# the library alone, has no tests, and installs nothing but library, header and pkg-config file.
# Usage: subproject.sh SOURCE_FOLDER CONSUMER.c
set -eu

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir "$root/subprojects"
ln -s "$1" "$root/subprojects/lockwire"
cp "$2" "$root/consumer.c"
cat >"$root/meson.build" <<END
project('consumer', 'c')
executable('consumer', 'consumer.c',
           dependencies: [dependency('lockwire'),
                          dependency('libevent_core')])
END
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

same() { # WHAT EXPECTED FOUND
    [ "$2" = "$3" ] || {
        echo "$1: $3" >&2
        exit 1
    }
}
same 'programs' consumer "$(meson introspect --targets "$root/build" | python3 -c '
import json, sys
print(*(t["name"] for t in json.load(sys.stdin) if t["type"] == "executable"))')"
same 'tests' '[]' "$(meson introspect --tests "$root/build")"
run meson install -C "$root/build" --no-rebuild --destdir "$root/installed"
same 'installed' 'liblockwire.a liblockwire.so lockwire.h lockwire.pc' \
    "$(find "$root/installed" ! -type d | sed 's|.*/||; s|\.so\..*|.so|' | sort -u | xargs)"
