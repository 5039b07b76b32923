/* SPDX-License-Identifier: MIT */
/* The private header of src/lock: the structs that its files share, then the functions
 * that each file offers to the files above it. A comment on a field, or on a group of
 * fields up to the next empty line, names the files that write it, if it begins with them
 * (test/house/fields.py checks that); other files change it only by calling those. */
#ifndef LW_LOCK_PRIVATE_H
#define LW_LOCK_PRIVATE_H
#include "base/escape.h"
#include "base/log.h"
#include "base/process.h"
#include "base/url.h"
#include "hold/hold.h"
#include "lock/extension.h"
#include "redis/tls.h"

struct lw__login;
struct lw__address_map;
struct lw__quorum;
struct lw__route_options;
struct lw__session_config;

/* ==== notices (notify.c, deliver.c) ==== */

enum lw__notice_kind {
    LW__NOTICE_NONE,
    LW__NOTICE_DONE, /* of lw_acquire */
    LW__NOTICE_LOST,
    LW__NOTICE_RISK,  /* `at_risk`, with the status 1 or 0 */
    LW__NOTICE_YIELD, /* asked_to_yield */
    LW__NOTICE_RELEASED,
    LW__NOTICE_LATER, /* lw__lock_call_later */
    LW__NOTICE_RENEWED,
    LW__NOTICE_INSPECTED, /* lw_inspect, lw_break, lw_ask_to_yield, lw_watch */
    LW__NOTICE_LISTING,   /* lw_list has found a lock */
    LW__NOTICE_LISTED,    /* lw_list has ended */
    LW__NOTICE_LINK,
    LW__NOTICE_CREDENTIALS,
    LW__NOTICE_CLOSED
};

/* A user callback that is due; embedded in the object that it is about. */
struct lw__notice {
    struct lw__notice *next, *prev; /* utlist */
    int status;
    uint8_t kind; /* enum lw__notice_kind; NONE if it is not queued */
    bool urgent;  /* which queue it is in */
};

struct lw__link_notice {
    struct lw__notice notice;
    int up;
    char why[LW_WHY_SIZE];
};

struct lw__notify {
    struct lw__notice *urgent; /* losses, and what must follow them directly */
    struct lw__notice *normal;
    struct lw__deferred call;
};

/* A pending call of lw_renew (renew_call.c). */
struct lw__renew_call {
    struct lw__command command;
    struct lw__notice notice;
    struct lw__renew_call *next, *prev; /* of the handle */
    struct lw_lock *lock;
    lw_lock_cb *done;
    void *arg;
    uint32_t lease_ms;
};

/* A key in Redis by which other clients find out on which host and in which process this
 * client is (identity.c). It is at the servers of `holds`. */
struct lw__identity {
    struct lw__command command;
    struct lw_client *client;
    struct lw__holds *holds;
    struct lw__timer timer;
    int64_t due_us;
    bool published; /* the key is in Redis */
};

/* Connections that wait for lw_client_options.credentials (credentials.c). */
struct lw__credentials {
    struct lw__login *logins; /* in order of their requests */
    struct lw__notice notice; /* queued while there are any */
};

/* ==== handles, clients ==== */

#define LW__FULL "max_waiting others already wait" /* the text of such an LW_EBUSY */

#define LW__OWNER_SIZE 129 /* the longest owner, and a NUL */

/* The part of a handle that few handles need. If the caller's arguments need it, the call
 * allocates it, so that no later step can fail because memory is short. Otherwise it is
 * allocated for the first text (`owner`, `token`, `errstr`); without memory there is no
 * text. */
struct lw__extras {
    /* lock.c: the caller's arguments */
    lw_risk_cb *at_risk; /* NULL: no warnings */
    /* As given, or formatted by lw_lock_owner, or NULL. If a hold of a read-write lock is
     * adopted: LW__OWNER_SIZE bytes, into which turns.c copies the hold's owner. */
    char *owner;
    char *note; /* or NULL */
    int64_t max_hold_us;
    uint32_t at_risk_ms; /* 0: the default */
    uint32_t at_least_ms;
    uint32_t permits;

