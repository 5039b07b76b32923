#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Compiles the public header alone as pedantic C11 and as C++11, with every compiler found. Also
# checks assumptions of programs and libraries of different versions, and that code which must not
# compile does not.
# Usage: header.sh INCLUDE_FOLDER
set -eu

source='
#include "lockwire.h"
#include "lockwire.h"
int use(struct event_base *base, struct lw_client **client, struct lw_lock **lock);
int use(struct event_base *base, struct lw_client **client, struct lw_lock **lock)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    struct lw_acquire_options acquire = LW_ACQUIRE_OPTIONS_INIT;
    struct lw_stats stats = LW_STATS_INIT;
    struct lw_master master = LW_MASTER_INIT;
    int error = lw_client_new(base, "redis://localhost", &options, client);
    if (error == LW_OK)
        error = lw_acquire(*client, "x", &acquire, NULL, NULL, lock);
    if (error == LW_OK)
        error = lw_client_master(*client, &master);
    return error == LW_OK ? lw_client_stats(*client, &stats) : error;
}
'
warnings='-Wall -Wextra -Wpedantic -Wundef -Wshadow -Werror'
checked=0

# The width of an enum is part of the ABI, even if the compiler gives the program's own enums
# another width.
widths='
#include "lockwire.h"
#ifdef __cplusplus
#define ASSERT(condition) static_assert(condition, "")
#else
#define ASSERT(condition) _Static_assert(condition, "")
#endif
ASSERT(sizeof(enum lw_error) == sizeof(int));
ASSERT(sizeof(enum lw_mode) == sizeof(int));
ASSERT(sizeof(enum lw_state) == sizeof(int));
ASSERT(sizeof(enum lw_acquire_flags) == sizeof(int));
enum own { OWN };
ASSERT(sizeof(enum own) < sizeof(int)); /* the option does something */
'

# Entries have the size of the library that runs, which this header cannot know. So they cannot
# be indexed.
indexing='
#include "lockwire.h"
const struct lw_inspected *second(const struct lw_inspection *inspection);
const struct lw_inspected *second(const struct lw_inspection *inspection)
{
    return &inspection->holders_[1];
}
'

check() {
    command -v "$1" >/dev/null || return 0
    echo "$*"
    printf '%s' "$source" | "$@" $warnings -I "$include" -fsyntax-only -
    printf '%s' "$widths" | "$@" $warnings -fshort-enums -I "$include" -fsyntax-only -
    if printf '%s' "$indexing" | "$@" $warnings -I "$include" -fsyntax-only - 2>/dev/null
    then
        echo "the entries of an inspection can be indexed"
        exit 1
    fi
    checked=$((checked + 1))
}

include=$1
for compiler in gcc clang; do
    check $compiler -std=c11 -Wstrict-prototypes -x c
done
for compiler in g++ clang++; do
    check $compiler -std=c++11 -x c++
done
echo "$checked compilers"
[ "$checked" -gt 0 ]
