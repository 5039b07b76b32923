/* SPDX-License-Identifier: MIT */
/* The guard of a node's server: for how long this client must not grant itself locks
 * there, because a restart or a promotion may have lost writes. Independent of which
 * locks are requested.
 *
 * A server that has lost writes has also ended its connections, so that one question per
 * connection is enough. It is sent directly behind the script that sets the fence
 * counter, and the node is up when both are answered. The reply closes or opens the gate.
 * When the time has passed, 1 % later for the sake of this machine's clock, the gate
 * opens and `guard_changed` is called.
 *
 * Failures: a server that does not report what identifies it is unusable, and so is the
 * connection. If the script is refused, or if other clients use another guard time, the
 * gate stays closed, the reason is logged once, and each request for a lock and each
 * heartbeat asks again. A usable reply then calls `guard_changed` as well. Releases
 * go on in the meantime, and so do renewals of a lease that does not end before an old
 * master has stopped granting locks. */
#include "redis/node_private.h"

#include "base/container_of.h"
#include "base/escape.h"
#include "base/log.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/encode.h"
#include "redis/explain.h"
#include "redis/reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

static bool is_used(const struct lw__node *node)
{
    return node->options.guard_ms > 0;
}

static const struct lw__log *log_of(const struct lw__node *node)
{
    return node->options.config.log;
}

/* A former replication id of zeros: the process has not been promoted since it started.
 */
static bool was_promoted(const struct lw__node *node)
{
    return strspn(node->commands.former_replication_id, "0") !=
           strlen(node->commands.former_replication_id);
}

static void encode_question(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, question, command);
    const struct lw__session *session = &node->commands;
    char identity[2 * LW__RUN_ID_SIZE + LW__DIGITS + 2];

    (void)snprintf(identity, sizeof(identity), "%s:%s:%s", session->run_id,
                   session->former_replication_id, session->former_offset);
    lw__encode_guard(out, lw__command_evals(command), identity, node->options.guard_ms,
                     was_promoted(node) ? 0 : session->uptime_ms);
}

static void stay_closed(struct lw__node *node, int level, enum lw__error_class class,
                        const char *error)
{
    char why[LW_WHY_SIZE], text[sizeof(node->guard_fault.why)];

    lw__escape(lw__explain(error, why), text, sizeof(text));
    if (strcmp(node->guard_fault.why, text) != 0) {
        lw__log(log_of(node), level, "no locks are granted by this server: %s", why);
    }
    node->guard = LW__GUARD_REFUSED;
    node->guard_fault.class = class;
    node->guard_fault.status = lw__classify_status(error);
    memcpy(node->guard_fault.why, text, sizeof(text));
}

static void set_state(struct lw__node *node, enum lw__guard_state state)
{
    bool changes = node->guard != state;

    node->guard = state;
    node->guard_fault.why[0] = '\0';
    if (node->up && changes) {
        node->events->guard_changed(node->arg, node);
    }
}

static void open_gate(void *arg)
{
    struct lw__node *node = arg;

    if (node->guard == LW__GUARD_CLOSED) {
        lw__node_seed_fence(node); /* above all fencing tokens drawn before the change */
    }
    set_state(node, LW__GUARD_OPEN);
}

static void note_wait(struct lw__node *node, int64_t wait_ms)
{
    int64_t guard_ms = node->options.guard_ms;

    if (wait_ms == 0) {
        open_gate(node);
        return;
    }
    node->guard_opens_us = lw__now_us() + wait_ms * LW__MS + wait_ms * LW__MS / 100;
    node->old_master_until_us = lw__now_us() - (guard_ms - wait_ms) * LW__MS / 100 * 99 +
                                LW__GUARD_OLD_MASTER_MS * LW__MS;
    lw__timer_set(node->options.config.loop, &node->guard_timer, node->guard_opens_us);
    lw__log(log_of(node), LOG_NOTICE,
            "the server was %s; no locks are granted for %" PRId64 " s",
            was_promoted(node) ? "promoted" : "restarted",
            (wait_ms + wait_ms / 100 + 999) / 1000);
    set_state(node, LW__GUARD_CLOSED);
}

static bool question_replied(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, question, command);
    int64_t wait_ms = lw__reply_integer(reply);
    const char *text = lw__reply_text(reply, NULL);

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        if (lw__classify(text) == LW__ERR_LINK) {
            return true;
        }
        stay_closed(node, LOG_WARNING, lw__classify(text), text);
    } else if (lw__reply_type(reply) != LW__REPLY_INTEGER || wait_ms < -1 ||
               wait_ms > node->options.guard_ms) {
        return false;
    } else if (wait_ms == -1) {
        stay_closed(node, LOG_ERR, LW__ERR_REFUSED,
                    "other clients of this server use another guard time than this one");
    } else {
        note_wait(node, wait_ms);
    }
    lw__node_step_up(node);
    return true;
}

