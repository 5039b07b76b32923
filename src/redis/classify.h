/* SPDX-License-Identifier: MIT */
/* What an error reply means for the command that it answers. Pure functions. */
#ifndef LW_CLASSIFY_H
#define LW_CLASSIFY_H
#include <stdbool.h>

enum lw__error_class {
    LW__ERR_NOSCRIPT,  /* send the script's text */
    LW__ERR_LINK,      /* this connection is unusable: LOADING, NOAUTH, READONLY ... */
    LW__ERR_TRANSIENT, /* retry on this connection: BUSY, OOM, MISCONF ... */
    LW__ERR_REFUSED    /* refused permanently: NOPERM and all others */
};
enum lw__error_class lw__classify(const char *error);
/* Returns true if the server refuses writes until more replicas follow it. */
bool lw__classify_no_replicas(const char *error);
/* Returns true if the node considers the cluster down, or knows no owner of the slot:
 * CLUSTERDOWN, or the error that a script's command gets instead. */
bool lw__classify_down(const char *error);
/* Returns true if the slot is migrating, and the command had no effect: ASK, and TRYAGAIN
 * for several keys. */
bool lw__classify_moving(const char *error);
/* Returns true if the slot is at another node. */
bool lw__classify_moved(const char *error);
/* Returns true if this user may not use the command, key or channel: NOPERM. */
bool lw__classify_denied(const char *error);
/* Returns true if the server does not have this command. */
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
bool lw__classify_topology(const char *error);
/* Returns the lw_error that an error reply to a lock's command is for the caller, by the
 * table of outcomes (base/outcome.h): LW_ECONN for not now, LW_EREDIS for never. */
int lw__classify_status(const char *error);
/* Returns true if the command had no effect: the server rejected the command itself, or
 * every write of the script. Returns false for any other error of a script, which may
 * have written before. `error` is the whole reply, not the result of
 * lw__classify_own_words. */
bool lw__classify_undone(const char *error);
/* Returns the text behind the prefix with which servers before 7.0 report a position in a
 * script, and any other error unchanged. */
const char *lw__classify_skip_place(const char *error);
/* Returns the error of a command in a script, as the command itself returned it. Servers
 * before 7.0 put it behind a prefix with its position in the script. Returns any other
 * error unchanged. */
const char *lw__classify_own_words(const char *error);
#endif
