/* SPDX-License-Identifier: MIT */
/*
 * One server with one name: the mutex (mutex_model.h) with what a machine sees of it, the
 * server's time, leases, fencing tokens, messages and replies. It is a plain value, so
 * that a test may copy it and try all that can follow. Uses the replies' form
 * (machine.h), and no machine.
 *
 * A token is <client> * 65536 + <number>. Usual course: model_run with MODEL_ACQUIRE,
 * then with MODEL_RELEASE; the outbox has the published messages.
 */
#ifndef TEST_MACHINE_MODEL_H
#define TEST_MACHINE_MODEL_H
#include "hold/machine.h"
#include "mutex_model.h"

#include <stddef.h>

#define MODEL_OUTBOX 8
#define MODEL_CLIENT(token) ((token) / 65536)
#define MODEL_TOKEN(client, number) ((client)*65536 + (number))

struct model_message {
    int token;
    bool handed; /* else standby */
    uint64_t fence;
    int64_t us;        /* the server's TIME, if handed */
    int64_t window_us; /* the window after which to claim */
};

struct model {
    int64_t ahead_us;  /* the server's clock: ahead by this at 0, */
    int64_t ppm;       /* and faster by this many millionths */
    int64_t window_us; /* of every token */
    struct mutex_model mutex;
    int64_t ends_us;      /* when the holder's lease ends, by the server's clock */
    uint64_t last_number; /* of the fence counter */
    size_t messages;
    struct model_message outbox[MODEL_OUTBOX]; /* the user empties it */
};

int64_t model_time(const struct model *model, int64_t now_us);
bool model_has(const struct model *model, int token); /* holds, or is queued */
/* Sets the event of the reply and its fields; the others stay as they are. */
void model_run(struct model *model, int64_t now_us, int64_t lease_us,
               const struct model_call *call, struct lw__input *reply);
#endif
