/* SPDX-License-Identifier: MIT */
/* The guard of a node's server: for how long this client must not grant itself locks
 * there, because a restart, a promotion or another server at its address may have lost
 * writes. Independent of which locks are requested.
 *
 * A server that has lost writes has also ended its connections. So guard.lua is sent at
 * the start of each connection, directly behind the script that sets the fence counter,
 * and the node is up when both are answered. The reply closes or opens the gate. When its
 * time has passed, 1 % later for the sake of this machine's clock, the script is sent
 * again, because another client may have replaced the record by a longer wait; the gate
 * opens at a reply of 0, and `guard_changed` is called. Each heartbeat sends the script
 * as well: it extends the record's TTL, and closes the gate if the record is lost or has
 * another guard time.
 *
 * A client without a guard time reads the record at the same times instead, and grants
 * itself no locks if there is one: after a loss, clients that use the guard could be
 * granted a lock that this one still holds.
 *
 * Failures: a server that does not report what identifies it is unusable, and so is the
 * connection. If the script is refused, or if other clients use another guard time, the
 * gate is closed, the reason is logged once, and each request for a lock and each
 * heartbeat asks again. A usable reply then calls `guard_changed` as well. An open gate
 * stays open if the script of a heartbeat is refused: nothing was lost on this
 * connection. Releases go on in the meantime, and so do renewals of a lease that does not
 * end before an old master has stopped granting locks. */
#include "redis/node_private.h"

#include "base/check.h"
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

static bool is_asked(const struct lw__node *node)
{
    return node->options.guard_ms != LW_GUARD_NONE && !node->options.clustered &&
           !node->options.inert;
}

bool lw__node_uses_guard(const struct lw__node *node)
{
    return is_asked(node) && node->options.guard_ms > 0;
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

    if (!lw__node_uses_guard(node)) {
        lw__encode_get_guard(out, node->options.prefix);
        return;
    }
    (void)snprintf(identity, sizeof(identity), "%s:%s:%s", session->run_id,
                   session->former_replication_id, session->former_offset);
    lw__encode_guard(out, lw__command_evals(command), node->options.prefix, identity,
                     node->options.guard_ms, node->guard_goes_on);
}

static void ask_again(struct lw__node *node);

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

static void open_gate(struct lw__node *node)
{
    if (node->guard == LW__GUARD_CLOSED) {
        lw__node_seed_fence(node); /* above all fencing tokens drawn before the change */
    }
    set_state(node, LW__GUARD_OPEN);
}

/* Another client may have replaced the record in the meantime. */
static void wait_has_passed(void *arg)
{
    ask_again(arg);
}

/* Why locks are not granted, as the beginning of a sentence. */
static const char *reason_of(const struct lw__node *node)
{
    return node->guard_record_lost ? "the guard's record was lost or replaced"
           : was_promoted(node)    ? "the server was promoted"
                                   : "the server was restarted or is new";
}

/* The reply at the end of a wait may be a few ms, by the server's clock. */
static bool is_longer(const struct lw__node *node, int64_t wait_ms)
{
    return node->guard == LW__GUARD_ASKED || node->guard == LW__GUARD_OPEN ||
           lw__now_us() + (wait_ms - 1000) * LW__MS > node->guard_opens_us;
}

static void note_old_master(struct lw__node *node, int64_t wait_ms)
{
    int64_t waited_ms = node->options.guard_ms - wait_ms;

    node->old_master_until_us = wait_ms == 0
                                    ? 0
                                    : lw__now_us() - waited_ms * LW__MS / 100 * 99 +
                                          LW__GUARD_OLD_MASTER_MS * LW__MS;
}

/* On one connection no reply shortens a wait: the server's clock may have been set. */
static void note_wait(struct lw__node *node, int64_t wait_ms)
{
    bool longer = wait_ms > 0 && is_longer(node, wait_ms);
    bool waits = node->guard == LW__GUARD_CLOSED && lw__now_us() < node->guard_opens_us;
    int64_t opens_us = lw__now_us() + wait_ms * LW__MS + wait_ms * LW__MS / 100;

    if (!node->guard_goes_on) {
        note_old_master(node, wait_ms);
    } else if (longer) {
        node->guard_record_lost = true;
    }
    node->guard_goes_on = true;
    node->server_guard_ms = node->options.guard_ms;
    if (waits && opens_us <= node->guard_opens_us) {
        return;
    }
    if (wait_ms == 0) {
        open_gate(node);
        return;
    }
    if (longer) {
        lw__log(log_of(node), LOG_NOTICE,
                "%s; no locks are granted for %" PRId64 " s, because locks may have been "
                "lost, or because this is the first use of the guard here",
                reason_of(node), (wait_ms + wait_ms / 100 + 999) / 1000);
    }
    node->guard_opens_us = opens_us;
    lw__timer_set(node->options.config.loop, &node->guard_timer, node->guard_opens_us);
    set_state(node, LW__GUARD_CLOSED);
}

