/* SPDX-License-Identifier: MIT */
/* A session, for the files of lock_session: see lock_session.c. Each subcommand has its
 * table of events; session_run requests the lock and runs the loop, and session_close
 * frees everything. */
#ifndef LW_TOOL_LOCK_SESSION_PRIVATE_H
#define LW_TOOL_LOCK_SESSION_PRIVATE_H
#include "hooks.h"
#include "lockwire.h"
#include "status_format.h"
#include "wait_status.h"

#include <stdbool.h>
#include <stdint.h>

struct event_base;
struct options;
struct session;

struct session_events {
    /* Before the lock is requested. Returns 0, or -1 if it has reported a failure. NULL
     * if there is nothing to do. */
    int (*begin)(struct session *session);
    void (*held)(struct session *session);
    /* The lock is lost, which has been reported. */
    void (*lost)(struct session *session);
    /* A client asks that the lock be released. `name` is its name, with --and that of one
     * of them. Called for the first request during a hold, not after a loss, and not with
     * --on-yield. NULL: requests are ignored. */
    void (*asked)(struct session *session, const char *name);
    /* A signal in stage HELD, also after a loss. */
    void (*signal)(struct session *session, int number, bool from_terminal);
};

enum session_stage { SESSION_WAITING, SESSION_HELD, SESSION_ENDING };

struct session {
    const struct options *options;
    const struct session_events *events;
    void *arg;
    struct event_base *base;
    struct lw_client *client;
    struct lw_lock *lock; /* run, hold, take; else NULL */
    struct lw_all *all;   /* run with --and; else NULL */
    struct lw_keep *keep; /* lead; else NULL */
    struct wait_status wait_status;
    struct hooks hooks;         /* --on-lost, --on-yield */
    uint64_t fence;             /* of the present hold, or the last one */
    int64_t nowait_deadline_ms; /* with --wait 0 */
    enum session_stage stage;
    int code;   /* the exit code */
    bool lost;  /* since the lock was last acquired */
    bool asked; /* to release the lock, since it was last acquired or lost */
    int lost_code;
    bool link_up;
    bool connected;                    /* at least once; a later failure is an outage */
    bool looking;                      /* lead: look_at_link will be called again */
    int64_t refused_since_ms;          /* lead: the logins, one after another; or 0 */
    bool interrupted;                  /* by a key, while waiting */
    int busy_status;                   /* of a wait whose end on_busy_seen reports */
    char unlimited[STATUS_VALUE_SIZE]; /* the value that holds without a TTL, or "" */
    char down_reason[LW_WHY_SIZE];
    char error[LW_WHY_SIZE]; /* the library's explanation of an invalid call */
};

/* Runs the session until its end. Returns the exit code. */
int session_run(struct session *session, const char *client_name);
void session_close(struct session *session);
/* Ends with this code; the client releases its locks. */
void session_end(struct session *session, int code);
/* Ends at once: the rest of the lease belongs to those who work under the lock. */
void session_abandon(struct session *session, int code);
/* Releases the lock, and ends with this code, or with 70 if it turns out to be lost. */
void session_release(struct session *session, int code);

#endif
