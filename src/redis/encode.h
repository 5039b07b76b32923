/* SPDX-License-Identifier: MIT */
/* Commands and scripts with their arguments, as bytes to send. Must not know a
 * connection, nor a lock's state. `eval`: send the script's text, because the server does
 * not know its SHA-1 (NOSCRIPT). */
#ifndef LW_ENCODE_H
#define LW_ENCODE_H
#include "redis/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a script is told of where it runs. */
struct lw__script_env {
    const char *fence;   /* the key of the fence counter */
    const char *numbers; /* how the messages of a hand-over have them (format.h) */
};

/* SET NX PX, behind which goes what draws a number, if one is wanted. */
void lw__encode_try(struct lw__buffer *out, const char *name,
                    const struct lw__token *token, uint32_t lease_ms);

struct lw__acquire_args {
    const char *name;
    struct lw__token token;
    const struct lw__token *previous; /* to be released in the same script; or NULL */
    const struct lw__rw *rw;          /* NULL: a mutex */
    struct lw__script_env site;
    uint32_t lease_ms;
    int64_t ticket; /* -1: none yet */
    bool wait, fence;
    bool keep; /* who waits has the queue live on */
};
void lw__encode_acquire(struct lw__buffer *out, bool eval,
                        const struct lw__acquire_args *args);
/* Of a lock shared with Redisson: the name, the token and the lease count. */
void lw__encode_redisson_acquire(struct lw__buffer *out, bool eval,
                                 const struct lw__acquire_args *args);

/* How the value of a key is compared and deleted: by a script, or by the command of a
 * server that has one. */
enum lw__fast_release {
    LW__FAST_RELEASE_SCRIPT,
    LW__FAST_RELEASE_DELIFEQ,
    LW__FAST_RELEASE_DELEX
};
/* Releases a mutex that nobody queues for. */
void lw__encode_fast_release(struct lw__buffer *out, bool eval,
                             enum lw__fast_release drop, const char *name,
                             const struct lw__token *token);

struct lw__release_args {
    const char *name;
    struct lw__token token;
    const struct lw__rw *rw; /* NULL: a mutex */
    struct lw__script_env site;
};
void lw__encode_release(struct lw__buffer *out, bool eval,
                        const struct lw__release_args *args);
void lw__encode_redisson_release(struct lw__buffer *out, bool eval,
                                 const struct lw__release_args *args);
/* Takes the lock from this token, whosever it is, and hands it over. */
void lw__encode_break(struct lw__buffer *out, bool eval, const char *name,
                      const char *token, bool rw, const struct lw__script_env *site);

struct lw__renew_args {
    const char *name;
    struct lw__token token;
    uint32_t lease_ms;
};
/* One lease goes out for all where they are alike, else one for each. A mutex's renewal
 * hands nothing over, and needs no site. */
void lw__encode_renew(struct lw__buffer *out, bool eval, size_t count,
                      const struct lw__renew_args *args,
                      const struct lw__script_env *site);
void lw__encode_rw_renew(struct lw__buffer *out, bool eval, size_t count,
                         const struct lw__renew_args *args,
                         const struct lw__script_env *site);
void lw__encode_redisson_renew(struct lw__buffer *out, bool eval, size_t count,
                               const struct lw__renew_args *args,
                               const struct lw__script_env *site);

/* By the name alone, whose queue cannot be reached: gives a hold back, whoever waits, and
 * extends one of a read-write lock (a mutex's renewal is of the name alone as it is). */
void lw__encode_leave(struct lw__buffer *out, bool eval, const char *name,
                      const struct lw__token *token, bool rw);
/* Asks the client of a token that was broken to verify its hold. `slot`: the name's in a
 * cluster, or -1. The token must be one of some client (lw__format_is_token). */
void lw__encode_verify(struct lw__buffer *out, int slot, const char *name,
                       const char *token);
void lw__encode_break_alone(struct lw__buffer *out, bool eval, const char *name,
                            const char *token, bool rw);
void lw__encode_rw_keep(struct lw__buffer *out, bool eval,
                        const struct lw__renew_args *args);

/* `alone`: of the name's own key, and of no queue. */
void lw__encode_inspect(struct lw__buffer *out, bool eval, const char *name, bool alone,
                        int most_holders, int most_waiters);
/* One step through the server's keys, about so many of them; from the cursor "0" on.
 * `pattern` may be NULL. */
void lw__encode_list(struct lw__buffer *out, bool eval, const char *cursor, int count,
                     const char *pattern);
/* Who a client is, for whoever looks. NULL: not any more. */
void lw__encode_identity(struct lw__buffer *out, const char *uuid, const char *text);
/* The same of `count` clients, by the first LW__UUID_SIZE - 1 bytes of each uuid. */
void lw__encode_get_identities(struct lw__buffer *out, size_t count,
                               const char *const *uuids);
void lw__encode_get_identity(struct lw__buffer *out, const char *uuid);

void lw__encode_fence_next(struct lw__buffer *out, const char *fence);
void lw__encode_fence_seed(struct lw__buffer *out, bool eval, const char *fence);
/* PEXPIRE: the counter lives on. */
void lw__encode_fence_extend(struct lw__buffer *out, const char *fence);
/* How many subscribe to a channel at the server that is asked: PUBSUB NUMSUB. */
void lw__encode_count(struct lw__buffer *out, const char *channel);
#endif
