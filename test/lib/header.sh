#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Compiles the public header alone as pedantic C11 and as C++11, with every compiler found.
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
    int error = lw_client_new(base, "redis://localhost", &options, client);
    if (error == LW_OK)
        error = lw_acquire(*client, "x", &acquire, NULL, NULL, lock);
    return error == LW_OK ? lw_client_stats(*client, &stats) : error;
}
'
warnings='-Wall -Wextra -Wpedantic -Wundef -Wshadow -Werror'
checked=0

check() {
    command -v "$1" >/dev/null || return 0
    echo "$*"
    printf '%s' "$source" | "$@" $warnings -I "$include" -fsyntax-only -
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
