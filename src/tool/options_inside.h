/* SPDX-License-Identifier: MIT */
/* What the files named options*.c share; nobody else includes it. */
#ifndef LW_TOOL_OPTIONS_INSIDE_H
#define LW_TOOL_OPTIONS_INSIDE_H
#include "options.h"

#define GO_ON (-1)
#define MIN_LEASE_MS 100
#define KILL_MS 500 /* from SIGKILL to the end of the lease; of a short lease a part */

/* Says it, with the subcommand's lines of usage, and returns the code. */
int options_refuse(enum subcommand subcommand, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What one option's text means: GO_ON, or what options_refuse returned. */
int options_lease(const char *text, struct options *options);
int options_wait(const char *text, struct options *options);
int options_grace(const char *text, struct options *options);
int options_max_hold(const char *text, struct options *options);
int options_mode(enum lw_mode mode, struct options *options);
int options_permits(const char *text, struct options *options);
int options_busy_code(const char *text, struct options *options);
int options_and(const char *text, struct options *options);
int options_interval(const char *text, struct options *options);

/* What they mean together, and what must be there. The same answers. */
int options_check_holding(struct options *options); /* run, lead, hold */
/* ... and, of run and lead, the command: the first `count` of `words`, the last NULL. */
int options_check_command(char **words, int count, struct options *options);
/* Those that take a NAME and nothing behind it. */
int options_check_alone(char **words, int count, const struct options *options);
int options_check_server(struct options *options);

#endif
