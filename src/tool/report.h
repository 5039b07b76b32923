/* SPDX-License-Identifier: MIT */
/* The command's messages on the standard error output, and its exit codes. */
#ifndef LW_TOOL_REPORT_H
#define LW_TOOL_REPORT_H
#include "base/outcome.h"

#include <stdbool.h>

struct event_base;

/* Writes a line that begins with "lockwire: ". If the output accepts nothing for a moment
 * the line is dropped: a blocked output must not delay the reaction to a loss. */
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes a message of the library's log after 100 ms, or before the next report. The
 * report of a failure that follows from it comes within that time, and drops it. */
void report_later(struct event_base *base, const char *message);
/* Drops the messages that wait and have this cause, which is about to be reported; none
 * if it is "". report_failure does so with `why`. */
void report_drop(const char *cause);
/* Writes the messages that wait. */
void report_kept(void);

/* Writes a line on a terminal that the next line, transient or not, replaces; "" erases
 * it. The line must fit the terminal and be printable. Never blocks: if the terminal
 * accepts nothing (Ctrl-S), nothing is written. */
void report_transient(const char *line);

/* Reports "cannot ACTION 'NAME': " with the reason, and with `why`, more text or "". The
 * reason depends on the lw_error, on the state of the link, and on the server's error in
 * `why`. `name` may be NULL. */
void report_failure(const char *action, const char *name, int error, bool link_up,
                    const char *why);

/* Returns the sentence for the state of the server that the text names ("the server is
 * out of memory" for an OOM), or NULL if it names none. */
const char *report_state(const char *why);

/* Flushes the standard output. Returns false, after a report, if any of it could not be
 * written. */
bool report_flush(void);

/* Returns true for the message by which the library logs that it cannot connect. */
bool report_is_no_connection(const char *message);
/* Returns true for the message by which it logs that a server refuses its guard. */
bool report_is_no_grant(const char *message);

enum exit_code {
    EXIT_NOT_HELD = 1, /* status, yield, break: not held; break: not by that token */
    /* The numbers of these are in the table of outcomes. */
    EXIT_USAGE = LW__EXIT_INVALID,     /* EX_USAGE: bad options or names */
    EXIT_NO_SERVER = LW__EXIT_NOT_NOW, /* EX_UNAVAILABLE: no server can do it now */
    EXIT_LOST = LW__EXIT_LOST,         /* EX_SOFTWARE: lost while COMMAND ran */
    EXIT_SYSTEM = LW__EXIT_SYSTEM,     /* EX_OSERR: cannot fork, out of memory ... */
    /* EX_TEMPFAIL: held by another client until the end; yield: which was not reached */
    EXIT_BUSY = LW__EXIT_BUSY,
    EXIT_REFUSED = LW__EXIT_NEVER, /* EX_NOPERM: the server refuses */
    EXIT_CANNOT_EXECUTE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNAL = 128 /* plus the number of the signal */
};

/* Returns the exit code for a call that ended with this lw_error, by the table of
 * outcomes. `cause` is the value of lw_lock_error or lw_client_error: unless it is LW_OK,
 * it decides about LW_ETIMEOUT, LW_ECONN and LW_EREDIS, and about a loss if the server
 * refused. `busy` is the code for a busy lock. */
int exit_code_for(int status, int cause, int busy);

#endif
