/* SPDX-License-Identifier: MIT */
/*
 * The command's own exit codes: those of sysexits.h and of shells. Every other code is
 * that of the program that was run, and these may be too.
 */
#ifndef LW_TOOL_CODES_H
#define LW_TOOL_CODES_H
#include <stdbool.h>

enum status {
    STATUS_NOT_HELD = 1,   /* status, break: nobody holds it; break: not that token */
    STATUS_USAGE = 64,     /* EX_USAGE: bad options or names */
    STATUS_NO_SERVER = 69, /* EX_UNAVAILABLE: no connection to the server */
    STATUS_LOST = 70,      /* EX_SOFTWARE: the lock was lost while the program ran */
    STATUS_SYSTEM = 71,    /* EX_OSERR: cannot fork, out of memory ... */
    STATUS_BUSY = 75,    /* EX_TEMPFAIL: held by somebody else until the wait was over */
    STATUS_REFUSED = 77, /* EX_NOPERM: the server refuses */
    STATUS_CANNOT_EXECUTE = 126,
    STATUS_NOT_FOUND = 127,
    STATUS_SIGNAL = 128 /* plus the number of the signal */
};

/* Returns the exit code for a call that ended with this lw_error. `cause` is what
 * lw_lock_error or lw_client_error say of it: it decides if the status alone does not
 * tell a lock that was busy from a server that was away or refused. `busy` is the code
 * for the former. The one place where that is decided, for all subcommands. */
int codes_for(int status, int cause, int busy);

#endif
