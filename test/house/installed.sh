#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Installs the build into an empty folder, and builds programs against it: one by pkg-config,
# shared and static; the installed examples by make, CMake and meson.
# Usage: installed.sh BUILD_FOLDER CONSUMER.c COMPILER...
set -eu

build=$1 consumer=$2
shift 2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
trap 'exit 1' HUP INT TERM

meson install -C "$build" --no-rebuild --destdir "$root" >"$root/log" || {
    cat "$root/log"
    exit 1
}
file=$(find "$root" -name lockwire.pc)
prefix=$(sed -n 's/^prefix=//p' "$file")
mkdir "$root/moved" # for a copy of lockwire.pc with the prefix below $root
sed "s|^prefix=.*|prefix=$root$prefix|" "$file" >"$root/moved/lockwire.pc"
export PKG_CONFIG_PATH="$root/moved"
flags() {
    pkg-config "$@" lockwire
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

examples=$root/share
cp -R "$root$prefix/share/doc/lockwire/examples" "$examples"
cd "$examples"
for file in README.md alerts.yml lockwire-worker.service lockwire-nightly.timer; do
    [ -f "$file" ]
done
by() { # WHAT FOLDER COMMAND...: builds all examples, and runs one with its own server
    what=$1 programs=$2
    shift 2
    "$@" >"$root/log" 2>&1 || {
        echo "$what: $*"
        cat "$root/log"
        exit 1
    }
    [ -f "$programs/gateway" ] || [ -x "$programs/gateway/gateway" ] # make builds it in its folder
    for program in leader order readme worker; do
        [ -x "$programs/$program" ]
    done
    LD_LIBRARY_PATH=$library "$root$prefix/bin/lockwire" run readme --redis embedded: \
        -- "$programs/readme" >"$root/said"
    grep "^job:42 is ours, fencing token [1-9][0-9]*$" "$root/said"
    echo "$what: works"
}
by make . make CC="$*" CFLAGS='-Wall -Wextra -Werror'
make clean >/dev/null
by CMake cmake sh -euc "CC='$*' cmake -B cmake && cmake --build cmake"
by meson meson sh -euc "CC='$*' meson setup --werror meson && ninja -C meson"