    char *token;           /* formatted by lw_lock_token; or NULL */
    char *errstr;          /* handle.c; or NULL */
    int64_t hold_until_us; /* handle.c: by max_hold_ms; LW__NEVER */
    /* handle.c: when the hold is at risk, and for which deadline that was computed */
    int64_t risk_at_us, risk_deadline_us;
};

/* A handle: one acquisition, as its caller sees it. A client may have a hundred thousand.
 * malloc's chunks grow in steps of 16 bytes, and 200 bytes are the most that fit into one
 * of 208. */
struct lw_lock {
    /* lock.c: the caller's arguments */
    struct lw_client *client;    /* NULL: inert */
    struct lw_lock *next, *prev; /* all handles of the client */
    struct lw__name *name;
    const struct lw__mode *mode;
    lw_lock_cb *lost;
    /* lw_release, lw_detach and lw__lock_call_later replace `done` and `arg`. */
    lw_lock_cb *done;
    void *arg;
    /* extras.c: its own, written by lw__extras_own; or lw__extras_none, read only */
    const struct lw__extras *extras;

    /* `asking` is valid until the grant is delivered, `held` from then on; `retry_ms`
     * once the handle has ended without a grant. */
    union {
        struct { /* lock.c */
            int64_t asked_us;
            int64_t give_up_us; /* handle.c: LW__NEVER: waits indefinitely */
        } asking;
        struct {
            struct lw__renew_call *renew_calls; /* renew_call.c */
            /* handle.c: its deadline, from a loss by the clock until the rest of the
             * lease is given up; else 0 */
            int64_t lost_at_us;
        } held;
        int64_t retry_ms; /* handle.c: with LW_EBUSY; else 0 */
    };

    struct lw_lock *turn_next, *turn_prev; /* the waiters of one claim */
    struct lw__claim *claim;               /* handle.c; NULL: the handle has no claim */
    /* Calls lw__turns_timer: at the end of the wait, when the hold is at risk or lost,
     * when the release takes too long, or for lw__lock_call_later. */
    struct lw__timer timer;

    struct lw__notice notice; /* notify.c */
    /* handle.c */
    uint64_t fence;
    uint64_t token_n;   /* of the claim that it holds or held */
    uint32_t window_ms; /* lock.c, handle.c: the claim window of that token. Before the
                           grant: the one to request */
    uint32_t lease_ms, margin_ms; /* lock.c */
    /* lock.c, turns.c: the handle ends with LW_EBUSY if at least so many others are
     * queued when it would join. 0: it has no limit, or has a place already */
    uint32_t queue_limit;
    int error; /* handle.c: the lw_error that belongs to its error text */

    /* lock.c: the caller's arguments */
    uint8_t flags; /* lock.c */
    bool once;     /* wait_ms is 0 */
    bool standby;  /* wait_ms is -1 */
    bool limited;  /* max_waiting was given: it shares no claim */

    bool freed; /* lock.c: lw_lock_free was called */

    bool delivered; /* handle.c: the callback of its grant was called */
    bool granted;   /* handle.c: LW_OK is queued for its callback */

    uint8_t state;    /* deliver.c, lock.c: enum lw_state, as the caller sees it */
    bool in_callback; /* deliver.c */
    bool warned;      /* handle.c: the argument of the last call of `at_risk` */
    bool yield_due;   /* handle.c: LW__NOTICE_YIELD is queued after the present notice */
    uint8_t later;    /* lock.c: enum lw__later */
};

/* A renewal that precedes a local hand-over, because the next handle does not renew. */
enum lw__next_renewal {
    LW__NEXT_NONE,
    LW__NEXT_RENEWING,
    LW__NEXT_LEFT /* the handle for which it was sent has left since */
};

