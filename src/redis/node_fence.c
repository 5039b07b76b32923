/* SPDX-License-Identifier: MIT */
/* The fence counter of a node's server: its first number of each connection, and that it
 * lives on. Must not know who draws numbers. Happy path: lw__node_seed as soon as the
 * command link is ready, so that the first number of a connection is never below one
 * drawn before a failover; the number's answer, and the node is up. Where none can be had
 * (no permission, no memory, a clock that was never set) it is up as well, and
 * lw__node_unseeded says why; whoever asks has it tried again. */
#include "redis/node_inside.h"

#include "base/log.h"
#include "base/owner.h"
#include "base/told.h"
#include "lockwire.h"
#include "loop/now.h"
#include "redis/classify.h"
#include "redis/cluster_says.h"
#include "redis/decode.h"
#include "redis/encode.h"
#include "redis/reply.h"
#include "redis/slot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#define RESEED_US                                                                        \
    (6 * 3600 * (int64_t)1000 * LW__MS) /* of the day that a counter lives */

static unsigned char bit_of(unsigned slot)
{
    return (unsigned char)(1U << (slot % 8));
}

struct lw__site lw__node_site(struct lw__node *node, unsigned slot)
{
    if (node->seeded == NULL) {
        return (struct lw__site){LW__FENCE_KEY, node->numbers};
    }
    (void)lw__format_fence(slot, node->fence);
    return (struct lw__site){node->fence, node->numbers};
}

bool lw__node_is_seeded(const struct lw__node *node, unsigned slot)
{
    return node->seeded == NULL || (node->seeded[slot / 8] & bit_of(slot)) != 0;
}

void lw__node_put_seed(struct lw__node *node, unsigned slot, struct lw__buffer *out)
{
    lw__encode_fence_seed(out, !node->seed_known, lw__node_site(node, slot).fence);
}

void lw__node_seed_first(struct lw__command *command, unsigned slot,
                         struct lw__buffer *out)
{
    struct lw__node *node = lw__node_of(command);

    if (lw__node_is_seeded(node, slot)) {
        return;
    }
    lw__node_put_seed(node, slot, out);
    command->request.second = (uint32_t)out->length;
    command->request.expected = 2;
}

static void put_seed(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__node *node = LW__OWNER(struct lw__node, seed, command);

    lw__encode_fence_seed(out, lw__command_evals(command),
                          lw__node_site(node, node->seed_slot).fence);
}

static void came_up(struct lw__node *node)
{
    if (node->up) {
        return;
    }
    node->up = true;
    node->why[0] = '\0';
    node->events->up(node->arg, node);
}

static void unseed(struct lw__node *node, int level, enum lw__error_class class,
                   const char *why)
{
    if (node->unseeded.why[0] == '\0') {
        lw__log(node->options.access.log, level, "the fence counter cannot be set: %s",
                why);
    }
    node->unseeded.class = class;
    lw__told(why, node->unseeded.why, sizeof(node->unseeded.why));
}

void lw__node_doubt_clock(struct lw__node *node, int64_t number)
{
    time_t seconds = (time_t)(number / 1000000);
    struct tm date = {0};
    char why[LW__WHY], day[16] = "";

    if (gmtime_r(&seconds, &date) != NULL) {
        (void)strftime(day, sizeof(day), "%Y-%m-%d", &date);
    }
    (void)snprintf(
        why, sizeof(why),
        "the server's clock is wrong, it says %s: no fencing token can be made of that, "
        "only locks without one are granted until it is right",
        day);
    unseed(node, LOG_ERR, LW__ERR_TRANSIENT, why);
}

static void mark_seeded(struct lw__node *node, unsigned slot)
{
    node->unseeded.why[0] = '\0';
    if (node->seeded != NULL) {
        node->seeded[slot / 8] |= bit_of(slot);
        node->seed_slot = slot;
        node->seed_known = true;
    }
}

