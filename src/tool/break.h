/* SPDX-License-Identifier: MIT */
/* The break at one server of a quorum, which break_quorum.c asks for. */
#ifndef LW_TOOL_BREAK_H
#define LW_TOOL_BREAK_H
#include "lockwire.h"

#include <stdbool.h>

struct options;
struct quorum_member;

enum break_result {
    BREAK_DONE,
    BREAK_GONE, /* the token did not hold the lock any longer */
    BREAK_FAILED
};

/* Breaks the hold with this token. If that fails, `code` is the exit code, and `why` the
 * reason. */
enum break_result break_vote(const struct options *options, const char *token,
                             const struct quorum_member *at, int *code,
                             char why[LW_WHY_SIZE]);

#endif
