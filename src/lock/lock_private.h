/* SPDX-License-Identifier: MIT */
/* The private header of src/lock: the structs that its files share, then the functions
 * that each file offers to the files above it. A comment on a struct or on a group of
 * fields names the file that writes them; other files read them, and change them only by
 * calling that file. */
#ifndef LW_LOCK_PRIVATE_H
#define LW_LOCK_PRIVATE_H
#include "base/container_of.h"
#include "base/escape.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/process.h"
#include "base/random.h"
#include "base/url.h"
#include "lock/extension.h"
#include "hold/machine.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/command.h"
#include "redis/decode.h"
#include "redis/encode.h"
#include "redis/format.h"
#include "look/inspect_reply.h"
#include "redis/resp.h"
#include "redis/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__batch;
struct lw__claim;
struct lw__inspect_call;
struct lw__list;
struct lw__login;
struct lw__name;
struct lw__node;
struct lw__redisson;
struct lw__address_map;
struct lw__session_config;

#if defined(__SANITIZE_ADDRESS__)
#define LW__SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LW__SANITIZED 1
#endif
#endif
#ifdef LW__SANITIZED
#define LW__POOLED 0 /* so that a use after free is detected */
#else
#define LW__POOLED 1024 /* freed objects of one kind that a client keeps for reuse */
#endif

/* ==== modes (mode.c) ==== */

/* Commands on the name's key alone, for a slot that is migrating to another node of a
 * cluster (claim_migrating.c). Both return false if `error` does not say that the slot is
 * migrating, or if there is no such command. */
struct lw__one_key_ops {
    bool (*acquire)(struct lw__claim *claim, const char *error);
    bool (*release)(struct lw__claim *claim, const char *error);
};

/* The differences between the modes. */
struct lw__mode {
    void (*encode_acquire)(struct lw__buffer *out, bool eval,
                           const struct lw__acquire_args *args);
    /* Releases without a look at the queue; NULL if the mode has no such command. */
    void (*encode_fast_release)(struct lw__buffer *out, bool eval,
                                enum lw__fast_release how, const char *name,
                                const struct lw__token *token);
    void (*encode_release)(struct lw__buffer *out, bool eval,
                           const struct lw__release_args *args);
    void (*encode_renew)(struct lw__buffer *out, bool eval, size_t count,
                         const struct lw__renew_args *args,
                         const struct lw__script_env *env);
    bool (*decode_acquired)(const struct lw__reply *reply, struct lw__acquired *ret);
    bool (*decode_released)(const struct lw__reply *reply, struct lw__released *ret);
    /* Writes the owner of a hold whose caller gave none. */
    size_t (*format_owner)(const struct lw__token *token, char ret[LW__TOKEN_SIZE]);
    const struct lw__one_key_ops *one_key; /* NULL: not available in a cluster */
    bool rw;                               /* requests are those of a read-write lock */
    bool fenced;                           /* grants have fencing tokens */
    bool polls;     /* Redis has no queue: one claim polls for all waiters of a name */
    bool plain_set; /* a plain SET NX PX may be sent before the script */
    bool shares_claims; /* waiters of one client share a claim and hand over locally */
    bool write;         /* with `rw`: a writer */
};

extern const struct lw__mode lw__mode_table[]; /* by enum lw_mode */

/* ==== names (name.c) ==== */

/* A lock name in use by handles or claims of one client. A client may have a hundred
 * thousand, so that the fields are ordered by size and `text` follows without a gap. */
struct lw__name {
    struct lw__name *next;    /* in its bucket */
    struct lw__route *route;  /* which node serves its slot */
    struct lw__node *node;    /* that node (turns.c) */
    struct lw__claim *claims; /* of one client, in order of creation (claim.c) */
    uint32_t hash;
    uint32_t references; /* claims and handles */
    uint16_t slot;       /* of a cluster; 0 without a cluster */
    /* renewal.c, renew_call.c, turns.c: a script of several keys was refused because the
     * slot is migrating. */
    bool slot_migrating;
    char text[];
};

/* A hash table by text. It is no uthash, whose handle would take more memory than the
 * rest of a name. */
struct lw__names {
    struct lw__name **slots;
    size_t count, size; /* `size` is that of `slots`: a power of two, or 0 */
};

/* ==== notices (notify.c, deliver.c) ==== */

