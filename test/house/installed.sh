#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Installs the build into an empty folder, and builds a program against what is there, by
# pkg-config, shared and static.
# Usage: installed.sh BUILD_FOLDER CONSUMER.c COMPILER...
set -eu

build=$1 consumer=$2
shift 2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

meson install -C "$build" --no-rebuild --destdir "$root" >"$root/log" || {
    cat "$root/log"
    exit 1
}
file=$(find "$root" -name lockwire.pc)
prefix=$(sed -n 's/^prefix=//p' "$file")
flags() {
    PKG_CONFIG_PATH=$(dirname "$file") pkg-config \
        --define-variable=prefix="$root$prefix" "$@" lockwire
}
library=$(flags --variable=libdir)
[ -f "$root$prefix/include/lockwire.h" ]
[ -x "$root$prefix/bin/lockwire" ]
[ "$(flags --modversion)" = "$(LD_LIBRARY_PATH=$library \
    "$root$prefix/bin/lockwire" --version | cut -d' ' -f2)" ]

echo "shared: $(flags --cflags --libs)"
"$@" -std=c11 -Wall -Wextra -Werror "$consumer" $(flags --cflags --libs) -o "$root/shared"
LD_LIBRARY_PATH=$library "$root/shared"

echo "static: $(flags --static --libs)"
mkdir "$root/static-only"
cp "$library/liblockwire.a" "$root/static-only"
"$@" -std=c11 -Wall -Wextra -Werror "$consumer" -L"$root/static-only" \
    $(flags --static --cflags --libs | sed "s|-L$library||g") -o "$root/static"
"$root/static"
if ldd "$root/static" | grep lockwire; then
    echo "the static program needs the shared library"
    exit 1
fi
