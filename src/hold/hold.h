/* SPDX-License-Identifier: MIT */
/* Claims, their names, modes and renewals: the structs that the files of src/hold share,
 * then the functions that each file offers. */
#ifndef LW_HOLD_H
#define LW_HOLD_H
#include "base/container_of.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/random.h"
#include "hold/machine.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/command.h"
#include "redis/decode.h"
#include "redis/encode.h"
#include "redis/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__batch;
struct lw__claim;
struct lw__description;
struct lw__holds;
struct lw__log;
struct lw__node;
struct lw__route;
struct lw__redisson;
struct lw__votes;

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

/* The differences between the modes. */
struct lw__mode {
    void (*encode_acquire)(struct lw__buffer *out, bool eval,
                           const struct lw__acquire_args *args);
    void (*encode_release)(struct lw__buffer *out, bool eval,
                           const struct lw__release_args *args);
    void (*encode_renew)(struct lw__buffer *out, bool eval, size_t count,
                         const struct lw__renew_args *args,
                         const struct lw__script_env *env);
    bool (*decode_acquired)(const struct lw__reply *reply, struct lw__acquired *ret);
    bool (*decode_released)(const struct lw__reply *reply, struct lw__released *ret);
    /* Writes the owner of a hold whose caller gave none. */
    size_t (*format_owner)(const struct lw__token *token, char ret[LW__TOKEN_SIZE]);
    /* Acquires by commands on the name's key alone, if `error` says that its slot is
     * migrating to another node of a cluster; else returns false. NULL: not possible. */
    bool (*acquire_one_key)(struct lw__claim *claim, const char *error);
    /* What the key contains. One of these three is set: */
    bool mutex; /* a plain string: SET NX PX may come before the script, and handles of
                   one client share a claim */
    bool rw;    /* the hash of a read-write lock */
    bool polls; /* Redisson's hash. There is no queue, so that one claim polls for all
                   handles of a name, and there are no fencing tokens. */
    bool write; /* with `rw`: a writer */
};

extern const struct lw__mode lw__mode_table[]; /* by enum lw_mode */

/* ==== names (name.c) ==== */

/* A lock name in use by handles or claims of one client. A client may have a hundred
 * thousand, so that the fields are ordered by size and `text` follows without a gap. */
struct lw__name {
    struct lw__name *next;    /* in its bucket */
    struct lw__node *node;    /* name.c: the one that serves its slot */
    struct lw__claim *claims; /* claim.c: of one client, in order of creation */
    uint32_t hash;
    uint32_t references;   /* claims and handles */
    uint16_t slot;         /* of a cluster; 0 without a cluster */
    bool slot_migrating;   /* name.c: as lw__name_note_renewal noted last */
    uint8_t prefix_length; /* of `text`, which is the key */
    char text[];
};

/* Returns the name as the caller of the library knows it, without the prefix. */
static inline const char *lw__name_given(const struct lw__name *name)
{
    return name->text + name->prefix_length;
}

/* A hash table by text. It is no uthash, whose handle would take more memory than the
 * rest of a name. */
struct lw__names {
    struct lw__name **slots;
    size_t count, size; /* `size` is that of `slots`: a power of two, or 0 */
};

/* ==== renewals (renewal.c) ==== */

struct lw__renewals {
    struct lw__batch *free, *all;
    struct lw__heap due; /* claims, by the time of their next renewal */
    struct lw__timer timer;
};

/* ==== what a client remembers of earlier replies ==== */

/* When a request was sent, by our clock, and the server's clock in its reply. Deadlines
 * depend on differences of the server's clock alone. A quorum also uses its time as a
 * ticket (ask.c). */
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

/* ==== claims (claim.c) ==== */

/* What the owner of a claim needs at present. The owner of a client's claim is its
 * handles (handle.c), that of a quorum's ballot its vote (ask.c). */
struct lw__terms {
    int64_t lease_us; /* to request */
    /* for a hold: */
    int64_t margin_us;     /* what must be left of its lease; or 0 */
    int64_t hold_until_us; /* no renewal extends it beyond; LW__NEVER: no limit */
    bool renews;
    bool lease_short; /* its lease is too short for its holder: it is renewed now */
    /* for a request: */
    bool fence;           /* its grant needs a fencing token */
    bool place;           /* it may wait in the queue */
    uint32_t queue_limit; /* 0: none */
    bool awaited;         /* of a claim in any phase: a handle waits for it */
};

