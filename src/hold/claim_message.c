/* SPDX-License-Identifier: MIT */
/* The messages to a client: hand-overs, standbys, reports that a token was broken, and
 * requests to release it. This file finds the claim that a message is for. It decides
 * nothing about a lock (machine.c), and does not know how messages arrive
 * (redis/listener.c).
 *
 * Usual course: a hand-over comes from the name's server, with the server's time. It is
 * judged by the last reply on that connection that is not later, which says how old the
 * hand-over can be.
 *
 * Failures: a message that cannot be judged, because it is of another server or because
 * the guard is closed, only makes the claim ask at once. A hand-over to an unknown token
 * is released by a claim made for it; without memory it expires. A text that no script of
 * ours publishes is logged and ignored. */
#include "hold/hold.h"

#include "base/log.h"
#include "loop/loop.h"
#include "redis/format.h"
#include "redis/node.h"

#include <string.h>
#include <syslog.h>
#include <utlist.h>

static struct lw__claim *find_claim(struct lw__holds *holds, const struct lw__message *m)
{
    struct lw__name *name = lw__name_find(holds, m->name);
    struct lw__claim *claim = NULL;

    if (name != NULL) { /* FIFO: it is among the first */
        DL_SEARCH_SCALAR(name->claims, claim, n, m->token.n);
    }
    if (claim == NULL) {
        DL_SEARCH_SCALAR(holds->lingering, claim, n, m->token.n);
    }
    return claim;
}

/* A hand-over to a token that no claim has: a command of a connection long gone had
 * requested the lock. */
static void release_unknown(struct lw__holds *holds, const struct lw__message *message)
{
    /* the script of shared holds releases either kind */
    const struct lw__mode *mode = &holds->modes[message->rw ? LW_SHARED : LW_MUTEX];
    struct lw__name *name = lw__name_get(holds, message->name);
    struct lw__claim *claim;

    if (name == NULL) {
        return;
    }
    claim = lw__claim_new_unknown(holds, name, mode, &message->token);
    lw__name_unref(holds, name);
    if (claim != NULL) {
        lw__claim_event(claim, LW__EV_RELEASE);
    }
}

/* Returns true if the message is from the server to which the name's commands go. A
 * subscription at another server receives what that one granted, or what its master did,
 * by another clock. */
static bool is_of_our_server(const struct lw__name *name, const struct lw__message *m)
{
    return lw__node_is_bound(name->node, name->slot) && *m->server &&
           strcmp(m->server, lw__node_server(name->node)) == 0;
}

/* Returns true if the request in flight goes to another server than the name's, so that
 * its reply has another clock. */
static bool asks_elsewhere(const struct lw__claim *claim)
{
    return claim->machine.phase == LW__ACQUIRING && claim->command.request.prev != NULL &&
           lw__node_of_command(&claim->command) != claim->name->node;
}

/* Returns the clock pair by which to judge a hand-over at `handed_us`: of the last reply
 * on this connection that is not later; or none. */
static struct lw__clock_pair clock_before(const struct lw__claim *claim,
                                          int64_t handed_us)
{
    const struct lw__clock_pair *last = &claim->holds->last_clock;
    unsigned connection = lw__node_connection(claim->name->node);

    if (last->connection == connection && last->server_us <= handed_us) {
        return *last;
    }
    if (lw__machine_asks(claim->machine.phase) &&
        claim->asking.connection == connection) {
        return (struct lw__clock_pair){claim->asking.sent_us, claim->asking.server_us,
                                       connection};
    }
    return (struct lw__clock_pair){0};
}

static void take_hand_over(struct lw__claim *claim, const struct lw__message *message)
{
    struct lw__clock_pair clock = clock_before(claim, message->handed_us);
    struct lw__input input = {
        .event = LW__EV_HANDED_OVER,
        .handed_over = {
            .handed_us = message->handed_us,
            .fence = message->fence >= (uint64_t)LW__FENCE_MIN ? message->fence : 0,
            .pair_sent_us = clock.sent_us,
            .pair_server_us = clock.server_us}};

    lw__claim_step(claim, &input);
}

static void take_standby(struct lw__claim *claim, const struct lw__message *message)
{
    if (lw__machine_asks(claim->machine.phase)) {
        claim->asking.place = 1;
    }
    lw__claim_stand_by(claim, message->window_ms * LW__MS);
}

void lw__claim_message_yield(struct lw__claim *claim)
{
    if (lw__machine_holds(claim->machine.phase)) {
        claim->holds->events->asked(claim);
    } else { /* if it neither holds nor asks, the request is too late */
        claim->yields = lw__machine_asks(claim->machine.phase);
    }
}

bool lw__claim_message_kept(struct lw__claim *claim)
{
    bool yields = claim->yields;

    claim->yields = false;
    return yields;
}

void lw__claim_message(void *arg, const char *text, size_t length)
{
    struct lw__holds *holds = arg;
    struct lw__message message;
    struct lw__claim *claim;

    if (!lw__format_read_message(text, length, holds->uuid, &message) ||
        strncmp(message.name, holds->prefix, holds->prefix_length) != 0) {
        lw__log_cause(holds->log, lw__now_us(), LOG_NOTICE,
                      "unknown message ignored, on the channel of client %s",
                      holds->uuid);
        return;
    }
    claim = find_claim(holds, &message);
    if (claim == NULL) {
        if (message.handed) {
            release_unknown(holds, &message);
        }
    } else if (message.verify) { /* a hint, which is not believed without a renewal */
        holds->events->broken(claim);
    } else if (message.yield) {
        lw__claim_message_yield(claim);
    } else if (!message.handed) {
        take_standby(claim, &message);
    } else if (is_of_our_server(claim->name, &message) && !asks_elsewhere(claim) &&
               lw__node_guard_left_us(claim->name->node) == 0) {
        take_hand_over(claim, &message);
    } else {
        lw__claim_step(claim, &(struct lw__input){.event = LW__EV_RETRY_NOW});
    }
}
