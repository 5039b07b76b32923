#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Uses the source tree as a meson subproject of another project, found by its name.
# Usage: subproject.sh SOURCE_FOLDER CONSUMER.c
set -eu

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir "$root/subprojects"
ln -s "$1" "$root/subprojects/lockwire"
cp "$2" "$root/consumer.c"
cat >"$root/subprojects/lockwire.wrap" <<END
[wrap-file]
directory = lockwire
[provide]
lockwire = lockwire_dep
END
cat >"$root/meson.build" <<END
project('consumer', 'c')
executable('consumer', 'consumer.c',
           dependencies: [dependency('lockwire', allow_fallback: true),
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
run ninja -C "$root/build" consumer
"$root/build/consumer"
