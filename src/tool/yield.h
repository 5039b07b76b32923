/* SPDX-License-Identifier: MIT */
/* The request at one server of a quorum, which yield_quorum.c sends. */
#ifndef LW_TOOL_YIELD_H
#define LW_TOOL_YIELD_H
#include "lockwire.h"

struct options;
struct quorum_member;

/* Asks the holder at this server. Returns the exit code of yield; unless it is 0, `why`
 * is the reason. */
int yield_vote(const struct options *options, const struct quorum_member *at,
               char why[LW_WHY_SIZE]);

#endif