enum lw__notice_kind {
    LW__NOTICE_NONE,
    LW__NOTICE_DONE, /* of lw_acquire */
    LW__NOTICE_LOST,
    LW__NOTICE_RISK, /* `at_risk`, with the status 1 or 0 */
    LW__NOTICE_RELEASED,
    LW__NOTICE_LATER, /* lw__lock_call_later */
    LW__NOTICE_RENEWED,
    LW__NOTICE_INSPECTED, /* lw_inspect, lw_break */
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

/* ==== renewals (renewal.c) ==== */

struct lw__renewals {
    struct lw__batch *free, *all;
    struct lw__heap due; /* claims, by the time of their next renewal */
    struct lw__timer timer;
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

/* ==== what a client remembers of earlier replies ==== */

/* When a request was sent, by our clock, and the server's clock in its reply. Only
 * differences of the server's clock are ever used. */
struct lw__clock_pair {
    int64_t sent_us, server_us; /* server_us 0: there is no pair */
    unsigned connection;
};

/* A name that another owner held lately (name.c). Only speed depends on it. */
struct lw__contended {
    uint32_t hash;       /* of the name */
    int64_t until_us;    /* the name counts as contended until then */
    int64_t extended_us; /* when the TTL of its queue was last extended */
};
#define LW__CONTENDED_SLOTS 256

/* A name that this client released in LW_REDISSON, and does not request for a moment, so
 * that another process gets it (redisson.c). */
struct lw__cooldown {
    int64_t until_us;
    uint32_t hash;       /* of the name */
    bool own_message;    /* the message of that release will reach this client, too */
    bool message_before; /* a message came while a release was in flight */
};
#define LW__COOLDOWNS 16

/* The key by which other clients find out which host and process this client is
 * (identity.c). */
struct lw__identity {
    struct lw__command command;
    char key[LW__CLIENT_SIZE];
    struct lw_client *client;
    struct lw__timer timer;
    int64_t due_us;
    bool published; /* the key is in Redis */
};

/* Connections that wait for lw_client_options.credentials (credentials.c). */
struct lw__credentials {
    struct lw__login *logins; /* in order of their requests */
    struct lw__notice notice; /* queued while there are any */
};

/* ==== inspection (inspect.c, list.c) ==== */

/* A call of lw_inspect or lw_break, or a look of lw_list at one name. */
struct lw__inspect_call {
    struct lw__command command;
    struct lw__notice notice;
    struct lw__inspect_call *next, *prev; /* of the client */
    struct lw_client *client;
    lw_inspect_cb *inspected; /* one of these three is set */
    lw_break_cb *broken;
    struct lw__list *list;
    void *arg;
    char *name, *token; /* `token`: the only holder to break, or NULL */
    struct lw__inspect_reply look;
    size_t naming;   /* in a cluster: the client whose identity is requested */
    size_t breaking; /* the holder whose release is in flight */
    size_t hinted;   /* the broken holder whose client is asked to verify its hold */
    bool one_key;    /* the slot is migrating: only the name's own key is read */
    bool any_broken;
    char why[LW_WHY_SIZE], server[LW__TEXT_MAX];
};

#define LW__LIST_LOOKS 8 /* names that one lw_list inspects at the same time */

/* A call of lw_list. */
struct lw__list {
    struct lw__command command; /* the next SCAN */
    struct lw__notice notice;   /* a lock was found, or the end */
    struct lw__list *next, *prev;
    struct lw_client *client; /* NULL: it was freed, or the call has ended */
    lw_found_cb *found;
    lw_listed_cb *done;
    void *arg;
    char *pattern; /* or NULL */
    struct lw_listing listing;
    uint64_t keys_before; /* scanned on the servers before this one */
    char cursor[LW__DIGITS];
    unsigned link;    /* connection of the scanned server: a cursor is valid on it only */
    char *names;      /* found by the last SCAN, each with its NUL */
    const char *name; /* the next of them to inspect */
    size_t names_left; /* from there on */
    size_t looking;
    struct lw__inspect_call *looks[LW__LIST_LOOKS]; /* NULL: free */
    bool over, in_callback;
    char why[LW_WHY_SIZE];
    unsigned map; /* number of the slot map that it waits for; 0: none */
    bool checked; /* against a fresh slot map: no scanned slot was at another node */
    unsigned slots;
    unsigned scans[]; /* the state of each slot (list.c) */
};

/* ==== a quorum (quorum.c, votes.c) ==== */

struct lw__votes; /* of one claim, at all servers */

/* One server of a quorum, and the client that uses it. */
struct lw__quorum_member {
    struct lw_client *client; /* NULL: it could not be made */
    struct lw_client *whole;  /* the quorum's client */
    unsigned index;
    char server[LW__HOST_SIZE + 8]; /* host:port as in the URL */
    struct lw__clock_pair clock;    /* ask.c: of its fastest request lately */
};

struct lw__quorum;

/* How the claims of a quorum's client reach their votes (votes.c). */
struct lw__vote_ops {
    bool (*make)(struct lw__claim *claim); /* returns false if memory is short */
    void (*free)(struct lw__claim *claim);
    /* The machine has made a step. Sends what `actions` want. */
    void (*stepped)(struct lw__claim *claim, unsigned actions);
    /* The holder, its lease, its margin or its flags have changed. */
    void (*match)(struct lw__claim *claim);
    /* Renews all votes; the claim's event `renewed` follows, or the holder's calls of
     * lw_renew complete. Returns false if no vote can be renewed. */
    bool (*renew)(struct lw__claim *claim, uint32_t lease_ms);
    /* Returns lw__quorum_reason. */
    const char *(*reason)(struct lw__quorum *quorum);
    /* As lw__machine_release_status, of a release that is not over, from what the servers
     * have replied so far. May also return LW_OK, LW_ENOTHELD or LW_EREDIS. Fills in
     * `why`, which has room for LW_WHY_SIZE bytes. */
    int (*release_status)(const struct lw__claim *claim, char *why);
};

/* What a claim's owner needs at present: its handles, by handle.c. */
struct lw__terms {
    int64_t lease_us; /* to request; the other fields: */
    /* of a hold */
    int64_t margin_us;     /* what must be left of its lease; or 0 */
    int64_t hold_until_us; /* no renewal extends it beyond; LW__NEVER: no limit */
    bool renews;
    /* of a request */
    bool fence;           /* its grant needs a fencing token */
    bool place;           /* it may wait in the queue */
    uint32_t queue_limit; /* 0: none */
};

/* How a claim asks its owner, and reports to it: its handles, by turns.c. A claim knows
 * nothing else of them. */
struct lw__claim_events {
    /* Fills in what is needed now: a command is encoded by it. */
    void (*terms)(const struct lw__claim *claim, struct lw__terms *ret);
    /* Returns what must be left of the lease when it is granted, in us. */
    int64_t (*grant_margin_us)(const struct lw__claim *claim);
    /* The hold that was adopted is this owner's, which may be the token of an earlier
     * holder. */
    void (*adopted)(struct lw__claim *claim, const char *owner);
    /* The lease of the hold is not extended, for this reason. */
    void (*not_extended)(struct lw__claim *claim, const char *why);
    void (*granted)(struct lw__claim *claim);
    /* The reply QUEUED: another owner holds the lock or is before the claim in the queue,
     * or the script is sent again; asking.remaining_ms. */
    void (*refused)(struct lw__claim *claim);
    /* All waiters end with this status. */
    void (*failed)(struct lw__claim *claim, int status);
    /* An error and its class, for lw_lock_errstr and lw_lock_error. */
    void (*on_error)(struct lw__claim *claim, int status, const char *text);
    /* An attempt to release had no effect, and another one follows after a delay. */
    void (*not_released)(struct lw__claim *claim);
    /* The outcome of a request is unknown; the claim retries by itself. */
    void (*outcome_unknown)(struct lw__claim *claim, int status, const char *why);
    void (*released)(struct lw__claim *claim, int status);
    /* Mode with `polls` only: the reply to a release, and the longest time, in ms, that a
     * refused claim sleeps. */
    void (*release_replied)(struct lw__claim *claim, const struct lw__released *reply);
    int64_t (*poll_ms)(const struct lw__claim *claim);
    /* The server reports that the lock is free or held by another owner. */
    void (*lost)(struct lw__claim *claim);
    /* A renewal was answered. `sure`: the lease was extended, not only found alive. */
    void (*renewed)(struct lw__claim *claim, bool sure);
    /* A message reports that the claim's token was broken. */
    void (*broken)(struct lw__claim *claim);
    /* No command of the token follows. Must free the claim, or keep it until the time of
     * a detached token has passed (lw__claim_linger). */
    void (*ended)(struct lw__claim *claim);
};

struct lw__quorum {
    /* quorum.c */
    struct lw__quorum_member members[LW__QUORUM_MOST];
    unsigned count, majority;
    bool up; /* a majority is connected */
    char why[LW_WHY_SIZE];
    /* client.c */
    unsigned closed; /* members whose client has closed */
    /* votes.c */
    const struct lw__vote_ops *ops;
    struct lw__claim_events member_events; /* those of turns.c, and what votes need */
    struct lw__votes *changed;             /* to be counted */
    struct lw__deferred count_call;
    int64_t round_trip_us; /* of a request, on average */
    int64_t last_ticket;
};

/* ==== handles, claims, clients ==== */

#define LW__FULL "max_waiting others already wait" /* the text of such an LW_EBUSY */

#define LW__OWNER_SIZE 129 /* the longest owner, and a NUL */

/* The part of a handle that few handles need. It is allocated at the request if the
 * arguments need it, so that nothing later fails for want of memory, or for one of the
 * texts that a handle can do without. */
struct lw__extras {
    /* lock.c: the caller's arguments */
    lw_risk_cb *at_risk; /* NULL: no warnings */
    /* As given, or formatted by lw_lock_owner, or NULL. If a hold of a read-write lock is
     * adopted: LW__OWNER_SIZE bytes, into which claim.c copies the hold's owner. */
    char *owner;
    int64_t max_hold_us;
    int64_t ticket;      /* its place in the queue, chosen by the caller; 0: none */
    uint32_t at_risk_ms; /* 0: the default */
    uint32_t at_least_ms;
    uint32_t permits;