/* A claim and its handles. A client may have a hundred thousand, and 264 bytes are the
 * most that fit into malloc's chunk of 272 (see struct lw_lock). */
struct lw__handles {
    struct lw__claim claim;
    struct lw_lock *waiting;   /* handle.c: in order of arrival */
    struct lw_lock *releasing; /* turns.c: the handle whose release is pending */
    /* turns.c: the handle that holds the lock. A handle that has lost it by the clock
     * stays until the claim has ended or the handle is freed. */
    struct lw_lock *holder;
    unsigned once_waiters; /* handle.c: waiters with wait_ms 0 */
    uint8_t passed_count;  /* turns.c: handles that its grant has served */
    uint8_t next_renewal;  /* turns.c: enum lw__next_renewal */
    bool joinable : 1;     /* turns.c: further handles may join it */
    /* turns.c: the holder does not renew, and the lease of the grant is too short for it.
     * Cleared when one renewal has extended the lease. */
    bool lease_short : 1;
    /* handle.c: an error was reported to the handles, and no successful reply
     * has arrived since */
    bool error_reported : 1;
};
_Static_assert(sizeof(struct lw__handles) <= 264, "memory per claim");
_Static_assert(sizeof(struct lw_lock) <= 200, "memory per handle");

static inline struct lw__handles *lw__handles(const struct lw__claim *claim)
{
    return LW__CONTAINER_OF(struct lw__handles, claim, claim);
}

struct lw_client {
    /* options.c */
    struct lw_client_options
        options; /* with every default filled in; strings are copies */
    struct lw__url url;
    struct lw__tls_options tls; /* without a server name, the host's is verified */
    struct lw__tls_trust *trust;
    struct lw__address_map *address_map; /* or NULL */
    char *strings[13]; /* copies: username, password, client_name, tls_*, sentinel_*, user
                        */
    struct lw__log log;
    struct lw__causes causes; /* base/log.c */

    /* client.c, ending.c */
    struct lw__loop *loop; /* NULL: closed */
    struct lw__route *route;

    struct lw__quorum *quorum; /* quorum.c; NULL: one server, a master, or a cluster */

    /* client.c */
    const struct lw__process_mark *process; /* the loop's */
    struct lw__holds holds;
    struct lw__timer close_timer;
    lw_close_cb *closed;
    void *closed_arg;
    bool closing, freed;
    bool inherited;        /* ended in a forked child: loop is NULL */
    int error;             /* the lw_error that belongs to `why` */
    char why[LW_WHY_SIZE]; /* the argument of the link callback */
    struct lw_stats stats; /* each counter is updated where its event happens */

    struct lw_lock *locks;      /* lock.c */
    struct lw_lock *free_locks; /* handle.c */
    unsigned free_lock_count;   /* handle.c */

    struct lw__inspect_call *inspect_calls; /* inspect.c */
    struct lw__list *lists;                 /* list.c */
    struct lw_watcher *watches;             /* watch.c */
    struct lw__identity identity;           /* identity.c */
    char identity_text[256];                /* `<client name> <host> <pid>` */
    char who[400];                          /* the same with the user: holds.who */
    struct lw__notify notify;               /* notify.c */
    struct lw__notice closed_notice;
    struct lw__credentials credentials; /* credentials.c */

    /* deliver.c */
    unsigned references; /* callbacks that are running */
    bool reported_up;    /* the argument of the last call of the link callback */
};

#define LW__INHERITED                                                                    \
    "the client was created before fork, and belongs to the parent process"

static inline struct lw_client *lw__client_of(const struct lw__claim *claim)
{
    return LW__CONTAINER_OF(struct lw_client, holds, claim->holds);
}

/* Returns true in a forked child of the process that made the client. */
static inline bool lw__is_inherited(const struct lw_client *client)
{
    return client->inherited ||
           (client->loop != NULL && lw__process_is_child(client->process));
}

/* ==== the functions of each file, highest first ==== */

/* ---- deliver.c: calls user callbacks, except those of logs, keep.c and all.c ---- */

