/* SPDX-License-Identifier: MIT */
/*
 * One server with one name, as the mutex scripts leave it: who has the name until when,
 * the queue, the counter, messages. A plain value, so that a test may copy it and try
 * what comes next in every way. Knows the answers' form (machine.h) and no machine.
 *
 * A token is <client> * 65536 + <number>; client 0 is a stranger, who never queues.
 * Happy path: model_acquire, model_release; the outbox has what was published.
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
    int64_t window_us; /* to stand by for */
};

struct model {
    int64_t ahead_us;     /* the server's clock: ahead by this at 0, */
    int64_t ppm;          /* and faster by this many millionths */
    int64_t window_us;    /* every token's */
    unsigned deaf;        /* clients of which nobody listens, as bits */
    unsigned holder;      /* 0: nobody */
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
bool model_has(const struct model *model, unsigned token); /* the name, or a place */
/* What SET NX and INCR, and the scripts, answer; `ret` gets the fields of the answer and
 * its event. */
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
