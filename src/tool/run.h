/* SPDX-License-Identifier: MIT */
/*
 * `lockwire run`: waits for the lock, runs the program while it is held, releases; and
 * `lockwire lead`, which waits and runs it anew after each loss. Owns the order of
 * events. Knows neither argv nor how an embedded server is started.
 */
#ifndef LW_TOOL_RUN_H
#define LW_TOOL_RUN_H
struct embedded;
struct options;

/* The exit code; or -SIGINT: this process is to end by that signal, as the terminal's key
 * meant it to, so that a script around it ends, too. Everything has been said.
 * signals_catch was called before; the server at options->url is there, and `server` if
 * it is an embedded one, else NULL. */
int run(const struct options *options, struct embedded *server);

#endif