    char *token;           /* formatted by lw_lock_token; or NULL */
    char *errstr;          /* handle.c; or NULL */
    int64_t hold_until_us; /* handle.c: by max_hold_ms; LW__NEVER */
    /* handle.c: when the hold is at risk, and for which deadline that was computed */
    int64_t risk_at_us, risk_deadline_us;
};

/* A handle: one acquisition, as its caller sees it. A client may have a hundred thousand:
 * malloc gives 200 bytes in a chunk of 208, and with one byte more 16 more. */
struct lw_lock {
    /* lock.c: the caller's arguments */
    struct lw_client *client;    /* NULL: inert */
    struct lw_lock *next, *prev; /* all handles of the client */
    struct lw__name *name;
    const struct lw__mode *mode;
    lw_lock_cb *lost;
    lw_lock_cb *done; /* and `arg`: replaced by lw_release and lw__lock_call_later */
    void *arg;
    /* extras.c: its own, written by lw__extras_own; or lw__extras_none, read only */
    const struct lw__extras *extras;

    /* `asking` is valid until the grant is delivered, `held` from then on; `retry_ms`
     * once the handle has ended without a grant. */
    union {
        struct { /* lock.c */
            int64_t asked_us;
            int64_t give_up_us; /* LW__NEVER: waits indefinitely */
        } asking;
        struct {
            struct lw__renew_call *renew_calls; /* renew_call.c */
            /* handle.c, lock.c, turns.c: its deadline, once it is lost by the clock,
             * until the rest of the lease is given up; else 0 */
            int64_t lost_at_us;
        } held;
        int64_t retry_ms; /* with LW_EBUSY; else 0 */
    };

    /* turns.c and handle.c */
    struct lw_lock *turn_next, *turn_prev; /* the waiters of one claim */
    /* Written by lock.c and ending.c, too. NULL: the handle has no claim. */
    struct lw__claim *claim;
    /* The end of the wait, of the hold or of the release; or lw__lock_call_later. */
    struct lw__timer timer;

    struct lw__notice notice; /* notify.c */

    /* handle.c; lock.c before the hold */
    uint64_t fence;
    uint64_t token_n;   /* of the claim that it holds or held */
    uint32_t window_ms; /* the claim window of that token; before, the one to request */

    uint32_t lease_ms, margin_ms; /* lock.c */
    /* turns.c: it ends if so many others are queued when it would join; 0: no limit, or
     * it has had its place */
    uint32_t queue_limit;
    int error; /* handle.c: the lw_error that belongs to its error text */

    /* lock.c: the caller's arguments */
    uint8_t flags;
    bool once;    /* wait_ms is 0 */
    bool standby; /* wait_ms is -1 */
    bool limited; /* max_waiting was given: it shares no claim */
    bool freed;

