/* SPDX-License-Identifier: MIT */
/* Every text about usage. Must not parse anything. */
#ifndef LW_TOOL_USAGE_H
#define LW_TOOL_USAGE_H
#include "options.h"

#include <stdio.h>

#define DEFAULT_URL "redis://localhost"

extern const char *const usage_names[SUBCOMMANDS]; /* as they are typed */

/* The lines of this subcommand, or of all where it is SUBCOMMANDS. */
void usage_brief(FILE *out, enum subcommand subcommand);
/* The same, and everything else there is to tell. */
void usage_help(FILE *out, enum subcommand subcommand);

#endif
