#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Tests `meson setup` without options: no compiler warning is an error, and the tests are built
# if their dependencies are there. It must also refuse a uthash that would end the process when
# memory is short, wherever it is found, and the versions of hiredis that were never tested.
# Usage: options.sh SOURCE_FOLDER
set -eu

source=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
trap 'exit 1' HUP INT TERM
unset CFLAGS CPPFLAGS

meson setup "$root/plain" "$source" >"$root/log" 2>&1 || {
    cat "$root/log"
    exit 1
}
meson introspect --buildoptions --tests "$root/plain" | python3 -c '
import json, sys
told = json.load(sys.stdin)
options = {option["name"]: option["value"] for option in told["buildoptions"]}
print("werror %s, %d tests" % (options["werror"], len(told["tests"])))
sys.exit(options["werror"] or not any("integration" in name for test in told["tests"]
                                      for name in test["suite"]))'

mkdir "$root/older" # like 2.0.2: without HASH_NONFATAL_OOM
echo '#define UTHASH_VERSION 2.0.2' >"$root/older/uthash.h"
if CPPFLAGS="-I$root/older" meson setup "$root/refused" "$source" >"$root/log" 2>&1; then
    echo "an older uthash was accepted"
    exit 1
fi
grep 'uthash 2.1.0 or later' "$root/log"

refused() { # NAME VERSION CFLAGS REASON: setup refuses what pkg-config says of a library
    mkdir "$root/$1-$2"
    cat >"$root/$1-$2/$1.pc" <<EOF
Name: $1
Description: for a test
Version: $2
Cflags: $3
EOF
    if PKG_CONFIG_PATH=$root/$1-$2 meson setup "$root/$1-$2/build" "$source" >"$root/log" 2>&1; then
        echo "$1 $2 was accepted"
        exit 1
    fi
    grep "$4" "$root/log"
}

refused uthash 2.0.2 "-I$root/older" 'uthash 2.1.0 or later'
refused hiredis 1.0.1 '' "need 'hiredis'.* found '1.0.1'"
refused hiredis 1.6.0 '' "need 'hiredis'.* found '1.6.0'"
