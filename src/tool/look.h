/* SPDX-License-Identifier: MIT */
/*
 * `lockwire status`, `list`, `break` and `watch`: each asks the server and answers with
 * an exit code. Everything has been said when they return.
 */
#ifndef LW_TOOL_LOOK_H
#define LW_TOOL_LOOK_H
struct options;

int status(const struct options *options);
int break_lock(const struct options *options);
int list(const struct options *options);
int watch(const struct options *options); /* signals_catch was called before */

#endif