/* How a claim asks its owner, and reports to it. turns.c implements it for handles, ask.c
 * for the votes of a quorum. A claim knows nothing else of its owner. */
struct lw__claim_events {
    /* Fills in what is needed now: a command is encoded by it. */
    void (*terms)(const struct lw__claim *claim, struct lw__terms *ret);
    /* Returns what must be left of the lease when it is granted, in us. */
    int64_t (*grant_margin_us)(const struct lw__claim *claim);
    /* A read-write lock's hold was adopted. `owner` is its owner in Redis: a caller's
     * text, or the token of an earlier holder. */
    void (*adopted)(struct lw__claim *claim, const char *owner);
    /* The lease of the hold is not extended, for this reason. */
    void (*not_extended)(struct lw__claim *claim, const char *why);
    void (*granted)(struct lw__claim *claim);
    /* The lock is busy, or the script is sent again. asking.remaining_ms is from the same
     * reply. */
    void (*busy)(struct lw__claim *claim);
    /* All waiters end with this status. */
    void (*failed)(struct lw__claim *claim, int status);
    /* An error and its class, for lw_lock_errstr and lw_lock_error. LW_OK and "": earlier
     * errors are obsolete. */
    void (*on_error)(struct lw__claim *claim, int status, const char *text);
    /* An attempt to release was not sent, or had no effect. The claim retries after a
     * delay, or when the link is up. */
    void (*not_released)(struct lw__claim *claim);
    /* The outcome of a request is unknown; the claim retries by itself. */
    void (*outcome_unknown)(struct lw__claim *claim, int status, const char *why);
    void (*released)(struct lw__claim *claim, int status);
    /* The reply to a release. Called in a mode with `polls` only. */
    void (*release_replied)(struct lw__claim *claim, const struct lw__released *reply);
    /* Returns the longest time, in ms, that a claim sleeps while the lock is busy. Called
     * in a mode with `polls` only. */
    int64_t (*poll_ms)(const struct lw__claim *claim);
    /* The server reports that the lock is free or held by another owner. */
    void (*lost)(struct lw__claim *claim);
    /* `sure`: a reply has extended the lease, or votes have moved the deadline. Otherwise
     * a renewal was not sent, not answered or refused, and the lease is as it was. */
    void (*renewed)(struct lw__claim *claim, bool sure);
    /* A message reports that the claim's token was broken. */
    void (*broken)(struct lw__claim *claim);
    /* A message asks for the release of the claim's hold. */
    void (*asked)(struct lw__claim *claim);
    /* No command of the token follows. Must free the claim, or keep it until the time of
     * a detached token has passed (lw__claim_linger). */
    void (*ended)(struct lw__claim *claim);
};

/* How the claims of a quorum's client reach their votes (votes.c). */
struct lw__vote_ops {
    bool (*make)(struct lw__claim *claim); /* returns false if memory is short */
    void (*free)(struct lw__claim *claim);
    /* The machine has made a step. Sends what `actions` want. */
    void (*stepped)(struct lw__claim *claim, unsigned actions);
    /* The holder, its lease, its margin or its flags have changed. */
    void (*match)(struct lw__claim *claim);
    /* Renews all votes. When a majority has been renewed, or cannot be, the holder's
     * calls of lw_renew complete. Without a holder the claim's event `renewed` follows.
     * Returns false if no vote can be renewed. */
    bool (*renew)(struct lw__claim *claim, uint32_t lease_ms);
    /* Returns why the quorum is not up, with each server; "" if it is up. */
    const char *(*reason)(const struct lw__holds *holds);
    /* Returns the lw_error of a release that has not ended, by the replies so far: one of
     * lw__machine_release_status, or LW_ENOTHELD or LW_EREDIS. Fills in `why`, which has
     * room for LW_WHY_SIZE bytes. */
    int (*release_status)(const struct lw__claim *claim, char *why);
    /* Returns true if no claim of a vote is left, and nothing else is to be sent. */
    bool (*is_drained)(const struct lw__holds *holds);
    /* Frees the claims of all votes, and the connections. Nothing is sent. */
    void (*end)(struct lw__holds *holds);
};