#define OTHERS_KEY                                                                       \
    "other clients wrote the key, and it expires a day after their last heartbeat"

static void note_other_time(struct lw__node *node, int64_t other_ms)
{
    char why[LW_WHY_SIZE];

    node->server_guard_ms = other_ms;
    (void)snprintf(why, sizeof(why),
                   "this server's guard time is %" PRId64 " ms (key %s" LW__GUARD_KEY
                   "), not %" PRIu32 ": use the same in all clients, as ?guard=%" PRId64
                   "ms in the URL; " OTHERS_KEY
                   "; to change the time, stop them all, wait "
                   "for the longer one, DEL %s" LW__GUARD_KEY,
                   other_ms, node->options.prefix, node->options.guard_ms, other_ms,
                   node->options.prefix);
    stay_closed(node, LOG_ERR, LW__ERR_REFUSED, why);
}

/* ---- without a guard time ---- */

/* Estimates when the clients that use the guard are granted locks, for statistics. A
 * record of another process will be replaced by one of the whole guard time. */
static void note_others(struct lw__node *node, const char *record, int64_t from_us)
{
    const struct lw__session *session = &node->commands;
    int64_t now_us = lw__now_us(), whole_us = node->server_guard_ms * LW__MS;
    int64_t left_us = from_us - session->server_us - (now_us - session->server_asked_us);
    size_t length = strlen(session->run_id);
    bool is_its_own = length > 0 && strncmp(record, session->run_id, length) == 0;

    node->guard_opens_us = now_us;
    if (!is_its_own || left_us > whole_us) {
        node->guard_opens_us += whole_us;
    } else if (session->server_us > 0 && left_us > 0) {
        node->guard_opens_us += left_us;
    }
}

/* Returns true if it is a record, as in guard.lua. */
static bool read_record(const char *text, int64_t *guard_ms, int64_t *from_us)
{
    size_t process = strcspn(text, " ");
    const char *guard = text + process + (text[process] != '\0');
    size_t digits = strcspn(guard, " ");
    const char *from = guard + digits + (guard[digits] != '\0');

    *guard_ms = lw__check_number(guard, digits, INT32_MAX);
    *from_us = lw__check_number(from, strlen(from), INT64_MAX);
    return process > 0 && *guard_ms > 0 && *from_us >= 0;
}

static void note_record(struct lw__node *node, const char *text)
{
    int64_t other_ms, from_us;
    char why[LW_WHY_SIZE];

    if (!read_record(text, &other_ms, &from_us)) {
        node->server_guard_ms = 0;
        set_state(node, LW__GUARD_OPEN);
        return;
    }
    node->server_guard_ms = other_ms;
    note_others(node, text, from_us);
    (void)snprintf(
        why, sizeof(why),
        "this server's guard time is %" PRId64 " ms (key %s" LW__GUARD_KEY
        "), and this client has none: use the same in all clients, as ?guard=%" PRId64
        "ms in the URL, or \"none\" here; " OTHERS_KEY
        "; if all clients have stopped using "
        "it, DEL %s" LW__GUARD_KEY,
        other_ms, node->options.prefix, other_ms, node->options.prefix);
    stay_closed(node, LOG_NOTICE, LW__ERR_REFUSED, why);
}

/* An account that may not read the record, or a key of another type, is like no record.
 */
static void record_refused(struct lw__node *node, const char *why)
{
    if (lw__classify(why) == LW__ERR_TRANSIENT) {
        stay_closed(node, LOG_WARNING, LW__ERR_TRANSIENT, why);
        return;
    }
    lw__log_once(log_of(node), &node->guard_denied_logged, LOG_WARNING,
                 "the key %s" LW__GUARD_KEY
                 " cannot be read; if other clients use a guard, "
                 "this one breaks it: %s",
                 node->options.prefix, why);
    note_record(node, "");
}

/* ---- replies ---- */

static void question_refused(struct lw__node *node, const char *why)
{
    if (!lw__node_uses_guard(node)) {
        record_refused(node, why);
    } else if (node->guard == LW__GUARD_OPEN) {
        lw__log_cause(log_of(node), lw__now_us(), LOG_WARNING,
                      "the record %s" LW__GUARD_KEY " is not extended: %s",
                      node->options.prefix, why);
    } else {
        stay_closed(node, LOG_WARNING, lw__classify(why), why);
    }
}

