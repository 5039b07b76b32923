/* SPDX-License-Identifier: MIT */
/*
 * The process's signals as events of the loop. Owns their handlers, from before the
 * embedded server starts until the end, and what the child must find instead. Knows
 * nothing of locks.
 *
 * Unlike libevent's own signal events it tells who sent a signal: a terminal's Ctrl-C
 * reaches the child by itself, and must not be passed on a second time.
 *
 * Happy path: signals_catch, signals_watch, the callback for each; signals_restore in a
 * child. With a job of its own: signals_enable_job_control, signals_stop when the job was
 * stopped.
 */
#ifndef LW_TOOL_SIGNALS_H
#define LW_TOOL_SIGNALS_H
#include <stdbool.h>

struct event_base;

typedef void signals_fn(int number, bool from_terminal, void *arg);

/* From now on SIGCHLD and the signals to be passed on are kept for signals_watch, those
 * excepted that were ignored (nohup); SIGPIPE is ignored. 0, or -1 and errno. */
int signals_catch(void);
/* Calls `fn` for each, from the loop. Does not keep the loop running beyond
 * signals_unwatch. 0, or -1. */
int signals_watch(struct event_base *base, signals_fn *fn, void *arg);
void signals_unwatch(void);
/* This process has a job of its own, as a shell has: SIGTSTP and SIGTTIN, unless they
 * were ignored, come as the others do, and a terminal that is the job's may be written
 * to. A second call has no effect. */
void signals_enable_job_control(void);
/* Stops this process as this signal would, or all of its process group, and returns when
 * it is continued. False: it was never stopped, since no shell is there to continue it.
 */
bool signals_stop(int number, bool whole_group);
/* Ends this process by the signal. */
_Noreturn void signals_terminate_by(int number);
/* In a child, before exec: as this process found them. */
void signals_restore(void);

#endif
