/* SPDX-License-Identifier: MIT */
/* What an error reply means for whoever asked. Pure. */
#ifndef LW_CLASSIFY_H
#define LW_CLASSIFY_H
#include <stdbool.h>

enum lw__error_class {
    LW__ERR_NOSCRIPT,  /* send the text */
    LW__ERR_LINK,      /* this connection is of no use: LOADING, NOAUTH, READONLY ... */
    LW__ERR_TRANSIENT, /* the outcome is open, try again: BUSY, OOM, MISCONF ... */
    LW__ERR_REFUSED    /* for good: NOPERM and all else */
};
enum lw__error_class lw__classify(const char *error);
/* Returns true if the server refuses writes until more replicas follow it. */
bool lw__classify_no_replicas(const char *error);
/* Returns true if the node takes the cluster for down, or knows no owner of the slot:
 * CLUSTERDOWN, or what a command of a script met in its place. */
bool lw__classify_down(const char *error);
/* Is the slot on its way to another node, and nothing was done: TRYAGAIN, and ASK, of
 * several keys? */
bool lw__classify_moving(const char *error);
/* Is the slot at another node? */
bool lw__classify_moved(const char *error);
/* Is it NOPERM: a command, key or channel that this user may not use? */
bool lw__classify_denied(const char *error);
/* Does the server not have this command? */
bool lw__classify_unknown(const char *error);
/* Returns true if the server rejects this account, so that another try with it fails as
 * well: WRONGPASS, NOAUTH, NOPERM. */
bool lw__classify_account(const char *error);
/* The same for a reply to AUTH or SELECT, most of whose errors have no code: true also
 * for every ERR, except that of a server with too many clients. */
bool lw__classify_login(const char *error);
/* The same for the reply of a sentinel that is asked for the master, or of a node that is
 * asked for the slots: true also if the service is unknown, or the server is no sentinel
 * or no node of a cluster. */
bool lw__classify_guide(const char *error);
/* Returns the lw_error that an error reply to a lock's command is for the caller:
 * LW_ECONN if the server or the cluster cannot serve the lock now (LOADING, READONLY,
 * MASTERDOWN, CLUSTERDOWN, a slot that moves ...), LW_EREDIS if the server refuses. */
int lw__classify_status(const char *error);
/* Returns true if the error says that nothing was done: the server rejected the command
 * itself. False for the error of a script, which may have written before. `error` is the
 * whole reply, not its own words alone. */
bool lw__classify_undone(const char *error);
/* What a command met, in its own words: before 7.0 a server puts around the error of a
 * script's command where in the script that was. Any other error as it is. */
const char *lw__classify_own_words(const char *error);
#endif