    bool delivered; /* handle.c: the callback of its grant was called */
    /* handle.c: LW_OK is queued for its callback. Cleared where the grant is delivered or
     * taken back, and where the handle ends: deliver.c, lock.c, turns.c, handle.c. */
    bool granted;

    uint8_t state; /* enum lw_state: deliver.c, and lock.c where the caller changed it */
    bool in_callback;
    bool warned;   /* handle.c: the argument of the last call of `at_risk` */
    uint8_t later; /* enum lw__later (lock.c) */
};

/* The try, SET NX PX with an INCR for a fencing token in one write: what is in flight,
 * and what SET replied. A claim sends at most one. */
enum lw__try {
    LW__TRY_NONE,      /* not sent, or not answered */
    LW__TRY_IN_FLIGHT, /* SET is not answered yet */
    LW__TRY_SET,       /* in flight still: SET has set the name */
    LW__TRY_TAKEN,     /* in flight still: the name is taken */
    LW__TRY_FAILED,    /* in flight still: SET replied with an error */
    LW__TRY_UNDONE,    /* the same, and the error says that it had no effect */
    LW__TRY_WON,       /* over: SET has set the name, and no command was sent since */
    LW__TRY_OVER       /* over otherwise; SET was answered */
};

/* A renewal that precedes a local hand-over, because the next handle does not renew. */
enum lw__next_renewal {
    LW__NEXT_NONE,
    LW__NEXT_RENEWING,
    LW__NEXT_LEFT /* the handle for which it was sent has left since */
};

/* The part of a claim that few claims need, allocated with it (claim.c). */
struct lw__claim_extras {
    char *owner;  /* of a read-write lock: a copy of the handle's; or NULL */
    char *adopts; /* the token that it adopts, or has adopted; NULL: it acquires */
    struct lw__votes *votes; /* votes.c; NULL without a quorum */
    uint32_t permits;
};

/* One token in Redis at a time, and all that is requested, held and released by it. A
 * client may have a hundred thousand: malloc gives 264 bytes in a chunk of 272, and with
 * one byte more 16 more. */
struct lw__claim {
    /* claim.c */
    struct lw__command command; /* at most one in flight */
    struct lw_client *client;
    struct lw__name *name;
    struct lw__claim *next, *prev; /* of its name */
    const struct lw__mode *mode;
    struct lw__machine machine; /* written by machine.c only */
    struct lw__timer timer;     /* machine.due_us */
    /* Its own, written by lw__claim_own_extras; or lw__claim_no_extras, read only. */
    const struct lw__claim_extras *extras;
    uint64_t n;
    uint16_t window_ms; /* up to 60,000 */

    struct lw__heap_node renewal; /* renewal.c: when it is due */
    unsigned once_waiters;        /* handle.c: waiters with wait_ms 0 */
    uint8_t fences_drawn;         /* fencing tokens that its grant drew */
    /* handles that its grant has served (turns.c, handle.c, votes.c) */
    uint8_t passed_count;
    bool asked_to_join : 1; /* the request in flight joins the queue */
    bool sent_limit : 1;    /* the request in flight has a queue_limit */
    bool full : 1;          /* the last reply: so many others are queued */
    bool token_sent : 1;    /* its token was sent, and may be in Redis with that text */
    enum lw__try try : 4;
    enum lw__fast_release fast_release : 2; /* how the fast release was sent */
    bool short_release_sent : 1;            /* the release is sent in full from now on */
    bool joinable : 1;                      /* turns.c: further handles may join it */
    enum lw__next_renewal next_renewal : 2; /* turns.c */
    /* renewal.c: a message reports that its token was broken; claim.c clears it for a
     * fresh token */
    bool verify : 1;
    uint8_t linger_rounds : 2; /* how often lw__claim_linger has kept it */
    /* handle.c, turns.c: an error was reported to the handles, and no successful reply
     * has arrived since */
    bool error_reported : 1;

    /* lw__machine_asks(phase) says which part is valid; claim.c clears it when that
     * changes. */
    union {
        struct {
            /* claim.c: the clock pair of its last reply. claim_migrating.c: while it
             * draws a fencing token, server_us is 0, and sent_us is when its SET was
             * sent. */
            int64_t sent_us, server_us;
            unsigned connection;
            uint32_t place;       /* in the queue as last reported, from 1; 0: unknown */
            int64_t remaining_ms; /* of the holder's lease, as last reported */
        } asking;
        struct {
            struct lw__batch
                *batch; /* renewal.c: the renewal in flight that it is part of */
            /* turns.c: the lease of the grant is too short for a holder that does not
             * renew; until one renewal has extended it (renewal.c) */
            bool lease_short;
            /* handle.c, turns.c, claim.c: the earliest time at which the token may be
             * removed from Redis. A release before it sends a detach instead. LW__NEVER:
             * the token stays until its lease expires; 0: there is no such time. */
            int64_t stays_until_us;
            unsigned drawn_on; /* turns.c: the connection that drew its fencing tokens */
        } held;
    };

    struct lw_lock *waiting;   /* handle.c: in order of arrival */
    struct lw_lock *releasing; /* turns.c: the handle whose release is pending */
    struct lw_lock *holder;    /* turns.c: or a lost handle that is not freed yet */
};

struct lw_client {
    /* options.c */
    struct lw_client_options
        options; /* with every default filled in; strings are copies */
    struct lw__url url;
    struct lw__tls_options tls; /* without a server name: that of the host */
    struct lw__tls_trust *trust;
    struct lw__address_map *address_map; /* or NULL */
    char *strings[9]; /* copies: username, password, client_name, tls_*, sentinel_* */
    struct lw__log log;
    struct lw__causes causes; /* base/log.c */

