/* SPDX-License-Identifier: MIT */
/* What answers tell beside what was asked: the server's clock (only differences of it are
 * ever used), and which names somebody else had lately. Nothing rests on the latter. */
#ifndef LW_HINTS_H
#define LW_HINTS_H
#include <stdbool.h>
#include <stdint.h>

struct lw__claim;
struct lw__name;
struct lw_client;

/* When a request was sent, and what the server's clock said when it was answered. */
struct lw__pair {
    int64_t sent_us, server_us; /* server_us 0: none */
    unsigned connection;
};

/* A name that somebody else had lately, by its hash. */
struct lw__contended {
    uint32_t hash;
    int64_t until_us; /* so long it counts as that */
    int64_t kept_us;  /* when its queue was last told to live on */
};
#define LW__CONTENDED_SLOTS 256

struct lw__hints {
    struct lw__pair pair; /* of the client's last answer */
    struct lw__contended contended[LW__CONTENDED_SLOTS];
};

/* Remembers what an answer told of the server's clock. */
void lw__hints_note_clock(struct lw__claim *claim, int64_t sent_us, int64_t server_us);
/* The best pair of this connection for judging a hand-over at handed_us. */
struct lw__pair lw__hints_clock(const struct lw__claim *claim, int64_t handed_us);
void lw__hints_note_contended(struct lw_client *client, const struct lw__name *name);
bool lw__hints_is_contended(const struct lw_client *client, const struct lw__name *name);
/* Whether an ask that joins now shall have the queue live on for all who joined without:
 * yes at times. It is remembered as done. */
bool lw__hints_keep(struct lw_client *client, const struct lw__name *name);
#endif