/* The try, SET NX PX with an INCR for a fencing token in one write: what is in flight,
 * and what SET replied. A claim sends at most one. */
enum lw__try {
    LW__TRY_NONE,      /* not sent; or it has ended without a reply to SET */
    LW__TRY_IN_FLIGHT, /* SET is not answered yet */
    LW__TRY_SET,       /* in flight still: SET has set the name */
    LW__TRY_TAKEN,     /* in flight still: the name is taken */
    LW__TRY_FAILED,    /* in flight still: SET replied with an error */
    LW__TRY_UNDONE,    /* the same, and the error says that it had no effect */
    LW__TRY_WON,       /* over: SET has set the name, and `command` was not used since */
    LW__TRY_OVER       /* over otherwise; SET was answered */
};

/* The part of a claim that few claims need, allocated when the claim is created. */
struct lw__claim_extras {
    char *owner;  /* of a read-write lock: a copy of the handle's; or NULL */
    char *adopts; /* the token that it adopts, or has adopted; NULL: it acquires */
    struct lw__votes *votes;             /* votes.c; NULL without a quorum */
    struct lw__description *description; /* NULL: the hold gets none before a detach */
    uint32_t permits;
};

/* One token in Redis, and all that is requested, held and released by it. Its owner may
 * have a part of its own behind it (claim_size). */
struct lw__claim {
    /* claim.c */
    struct lw__command command; /* at most one in flight */
    struct lw__holds *holds;
    struct lw__name *name;
    struct lw__claim *next, *prev; /* of its name */
    const struct lw__mode *mode;
    struct lw__machine machine; /* machine.c */
    struct lw__timer timer;     /* machine.due_us */
    /* Its own, which lw__claim_own_extras returns for writing; or lw__claim_no_extras,
     * which many claims share. */
    const struct lw__claim_extras *extras;
    uint64_t n;
    uint16_t window_ms; /* up to 60,000 */

    struct lw__heap_node renewal; /* renewal.c: when it is due */
    uint8_t fences_drawn;         /* fencing tokens that its grant drew */
    bool asked_to_join : 1; /* claim.c, ask.c: the request in flight joins the queue */
    bool sent_limit : 1;    /* the request in flight has a queue_limit */
    bool full : 1;          /* the last reply: so many others are queued */
    bool token_sent : 1;    /* its token was sent, and may be in Redis with that text */
    enum lw__try try : 4;
    enum lw__fast_release fast_release : 2; /* release.c: how the fast one was sent */
    bool short_release_sent : 1; /* release.c: it is sent in full from now on */
    bool verify : 1; /* renewal.c: a message reports that its token was broken */
    bool yields : 1; /* claim_message.c: its release was asked for before the grant */
    uint8_t linger_rounds : 2; /* claim.c: how often lw__claim_linger has kept it */

    /* lw__machine_asks(phase) says which part is valid; claim.c clears it when that
     * changes. */
    union {
        struct {
            /* claim.c: the clock pair of its last reply. server_us is 0 before the first
             * reply, and while a fencing token is drawn in a slot that is migrating.
             * sent_us is then the time when SET was sent. */
            int64_t sent_us, server_us;
            unsigned connection;
            /* claim.c, claim_message.c, votes.c: in the queue as last reported, from 1;
             * 0: unknown */
            uint32_t place;
            int64_t remaining_ms; /* claim.c: of the holder's lease, as last reported */
        } asking;
        struct {
            /* renewal.c: the renewal in flight that it is part of */
            struct lw__batch *batch;
            /* handle.c: the earliest time at which the token may be
             * removed from Redis. A release before it sends a detach instead. LW__NEVER:
             * the token stays until its lease expires; 0: there is no such time. */
            int64_t stays_until_us;
            unsigned drawn_on; /* turns.c: the connection that drew its fencing tokens */
            /* description.c: when the lock was granted to its present holder, in units of
             * 10 ms; it wraps around */
            uint32_t granted_10ms;
        } held;
    };
};

/* ==== all claims of one owner ==== */

/* What claims, names and renewals share. A client has one, and each member of a quorum
 * has one. */
