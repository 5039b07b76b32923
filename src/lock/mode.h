/* SPDX-License-Identifier: MIT */
/* What a mode does, where the modes differ. */
#ifndef LW_MODE_H
#define LW_MODE_H
#include "redis/encode.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__acquired;
struct lw__claim;
struct lw__name;
struct lw__released;
struct lw__reply;

/* Those of one client that wait for a name stand in line here, and not in Redis. */
struct lw__in_line {
    /* A claim that is new may not ask yet; `moved` will have it ask. */
    bool (*must_wait)(const struct lw__claim *claim);
    /* A claim of the name has made a step; `freed`: it has the lock no more. */
    void (*moved)(struct lw__name *name, bool freed);
    void (*held)(struct lw__claim *claim); /* or held longer */
    /* Somebody has it, and handles go on waiting. */
    void (*refused)(struct lw__claim *claim);
    void (*released)(struct lw__claim *claim, const struct lw__released *answer);
    /* How long who is refused sleeps. */
    int64_t (*poll_ms)(const struct lw__claim *claim);
};

/* What is about the name's key alone, where a node of a cluster said that the slot is on
 * its way to another one. false: this is no such error, or nothing can be said so. */
struct lw__by_key {
    bool (*ask)(struct lw__claim *claim, const char *error);
    bool (*release)(struct lw__claim *claim, const char *error);
};

struct lw__mode {
    /* what is said to the server, and how its answers are read */
    void (*encode_acquire)(struct lw__buffer *out, bool eval,
                           const struct lw__acquire_args *args);
    /* Releases what nobody queues for, with a look at the name alone; NULL: always by
     * `encode_release`. */
    void (*encode_drop)(struct lw__buffer *out, bool eval, enum lw__fast_release drop,
                        const char *name, const struct lw__token *token);
    void (*encode_release)(struct lw__buffer *out, bool eval,
                           const struct lw__release_args *args);
    void (*encode_renew)(struct lw__buffer *out, bool eval, size_t count,
                         const struct lw__renew_args *args,
                         const struct lw__script_env *site);
    bool (*decode_acquired)(const struct lw__reply *reply, bool turn,
                            struct lw__acquired *ret);
    bool (*decode_released)(const struct lw__reply *reply, struct lw__released *ret);
    /* Who holds, where the caller gave no owner. */
    size_t (*format_owner)(const struct lw__token *token, char ret[LW__TOKEN_SIZE]);
    const struct lw__in_line *in_line; /* NULL: each claim asks for itself */
    const struct lw__by_key *by_key;   /* NULL: it is for no cluster */
    bool rw;                           /* requests are those of a read-write lock */
    bool fenced;                       /* its grants have numbers */
    bool together; /* handles of one owner hold by one claim (together.c) */
    bool tries;    /* SET NX PX may come before the script */
    bool turns;    /* handles of a client share a claim, and pass it on */
    bool write;    /* where `rw`: writes */
};

extern const struct lw__mode lw__mode_table[]; /* by enum lw_mode */
#endif
