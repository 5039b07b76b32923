/* SPDX-License-Identifier: MIT
 *
 * A reference model of one mutex and one read-write lock: the holders, the waiters, and
 * the messages. It is written from the rules, not from the scripts. It knows no time, no
 * Redis and no formats, and must stay independent of them.
 *
 * A test passes the script that is sent and its token; the model changes, and returns the
 * expected reply and the expected messages, in order. */
#ifndef SCRIPT_MODEL_H
#define SCRIPT_MODEL_H

#include <stdbool.h>

enum { MODEL_NOBODY = -1, MODEL_FOREIGN = -2, MODEL_OWNERS = 6, MODEL_CAPACITY = 256 };
enum { MODEL_DEAD_CLIENT = 2 }; /* clients 0 and 1 live */
enum { MODEL_FULL = -2 }; /* the position of a request that was refused by `limit` */
#define MODEL_NO_TICKET (-1LL)

struct model_token {
    char text[80];
    int client;
    int window;
    char kind; /* r, w, or 0 for a mutex's token */
    int owner;
    int permits;
    bool adopts; /* the token of an adopter, which never queues */
};

struct model_entry {
    int token;
    long long ticket; /* MODEL_NO_TICKET until a reply of the server contains it */
    bool ended; /* of a hold: its own lease has expired, which no script has noticed yet;
                   of a note: the waiter should have requested again by now */
};

struct model_list {
    struct model_entry entries[MODEL_CAPACITY];
    int count;
};

/* In the order in which the script made them. */
struct model_event {
    enum { MODEL_ANSWER, MODEL_TURN, MODEL_STANDBY } what;
    int token;  /* the token that is granted, or stands by */
    bool fresh; /* a new fencing token; otherwise the owner's present one */
    int window;
};

struct model_answer {
    int outcome; /* 1 granted, 0 refused, -1 deadlock */
    int released, left, again;
    int position;
    long long ticket; /* MODEL_NO_TICKET with a position: any new ticket */
    struct model_event events[MODEL_CAPACITY];
    int event_count;
};

struct model {
    const struct model_token *tokens;
    int holder;
    bool closed; /* the guard is closed: releases and renewals let in no waiter */
    int limit;   /* of waiters, beyond which a request does not join; 0: none */
    bool marked; /* the value has the queue mark */
    struct model_list queue;
    struct model_list holds;
    struct model_list rw_queue;
    struct model_list notes; /* while there are readers: the waiters' last requests */
};

void model_acquire(struct model *model, int token, bool wait, long long ticket,
                   struct model_answer *answer);
void model_release(struct model *model, int token, struct model_answer *answer);
void model_turn(struct model *model, int old, int token, bool wait, long long ticket,
                struct model_answer *answer);
/* A fast release, which does not read the queue. */
void model_drop(struct model *model, int token, struct model_answer *answer);
void model_renew(struct model *model, int token, struct model_answer *answer);
/* For both kinds. Adopting needs an old token of the same kind and owner. */
void model_detach(struct model *model, int token, struct model_answer *answer);
void model_adopt(struct model *model, int old, int token, struct model_answer *answer);

void model_rw_acquire(struct model *model, int token, bool wait, long long ticket,
                      struct model_answer *answer);
void model_rw_release(struct model *model, int token, struct model_answer *answer);
void model_rw_renew(struct model *model, int token, struct model_answer *answer);

/* Removes all holds with the key. */
void model_vanish(struct model *model);

int model_find(const struct model_list *list, int token);
void model_remove(struct model_list *list, int token);
/* Returns true if the head of the queue could enter. No script may leave such a state,
 * unless it returns `again`. */
bool model_head_could_enter(const struct model *model, bool rw);
/* Returns true unless one owner writes while another one holds. */
bool model_excludes(const struct model *model);

#endif
