#!/bin/sh
# SPDX-License-Identifier: MIT
#
# scripts/demo, scripts/test and scripts/deb find their folder from any working directory and
# under any path: also when called by a relative path, and with a CDPATH that has a folder of the
# same name. The programs that they call are stubs here, each of which must be found.
# Usage: places.sh SCRIPTS_FOLDER
set -eu

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
trap 'exit 1' HUP INT TERM
tree="$root/a tree"
mkdir -p "$tree/scripts" "$tree/build/demo/src/tool" "$root/trap/scripts" "$root/bin"
mkdir -p "$tree/test/lib"
cp "$1/demo" "$1/test" "$1/deb" "$tree/scripts"
cp "$1/../test/lib/common.sh" "$tree/test/lib"

stub() { # FILE TEXT...
    file=$1
    shift
    printf '%s\n' '#!/bin/sh' "$@" >"$file"
    chmod +x "$file"
}
stub "$tree/scripts/setup" "[ \"\$1\" != demo ] || exit 0 # of the others no more is looked at" 'exit 7'
stub "$tree/build/demo/src/tool/lockwire" \
    'until [ "$1" = -- ]; do shift; done' '[ -x "$2" ] && exit 8'
stub "$tree/scripts/sentinels" '[ -x "$1" ] && exit 9'
stub "$tree/scripts/quorum" '[ -x "$1" ] && exit 10'
stub "$root/bin/ninja" 'exit 0'
: >"$tree/build/demo/build.ninja"

expect() { # CODE CDPATH FOLDER COMMAND...
    code=$1 cdpath=$2 folder=$3 found=0
    shift 3
    (cd "$folder" && CDPATH=$cdpath PATH=$root/bin:$PATH "$@") || found=$?
    [ "$found" = "$code" ] || {
        echo "in $folder, CDPATH '$cdpath', $*: exit status $found, not $code" >&2
        exit 1
    }
}
for cdpath in '' "$root/trap"; do
    for script in demo:8 test:7 deb:7; do
        name=${script%:*} code=${script#*:}
        expect "$code" "$cdpath" "$tree" "scripts/$name"
        expect "$code" "$cdpath" "$tree/scripts" "./$name"
        expect "$code" "$cdpath" "$tree/scripts" sh "$name"
        expect "$code" "$cdpath" "$root" "a tree/scripts/$name"
        expect "$code" "$cdpath" "$root/trap" "../a tree/scripts/$name"
        expect "$code" "$cdpath" / "$tree/scripts/$name"
    done
    expect 9 "$cdpath" / "$tree/scripts/demo" --sentinel
    expect 10 "$cdpath" / "$tree/scripts/demo" --quorum
    expect 64 "$cdpath" / "$tree/scripts/demo" --sentinels
done
