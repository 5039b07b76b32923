/* SPDX-License-Identifier: MIT */
/* The fence counter of a node's server: its first number of each connection, and that it
 * lives on. Must not know who draws numbers. Happy path: lw__node_seed_fence as soon as
 * the command link is ready, so that the first number of a connection is never below one
 * drawn before a failover; the number's answer, and the node is up. Where none can be had
 * (no permission, no memory, a clock that was never set) it is up as well, and
 * lw__node_fence_fault says why; whoever asks has it tried again.
 *
 * In a cluster there is a counter for each slot, and a slot may come back to a node, or a
 * node may be a replica for a while, without a connection that notices. So a number is
 * drawn by the same script, by the clock, and none is below one that was lost; INCR,
 * which costs the server a tenth of that, is believed for so long after it as no node can
 * have lost the counter and be its master again. */
#include "redis/node_inside.h"

#include "base/log.h"
#include "base/container_of.h"
#include "base/escape.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/cluster_parse.h"
#include "redis/decode.h"
#include "redis/encode.h"
#include "redis/reply.h"

#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#define SEEDED_US (100 * LW__MS)
#define REPLICAS_LOG_US (60000 * (int64_t)LW__MS)

struct lw__script_env lw__node_script_env(struct lw__node *node, unsigned slot)
{
    if (!node->options.clustered) {
        return (struct lw__script_env){LW__FENCE_KEY, node->numbers};
    }
    (void)lw__format_fence(slot, node->fence);
    return (struct lw__script_env){node->fence, node->numbers};
}

/* ---- numbers ---- */

static struct lw__slot_fence *seeded_of(struct lw__node *node, unsigned slot)
{
    return &node->seeded[slot % LW__SLOT_FENCES];
}

/* One draws by the clock half-way, and all others count on until that is answered. */
static bool is_seeded(struct lw__node *node, unsigned slot)
{
    struct lw__slot_fence *seeded = seeded_of(node, slot);
    int64_t left_us = seeded->until_us - lw__now_us();

    if (seeded->slot != slot || left_us <= 0) {
        return false;
    }
    if (left_us > SEEDED_US / 2 || seeded->again) {
        return true;
    }
    seeded->again = true;
    return false;
}

size_t lw__node_slot_fences_size(const struct lw__node_options *options)
{
    return options->clustered ? LW__SLOT_FENCES * sizeof(struct lw__slot_fence) : 0;
}

void lw__node_reset_fence(struct lw__node *node)
{
    memset(node->seeded, 0, lw__node_slot_fences_size(&node->options));
    node->seed_known = false;
}

void lw__node_reset_slot_fence(struct lw__node *node, unsigned slot)
{
    if (node->options.clustered && seeded_of(node, slot)->slot == slot) {
        seeded_of(node, slot)->until_us = 0;
    }
}

void lw__node_encode_fence(struct lw__command *command, unsigned slot,
                           struct lw__buffer *out)
{
    struct lw__node *node = lw__node_of_command(command);
    const char *fence = lw__node_script_env(node, slot).fence;

    command->request.seeds_fence = node->options.clustered && !is_seeded(node, slot);
    if (command->request.seeds_fence) {
        lw__encode_fence_seed(out, !node->seed_known, fence);
    } else {
        lw__encode_fence_next(out, fence);
    }
}

