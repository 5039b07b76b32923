/* SPDX-License-Identifier: MIT */
/* The fence counter of a node's server. Independent of which locks draw from it.
 *
 * As soon as the command connection is ready lw__node_seed_fence sets the counter by the
 * server's clock, so that the first number of a connection is never below one that was
 * drawn before a failover; after the reply the node is up. If the counter cannot be set
 * (no permission, no memory, a clock that was never set) the node is up as well, and
 * lw__node_fence_fault has the reason and starts another attempt.
 *
 * A cluster has a counter for each slot. A slot may return to a node, or a node may be a
 * replica for a while, without a lost connection. So a number is drawn by the script that
 * sets the counter by the clock, and none is below one that was lost. INCR costs the
 * server a tenth of that. It is used for 100 ms after the script: no node loses the
 * counter and becomes its master again within that time. */
#include "redis/node_private.h"

#include "base/log.h"
#include "base/container_of.h"
#include "base/escape.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/cluster_parse.h"
#include "redis/decode.h"
#include "redis/encode.h"
#include "redis/explain.h"
#include "redis/reply.h"
#include "redis/slot.h"

#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#define TRUSTED_US (100 * LW__MS)
#define REPLICAS_LOG_US (60000 * (int64_t)LW__MS)

void lw__node_init_fence(struct lw__node *node)
{
    (void)lw__format_fence(node->options.prefix, LW__NO_SLOT, node->fence);
    lw__format_channel_parts(node->options.prefix, LW__NO_SLOT, node->channel);
}

/* Returns the key of the counter, until the next call. */
static const char *key_of(struct lw__node *node, unsigned slot)
{
    if (node->options.clustered) {
        (void)lw__format_fence(node->options.prefix, (int)slot, node->fence);
    }
    return node->fence;
}

struct lw__script_env lw__node_script_env(struct lw__node *node, unsigned slot)
{
    const struct lw__node_options *o = &node->options;
    bool closed = !o->clustered && lw__node_guard_left_us(node) > 0;

    if (o->clustered) {
        lw__format_channel_parts(o->prefix, (int)slot, node->channel);
    }
    return (struct lw__script_env){key_of(node, slot),
                                   closed ? LW__NO_HAND_OVER : node->numbers, o->prefix,
                                   o->clustered || *o->prefix ? node->channel : NULL};
}

/* Returns true if this is a cluster's node that has none of the client's keys: the prefix
 * has a tag, and its slot is at another node. */
static bool has_no_key(const struct lw__node *node)
{
    const char *prefix = node->options.prefix;

    return node->options.clustered && lw__format_has_tag(prefix) &&
           lw__slot_of(prefix, strlen(prefix)) != node->options.slot;
}

/* ---- numbers ---- */

/* Returns the entry of the slot, or else the one that the slot may replace. */
static struct lw__slot_fence *slot_fence_of(struct lw__node *node, unsigned slot)
{
    struct lw__slot_fence *set =
        &node->slot_fences[slot * LW__FENCE_SET % LW__SLOT_FENCES];
    struct lw__slot_fence *replaced = set;

    for (unsigned i = 0; i < LW__FENCE_SET; i++) {
        if (set[i].slot == slot) {
            return &set[i];
        }
        if (set[i].until_us < replaced->until_us) {
            replaced = &set[i];
        }
    }
    return replaced;
}

/* Returns true if INCR may be used. Half-way one command renews that by the script; the
 * others use INCR until it is answered. */
static bool is_trusted(struct lw__node *node, unsigned slot)
{
    struct lw__slot_fence *fence = slot_fence_of(node, slot);
    int64_t left_us = fence->until_us - lw__now_us();

    if (fence->slot != slot || left_us <= 0) {
        return false;
    }
    if (left_us > TRUSTED_US / 2 || fence->renewing) {
        return true;
    }
    fence->renewing = true;
    return false;
}

size_t lw__node_slot_fences_size(const struct lw__node_options *options)
{
    return options->clustered ? LW__SLOT_FENCES * sizeof(struct lw__slot_fence) : 0;
}

void lw__node_reset_fence(struct lw__node *node)
{
    memset(node->slot_fences, 0, lw__node_slot_fences_size(&node->options));
    node->seed_known = false;
}

void lw__node_reset_slot_fence(struct lw__node *node, unsigned slot)
{
    if (node->options.clustered && slot_fence_of(node, slot)->slot == slot) {
        slot_fence_of(node, slot)->until_us = 0;
    }
}

void lw__node_encode_fence(struct lw__command *command, unsigned slot,
                           struct lw__buffer *out)
{
    struct lw__node *node = lw__node_of_command(command);
    const char *fence = key_of(node, slot);

    command->request.seeds_fence = node->options.clustered && !is_trusted(node, slot);
    if (command->request.seeds_fence) {
        lw__encode_fence_seed(out, !node->seed_known, fence);
    } else {
        lw__encode_fence_next(out, fence);
    }
}

/* Without a number, as after NOSCRIPT, the script is sent with its text next time. */
static void note_seeded(struct lw__node *node, unsigned slot, bool counted,
                        int64_t sent_us)
{
    node->seed_known = counted;
    if (counted) {
        *slot_fence_of(node, slot) =
            (struct lw__slot_fence){sent_us + TRUSTED_US, (uint16_t)slot, false};
    }
}

