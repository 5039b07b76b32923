/* SPDX-License-Identifier: MIT
 *
 * Owns: a reference model of one mutex and one read-write lock: who holds, who waits, who
 * is told. Written from the rules, not from the scripts; it knows no time, no Redis, no
 * formats, and must not learn them.
 *
 * Happy path: the test says which script is sent for which token; the model changes and
 * says what must be answered and which messages must be sent, in order. */
#ifndef SCRIPT_MODEL_H
#define SCRIPT_MODEL_H

#include <stdbool.h>

enum { MODEL_NOBODY = -1, MODEL_FOREIGN = -2, MODEL_OWNERS = 6, MODEL_CAPACITY = 256 };
enum { MODEL_DEAD_CLIENT = 2 }; /* 0 and 1 live */
enum { MODEL_FULL = -2 }; /* the position of a request that was refused by `limit` */
#define MODEL_NO_TICKET (-1LL)

struct model_token {
    char text[80];
    int client;
    int window;
    char kind; /* r, w; 0: a mutex's */
    int owner;
    int permits;
    bool adopts; /* the token of an adopter, which never queues */
};

struct model_entry {
    int token;
    long long ticket; /* MODEL_NO_TICKET until the server's answer says it */
    bool ended;       /* of a hold: its own lease is over, nobody saw it yet; of a note:
                         the waiter should have asked again */
};

struct model_list {
    struct model_entry entries[MODEL_CAPACITY];
    int count;
};

/* In the order in which the script made them. */
struct model_event {
    enum { MODEL_ANSWER, MODEL_TURN, MODEL_STANDBY } what;
    int token;  /* whose grant or standby */
    bool fresh; /* a new number; else the owner's present one */
    int window;
};

struct model_answer {
    int outcome; /* 1 granted, 0 refused, -1 deadlock */
    int released, left, again;
    int position;
    long long ticket; /* MODEL_NO_TICKET with a position: any new one */
    struct model_event events[MODEL_CAPACITY];
    int event_count;
};

struct model {
    const struct model_token *tokens;
    int holder;
    bool closed; /* the guard: releases and renewals let in no waiter */
    int limit;   /* a request does not join while so many others wait; 0: none */
    bool marked; /* its value says that the queue is to be looked at */
    struct model_list queue;
    struct model_list holds;
    struct model_list rw_queue;
    struct model_list notes; /* while some read: who waits and when it asked, if known */
};

void model_acquire(struct model *model, int token, bool wait, long long ticket,
                   struct model_answer *answer);
void model_release(struct model *model, int token, struct model_answer *answer);
void model_turn(struct model *model, int old, int token, bool wait, long long ticket,
                struct model_answer *answer);
/* A release without a look at the queue. */
void model_drop(struct model *model, int token, struct model_answer *answer);
void model_renew(struct model *model, int token, struct model_answer *answer);
/* Either kind. Adopting needs an old token of the same kind and owner. */
void model_detach(struct model *model, int token, struct model_answer *answer);
void model_adopt(struct model *model, int old, int token, struct model_answer *answer);

void model_rw_acquire(struct model *model, int token, bool wait, long long ticket,
                      struct model_answer *answer);
void model_rw_release(struct model *model, int token, struct model_answer *answer);
void model_rw_renew(struct model *model, int token, struct model_answer *answer);

/* All holds vanish with the key. */
void model_vanish(struct model *model);

int model_find(const struct model_list *list, int token);
void model_remove(struct model_list *list, int token);
/* The rule that no script may leave broken, unless it says `again`. */
bool model_head_could_enter(const struct model *model, bool rw);
/* Nobody writes while another owner holds. */
bool model_excludes(const struct model *model);

#endif
