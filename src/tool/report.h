/* SPDX-License-Identifier: MIT */
/* What the command reports: messages on the standard error output, and its exit codes. */
#ifndef LW_TOOL_REPORT_H
#define LW_TOOL_REPORT_H
#include <stdbool.h>

/* Never blocks for long: of an output that nobody reads nothing is to hold up a loss.
 * What it does not take in a moment is not said. */
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line of a terminal that may be written over: by the next one, by whatever is said, or
 * by "", which erases it. It must fit the terminal and hold nothing but what can be
 * shown. Where the terminal takes nothing at the moment (Ctrl-S), nothing is written:
 * never blocks. */
void report_transient(const char *line);

/* Returns true for the message by which the library logs that it cannot connect. */
bool report_is_no_connection(const char *message);

enum exit_code {
    EXIT_NOT_HELD = 1,   /* status, break: nobody holds it; break: not that token */
    EXIT_USAGE = 64,     /* EX_USAGE: bad options or names */
    EXIT_NO_SERVER = 69, /* EX_UNAVAILABLE: no connection to the server */
    EXIT_LOST = 70,      /* EX_SOFTWARE: the lock was lost while the program ran */
    EXIT_SYSTEM = 71,    /* EX_OSERR: cannot fork, out of memory ... */
    EXIT_BUSY = 75,      /* EX_TEMPFAIL: held by somebody else until the wait was over */
    EXIT_REFUSED = 77,   /* EX_NOPERM: the server refuses */
    EXIT_CANNOT_EXECUTE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNAL = 128 /* plus the number of the signal */
};

/* Returns the exit code for a call that ended with this lw_error. `cause` is what
 * lw_lock_error or lw_client_error say of it: it decides if the status alone does not
 * tell a lock that was busy from a server that was away or refused. `busy` is the code
 * for the former. The one place where that is decided, for all subcommands. */
int exit_code_for(int status, int cause, int busy);

#endif
