/* SPDX-License-Identifier: MIT */
/* What is said to the server where the modes differ in it, and how its answers are
 * read. */
#ifndef LW_DIALECT_H
#define LW_DIALECT_H
#include "redis/encode.h"
#include "redis/format.h"

#include <stdbool.h>
#include <stddef.h>

struct lw__acquired;
struct lw__buffer;
struct lw__released;
struct lw__reply;

struct lw__dialect {
    void (*acquire)(struct lw__buffer *out, bool eval,
                    const struct lw__acquire_args *args);
    void (*release)(struct lw__buffer *out, bool eval,
                    const struct lw__release_args *args);
    void (*renew)(struct lw__buffer *out, bool eval, size_t count,
                  const struct lw__renew_args *args, const char *server);
    bool (*acquired)(const struct lw__reply *reply, bool turn, struct lw__acquired *ret);
    bool (*released)(const struct lw__reply *reply, struct lw__released *ret);
    /* Who holds, where the caller gave no owner. */
    size_t (*owner)(const struct lw__token *token, char ret[LW__TOKEN_SIZE]);
    /* Releases what nobody queues for, with a look at the name alone; NULL: always by
     * `release`. */
    void (*drop)(struct lw__buffer *out, bool eval, enum lw__drop drop, const char *name,
                 const struct lw__token *token);
    bool rw;     /* requests are those of a read-write lock */
    bool fenced; /* its grants have numbers */
};

extern const struct lw__dialect lw__dialect_mutex, lw__dialect_rw, lw__dialect_redisson;
#endif
