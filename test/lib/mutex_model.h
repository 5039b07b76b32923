/* SPDX-License-Identifier: MIT */
/*
 * A reference model of one mutex: the holder and the queue, which the call of a script
 * changes, and the expected reply and messages. It is written from the rules, not from
 * the scripts. It knows no time, no Redis and no formats: if a lease has expired, its
 * user removes the holder. The lists, calls and answers are also those of the read-write
 * lock's model (rw_model.h in test/integration/scripts).
 *
 * The model is a plain value, which may be copied. A token is any number from 0 on. Usual
 * course: mutex_model_run; the answer's events name the tokens that were granted.
 */
#ifndef TEST_MUTEX_MODEL_H
#define TEST_MUTEX_MODEL_H

#include <stdbool.h>

/* The most entries of a list. Tests that copy many models are compiled with fewer. */
#ifndef MODEL_CAPACITY
#define MODEL_CAPACITY 256
#endif
enum { MODEL_NOBODY = -1, MODEL_FOREIGN = -2 }; /* in place of a token */
enum { MODEL_DEAD_CLIENT = -1 };
enum { MODEL_FULL = -2 }; /* the position of a request that was refused by `limit` */
#define MODEL_NO_TICKET (-1LL)

/* These two are defined by the program that uses the model. The client of a token is
 * MODEL_DEAD_CLIENT if it has no subscription. Tokens with the same ticket are compared
 * as strcmp does, and queue in that order. */
int model_client(int token);
int model_compare(int token, int other);

struct model_entry {
    long long ticket; /* MODEL_NO_TICKET until the user sets it from the server's reply */
    int token;
    bool ended; /* of a hold: its own lease has expired, which no script has noticed yet;
                   of a note: the waiter should have requested again by now */
};

struct model_list {
    int count;
    struct model_entry entries[MODEL_CAPACITY];
};

/* A script and its arguments. */
struct model_call {
    enum model_kind {
        MODEL_TRY, /* no script, but a plain SET NX */
        MODEL_ACQUIRE,
        MODEL_RELEASE,
        MODEL_RELEASE_FAST,
        MODEL_RENEW,
        MODEL_DETACH,
        MODEL_ADOPT
    } kind;
    int token, old; /* old: the adopted token */
    bool wait;
    bool closed; /* the guard is closed, for releases and renewals: no waiter is let in */
    int limit;   /* of waiters, beyond which a request does not join; 0: none */
    long long ticket;
};

/* In the order in which the script made them. */
struct model_event {
    enum model_event_kind { MODEL_GRANTED, MODEL_HANDED_OVER, MODEL_STANDBY } what;
    int token;  /* the token that is granted, or stands by */
    bool fresh; /* a new fencing token; otherwise the owner's present one */
    int head;   /* of MODEL_STANDBY: the token that is granted, whose window it awaits;
                   MODEL_NOBODY: it awaits the end of a detached lease */
};

struct model_answer {
    int outcome; /* 1 granted, or held; 0 refused; -1 deadlock, or nothing to adopt */
    int released, left, again;
    int position;
    long long ticket; /* MODEL_NO_TICKET with a position: any new ticket */
    int event_count;
    struct model_event events[MODEL_CAPACITY];
};

struct mutex_model {
    int holder;
    bool marked; /* the value has the queue mark */
    struct model_list queue;
};

void mutex_model_run(struct mutex_model *mutex, const struct model_call *call,
                     struct model_answer *answer);

/* Returns the token's index, or -1. */
int model_find(const struct model_list *list, int token);
void model_remove(struct model_list *list, int token);
void model_remove_at(struct model_list *list, int i);
/* Appends the token; aborts if the list is full. */
void model_append(struct model_list *list, int token);
/* Inserts the token at the place of its ticket, unless it is in the list; sets the
 * answer's ticket. */
void model_join(struct model_list *queue, int token, long long ticket,
                struct model_answer *answer);
/* Returns true if the limit keeps the token out of the queue. */
bool model_full(const struct model_list *queue, int token, int limit);
void model_begin(struct model_answer *answer, long long ticket);
/* Has the first live waiter stand by for the end of a detached lease. The dead ones stay
 * in the queue. */
void model_detached(const struct model_list *queue, struct model_answer *answer);
/* Appends an event, unless it is a message to a dead client. */
void model_tell(struct model_answer *answer, enum model_event_kind what, int token,
                bool fresh, int head);

#endif
