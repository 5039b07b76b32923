/* SPDX-License-Identifier: MIT */
/* Encodes commands, and scripts with their arguments, as bytes to send. Independent of
 * connections and of the state of a lock. `eval`: the script's text is sent in place of
 * its SHA-1, which the server does not know (NOSCRIPT). */
#ifndef LW_ENCODE_H
#define LW_ENCODE_H
#include "redis/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Arguments that depend on the server on which a script runs. */
struct lw__script_env {
    const char *fence;   /* the key of the fence counter */
    const char *numbers; /* lw__format_numbers, for the messages of a hand-over; or
                            LW__NO_HAND_OVER */
    const char *prefix;  /* of all keys; or "" */
    const char *channel; /* lw__format_channel_parts; NULL: neither a prefix nor a slot,
                            which scripts assume without it */
};

/* SET NX PX. If a fencing token is wanted, the caller appends the command that draws it.
 */
void lw__encode_try(struct lw__buffer *out, const char *name,
                    const struct lw__token *token, uint32_t lease_ms);

struct lw__acquire_args {
    const char *name;
    struct lw__token token;
    const struct lw__rw *rw; /* NULL for a mutex */
    struct lw__script_env site;
    uint32_t lease_ms;
    int64_t ticket;       /* -1 if not known yet */
    uint32_t max_waiting; /* does not join while so many others are queued; 0: joins */
    bool wait;            /* joins the queue if it is refused */
    bool fence;           /* wants a fencing token */
    bool keep;            /* joining also extends the queue's TTL */
};
void lw__encode_acquire(struct lw__buffer *out, bool eval,
                        const struct lw__acquire_args *args);
/* A lock shared with Redisson: uses only name, token and lease_ms. */
void lw__encode_redisson_acquire(struct lw__buffer *out, bool eval,
                                 const struct lw__acquire_args *args);

/* How the value of a key is compared and deleted: by a script, or by a command that the
 * server has for it. */
enum lw__fast_release {
    LW__FAST_RELEASE_SCRIPT,
    LW__FAST_RELEASE_DELIFEQ,
    LW__FAST_RELEASE_DELEX
};
/* Releases a mutex that has no queue mark; has no effect on one that has. */
void lw__encode_fast_release(struct lw__buffer *out, bool eval,
                             enum lw__fast_release method, const char *name,
                             const struct lw__token *token);

struct lw__release_args {
    const char *name;
    struct lw__token token;
    const struct lw__rw *rw; /* NULL for a mutex */
    struct lw__script_env site;
    bool in_short;  /* of a read-write lock: the short form of rw_release.lua */
    bool described; /* a mutex: its description is removed, too */
};
void lw__encode_release(struct lw__buffer *out, bool eval,
                        const struct lw__release_args *args);
void lw__encode_redisson_release(struct lw__buffer *out, bool eval,
                                 const struct lw__release_args *args);

struct lw__detach_args {
    const char *name;
    struct lw__token token;
    bool rw;
    struct lw__script_env site;
    /* The slot is migrating, so that the queue cannot be reached, and no waiter learns of
     * the lease. */
    bool one_key;
    /* If it is negative the key keeps its TTL, and a key without a TTL gets the absolute
     * value. */
    int64_t lease_ms;
    const char *about; /* describes the hold, unless `one_key`; or NULL */
};
/* Sets the lease of a token that will not be renewed. */
void lw__encode_detach(struct lw__buffer *out, bool eval,
                       const struct lw__detach_args *args);

struct lw__adopt_args {
    const char *name;
    const char *previous; /* the token to replace */
    struct lw__token token;
    const struct lw__rw *rw; /* NULL for a mutex; an owner of NULL or "" is any */
    struct lw__script_env site;
    uint32_t lease_ms;
    bool fence;        /* wants a fencing token */
    const char *about; /* describes the hold; or NULL */
};
void lw__encode_adopt(struct lw__buffer *out, bool eval,
                      const struct lw__adopt_args *args);
/* Describes the token's hold, of a mutex or a read-write lock. */
void lw__encode_describe(struct lw__buffer *out, bool eval, const char *prefix,
                         const char *name, const struct lw__token *token,
                         const char *about);
