/* SPDX-License-Identifier: MIT */
/*
 * The process that machine_orders.c stops, and its world: a server's model, the client
 * that holds before it and the one that waits behind it, messages on their way.
 * Independent of the order in which events are taken.
 *
 * Usual course: orders_pass_time, then one orders_...() for the next event; each path has
 * its own copy of the scene.
 */
#ifndef TEST_MACHINE_ORDERS_SCENE_H
#define TEST_MACHINE_ORDERS_SCENE_H
#include "machine_model.h"

#define MS 1000
#define WINDOW (1000 * MS)
#define LEASE (3000 * MS)
#define US MODEL_TOKEN(1, 1) /* the token of the process that is stopped */
#define OTHER MODEL_TOKEN(2, 1)
#define HOLDER MODEL_TOKEN(3, 1)
#define REQUEST_OF(whom)                                                                 \
    {                                                                                    \
        .kind = MODEL_ACQUIRE, .token = (whom), .wait = true, .ticket = MODEL_NO_TICKET  \
    }
#define MESSAGES 4

/* What the other clients do, at any time. */
enum { RELEASE_1, ACQUIRE_2, RELEASE_2, EVENTS_OF_OTHERS };
extern const int64_t others_us[EVENTS_OF_OTHERS];

struct scene {
    struct lw__machine machine;
    struct model server;
    int64_t now_us;
    unsigned others_done;
    struct model_message messages[MESSAGES]; /* on their way to us */
    size_t count;
    bool in_flight, executed, linked, lost_once, gave_up;
    bool excused; /* it ended without a link: the rest expires in Redis */
    int64_t sent_us, execute_us, pair_sent_us, pair_server_us;
    unsigned sent; /* LW__SEND_... */
    struct lw__input answer;
    enum { NO_RENEWAL, RENEWAL_SENT, RENEWAL_DONE } renewal; /* on the same link */
    int64_t renewal_us;
    bool renewed;
    const char *trail[32]; /* the events so far, for the message of a failure */
    size_t taken;
};

/* The counts of all paths. */
extern struct orders_counts {
    unsigned long nodes, paths, grants, by_message, losses;
} orders;

/* Fails, and prints the events so far. */
void orders_show(const struct scene *s, const char *what);
/* Checks that the token is never held past D, and D is never past the lease in Redis. */
void orders_check(const struct scene *s);
/* Executes, in order of time, all that happens on the server until then. A renewal runs
 * as soon as it is sent; its reply may be read late. */
void orders_pass_time(struct scene *s, int64_t until_us);

/* `what`: the event, for the message of a failure. */
void orders_step(struct scene *s, struct lw__input in, const char *what);
/* Checks the deadline, before anything else as the library's loop does. */
void orders_look_at_deadline(struct scene *s);
void orders_take_message(struct scene *s, size_t i);
void orders_take_answer(struct scene *s);
void orders_lose_link(struct scene *s);
void orders_send_renewal(struct scene *s);
void orders_take_renewal(struct scene *s);
void orders_give_up(struct scene *s);
void orders_link_up(struct scene *s);
void orders_due(struct scene *s);

#endif
