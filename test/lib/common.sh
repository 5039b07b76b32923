# SPDX-License-Identifier: MIT
#
# What scripts/check, scripts/test and .ci/run have in common. Each reads this file in the project's
# folder: the options of the sanitizers and of ccache, the first seed of random tests, two builds.

asan=detect_leaks=1:detect_stack_use_after_return=1:allocator_may_return_null=1
export ASAN_OPTIONS="${ASAN_OPTIONS-$asan}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS-halt_on_error=1:print_stacktrace=1}"

# Each commit tries other seeds. A run of the same commit tries the same ones.
if [ -z "${LOCKWIRE_SEED-}" ]; then
    commit=$(git rev-parse --verify --quiet --short=7 HEAD 2>/dev/null | cut -c 1-7) || :
    LOCKWIRE_SEED=$((0x${commit:-0} + 1))
fi
export LOCKWIRE_SEED

# Clones in other folders find each other's objects.
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR="${CCACHE_BASEDIR-$PWD}"

set_up() { # plain|sanitized: configures build/plain or build/sanitized, if that is not done yet
    case $1 in
    plain) set -- build/plain --buildtype=debugoptimized ;;
    # To compile the tests costs more than to run them, except for the simulator, which is optimized
    # (test/sim/meson.build). -g1 has the lines that the sanitizers report.
    sanitized) set -- build/sanitized -Db_sanitize=address,undefined -Ddebug=false \
        -Doptimization=0 -Dc_args=-g1 ;;
    esac
    [ ! -f "$1/build.ninja" ] || return 0 # ninja configures again if needed
    mkdir -p build
    meson setup "$@" -Dtests=enabled -Dwerror=true >"build/setup.log" 2>&1 || {
        cat build/setup.log
        rm -rf "$1"
        return 1
    }
}
