#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Installs below a user's folder, where the dynamic loader does not look: the command starts, and
# so do programs that are linked with the library's path. An installation below /usr contains no
# path to its libraries.
# Usage: prefixes.sh SOURCE_FOLDER CONSUMER.c COMPILER...
set -eu

source=$1 consumer=$2
shift 2
unset LD_LIBRARY_PATH
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
trap 'exit 1' HUP INT TERM
own=$root/own
run() {
    "$@" >"$root/log" 2>&1 || {
        cat "$root/log"
        exit 1
    }
}

run meson setup "$root/build" "$source" --prefix="$own" --libdir=lib --buildtype=plain \
    -Dtests=disabled -Dbench=false
run meson install -C "$root/build"
"$own/bin/lockwire" --version
"$@" "$consumer" $(PKG_CONFIG_PATH=$own/lib/pkgconfig pkg-config --cflags --libs lockwire) \
    -Wl,-rpath,"$own/lib" -o "$root/consumer"
"$root/consumer"

run meson configure "$root/build" --prefix=/usr
run meson install -C "$root/build" --destdir "$root/system"
for file in "$root/system/usr/bin/lockwire" "$root/system/usr/lib/liblockwire.so"; do
    readelf -d "$file" >"$root/dynamic"
    if grep -E 'RPATH|RUNPATH' "$root/dynamic"; then
        echo "so $file says in /usr"
        exit 1
    fi
done