/* Calls the callbacks that are queued. `arg` is the client. */
void lw__deliver(void *arg);

/* ---- lock.c ---- */

void lw__lock_make_inert(struct lw_lock *lock); /* its client is freed */
void lw__lock_close(struct lw_lock *lock);      /* its client closes */

/* ---- identity.c ---- */

/* Writes the client's identity_text and `who`. */
void lw__identity_describe(struct lw_client *client);
/* The identity will be published at the servers of these holds. Sets their `who`. */
void lw__identity_init(struct lw__identity *identity, struct lw_client *client,
                       struct lw__holds *holds);
/* Publishes the client's identity if it is not published; costs nothing otherwise. */
void lw__identity_publish(struct lw__identity *identity, int64_t now_us);
/* A link came up: verifies that the identity is still there. */
void lw__identity_verify(struct lw__identity *identity);
void lw__identity_withdraw(struct lw__identity *identity); /* the client closes */

/* ---- turns.c ---- */

extern const struct lw__claim_events lw__turns_events;
/* Has a new handle wait. Returns 0 or LW_ENOMEM. */
int lw__turns_join(struct lw_lock *lock);
/* Has a new handle adopt the hold of this token. Returns 0 or LW_ENOMEM. */
int lw__turns_adopt(struct lw_lock *lock, const char *token);
/* Hands a held lock over locally, or releases it; or, if its token has to stay in Redis
 * for some time yet, detaches it. */
void lw__turns_release(struct lw_lock *lock);
/* Detaches the holder's token for `keep_us`, or for the rest of its lease if it is 0. */
void lw__turns_detach(struct lw_lock *lock, int64_t keep_us);
/* Completes a pending release with its outcome as far as that is known. The claim goes on
 * without its handle. */
void lw__turns_abandon_release(struct lw_lock *lock);
/* Returns the status of a pending release, as lw__claim_release_status does. */
int lw__turns_release_status(const struct lw_lock *lock);
/* The handle no longer waits for the outcome of its release. */
void lw__turns_leave_release(struct lw_lock *lock);
/* Takes a waiting handle out of the queue. */
void lw__turns_cancel_wait(struct lw_lock *lock);
/* The handle's timer; `arg` is the handle. */
void lw__turns_timer(void *arg);
/* A link ended: handles that try once no longer wait for its node. */
void lw__turns_link_down(struct lw_client *client, const struct lw__node *node);
/* Called by client.c when names may lead elsewhere, when a node is up, and at a node's
 * heartbeat. With asked_to_yield, in a cluster: has messages about the names that handles
 * hold at this node arrive; at all nodes if it is NULL. */
void lw__turns_subscribe(struct lw_client *client, const struct lw__node *node);

/* ---- ending.c ---- */

/* Called when a claim, a handle or a command has ended. If it was the last one for which
 * a close waits, queues the callback of the close. */
void lw__ending_drained(struct lw_client *client);
/* Called after the callback of a close. The client's handles have no claim from now on;
 * claims, route and loop are freed. */
void lw__ending_closed(struct lw_client *client);
/* Frees every claim; nothing is sent. */
void lw__ending_free_claims(struct lw__holds *holds);
/* Frees every claim, the route and the loop. Handles are not freed. */
void lw__ending_take_down(struct lw_client *client);
/* Frees the client if the caller has freed it and no callback runs. */
void lw__ending_unref(struct lw_client *client);

/* ---- renew_call.c ---- */

/* Starts lw_renew. Returns 0 or LW_ENOMEM. */
int lw__renew_call_start(struct lw_lock *lock, uint32_t lease_ms, lw_lock_cb *done,
                         void *arg);
/* Completes all pending lw_renew calls of a handle. Its grant must have been delivered.
 */
void lw__renew_call_end_all(struct lw_lock *lock, int status);
void lw__renew_call_free(struct lw__renew_call *call);
void lw__renew_call_free_all(struct lw_lock *lock); /* without callbacks */