/* Releases the hold of this token, whichever client it belongs to, and hands over. */
void lw__encode_break(struct lw__buffer *out, bool eval, const char *name,
                      const char *token, bool rw, const struct lw__script_env *env);

struct lw__renew_args {
    const char *name;
    struct lw__token token;
    uint32_t lease_ms;
};
/* One lease is sent for all holds if their leases are equal, else one for each. `env` is
 * used by lw__encode_rw_renew only: the others do not hand over. */
void lw__encode_renew(struct lw__buffer *out, bool eval, size_t count,
                      const struct lw__renew_args *args,
                      const struct lw__script_env *env);
void lw__encode_rw_renew(struct lw__buffer *out, bool eval, size_t count,
                         const struct lw__renew_args *args,
                         const struct lw__script_env *env);
void lw__encode_redisson_renew(struct lw__buffer *out, bool eval, size_t count,
                               const struct lw__renew_args *args,
                               const struct lw__script_env *env);

/* For a slot that is migrating, so that the queue cannot be reached: these use the name's
 * key alone. The first one releases a hold without regard to waiters, the second one
 * extends one of a read-write lock. (A mutex's renewal uses no other key anyway.) */
void lw__encode_release_one_key(struct lw__buffer *out, bool eval, const char *name,
                                const char *token, bool rw);
void lw__encode_rw_keepalive(struct lw__buffer *out, bool eval,
                             const struct lw__renew_args *args);
/* Publishes `<letter> <token> <name>` on the channel of the token's client, which must be
 * lockwire's (lw__format_is_token). `slot` is the name's in a cluster, else LW__NO_SLOT.
 * The letter is one of those that struct lw__message lists without further arguments. */
void lw__encode_message(struct lw__buffer *out, char letter, const char *prefix, int slot,
                        const char *name, const char *token);

/* `one_key`: reads the name's own key only, and no queues. */
void lw__encode_inspect(struct lw__buffer *out, bool eval, const char *prefix,
                        const char *name, bool one_key, int most_holders,
                        int most_waiters);
/* One step of SCAN over about `count` of the server's keys. The first step has the cursor
 * "0". `pattern`, of the names behind the prefix, may be NULL. */
void lw__encode_list(struct lw__buffer *out, bool eval, const char *prefix,
                     const char *cursor, int count, const char *pattern);
/* Stores the text by which others identify a client; deletes it if `text` is NULL. */
void lw__encode_identity(struct lw__buffer *out, const char *prefix, const char *uuid,
                         const char *text);
/* Reads these texts of `count` clients. Only the first LW__UUID_SIZE - 1 bytes of each
 * uuid are used. */
void lw__encode_get_identities(struct lw__buffer *out, const char *prefix, size_t count,
                               const char *const *uuids);
void lw__encode_get_identity(struct lw__buffer *out, const char *prefix,
                             const char *uuid);

/* Draws the next fencing token. */
void lw__encode_fence_next(struct lw__buffer *out, const char *fence);
/* The same, where the counter may have been lost or set back. */
void lw__encode_fence_seed(struct lw__buffer *out, bool eval, const char *fence);
/* Raises the counter to `number` at least, for a mutex that the token holds. */
void lw__encode_fence_raise(struct lw__buffer *out, bool eval, const char *fence,
                            uint64_t number, const char *name,
                            const struct lw__token *token);
/* Asks for how long the server must not grant locks (guard.lua). `goes_on`: this
 * connection had a usable reply before. */
void lw__encode_guard(struct lw__buffer *out, bool eval, const char *prefix,
                      const char *identity, uint32_t guard_ms, bool goes_on);
/* Reads the guard record. */
void lw__encode_get_guard(struct lw__buffer *out, const char *prefix);
/* Extends the counter's TTL. */
void lw__encode_fence_extend(struct lw__buffer *out, const char *fence);
/* PUBSUB NUMSUB: counts a channel's subscribers at the server that is asked. */
void lw__encode_count(struct lw__buffer *out, const char *channel);
#endif
