/* SPDX-License-Identifier: MIT */
/* The subcommands. Each returns the exit code of lockwire, and has reported everything.
 * -SIGINT means that this process is to end by that signal, because a key of the terminal
 * sent it, so that a calling script ends as well. signals_catch must have been called,
 * except for release, status, yield, break, doctor and list. */
#ifndef LW_TOOL_SUBCOMMANDS_H
#define LW_TOOL_SUBCOMMANDS_H
struct embedded;
struct options;

/* run and lead. `server` is the embedded server at options->url, or NULL. */
int run(const struct options *options, struct embedded *server);
int hold(const struct options *options);
int take(const struct options *options);
int release(const struct options *options);
int status(const struct options *options);
/* status with the URL of a quorum. */
int status_quorum(const struct options *options);
int watch(const struct options *options);
int list(const struct options *options);
int yield_lock(const struct options *options);
/* yield with the URL of a quorum. */
int yield_quorum(const struct options *options);
int break_lock(const struct options *options);
/* break with the URL of a quorum. */
int break_quorum(const struct options *options);
int doctor(const struct options *options);

#endif