/* ---- handle.c: one handle ---- */

/* Counts a handle that begins to wait (1), or no longer waits (-1). */
void lw__handle_count_wait(const struct lw_lock *lock, int change);
/* The handle waits for the claim, behind all others or ahead of them. */
void lw__handle_wait(struct lw__handles *handles, struct lw_lock *lock);
void lw__handle_wait_first(struct lw__handles *handles, struct lw_lock *lock);
/* The handle waits no longer, and has no claim until lw__handle_hold. */
void lw__handle_stop_waiting(struct lw__handles *handles, struct lw_lock *lock);
/* Moves all waiters of one claim to another that has none. */
void lw__handle_move_waiters(struct lw__handles *from, struct lw__handles *to);
/* Ends a handle that no longer waits: `done` will be called with this status. `error` and
 * `why` are for lw_lock_error and lw_lock_errstr, which stay as they are if `why` is
 * NULL. */
void lw__handle_finish(struct lw_lock *lock, int status, int error, const char *why);
/* lw__handle_finish without an error. */
void lw__handle_end(struct lw_lock *lock, int status);
/* lw__handle_finish with LW_EBUSY, and the time for which the lock stays busy. */
void lw__handle_end_busy(struct lw_lock *lock, int64_t retry_ms);
/* The handle no longer has a claim: that goes on without it, or ends. */
void lw__handle_leave_claim(struct lw_lock *lock);
/* lw__handle_finish with the reason why the name's node is not up. */
void lw__handle_unserved(struct lw_lock *lock, int status);
/* The handle holds the claim from now on, and its grant will be delivered. */
void lw__handle_hold(struct lw__handles *handles, struct lw_lock *lock);
/* Has each release of the token before `until_us` leave it in Redis, as a detach does. */
void lw__handle_keep_until(struct lw__claim *claim, int64_t until_us);
/* The grant was delivered. */
void lw__handle_delivered(struct lw_lock *lock);
/* Called when a message asks for the release of the hold: asked_to_yield is called after
 * what is due before it. Without that option it has no effect. */
void lw__handle_ask(struct lw_lock *lock);
/* Called when a holder's notice may be free: queues the call of asked_to_yield, if that
 * is due. */
void lw__handle_resume_yield(struct lw_lock *lock);
/* Sets the timer of a holder, after its deadline has moved or when a warning is due. */
void lw__handle_arm_loss(struct lw_lock *lock);
/* The hold has ended; `reason` as for `lost`. The caller ends the handle's lw_renew
 * calls, too. */
void lw__handle_lose(struct lw_lock *lock, int reason);
/* Sets the error to the reason why the name's node is not up, if it is not. */
void lw__handle_set_link_error(struct lw_lock *lock);
/* Returns until when the holder may rely on the lock: the deadline or max_hold_ms. */
int64_t lw__handle_deadline_us(const struct lw_lock *lock);
/* Returns the time until lw__handle_deadline_us, in ms; 0 if it has passed. */
int64_t lw__handle_left_ms(const struct lw_lock *lock);
static inline int64_t lw__handle_margin_us(const struct lw_lock *lock)
{
    return (int64_t)lock->margin_ms * LW__MS;
}
/* Returns what must be left before the deadline; with less the hold is lost, and a grant
 * is unusable. */
int64_t lw__handle_least_us(const struct lw_lock *lock);
/* An undelivered grant is taken back: its callback is not called. */
void lw__handle_take_back(struct lw_lock *lock);
/* The handle has ended, or its grant was not delivered: it shows no fencing token, no
 * token and no retry_ms. */
void lw__handle_forget_grant(struct lw_lock *lock);
/* A lost hold has no remaining time from now on: its key is gone, or its client closes.
 */
void lw__handle_end_lease(struct lw_lock *lock);
/* Returns a handle that is all zeros, with room for its timer, or NULL if memory is
 * short. */
