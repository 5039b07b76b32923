/* SPDX-License-Identifier: MIT
 *
 * A reference model of one read-write lock, in the manner of the mutex's (mutex_model.h):
 * the holders, the waiters, and the messages. It is written from the rules, not from the
 * scripts, and must stay independent of time, Redis and formats.
 *
 * A test passes the script that is sent and its token, an index; the model changes, and
 * returns the expected reply and the expected messages, in order. */
#ifndef RW_MODEL_H
#define RW_MODEL_H

#include "mutex_model.h"

enum { MODEL_OWNERS = 6 };

struct model_token { /* of either lock */
    char text[80];
    int client; /* 0 and 1 live */
    int window;
    char kind; /* r, w, or 0 for a mutex's token */
    int owner;
    int permits;
    bool adopts; /* the token of an adopter, which never queues */
};

struct rw_model {
    const struct model_token *tokens;
    struct model_list holds;
    struct model_list queue;
    struct model_list notes; /* while there are readers: the waiters' last requests */
};

/* Adopting needs an old token of the same kind and owner. */
void rw_model_run(struct rw_model *model, const struct model_call *call,
                  struct model_answer *answer);

/* Returns true if the head of the queue could enter. No script that reads the queue may
 * leave such a state. */
bool rw_model_head_could_enter(const struct rw_model *model);
/* Returns true unless one owner writes while another one holds. */
bool rw_model_excludes(const struct rw_model *model);

#endif
