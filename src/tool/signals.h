/* SPDX-License-Identifier: MIT */
/* The signals of this process, as events of the loop: their handlers, from before the
 * embedded server starts until the end, and their original state for children. Unlike
 * libevent's signal events they report whether the terminal sent a signal: a Ctrl-C
 * reaches the command by itself, and must not be forwarded.
 *
 * signals_catch installs the handlers, signals_watch calls `fn` for each signal, and
 * signals_restore is for a child. With a job of its own, a process also calls
 * signals_enable_job_control, and signals_stop when the job has stopped. */
#ifndef LW_TOOL_SIGNALS_H
#define LW_TOOL_SIGNALS_H
#include <stdbool.h>

struct event_base;

typedef void signals_fn(int number, bool from_terminal, void *arg);

/* Catches SIGCHLD and the signals that are forwarded, except for those that were ignored
 * (nohup), and keeps them for signals_watch; ignores SIGPIPE. Returns 0, or -1 with errno
 * set. */
int signals_catch(void);
/* Calls `fn` for each signal, from the loop, until signals_unwatch. Returns 0 or -1. */
int signals_watch(struct event_base *base, signals_fn *fn, void *arg);
void signals_unwatch(void);
/* For a process that, like a shell, has a job of its own: catches SIGTSTP and SIGTTIN as
 * well, unless they were ignored, and ignores SIGTTOU, so that the terminal can be
 * written to while it is the job's. A second call has no effect. */
void signals_enable_job_control(void);
/* Stops this process, or its whole process group, as this signal does by default. Returns
 * true when it has been continued, false if it was not stopped, because no shell could
 * continue it. */
bool signals_stop(int number, bool whole_group);
/* Ends this process by the default action of the signal. */
_Noreturn void signals_terminate_by(int number);
/* In a child before exec: restores the original state. */
void signals_restore(void);

#endif