    /* client.c; ending.c releases the loop and the route */
    struct lw__loop *loop;                  /* NULL: closed */
    const struct lw__process_mark *process; /* the loop's */
    struct lw__route *route;
    struct lw__quorum *quorum;        /* NULL: one server, a master, or a cluster */
    struct lw__quorum_member *member; /* of the quorum that it belongs to; or NULL */
    struct lw__random random;
    char uuid[LW__UUID_SIZE];
    const struct lw__claim_events *events;
    const struct lw__mode *modes; /* by enum lw_mode */
    struct lw__timer close_timer;
    lw_close_cb *closed;
    void *closed_arg;
    bool closing, freed;
    bool inherited;        /* ended in a forked child: loop is NULL */
    int error;             /* the lw_error that belongs to `why` */
    char why[LW_WHY_SIZE]; /* the argument of the link callback */
    struct lw_stats stats; /* each counter is updated where its event happens */

    struct lw__hash_key hash_key; /* of all hash tables of the client */
    struct lw__names names;       /* name.c */
    struct lw__contended contended[LW__CONTENDED_SLOTS]; /* name.c; by the name's hash */

    struct lw_lock *locks;      /* lock.c */
    struct lw_lock *free_locks; /* handle.c; lock.c takes from it */
    unsigned free_lock_count;

    /* claim.c */
    uint64_t next_n;
    struct lw__claim *lingering; /* claims that lw__claim_linger keeps */
    struct lw__claim *free_claims;
    unsigned free_claim_count, open_claims;
    struct lw__clock_pair last_clock; /* of the last reply that had one */

    struct lw__renewals renewals;                 /* renewal.c */
    struct lw__cooldown cooldowns[LW__COOLDOWNS]; /* redisson.c */
    struct lw__redisson *redisson; /* redisson.c; NULL before the first waiter */
    bool cluster_logged;
    struct lw__inspect_call *inspect_calls; /* inspect.c */
    struct lw__list *lists;                 /* list.c */
    struct lw__identity identity;           /* identity.c */
    struct lw__notify notify;               /* notify.c */
    struct lw__notice closed_notice;
    struct lw__credentials credentials; /* credentials.c */

