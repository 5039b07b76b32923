/* SPDX-License-Identifier: MIT */
/* What a mode does, where the modes differ. */
#ifndef LW_MODE_H
#define LW_MODE_H
#include <stdbool.h>
#include <stdint.h>

struct lw__claim;
struct lw__dialect;
struct lw__name;
struct lw__released;
struct lw_lock;

/* Handles of one owner hold together, by one claim. */
struct lw__together {
    /* true: its owner has the lock already, or asks for it, or somebody is in line before
     * it; the handle has joined in, or was told. */
    bool (*join)(struct lw_lock *lock);
    void (*admit)(struct lw__claim *claim); /* held, or held longer: who waits enters */
    /* One of those who hold does no more. */
    void (*leave)(struct lw_lock *lock);
    /* It was refused, and handles go on waiting. */
    void (*refused)(struct lw__claim *claim);
};

/* Those of one client that wait for a name stand in line here, and not in Redis. */
struct lw__in_line {
    bool (*must_wait)(const struct lw__claim *claim);
    void (*moved)(struct lw__name *name, bool freed);
    void (*released)(struct lw__claim *claim, const struct lw__released *answer);
    int64_t (*poll_ms)(
        const struct lw__claim *claim); /* how long who is refused sleeps */
};

struct lw__mode {
    const struct lw__dialect *dialect;
    const struct lw__together *together; /* NULL: each handle by itself */
    const struct lw__in_line *in_line;   /* NULL: each claim asks for itself */
    bool tries;                          /* SET NX PX may come before the script */
    bool turns; /* handles of a client share a claim, and pass it on */
    bool write; /* of a read-write lock: writes */
};

extern const struct lw__mode lw__mode_table[]; /* by enum lw_mode */
#endif