/* (NOSCRIPT is no number either: then by its text.) */
static void note_seeded(struct lw__node *node, unsigned slot, bool counted,
                        int64_t sent_us)
{
    node->seed_known = counted;
    if (counted) {
        *seeded_of(node, slot) =
            (struct lw__slot_fence){sent_us + SEEDED_US, (uint16_t)slot, false};
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

/* ---- the first one ---- */

static void put_seed(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, seed, command);

    lw__encode_fence_seed(out, lw__command_evals(command),
                          lw__node_script_env(node, node->options.slot).fence);
}

static void came_up(struct lw__node *node)
{
    if (node->up) {
        return;
    }
    node->up = true;
    node->why[0] = '\0';
    node->error = 0;
    node->events->up(node->arg, node);
}

/* After a failover the new master has no replicas at first, gets and loses them, and ends
 * connections: one line for all of that. */
static void log_no_replicas(struct lw__node *node, const char *why)
{
    int64_t now = lw__now_us();

    if (node->replicas_logged_us == 0 ||
        now - node->replicas_logged_us >= REPLICAS_LOG_US) {
        node->replicas_logged_us = now;
        lw__log(node->options.config.log, LOG_NOTICE,
                "waiting for replicas: the server refuses writes until enough of them "
                "follow it (%s)",
                why);
    }
}

static void unseed(struct lw__node *node, int level, enum lw__error_class class,
                   const char *why)
{
    if (lw__classify_no_replicas(why)) {
        log_no_replicas(node, why);
    } else if (node->unseeded.why[0] == '\0') {
        lw__log(node->options.config.log, level, "the fence counter cannot be set: %s",
                why);
    }
    node->unseeded.class = class;
    lw__escape(why, node->unseeded.why, sizeof(node->unseeded.why));
}

const char *lw__node_reject_clock(struct lw__node *node, int64_t number)
{
    time_t seconds = (time_t)(number / 1000000);
    struct tm date = {0};
    char why[LW__WHY_MAX], day[16] = "";

    if (gmtime_r(&seconds, &date) != NULL) {
        (void)strftime(day, sizeof(day), "%Y-%m-%d", &date);
    }
    (void)snprintf(
        why, sizeof(why),
        "the server's clock is wrong, it says %s: no fencing token can be made of that, "
        "only locks without one are granted until it is right",
        day);
    unseed(node, LOG_ERR, LW__ERR_TRANSIENT, why);
    return node->unseeded.why;
}

/* Where the slot is elsewhere by now that is nobody's fault. */
static void seed_refused(struct lw__node *node, const char *why)
{
    enum lw__error_class class = lw__classify(why);
    struct lw__redirect elsewhere;

    if (!node->options.clustered ||
        !lw__cluster_parse_redirect(why, strlen(why), &elsewhere)) {
        unseed(node, LOG_WARNING, class, why);
    }
}

/* Locks work without numbers (no memory for the counter, no permission, a clock that was
 * never set), but not on a link that is ended for what was answered: a replica is never
 * `up`. */
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
        node->unseeded.why[0] = '\0';
        node->seed_known = true;
    }
    came_up(node);
    return true;
}

static const struct lw__command_type seed_type = {put_seed, seeded, NULL,
                                                  LW__PRIORITY_RENEW, .node_bound = true};

void lw__node_seed_fence(struct lw__node *node)
{
    /* Each connection begins with it; what waits for one would be in its way. */
    if (node->seed.request.prev != NULL || node->commands.state != LW__SESSION_READY) {
        return;
    }
    lw__node_submit(node, &node->seed, &seed_type);
}

/* The heartbeat of the counter, which expires a day after the last client's. It also
 * gives a TTL to one that has none: a plain try's INCR makes it so where the counter was
 * lost, and its client may die before it asks by the script that would set it. That key
 * stands for at most request_timeout_ms while any client is connected; the next one to
 * connect replaces it. (In a cluster this is about one of the node's slots; who draws in
 * another one next sees to that, at the latest.) */
static void put_keep(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, keep, command);

    lw__encode_fence_keep(out, lw__node_script_env(node, node->options.slot).fence);
}

static bool kept(struct lw__command *command, const struct lw__reply *reply)
{
    if (lw__reply_type(reply) == LW__REPLY_INTEGER && lw__reply_integer(reply) == 0) {
        lw__node_seed_fence(LW__CONTAINER_OF(struct lw__node, keep, command));
    }
    return true;
}

static const struct lw__command_type keep_type = {put_keep, kept, NULL,
                                                  LW__PRIORITY_RENEW, .node_bound = true};

void lw__node_extend_fence(struct lw__node *node)
{
    if (node->keep.request.prev == NULL) {
        lw__node_submit(node, &node->keep, &keep_type);
    }
}

const struct lw__fence_fault *lw__node_fence_fault(struct lw__node *node)
{
    if (node->unseeded.why[0] == '\0' || node->options.clustered) {
        return NULL; /* in a cluster each slot's counter says so by itself */
    }
    lw__node_seed_fence(node);
    return &node->unseeded;
}