    /* deliver.c */
    unsigned references; /* callbacks that are running */
    bool reported_up;    /* the argument of the last call of the link callback */
};

#define LW__INHERITED                                                                    \
    "the client was created before fork, and belongs to the parent process"

/* Returns true in a forked child of the process that made the client. */
static inline bool lw__is_inherited(const struct lw_client *client)
{
    return client->inherited ||
           (client->loop != NULL && lw__process_is_child(client->process));
}

/* ==== the functions of each file, highest first ==== */

/* ---- votes.c ---- */

extern const struct lw__vote_ops lw__quorum_votes_ops;
void lw__quorum_votes_init(struct lw_client *client);
/* Forgets the commands in flight: the members' clients are about to be freed. */
void lw__quorum_votes_forget(struct lw_client *client);

/* ---- quorum.c ---- */

/* Allocates the quorum of a client with such a URL, without its members' clients. Returns
 * 0, or LW_ENOMEM. */
int lw__quorum_new(struct lw_client *client);
void lw__quorum_free(struct lw_client *client);
/* Fills in the options of a member's client, and its URL; the caller frees that. Returns
 * NULL if memory is short. */
char *lw__quorum_describe(struct lw__quorum_member *member,
                          struct lw_client_options *ret);
/* Chooses the id of a member's client. */
void lw__quorum_identify(const struct lw__quorum_member *member, char ret[LW__UUID_SIZE]);
/* A member's node came up. Returns false if the server cannot be a member: its link is
 * ended with the reason. */
bool lw__quorum_admit(struct lw__quorum_member *member, struct lw__node *node);
/* A member came up or went down, or failed to come up. Sets whether the quorum is up, and
 * why it is not. Returns true if that is to be reported. */
bool lw__quorum_note(struct lw_client *client);
/* Returns why the quorum is not up now, with each server; "" if it is up. */
const char *lw__quorum_reason(struct lw__quorum *quorum);
/* Returns the class of quorum->why. */
int lw__quorum_error(const struct lw__quorum *quorum);
/* Writes each server with its reason; NULL or "": it has not been asked. */
void lw__quorum_list(const struct lw__quorum *quorum,
                     const char *const why[LW__QUORUM_MOST], char ret[LW_WHY_SIZE]);
/* Adds what the members' clients have counted, `each` by itself. */
void lw__quorum_add_stats(const struct lw__quorum *quorum, const struct lw_stats *each,
                          struct lw_stats *stats);

/* ---- deliver.c: the only caller of user callbacks, except for the log callback ---- */

/* Calls the callbacks that are queued. `arg` is the client. */
void lw__deliver(void *arg);

/* ---- lock.c ---- */

void lw__lock_make_inert(struct lw_lock *lock); /* its client is freed */
void lw__lock_close(struct lw_lock *lock);      /* its client closes */

/* lw_acquire with a place in the queue, by the server's clock in us; 0: none. */
int lw__lock_acquire(struct lw_client *client, const char *name,
                     const struct lw_acquire_options *options, int64_t ticket,
                     lw_lock_cb *done, void *arg, struct lw_lock **ret);

/* ---- list.c ---- */

/* An inspection of the list was answered. Returns true if there is a lock to report;
 * lw__list_delivered follows then, else lw__list_continue. */
bool lw__list_inspected(struct lw__list *list, struct lw__inspect_call *call, int status);
void lw__list_continue(struct lw__list *list);
/* After `found`, which may have ended anything. `stops`: the caller wants no more. */
void lw__list_delivered(struct lw__list *list, bool stops);
void lw__list_free(struct lw__list *list);
/* Slots have moved to other nodes, or to none. */
void lw__list_remapped(struct lw_client *client);
/* Slot map number `map`, or any map, is not available: ends the lists that wait for it.
 */
void lw__list_map_unavailable(struct lw_client *client, unsigned map, const char *why);
void lw__list_close(struct lw_client *client); /* ends all with LW_ECLOSED */

/* ---- inspect.c ---- */

/* Starts an inspection for a list. Returns NULL if memory is short. */
struct lw__inspect_call *lw__inspect_for(struct lw_client *client, const char *name,
                                         struct lw__list *list);
void lw__inspect_free(struct lw__inspect_call *call);
void lw__inspect_close(struct lw_client *client); /* ends all with LW_ECLOSED */

/* ---- identity.c ---- */

void lw__identity_init(struct lw_client *client);
/* Publishes the client's identity if it is not published; costs nothing otherwise. */
void lw__identity_publish(struct lw_client *client, int64_t now_us);
/* A link came up: verifies that the identity is still there. */
void lw__identity_verify(struct lw_client *client);
void lw__identity_withdraw(struct lw_client *client); /* the client closes */

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
/* Completes a pending release with lw__turns_release_status, or with LW_EREDIS if the
 * server refuses. The claim goes on without its handle. */
void lw__turns_abandon_release(struct lw_lock *lock);
/* Returns the lw_error with which a pending release would be completed now. */
int lw__turns_release_status(const struct lw_lock *lock);
/* Takes a waiting handle out of the queue. */
void lw__turns_cancel_wait(struct lw_lock *lock);
/* The handle's timer; `arg` is the handle. */
void lw__turns_timer(void *arg);
/* A link of `node` came up, or was bound: waiters poll at once (behind a try of the same
 * client: once that has ended), pending releases are sent. `verify`: holds are renewed,
 * since it may be another server. */
void lw__turns_retry_all(struct lw_client *client, const struct lw__node *node,
                         bool verify);
/* Messages of this slot no longer arrive: its waiters poll at once. */
void lw__turns_retry_slot(struct lw_client *client, const struct lw__node *node,
                          unsigned slot);
/* Slots have moved: updates the node of each name. */
void lw__turns_remap_all(struct lw_client *client);
/* The client closes: claims that linger are kept no longer. */
void lw__turns_close(struct lw_client *client);
void lw__turns_link_down(struct lw_client *client, const struct lw__node *node);

/* ---- ending.c ---- */

void lw__ending_drained(struct lw_client *client); /* a close may be complete now */
void lw__ending_closed(
    struct lw_client *client); /* the close is complete: no loop left */
/* Frees every claim, the route and the loop. Handles are not freed. */
void lw__ending_take_down(struct lw_client *client);
/* Frees the client if the caller has freed it and no callback runs. */
void lw__ending_unref(struct lw_client *client);

/* ---- redisson.c ---- */

/* Logs once that waiters will poll, if the server is in cluster mode. */
void lw__redisson_warn_of_cluster(struct lw__claim *claim);
/* The lock is held by another owner, and handles keep waiting for the claim. */
void lw__redisson_refused(struct lw__claim *claim);
void lw__redisson_released(struct lw__claim *claim, const struct lw__released *reply);
/* Returns how long, in us, the claim leaves the name to other clients. */
int64_t lw__redisson_cooldown_us(const struct lw__claim *claim);
/* Returns the longest time, in ms, that a refused claim sleeps. */
int64_t lw__redisson_poll_ms(const struct lw__claim *claim);
void lw__redisson_close(struct lw_client *client); /* unsubscribes */

/* ---- renewal.c ---- */

void lw__renewal_init(struct lw_client *client);
void lw__renewal_clear(struct lw_client *client);
/* Computes again when the claim's next renewal is due. */
void lw__renewal_plan(struct lw__claim *claim);
void lw__renewal_now(struct lw__claim *claim);
/* Verifies the hold at once because its token was broken. A renewal that is in flight may
 * have been executed before that, so another one follows its reply. */
void lw__renewal_verify(struct lw__claim *claim);
/* Returns true if the guard allows to extend the claim's lease. */
bool lw__renewal_may_extend(const struct lw__claim *claim);
void lw__renewal_forget(struct lw__claim *claim);
/* Handles the reply to a renewal that was sent at sent_us and asked for this lease. */
void lw__renewal_answered(struct lw__claim *claim, bool renewed, int64_t sent_us,
                          uint32_t lease_ms);
/* Why the lease is not extended while lw__renewal_may_extend is false. */
extern const char lw__renewal_not_extended[];

/* ---- renew_call.c ---- */

/* Starts lw_renew. Returns 0 or LW_ENOMEM. */
int lw__renew_call_start(struct lw_lock *lock, uint32_t lease_ms, lw_lock_cb *done,
                         void *arg);
/* Completes all pending calls of the handle, whose grant was delivered. */
void lw__renew_call_end_all(struct lw_lock *lock, int status);
void lw__renew_call_free(struct lw__renew_call *call);
void lw__renew_call_free_all(struct lw_lock *lock); /* without callbacks */

/* ---- claim_message.c ---- */

/* A message on the client's channel. `arg` is the client. */
void lw__claim_message(void *arg, const char *text, size_t length);

/* ---- claim_migrating.c ---- */

extern const struct lw__one_key_ops lw__claim_migrating_ops;

/* ---- claim.c ---- */

struct lw__claim_args {
    struct lw__name *name;
    const struct lw__mode *mode;
    uint32_t lease_ms, window_ms;
    uint32_t permits;   /* of a semaphore; else 0 */
    const char *owner;  /* of a read-write lock's hold: copied; or NULL */
    const char *adopts; /* the token whose hold is adopted: copied; NULL: it acquires */
};
/* Returns NULL if memory is short. */
struct lw__claim *lw__claim_new(struct lw_client *client,
                                const struct lw__claim_args *args);
/* Creates a claim that only releases this token: none of the client's claims has it. */
struct lw__claim *lw__claim_new_unknown(struct lw_client *client, struct lw__name *name,
                                        const struct lw__mode *mode,
                                        const struct lw__token *token);
extern const struct lw__claim_extras lw__claim_no_extras;
/* The extras of a claim that is known to have its own. */
static inline struct lw__claim_extras *lw__claim_own_extras(struct lw__claim *claim)
{
    return (struct lw__claim_extras *)claim->extras;
}
/* No renewal of the claim may be due or in flight. */
void lw__claim_free(struct lw__claim *claim);
/* Feeds the machine, and executes its actions. */
void lw__claim_step(struct lw__claim *claim, struct lw__input *input);
void lw__claim_event(struct lw__claim *claim,
                     enum lw__event event); /* without arguments */
/* lw__machine_release_status of the claim's release, which is not over. */
int lw__claim_release_status(const struct lw__claim *claim);
/* Sends the first request: now, or in `rest_us`; behind the try of another claim.
 * `ticket`: its place in the queue, if the caller chooses it; else 0. */
void lw__claim_start(struct lw__claim *claim, int64_t rest_us, int64_t ticket);
/* A claim that sleeps retries after `window_us` at the latest. */
void lw__claim_stand_by(struct lw__claim *claim, int64_t window_us);
struct lw__token lw__claim_token(const struct lw__claim *claim);
/* Returns true if the claim's token has to stay in Redis after its release. */
bool lw__claim_stays(const struct lw__claim *claim);
/* Keeps a claim that has ended, and whose token stays in Redis: a late message about the
 * token must not release it as an unknown one. It is moved from its name's claims to
 * client->lingering, until the token's time has passed, or until a message that was sent
 * before must have arrived or its connection must have ended. `ended` is called again
 * then, and calls this again. Returns false if the claim need not be kept (longer). */
bool lw__claim_linger(struct lw__claim *claim);

static inline struct lw__terms lw__claim_terms(const struct lw__claim *claim)
{
    struct lw__terms terms;

    claim->client->events->terms(claim, &terms);
    return terms;
}

static inline struct lw__claim *lw__claim_of(struct lw__command *command)
{
    return LW__CONTAINER_OF(struct lw__claim, command, command);
}

/* Returns true while the try of the claim is in flight. */
static inline bool lw__claim_is_trying(const struct lw__claim *claim)
{
    return claim->try >= LW__TRY_IN_FLIGHT && claim->try <= LW__TRY_UNDONE;
}
static inline bool lw__claim_try_was_answered(const struct lw__claim *claim)
{
    return claim->try > LW__TRY_IN_FLIGHT;
}

/* For claim_migrating.c: */
/* Handles an error of the server. `undone`: the command had no effect. */
void lw__claim_server_error(struct lw__claim *claim, const char *text, bool undone);
void lw__claim_error_reply(struct lw__claim *claim, const struct lw__reply *reply);
void lw__claim_no_reply(struct lw__command *command, const char *why, bool sent);
/* The name is ours, but the server has lost its counter and cannot start another by its
 * clock, which gave `fence`. Returns false if that is 0, which no script answers where a
 * fencing token is wanted. */
bool lw__claim_without_fence(struct lw__claim *claim, uint64_t fence);
/* `fence` may be 0 if no waiter wants a fencing token. */
void lw__claim_granted(struct lw__claim *claim, uint64_t fence, int64_t sent_us);
/* Returns the lease to request, in ms, and has the machine count the reply by it. */
uint32_t lw__claim_lease_ms(struct lw__claim *claim, int64_t lease_us);
/* Encodes a detach of the claim's token. One that is sent again sets the rest of its
 * time. `one_key`: of the name's key alone, so that no waiter learns of the lease. */
void lw__claim_put_detach(struct lw__command *command, struct lw__buffer *out,
                          bool one_key);
/* Handles the reply to a detach, which is no error. Returns false if a detach cannot have
 * this reply. */
bool lw__claim_detached(struct lw__claim *claim, const struct lw__reply *reply);

/* ---- handle.c: one handle ---- */

/* Counts a handle that begins to wait (1), or no longer waits (-1). Called by lock.c and
 * deliver.c. */
void lw__handle_count_wait(const struct lw_lock *lock, int change);
/* The handle waits for the claim, behind all others or ahead of them. */
void lw__handle_wait(struct lw__claim *claim, struct lw_lock *lock);
void lw__handle_wait_first(struct lw__claim *claim, struct lw_lock *lock);
/* The handle waits no longer, and loses its claim unless it holds. */
void lw__handle_stop_waiting(struct lw__claim *claim, struct lw_lock *lock);
/* Moves all waiters of one claim to another that has none. */
void lw__handle_move_waiters(struct lw__claim *from, struct lw__claim *to);
/* Ends a handle that no longer waits: `done` will be called with this status. `error` and
 * `why` are for lw_lock_error and lw_lock_errstr, which stay as they are if `why` is
 * NULL. If the status is LW_EBUSY the caller sets `retry_ms` then. */
void lw__handle_finish(struct lw_lock *lock, int status, int error, const char *why);
/* The same without an error text. */
void lw__handle_end(struct lw_lock *lock, int status);
/* The same with the reason why the name's node is not up. */
void lw__handle_unserved(struct lw_lock *lock, int status);
/* The handle holds, and its grant will be delivered. */
void lw__handle_hold(struct lw__claim *claim, struct lw_lock *lock);
/* Sets the end of a vote's hold: its claim's max_hold_ms. */
void lw__handle_limit_hold(struct lw_lock *vote, int64_t until_us);
/* The grant was delivered. */
void lw__handle_delivered(struct lw_lock *lock);
/* Sets the timer of a holder, after its deadline has moved or when a warning is due. */
void lw__handle_arm_loss(struct lw_lock *lock);
/* The hold has ended; `reason` as for `lost`. The caller ends the handle's lw_renew
 * calls, too. */
void lw__handle_lose(struct lw_lock *lock, int reason);
/* Sets the error to the reason why the name's node is not up, if it is not. */
void lw__handle_set_link_error(struct lw_lock *lock);
/* Returns the time until which the holder may rely on the lock: the deadline, or the end
 * of max_hold_ms. */
int64_t lw__handle_deadline_us(const struct lw_lock *lock);
/* Returns the time until then, in ms; 0 if it has passed. */
int64_t lw__handle_left_ms(const struct lw_lock *lock);
static inline int64_t lw__handle_margin_us(const struct lw_lock *lock)
{
    return (int64_t)lock->margin_ms * LW__MS;
}
/* Returns what must be left before the deadline; with less the hold is lost, and a grant
 * is unusable. */
int64_t lw__handle_least_us(const struct lw_lock *lock);
/* Frees the handle if the caller has freed it and none of its callbacks runs. */
void lw__handle_unref(struct lw_lock *lock);
/* Frees a handle that is in no list. */
void lw__handle_free(struct lw_lock *lock);

/* ---- handle.c: all handles of a claim ---- */

/* Returns the lease to request: the holder's, else the first waiter's; for a claim
 * without handles, the previous value. */
int64_t lw__handles_lease_us(const struct lw__claim *claim);
/* Returns true if a waiter wants a fencing token. */
bool lw__handles_want_fence(const struct lw__claim *claim);
/* Returns true if a waiter may wait in the queue. */
bool lw__handles_want_place(const struct lw__claim *claim);
/* The claim's event `terms`. */
void lw__handles_terms(const struct lw__claim *claim, struct lw__terms *ret);

/* ---- extras.c ---- */

extern const struct lw__extras lw__extras_none;
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
/* Returns the request that has waited longest, or NULL. */
struct lw__login *lw__credentials_first(const struct lw_client *client);
/* The caller's callback has returned `status` and `given` for this request, which may
 * have ended, and the client may have been freed, inside the callback. */
void lw__credentials_answer(struct lw_client *client, struct lw__login *login, int status,
                            const struct lw_credentials *given);

/* ---- notify.c: queues callbacks, calls none ---- */

/* `deliver` is called from the loop, with the client, when notices are queued. */
void lw__notify_init(struct lw_client *client, lw__call_fn *deliver);
/* Queues the handle's next callback; it replaces one that is queued. */
void lw__notify_lock(struct lw_lock *lock, enum lw__notice_kind kind, int status);
void lw__notify_renewed(struct lw__renew_call *call, int status);
void lw__notify_inspected(struct lw__inspect_call *call, int status);
void lw__notify_list(struct lw__list *list, enum lw__notice_kind kind, int status);
void lw__notify_link(struct lw_client *client, int up, const char *why);
void lw__notify_credentials(struct lw_client *client);
void lw__notify_closed(struct lw_client *client);
/* Removes a notice that is queued. */
void lw__notify_remove(struct lw_client *client, struct lw__notice *notice);
/* The same, if it is queued. Inline, because mostly it is not. */
static inline void lw__notify_cancel(struct lw_client *client, struct lw__notice *notice)
{
    if (notice->kind != LW__NOTICE_NONE) {
        lw__notify_remove(client, notice);
    }
}
/* Returns the notice that is next, which stays queued, or NULL. */
struct lw__notice *lw__notify_first(const struct lw_client *client);
/* More notices are queued, but other events of the loop go first. */
void lw__notify_again(struct lw_client *client);
void lw__notify_clear(struct lw_client *client); /* drops all notices */

/* ---- name.c ---- */

/* Returns the name, new or known, with one more reference; NULL if memory is short. */
struct lw__name *lw__name_get(struct lw_client *client, const char *text);
/* Returns the name, without a reference, or NULL if it is not in use. */
struct lw__name *lw__name_find(struct lw_client *client, const char *text);
/* Iterates over all names in use, in no order; NULL begins. `name` must still be in use,
 * and no name may be added during the iteration. */
struct lw__name *lw__name_after(const struct lw_client *client,
                                const struct lw__name *name);
void lw__name_ref(struct lw__name *name);
/* `client` is NULL if it is gone and only handles use the name. */
void lw__name_unref(struct lw_client *client, struct lw__name *name);
/* The client is freed: names that handles still use belong to these from now on. */
void lw__name_clear(struct lw_client *client);
/* Notes that another owner holds the name, or held it a moment ago. */
void lw__name_note_contended(struct lw_client *client, const struct lw__name *name);
/* Returns true if that was noted lately. */
bool lw__name_is_contended(struct lw_client *client, const struct lw__name *name);
/* Returns true, from time to time, if a request that joins the queue now should also
 * extend the queue's TTL, for all waiters that joined it without doing so. */
bool lw__name_should_extend_queue(struct lw_client *client, const struct lw__name *name);

/* ---- options.c ---- */

/* Fills in client->options, url and log. Returns 0, or LW_EINVAL or LW_ENOMEM with the
 * reason in errbuf. */
int lw__options_take(struct lw_client *client, const char *url,
                     const struct lw_client_options *given);
/* lw__options_explain for a call that has no client yet. */
void lw__options_explain_given(const struct lw_client_options *given, const char *why);
void lw__options_clear(struct lw_client *client);
#define LW__LEASE_MIN 100
bool lw__options_use_guard(const struct lw_client_options *options);
/* Returns the longest lease that guard_ms allows, in ms. */
int64_t lw__options_lease_max(const struct lw_client *client);
#endif