struct lw_lock *lw__handle_allocate(struct lw_client *client);
/* Frees the memory that is kept for handles to come. */
void lw__handle_clear(struct lw_client *client);
/* Frees the handle if the caller has freed it and none of its callbacks runs. */
void lw__handle_unref(struct lw_lock *lock);
/* Frees a handle that is in no list. */
void lw__handle_free(struct lw_lock *lock);

/* ---- handle.c: all handles of a claim ---- */

/* A successful reply has arrived: clears error_reported. */
void lw__handles_forget_error(struct lw__handles *handles);
/* The claim's event `terms`. */
void lw__handles_terms(const struct lw__claim *claim, struct lw__terms *ret);

/* ---- extras.c ---- */

extern const struct lw__extras lw__extras_none;
/* A new handle has none of its own. */
void lw__extras_init(struct lw_lock *lock);
/* Returns the handle's own extras, allocated if it has none; NULL if memory is short. */
struct lw__extras *lw__extras_add(struct lw_lock *lock);
/* The extras of a handle that is known to have its own. */
static inline struct lw__extras *lw__extras_own(struct lw_lock *lock)
{
    return (struct lw__extras *)lock->extras;
}
void lw__extras_free(struct lw_lock *lock);

/* ---- credentials.c ---- */

/* Has connections with this configuration get their credentials from the client's caller,
 * if its options say so. */
void lw__credentials_ask(struct lw_client *client, struct lw__session_config *config);
/* Called after the caller's callback has returned `status` and `given` for this request.
 * Inside the callback the request may have ended, and the client may have been freed. */
void lw__credentials_answer(struct lw_client *client, struct lw__login *login, int status,
                            const struct lw_credentials *given);

/* ---- notify.c: queues callbacks, calls none ---- */

/* `deliver` is called from the loop, with the client, when notices are queued. */
void lw__notify_init(struct lw_client *client, lw__call_fn *deliver);
/* Queues the handle's next callback; it replaces one that is queued. */
void lw__notify_lock(struct lw_lock *lock, enum lw__notice_kind kind, int status);
void lw__notify_renewed(struct lw__renew_call *call, int status);
/* Queues a callback of a call of lw_list, lw_inspect or lw_break. */
void lw__notify_call(struct lw_client *client, struct lw__notice *notice,
                     enum lw__notice_kind kind, int status);
void lw__notify_link(struct lw_client *client, int up, const char *why);
void lw__notify_credentials(struct lw_client *client);
void lw__notify_closed(struct lw_client *client);
/* Removes a notice that is queued. */
void lw__notify_remove(struct lw_client *client, struct lw__notice *notice);
/* Removes a notice if it is queued. Inline, because mostly it is not. */
static inline void lw__notify_cancel(struct lw_client *client, struct lw__notice *notice)
{
    if (notice->kind != LW__NOTICE_NONE) {
        lw__notify_remove(client, notice);
    }
}
/* Returns the notice that is next, which stays queued, or NULL. */
struct lw__notice *lw__notify_first(const struct lw_client *client);
void lw__notify_clear(struct lw_client *client); /* drops all notices */

/* ---- options.c ---- */

/* Fills in client->options, url and log. Returns 0, or LW_EINVAL or LW_ENOMEM with the
 * reason in errbuf. */
int lw__options_take(struct lw_client *client, const char *url,
                     const struct lw_client_options *given);
/* lw__options_explain for a call that has no client yet. */
void lw__options_explain_given(const struct lw_client_options *given, const char *why);
void lw__options_clear(struct lw_client *client);
/* Fills in how to reach the client's server. `holds` are those of the claims that use it.
 */
void lw__options_fill_route(struct lw_client *client, struct lw__holds *holds,
                            struct lw__route_options *ret);
#define LW__LEASE_MIN 100
bool lw__options_use_guard(const struct lw_client_options *options);
/* Returns the longest lease that guard_ms allows, in ms. */
int64_t lw__options_lease_max(const struct lw_client *client);
#endif
