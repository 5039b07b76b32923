/* SPDX-License-Identifier: MIT */
/* Sets of subcommands that have options in common, for options.c, options_client.c and
 * usage.c. */
#ifndef LW_TOOL_OPTIONS_PRIVATE_H
#define LW_TOOL_OPTIONS_PRIVATE_H
#include "options.h"

#define ALL (IN(SUBCOMMANDS) - 1)
#define RUNNERS (IN(RUN) | IN(LEAD))
#define HOLDERS (RUNNERS | IN(HOLD))
#define TAKERS (HOLDERS | IN(TAKE))
#define WAITERS (IN(RUN) | IN(HOLD) | IN(TAKE))

#endif
