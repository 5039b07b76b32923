/* SPDX-License-Identifier: MIT */
/*
 * `lockwire hold`: for scripts that hold a lock themselves, without a command. Says the
 * fence on the standard output, and holds until the end of the standard input.
 */
#ifndef LW_TOOL_HOLD_H
#define LW_TOOL_HOLD_H
struct options;

/* As run(), of run.h. */
int hold(const struct options *options);

#endif