bool lw__node_read_fence(const struct lw__command *command, unsigned slot,
                         const struct lw__reply *reply, uint64_t *ret)
{
    enum lw__reply_type type = lw__reply_type(reply);
    int64_t number = lw__reply_integer(reply);
    bool counted = type == LW__REPLY_INTEGER && number >= LW__FENCE_MIN &&
                   number < LW__FENCE_END;

    *ret = counted ? (uint64_t)number : 0;
    if (command->request.seeds_fence) {
        note_seeded(lw__node_of_command(command), slot, counted,
                    command->request.sent_us);
    } else if (!counted) {
        lw__node_reset_slot_fence(lw__node_of_command(command), slot);
    }
    return type == LW__REPLY_INTEGER || type == LW__REPLY_ERROR;
}

/* ---- the start of a connection ---- */

static void encode_seed(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, seed, command);

    lw__encode_fence_seed(out, lw__command_evals(command),
                          key_of(node, node->options.slot));
}

void lw__node_step_up(struct lw__node *node)
{
    if (node->up || !node->seeded || !lw__node_guard_is_known(node)) {
        return;
    }
    node->up = true;
    node->why[0] = '\0';
    node->error = 0;
    node->events->up(node->arg, node);
}

/* After a failover the new master has no replicas at first, gets and loses them, and ends
 * connections: that is one entry in the log. */
static void log_no_replicas(struct lw__node *node, const char *why)
{
    int64_t now = lw__now_us();

    if (node->replicas_logged_us == 0 ||
        now - node->replicas_logged_us >= REPLICAS_LOG_US) {
        node->replicas_logged_us = now;
        lw__log(node->options.config.log, LOG_NOTICE,
                "waiting for replicas; the server refuses writes until enough of them "
                "are connected: %s",
                why);
    }
}

static void note_fault(struct lw__node *node, int level, enum lw__error_class class,
                       const char *error)
{
    char why[LW_WHY_SIZE];

    (void)lw__explain(error, why);
    if (lw__classify_no_replicas(error)) {
        log_no_replicas(node, why);
    } else if (node->fence_fault.why[0] == '\0') {
        lw__log(node->options.config.log, level, "the fence counter cannot be set: %s",
                why);
    }
    node->fence_fault.class = class;
    node->fence_fault.status = class == LW__ERR_REFUSED ? LW_EREDIS : LW_ECONN;
    lw__escape(why, node->fence_fault.why, sizeof(node->fence_fault.why));
}

const char *lw__node_reject_clock(struct lw__node *node, int64_t number)
{
    time_t seconds = (time_t)(number / 1000000);
    struct tm date = {0};
    char why[LW_WHY_SIZE], day[16] = "";

    if (gmtime_r(&seconds, &date) != NULL) {
        (void)strftime(day, sizeof(day), "%Y-%m-%d", &date);
    }
    (void)snprintf(
        why, sizeof(why),
        "the server's clock is wrong (%s); only locks without a fencing token are "
        "granted until it is corrected",
        day);
    note_fault(node, LOG_ERR, LW__ERR_TRANSIENT, why);
    return node->fence_fault.why;
}

/* A slot that is elsewhere by now is no fault. */
static void seed_refused(struct lw__node *node, const char *why)
{
    enum lw__error_class class = lw__classify(why);
    struct lw__redirect elsewhere;

    if (!node->options.clustered ||
        !lw__cluster_parse_redirect(why, strlen(why), &elsewhere)) {
        note_fault(node, LOG_WARNING, class, why);
    }
}

/* Locks work without fencing tokens, but not on a connection that the error ends: a
 * replica is never up. */
static bool seeded(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, seed, command);
    const char *text = lw__reply_text(reply, NULL);
    int64_t number = lw__reply_integer(reply);

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        if (lw__classify(text) == LW__ERR_LINK) {
            return true;
        }
        seed_refused(node, text);
    } else if (number < 1) {
        return false;
    } else if (number < LW__FENCE_MIN) {
        (void)lw__node_reject_clock(node, number);
    } else {
        node->fence_fault.why[0] = '\0';
        node->seed_known = true;
    }
    node->seeded = true;
    lw__node_step_up(node);
    return true;
}

static const struct lw__command_type seed_type = {encode_seed, seeded,
                                                  .node_bound = true};

void lw__node_seed_fence(struct lw__node *node)
{
    if (node->seed.request.prev != NULL || node->commands.state != LW__SESSION_READY) {
        return;
    }
    if (has_no_key(node)) {
        node->seeded = true;
        lw__node_step_up(node);
    } else {
        lw__node_send_own(node, &node->seed, &seed_type);
    }
}

/* Heartbeats extend the counter, which expires a day after the last one. They also give a
 * TTL to a counter that has none: after it was lost, the INCR of a plain try creates it
 * again, and the client may die before it sends the script that sets the TTL. The next
 * heartbeat of any client, or the next client to connect, mends that. In a cluster this
 * is done for one slot of the node; in another slot the next script that draws does it.
 */
static void encode_extend(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, extend, command);

    lw__encode_fence_extend(out, key_of(node, node->options.slot));
}

static bool extended(struct lw__command *command, const struct lw__reply *reply)
{
    if (lw__reply_type(reply) == LW__REPLY_INTEGER && lw__reply_integer(reply) == 0) {
        lw__node_seed_fence(LW__CONTAINER_OF(struct lw__node, extend, command));
    }
    return true;
}

static const struct lw__command_type extend_type = {encode_extend, extended,
                                                    .node_bound = true};

void lw__node_extend_fence(struct lw__node *node)
{
    if (node->extend.request.prev == NULL && !has_no_key(node)) {
        lw__node_send_own(node, &node->extend, &extend_type);
    }
}

const struct lw__node_fault *lw__node_fence_fault(struct lw__node *node)
{
    if (node->fence_fault.why[0] == '\0' || node->options.clustered) {
        return NULL; /* in a cluster each slot has its own counter */
    }
    lw__node_seed_fence(node);
    return &node->fence_fault;
}