/* Returns false if the question cannot have this reply. */
static bool question_answered(struct lw__node *node, const struct lw__reply *reply)
{
    int64_t wait_ms = lw__reply_integer(reply);
    enum lw__reply_type type = lw__reply_type(reply);

    if (!lw__node_uses_guard(node)) {
        if (type != LW__REPLY_STRING && type != LW__REPLY_NIL) {
            return false;
        }
        note_record(node, lw__reply_text(reply, NULL));
        return true;
    }
    if (type != LW__REPLY_INTEGER || wait_ms > node->options.guard_ms ||
        wait_ms < -INT64_MAX) {
        return false;
    }
    if (wait_ms < 0) {
        note_other_time(node, -wait_ms);
    } else {
        note_wait(node, wait_ms);
    }
    return true;
}

static bool question_replied(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, question, command);
    const char *text = lw__reply_text(reply, NULL);

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        if (lw__classify(text) == LW__ERR_LINK) {
            return true;
        }
        question_refused(node, text);
    } else if (!question_answered(node, reply)) {
        return false;
    }
    lw__node_step_up(node);
    return true;
}

static const struct lw__command_type question_type = {encode_question, question_replied,
                                                      .node_bound = true};

static void ask_again(struct lw__node *node)
{
    if (node->commands.state == LW__SESSION_READY &&
        node->question.request.prev == NULL) {
        lw__node_send_own(node, &node->question, &question_type);
    }
}

void lw__node_guard_init(struct lw__node *node)
{
    lw__timer_init(&node->guard_timer, wait_has_passed, node);
    node->guard = is_asked(node) ? LW__GUARD_ASKED : LW__GUARD_OFF;
}

void lw__node_guard_start(struct lw__node *node)
{
    const struct lw__session *session = &node->commands;

    if (!is_asked(node)) {
        return;
    }
    node->guard = LW__GUARD_ASKED;
    node->guard_goes_on = node->guard_record_lost = false;
    node->guard_fault.why[0] = '\0';
    if (lw__node_uses_guard(node) &&
        (session->run_id[0] == '\0' || session->former_offset[0] == '\0' ||
         session->former_replication_id[0] == '\0')) {
        lw__node_fail_link(node, "INFO does not report the run id and the replication "
                                 "ids, by which the guard identifies a server");
        return;
    }
    lw__node_send_own(node, &node->question, &question_type);
}

void lw__node_guard_heartbeat(struct lw__node *node)
{
    if (is_asked(node) && node->up) {
        ask_again(node);
    }
}

void lw__node_guard_stop(struct lw__node *node)
{
    lw__timer_cancel(node->options.config.loop, &node->guard_timer);
    if (is_asked(node)) {
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
    return left_us > 0 && (node->guard == LW__GUARD_CLOSED || !lw__node_uses_guard(node))
               ? left_us
               : 1;
}

int64_t lw__node_server_guard_ms(const struct lw__node *node)
{
    return node->server_guard_ms;
}

/* Without sentinels, a server that was not promoted has no old master next to it. Nor has
 * one whose record was lost or replaced while the connection goes on. */
bool lw__node_guard_may_extend(const struct lw__node *node, int64_t deadline_us)
{
    if (!lw__node_uses_guard(node) || node->guard == LW__GUARD_ASKED ||
        node->guard == LW__GUARD_OPEN) {
        return true;
    }
    return (node->guard_goes_on && deadline_us >= node->old_master_until_us) ||
           (!was_promoted(node) && node->sentinels == NULL);
}

const struct lw__node_fault *lw__node_guard_fault(struct lw__node *node)
{
    int64_t left_us = lw__node_guard_left_us(node);

    if (left_us == 0) {
        return NULL;
    }
    if (node->guard != LW__GUARD_CLOSED || left_us == 1) {
        ask_again(node);
    }
    if (node->guard == LW__GUARD_CLOSED) {
        node->guard_fault.class = LW__ERR_TRANSIENT;
        node->guard_fault.status = LW_ECONN;
        (void)snprintf(node->guard_fault.why, sizeof(node->guard_fault.why),
                       "%s; no locks for %" PRId64 " s more", reason_of(node),
                       (left_us + 1000 * (int64_t)LW__MS - 1) / (1000 * (int64_t)LW__MS));
    }
    return &node->guard_fault;
}