static const struct lw__command_type question_type = {
    encode_question, question_replied, NULL, LW__PRIORITY_RENEW, .node_bound = true};

static void ask_again(struct lw__node *node)
{
    if (node->up && node->question.request.prev == NULL) {
        lw__node_submit(node, &node->question, &question_type);
    }
}

void lw__node_guard_init(struct lw__node *node)
{
    lw__timer_init(&node->guard_timer, open_gate, node);
    node->guard = is_used(node) ? LW__GUARD_ASKED : LW__GUARD_OFF;
}

void lw__node_guard_start(struct lw__node *node)
{
    if (!is_used(node)) {
        return;
    }
    node->guard = LW__GUARD_ASKED;
    node->guard_fault.why[0] = '\0';
    if (node->commands.run_id[0] == '\0' || node->commands.former_offset[0] == '\0' ||
        node->commands.former_replication_id[0] == '\0' || node->commands.uptime_ms < 0) {
        lw__node_fail_link(node,
                           "INFO does not report the run id, the uptime and the "
                           "replication ids, by which the guard identifies a server");
        return;
    }
    lw__node_submit(node, &node->question, &question_type);
}

/* Extends the record's TTL without a look at it: the identity may have changed since this
 * connection began, without any loss, and would begin another wait. */
static void encode_extend(struct lw__command *command, struct lw__buffer *out)
{
    (void)command;
    lw__encode_fence_extend(out, LW__GUARD_KEY);
}

static bool extended(struct lw__command *command, const struct lw__reply *reply)
{
    (void)command, (void)reply;
    return true;
}

static const struct lw__command_type extend_type = {
    encode_extend, extended, NULL, LW__PRIORITY_RENEW, .node_bound = true};

void lw__node_guard_heartbeat(struct lw__node *node)
{
    if (!is_used(node) || !node->up) {
        return;
    }
    if (node->guard == LW__GUARD_REFUSED) {
        ask_again(node);
    } else if (node->guard == LW__GUARD_OPEN && node->guard_extend.request.prev == NULL) {
        lw__node_submit(node, &node->guard_extend, &extend_type);
    }
}

void lw__node_guard_stop(struct lw__node *node)
{
    lw__timer_cancel(node->options.config.loop, &node->guard_timer);
    if (is_used(node)) {
        node->guard = LW__GUARD_ASKED;
    }
}

bool lw__node_guard_is_known(const struct lw__node *node)
{
    return node->guard != LW__GUARD_ASKED;
}

int64_t lw__node_guard_left_us(const struct lw__node *node)
{
    int64_t left_us;

    if (node->guard == LW__GUARD_OFF || node->guard == LW__GUARD_OPEN) {
        return 0;
    }
    left_us = node->guard_opens_us - lw__now_us();
    return node->guard == LW__GUARD_CLOSED && left_us > 0 ? left_us : 1;
}

/* Without sentinels, a server that was not promoted has no old master next to it. */
bool lw__node_guard_may_extend(const struct lw__node *node, int64_t deadline_us)
{
    switch (node->guard) {
    case LW__GUARD_REFUSED:
        return !was_promoted(node) && node->sentinels == NULL;
    case LW__GUARD_CLOSED:
        return deadline_us >= node->old_master_until_us ||
               (!was_promoted(node) && node->sentinels == NULL);
    default:
        return true;
    }
}

const struct lw__node_fault *lw__node_guard_fault(struct lw__node *node)
{
    int64_t left_us = lw__node_guard_left_us(node);

    if (left_us == 0) {
        return NULL;
    }
    if (node->guard == LW__GUARD_REFUSED) {
        ask_again(node);
    } else if (node->guard == LW__GUARD_CLOSED) {
        node->guard_fault.class = LW__ERR_TRANSIENT;
        node->guard_fault.status = LW_ECONN;
        (void)snprintf(node->guard_fault.why, sizeof(node->guard_fault.why),
                       "the server was %s; no locks for %" PRId64 " s more",
                       was_promoted(node) ? "promoted" : "restarted",
                       (left_us + 1000 * (int64_t)LW__MS - 1) / (1000 * (int64_t)LW__MS));
    }
    return &node->guard_fault;
}