static void seed_refused(struct lw__node *node, unsigned slot, const char *why)
{
    enum lw__error_class class = lw__classify(why);
    struct lw__redirect elsewhere;

    if (node->seeded != NULL && lw__cluster_says_redirect(why, strlen(why), &elsewhere)) {
        return; /* the slot is elsewhere by now: nobody's fault here */
    }
    if (class == LW__ERR_NOSCRIPT) {
        node->seed_known = false;
    } else if (class != LW__ERR_LINK) {
        node->seed_slot = slot;
        unseed(node, LOG_WARNING, class, why);
    }
}

bool lw__node_seed_told(struct lw__node *node, unsigned slot,
                        const struct lw__reply *reply)
{
    int64_t number = lw__reply_integer(reply);

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        seed_refused(node, slot, lw__reply_text(reply, NULL));
    } else if (number < 1) {
        return false;
    } else if (number < LW__FENCE_MIN) {
        lw__node_doubt_clock(node, number);
    } else {
        mark_seeded(node, slot);
    }
    return true;
}

/* Locks work without numbers (no memory for the counter, no permission, a clock that was
 * never set), but not on a link that is ended for what was answered: a replica is never
 * `up`. */
static bool seeded(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__node *node = LW__OWNER(struct lw__node, seed, command);

    if (!lw__node_seed_told(node, node->seed_slot, reply)) {
        return false;
    }
    if (lw__reply_type(reply) != LW__REPLY_ERROR ||
        lw__classify(lw__reply_text(reply, NULL)) != LW__ERR_LINK) {
        came_up(node);
    }
    return true;
}

static const struct lw__command_type seed_type = {put_seed, seeded, NULL, LW__ORDER_KEEP,
                                                  .stays = true};

void lw__node_seed(struct lw__node *node)
{
    /* Each connection begins with it; what waits for one would be in its way. */
    if (node->seed.request.prev != NULL || node->commands.state != LW__SESSION_READY) {
        return;
    }
    lw__node_submit(node, &node->seed, &seed_type);
}

void lw__node_forget_seeds(struct lw__node *node)
{
    if (node->seeded != NULL) {
        memset(node->seeded, 0, LW__SLOTS / 8);
        node->seed_known = false;
        node->reseed_us = lw__now_us() + RESEED_US;
    }
}

int lw__node_fence_init(struct lw__node *node)
{
    if (!node->options.clustered) {
        return 0;
    }
    node->seed_slot = node->options.slot;
    node->seeded = calloc(1, LW__SLOTS / 8);
    return node->seeded != NULL ? 0 : LW_ENOMEM;
}

/* The heartbeat of the counter, which expires a day after the last client's. It also
 * gives a TTL to one that has none: a plain try's INCR makes it so where the counter was
 * lost, and its client may die before it asks by the script that would set it. That key
 * stands for at most request_timeout_ms while any client is connected; the next one to
 * connect replaces it. */
static void put_keep(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__node *node = LW__OWNER(struct lw__node, keep, command);

    lw__encode_fence_keep(out, lw__node_site(node, node->seed_slot).fence);
}

static bool kept(struct lw__command *command, const struct lw__reply *reply)
{
    if (lw__reply_type(reply) == LW__REPLY_INTEGER && lw__reply_integer(reply) == 0) {
        lw__node_seed(LW__OWNER(struct lw__node, keep, command));
    }
    return true;
}

static const struct lw__command_type keep_type = {put_keep, kept, NULL, LW__ORDER_KEEP,
                                                  .stays = true};

void lw__node_keep_fence(struct lw__node *node)
{
    if (node->seeded != NULL && lw__now_us() >= node->reseed_us) {
        lw__node_forget_seeds(node);
    }
    if (node->keep.request.prev == NULL) {
        lw__node_submit(node, &node->keep, &keep_type);
    }
}

const struct lw__unseeded *lw__node_unseeded(struct lw__node *node)
{
    if (node->unseeded.why[0] == '\0') {
        return NULL;
    }
    lw__node_seed(node);
    return &node->unseeded;
}