struct lw__holds {
    /* The owner's, as long as there are claims: */
    struct lw__loop *loop;
    const struct lw__log *log;
    struct lw_stats *stats; /* each counter is updated where its event happens */
    struct lw__route *route;
    const struct lw__claim_events *events;
    const struct lw__vote_ops *votes; /* NULL: commands are sent to the name's node */
    const struct lw__mode *modes;     /* by enum lw_mode */
    const char *who;    /* `<client name> <host> <pid> <user>`; NULL: kept to itself */
    const char *prefix; /* of all keys and channels; or "" */
    uint32_t request_timeout_ms;
    uint8_t prefix_length;
    uint32_t claim_size; /* of the owner's struct whose first member is a claim */
    char uuid[LW__UUID_SIZE];
    struct lw__random random;
    struct lw__hash_key hash_key; /* of all hash tables */

    struct lw__names names; /* name.c */
    /* name.c: LW__CONTENDED_SLOTS, by the name's hash; NULL: no name has been noted */
    struct lw__contended *contended;

    /* claim.c */
    uint64_t next_n;
    struct lw__claim *lingering; /* claims that lw__claim_linger keeps */
    struct lw__claim *free_claims;
    unsigned free_claim_count, open_claims;
    struct lw__clock_pair last_clock; /* of the last reply that had one */
    bool closing;                     /* no claim lingers any longer */

    struct lw__renewals renewals;                 /* renewal.c */
    struct lw__cooldown cooldowns[LW__COOLDOWNS]; /* redisson.c */
    struct lw__redisson *redisson; /* redisson.c; NULL before the first waiter */
    bool cluster_logged;           /* redisson.c */
};

/* ==== the functions of each file, highest first ==== */

/* ---- retry.c ---- */

/* Waiters of `node` poll at once, and pending releases are sent. Claims behind a try do
 * so when it has ended. `verify`: holds are renewed as well. Called with `verify` when a
 * link came up, since it may be another server, and when the guard has changed. Called
 * without it when slots were bound, for the names in them alone, and when a quorum is up.
 */
void lw__retry_all(struct lw__holds *holds, const struct lw__node *node, bool verify);
/* Messages of this slot no longer arrive: its waiters poll at once. */
void lw__retry_slot(struct lw__holds *holds, const struct lw__node *node, unsigned slot);
/* Slots have moved: updates the node of each name. */
void lw__retry_remap_all(struct lw__holds *holds);

/* ---- redisson.c ---- */

/* Logs once that waiters will poll, if the server is in cluster mode. */
void lw__redisson_warn_of_cluster(struct lw__claim *claim);
/* The lock is held by another owner or by this claim, and handles wait for the claim. */
void lw__redisson_busy(struct lw__claim *claim);
void lw__redisson_released(struct lw__claim *claim, const struct lw__released *reply);
/* Returns how long, in us, the claim leaves the name to other clients. */
int64_t lw__redisson_cooldown_us(const struct lw__claim *claim);
/* Returns the longest time, in ms, that a claim sleeps while the lock is busy. */
int64_t lw__redisson_poll_ms(const struct lw__claim *claim);
void lw__redisson_close(struct lw__holds *holds); /* unsubscribes */

/* ---- renewal.c ---- */

void lw__renewal_init(struct lw__holds *holds);
void lw__renewal_clear(struct lw__holds *holds);
/* Computes again when the claim's next renewal is due. */
void lw__renewal_plan(struct lw__claim *claim);
/* Makes the claim's renewal due now, unless one is in flight. At a quorum it renews the
 * votes. */
void lw__renewal_now(struct lw__claim *claim);
/* Verifies the hold at once because its token was broken. A renewal that is in flight may
 * have been executed before that, so another one follows its reply. */
void lw__renewal_verify(struct lw__claim *claim);
/* Returns true if the guard allows to extend the claim's lease. */
bool lw__renewal_may_extend(const struct lw__claim *claim);
/* No renewal is due any longer, and the reply to one in flight is ignored. */
void lw__renewal_forget(struct lw__claim *claim);
/* Handles the reply to a renewal that was sent at sent_us and asked for this lease. */
void lw__renewal_answered(struct lw__claim *claim, bool renewed, int64_t sent_us,
                          uint32_t lease_ms);
