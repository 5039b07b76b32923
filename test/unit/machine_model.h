/* SPDX-License-Identifier: MIT */
/*
 * One server with one name, as the mutex scripts leave it: the holder and its lease, the
 * queue, the counter, messages. It is a plain value, so that a test may copy it and try
 * all that can follow. Uses the replies' form (machine.h), and no machine.
 *
 * A token is <client> * 65536 + <number>; client 0 is foreign, and never queues. Usual
 * course: model_acquire, model_release; the outbox has the published messages.
 */
#ifndef TEST_MACHINE_MODEL_H
#define TEST_MACHINE_MODEL_H
#include "lock/machine.h"

#include <stddef.h>

#define MODEL_QUEUE 16
#define MODEL_OUTBOX 8
#define MODEL_CLIENT(token) ((token) >> 16)
#define MODEL_TOKEN(client, number) ((unsigned)(client) << 16 | (unsigned)(number))

struct model_message {
    unsigned token;
    bool handed; /* else standby */
    uint64_t fence;
    int64_t us;        /* the server's TIME, if handed */
    int64_t window_us; /* the window after which to claim */
};

struct model {
    int64_t ahead_us;     /* the server's clock: ahead by this at 0, */
    int64_t ppm;          /* and faster by this many millionths */
    int64_t window_us;    /* of every token */
    unsigned deaf;        /* clients without subscribers, as bits */
    unsigned holder;      /* 0: the name is free */
    int64_t ends_us;      /* when the holder's lease ends, by the server's clock */
    uint64_t last_number; /* of the fence counter */
    size_t queued, messages;
    struct {
        unsigned token;
        int64_t ticket;
    } queue[MODEL_QUEUE];
    struct model_message outbox[MODEL_OUTBOX]; /* the user empties it */
};

int64_t model_time(const struct model *model, int64_t now_us);
bool model_has(const struct model *model, unsigned token); /* holds, or is queued */
/* SET NX with INCR, and the scripts. Each fills in the event of its reply in `ret`, and
 * its fields. */
void model_try(struct model *model, int64_t now_us, unsigned token, int64_t lease_us,
               struct lw__input *ret);
void model_acquire(struct model *model, int64_t now_us, unsigned token, int64_t lease_us,
                   bool wait, int64_t ticket, struct lw__input *ret);
void model_turn(struct model *model, int64_t now_us, unsigned previous, unsigned token,
                int64_t lease_us, bool wait, int64_t ticket, struct lw__input *ret);
void model_release(struct model *model, int64_t now_us, unsigned token,
                   struct lw__input *ret);
bool model_renew(struct model *model, int64_t now_us, unsigned token, int64_t lease_us);
#endif