/* Why the lease is not extended while lw__renewal_may_extend is false. */
extern const char lw__renewal_not_extended[];

/* ---- claim_message.c ---- */

/* A message on the client's channel. `arg` is its holds. */
void lw__claim_message(void *arg, const char *text, size_t length);
/* A message asks for the release of the hold: of this claim, or, called by ask.c, of one
 * of its votes. It may come before the reply by which the grant becomes known, on another
 * connection: then it is kept until the grant. */
void lw__claim_message_yield(struct lw__claim *claim);
/* Called by turns.c when a hold begins, and by ask.c when a vote is granted: returns true
 * if such a request was kept, and forgets it. */
bool lw__claim_message_kept(struct lw__claim *claim);

/* ---- claim_migrating.c ---- */

/* The mutex's acquire_one_key (struct lw__mode). */
bool lw__claim_migrating_acquire(struct lw__claim *claim, const char *error);

/* ---- claim.c ---- */

struct lw__claim_args {
    struct lw__name *name;
    const struct lw__mode *mode;
    uint32_t lease_ms, window_ms;
    uint32_t permits;   /* of a semaphore; else 0 */
    const char *owner;  /* of a read-write lock's hold: copied; or NULL */
    const char *adopts; /* the token whose hold is adopted: copied; NULL: it acquires */
    const char *note;   /* copied; or NULL */
};
/* Returns NULL if memory is short. */
struct lw__claim *lw__claim_new(struct lw__holds *holds,
                                const struct lw__claim_args *args);
/* Creates a claim that only releases this token: none of the client's claims has it. */
struct lw__claim *lw__claim_new_unknown(struct lw__holds *holds, struct lw__name *name,
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
/* Returns lw__machine_release_status for the claim's release, which has not ended. */
int lw__claim_release_status(const struct lw__claim *claim);
/* Sends the first request after `rest_us`, when the link is up, and when the try of the
 * claim ahead has ended. `ticket` is its place in the queue, or 0 if the server chooses
 * it. */
void lw__claim_start(struct lw__claim *claim, int64_t rest_us, int64_t ticket);
/* A claim that sleeps retries after `window_us` at the latest. */
void lw__claim_stand_by(struct lw__claim *claim, int64_t window_us);
static inline struct lw__token lw__claim_token(const struct lw__claim *claim)
{
    return (struct lw__token){claim->holds->uuid, claim->n, claim->window_ms};
}

/* Returns true if the claim's token has to stay in Redis after its release. */
static inline bool lw__claim_stays(const struct lw__claim *claim)
{
    return !lw__machine_asks(claim->machine.phase) && claim->held.stays_until_us != 0 &&
           claim->held.stays_until_us > lw__now_us();
}

/* Fills in `ret` and returns it, or NULL if the mode is no read-write lock. */
static inline const struct lw__rw *lw__claim_rw(const struct lw__claim *claim,
                                                struct lw__rw *ret)
{
    *ret =
        (struct lw__rw){claim->mode->write, claim->extras->permits, claim->extras->owner};
    return claim->mode->rw ? ret : NULL;
}

/* Called by turns.c in the event `ended`. Keeps a claim whose token stays
 * in Redis in holds->lingering, because a late message about the token must not release
 * it as an unknown one. `ended` is called again when the token's time has passed, or
 * after so many request time-outs that no such message can come any longer. Returns false
 * if the claim is to be freed now. */
bool lw__claim_linger(struct lw__claim *claim);

/* The client closes: frees the claims that linger, and keeps none from now on. */
void lw__claim_close(struct lw__holds *holds);
/* Frees the memory that is kept for claims to come. Called when all claims are freed. */
void lw__claim_clear(struct lw__holds *holds);

static inline struct lw__terms lw__claim_terms(const struct lw__claim *claim)
{
    struct lw__terms terms;

    claim->holds->events->terms(claim, &terms);
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
/* Called when a reply grants the name with a fencing token that is too small to be one.
 * The server has lost its counter, and `fence` is its clock, by which no other counter
 * can start. The outcome is then unknown. Returns false if `fence` is 0: no script of
 * ours replies that if a fencing token is wanted. */
bool lw__claim_without_fence(struct lw__claim *claim, uint64_t fence);
/* `fence` may be 0 if no waiter wants a fencing token. `drawn`: so many were drawn, of
 * which it is the first. */
void lw__claim_granted(struct lw__claim *claim, uint64_t fence, unsigned drawn,
                       int64_t sent_us);
/* Encodes SET NX PX with the claim's token. */
void lw__claim_put_set(struct lw__claim *claim, struct lw__buffer *out,
                       const struct lw__terms *terms);
/* The name is ours, by a SET that was sent then; the fencing token is not drawn yet.
 * Keeps that time in asking.sent_us. */
void lw__claim_note_set(struct lw__claim *claim, int64_t sent_us);
/* Returns the lease to request, in ms, and has the machine count the reply by it. */
uint32_t lw__claim_lease_ms(struct lw__claim *claim, int64_t lease_us);

/* ---- release.c ---- */

/* The ways to release: see the table in release.c. */
enum lw__release {
    LW__RELEASE_DETACH,
    LW__RELEASE_SHORT,
    LW__RELEASE_FAST,
    LW__RELEASE_FULL,
    LW__RELEASE_WAYS /* how many there are */
};

/* Called by claim.c when the machine wants a release to be sent. Returns the way, and
 * notes that the short one is chosen once only. */
enum lw__release lw__release_choose(struct lw__claim *claim, int64_t now_us);
/* For the types of the commands that claim.c sends, one for each way. */
void lw__release_encode(struct lw__command *command, struct lw__buffer *out);
void lw__release_encode_short(struct lw__command *command, struct lw__buffer *out);
void lw__release_encode_fast(struct lw__command *command, struct lw__buffer *out);
void lw__release_encode_detach(struct lw__command *command, struct lw__buffer *out);

/* ---- description.c ---- */

#define LW__ABOUT_SIZE 560 /* `who`, a note, and a number */

/* Returns NULL if memory is short. `note` may be NULL. */
struct lw__description *lw__description_new(struct lw__claim *claim, const char *note);
void lw__description_free(struct lw__description *description);
/* Called when a handle begins to hold. The claim's hold is described, if it is to be. */
void lw__description_granted(struct lw__claim *claim);
/* Called when the lease was extended: so is the description's, if there is one. */
void lw__description_send(struct lw__claim *claim);
/* Fills in the scripts' argument `about` for a claim that holds. Returns false if the
 * claim has neither `who` nor a description of its own. */
bool lw__description_about(const struct lw__claim *claim, char ret[LW__ABOUT_SIZE]);

/* ---- name.c ---- */

/* Both functions take a key, with the prefix. */
/* Returns the name, new or known, with one more reference; NULL if memory is short. */
struct lw__name *lw__name_get(struct lw__holds *holds, const char *text);
/* Returns the name, without a reference, or NULL if it is not in use. */
struct lw__name *lw__name_find(struct lw__holds *holds, const char *text);
/* Iterates over all names in use, in no order; NULL begins. `name` must still be in use,
 * and no name may be added during the iteration. */
struct lw__name *lw__name_after(const struct lw__holds *holds,
                                const struct lw__name *name);
/* Finds the name's node again. Returns true if it is another one. */
bool lw__name_remap(const struct lw__holds *holds, struct lw__name *name);
/* Called when the server has replied to a renewal, with its error or NULL. Returns true,
 * and notes, if it refused a script of several keys because the name's slot is migrating:
 * the claims of the name are then renewed alone. */
bool lw__name_note_renewal(struct lw__name *name, const char *error);
void lw__name_ref(struct lw__name *name);
/* `holds` is NULL if the client is gone and only handles use the name. */
void lw__name_unref(struct lw__holds *holds, struct lw__name *name);
/* The client is freed. Each name that handles still use is freed with the last of them.
 */
void lw__name_clear(struct lw__holds *holds);
/* Notes that another owner holds the name, or held it a moment ago. */
void lw__name_note_contended(struct lw__holds *holds, const struct lw__name *name);
/* Returns true if that was noted lately. */
bool lw__name_is_contended(const struct lw__holds *holds, const struct lw__name *name);
/* Returns true, from time to time, if a request that joins the queue now should also
 * extend the queue's TTL, for all waiters that joined it without doing so. */
bool lw__name_should_extend_queue(struct lw__holds *holds, const struct lw__name *name);
#endif
