/* SPDX-License-Identifier: MIT */
/*
 * One Redis server: see node.h. The command link comes up in three steps: the session
 * greets, the fence counter is seeded (so the first number of a connection is never below
 * one drawn before a failover), then `up`. Commands wait in `backlog` while max_inflight
 * are unanswered. Whenever either link connects, and at heartbeats, the command link
 * counts who listens.
 */
#include "node.h"

#include "backlog.h"
#include "lockwire.h"
#include "told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#define MS 1000

struct lw__node {
    struct lw__node_options options;
    const struct lw__node_events *events;
    void *arg;
    struct lw__session commands;
    struct lw__subscription subscription;
    struct lw__timer heartbeat;
    struct lw__backlog backlog;
    struct lw__deferred pump_call;
    struct lw__buffer buffer;        /* for encoding, kept */
    struct lw__command seed, keep;   /* of the fence counter */
    struct lw__command count;        /* of who listens: is it us? */
    struct lw__request policy, kill; /* sent once a connection, answers informative */
    struct lw__unseeded unseeded; /* `why` is "" while the fence counter can be trusted */
    char server[LW__SERVER_SIZE]; /* the command link's */
    bool up, seeding, keeping;
    bool counting, count_forbidden, count_forbidden_told;
    unsigned counted_nonce; /* whom the count is about */
    unsigned connection;
};

static const struct lw__command_type seed_type, keep_type;

static struct lw__loop *loop_of(const struct lw__node *node)
{
    return node->options.access.loop;
}

/* ---- sending ---- */

static void replied(struct lw__request *request, const struct lw__reply *reply);
static void failed(struct lw__request *request, const char *why);

/* On failure the link is going down: the command joins the backlog and fails with it. */
static void send_now(struct lw__node *node, struct lw__command *command)
{
    struct lw__buffer *out = &node->buffer;

    out->length = 0;
    out->failed = false;
    command->type->put(command, out);
    command->request.reply = replied;
    command->request.failed = failed;
    if (out->failed) {
        lw__session_fail(&node->commands, lw_strerror(LW_ENOMEM));
    } else if (lw__link_send(node->commands.link, &command->request, out->data,
                             out->length) == 0) {
        node->options.stats->commands += command->request.expected;
        return;
    }
    command->request.sent_us = 0;
    lw__backlog_push(&node->backlog, command, false);
}

static bool has_room(const struct lw__node *node)
{
    return node->commands.state == LW__SESSION_READY &&
           lw__link_inflight(node->commands.link) < node->options.max_inflight;
}

static void pump(void *arg)
{
    struct lw__node *node = arg;
    struct lw__command *next;

    while ((next = lw__backlog_next(&node->backlog, LW__ORDERS - 1)) != NULL &&
           has_room(node)) {
        lw__backlog_pull(&node->backlog, next);
        send_now(node, next);
        if (next->request.sent_us == 0) {
            break;
        }
    }
}

static void submit(struct lw__node *node, struct lw__command *command,
                   const struct lw__command_type *type)
{
    command->node = node;
    command->type = type;
    command->eval = false;
    command->request.sent_us = 0;
    if (!has_room(node) || (node->backlog.count > 0 &&
                            lw__backlog_next(&node->backlog, type->order) != NULL)) {
        lw__backlog_push(&node->backlog, command, false);
    } else {
        send_now(node, command);
    }
}

/* NOSCRIPT is answered with the script's text, once, and never from within the reply.
 * Said of the first of several replies it means no script: the command is not answered
 * yet. */
static bool send_text_instead(struct lw__command *command, const struct lw__reply *reply)
{
    if (lw__reply_type(reply) != LW__REPLY_ERROR || command->eval ||
        command->request.expected > 0 ||
        lw__classify(lw__reply_text(reply, NULL)) != LW__ERR_NOSCRIPT) {
        return false;
    }
    command->eval = true;
    command->request.sent_us = 0;
    lw__backlog_push(&command->node->backlog, command, true);
    lw__defer(loop_of(command->node), &command->node->pump_call, false);
    return true;
}

/* An answer has come: there is room for the next command. */
static void make_room(void *arg)
{
    struct lw__node *node = arg;

    if (node->backlog.count > 0) {
        lw__defer(loop_of(node), &node->pump_call, false);
    }
}

static void replied(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__command *command = (struct lw__command *)request;
    struct lw__node *node = command->node;

    make_room(node);
    if (send_text_instead(command, reply)) {
        return;
    }
    if (lw__reply_type(reply) == LW__REPLY_ERROR &&
        lw__classify(lw__reply_text(reply, NULL)) == LW__ERR_LINK) {
        lw__node_distrust(node, lw__reply_text(reply, NULL));
    }
    if (!command->type->answer(command, reply)) {
        const char *why = "the server answered what no server can answer";

        lw__node_distrust(node, why);
        if (request->expected == 0) {
            command->type->failed(command, why, true);
        }
    }
}

static void failed(struct lw__request *request, const char *why)
{
    struct lw__command *command = (struct lw__command *)request;

    command->node->up =
        false; /* `down` follows; nobody shall send on this link meanwhile */
    command->type->failed(command, why, true);
}

bool lw__node_send(struct lw__node *node, struct lw__command *command,
                   const struct lw__command_type *type)
{
    if (!node->up) {
        return false;
    }
    submit(node, command, type);
    return true;
}

void lw__node_forget(struct lw__node *node, struct lw__command *command)
{
    if (command->request.prev == NULL) {
        return;
    }
    if (lw__node_is_unsent(command)) {
        lw__backlog_pull(&node->backlog, command);
    } else if (node->commands.link != NULL) {
        lw__link_forget(node->commands.link, &command->request);
    }
}

bool lw__node_has_room(const struct lw__node *node)
{
    return !node->up || (node->backlog.count == 0 && has_room(node));
}

bool lw__node_is_unsent(const struct lw__command *command)
{
    return command->request.prev != NULL && command->request.sent_us == 0;
}

void lw__node_distrust(struct lw__node *node, const char *why)
{
    node->up = false;
    lw__session_fail(&node->commands, why);
}

/* ---- the fence counter ---- */

static void put_seed(struct lw__command *command, struct lw__buffer *out)
{
    command->request.expected = 1;
    lw__put_fence_seed(out, command->eval);
}

static void came_up(struct lw__node *node)
{
    if (node->up) {
        return;
    }
    node->up = true;
    node->events->up(node->arg);
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

/* Locks work without numbers (no memory for the counter, no permission, a clock that was
 * never set), but not on a link that is ended for what was answered: a replica is never
 * `up`. */
static bool seeded(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__node *node = command->node;
    const char *text = lw__reply_text(reply, NULL);
    int64_t number = lw__reply_integer(reply);

    node->seeding = false;
    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        enum lw__error_class class = lw__classify(text);

        if (class == LW__ERR_LINK) {
            return true;
        }
        unseed(node, LOG_WARNING, class, text);
    } else if (number < 1) {
        return false;
    } else if (number < LW__FENCE_MIN) {
        lw__node_doubt_clock(node, number);
    } else {
        node->unseeded.why[0] = '\0';
    }
    came_up(node);
    return true;
}

static void seed_failed(struct lw__command *command, const char *why, bool sent)
{
    (void)why;
    (void)sent;
    command->node->seeding = false;
}

static const struct lw__command_type seed_type = {put_seed, seeded, seed_failed,
                                                  LW__ORDER_KEEP};

static void seed(struct lw__node *node)
{
    /* Each connection begins with it; what waits for one would be in its way. */
    if (node->seeding || node->commands.state != LW__SESSION_READY) {
        return;
    }
    node->seeding = true;
    submit(node, &node->seed, &seed_type);
}

/* The heartbeat of the counter, which expires a day after the last client's. It also
 * gives a TTL to one that has none: a plain try's INCR makes it so where the counter was
 * lost, and its client may die before it asks by the script that would set it. That key
 * stands for at most request_timeout_ms while any client is connected; the next one to
 * connect replaces it. */
static void put_keep(struct lw__command *command, struct lw__buffer *out)
{
    command->request.expected = 1;
    lw__put_fence_keep(out);
}

static bool kept(struct lw__command *command, const struct lw__reply *reply)
{
    command->node->keeping = false;
    if (lw__reply_type(reply) == LW__REPLY_INTEGER && lw__reply_integer(reply) == 0) {
        seed(command->node);
    }
    return true;
}

static void keep_failed(struct lw__command *command, const char *why, bool sent)
{
    (void)why;
    (void)sent;
    command->node->keeping = false;
}

static const struct lw__command_type keep_type = {put_keep, kept, keep_failed,
                                                  LW__ORDER_KEEP};

/* ---- the subscription link ---- */

static void put_count(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__node *node = command->node;
    char channel[LW__CHANNEL_OF_OURS_SIZE];

    /* 0: it connects anew, and has not told the server its channels; so nobody is
     * counted */
    node->counted_nonce = node->subscription.confirmed ? node->subscription.nonce : 0;
    lw__connection_channel(node->options.uuid, node->subscription.nonce, channel);
    command->request.expected = 1;
    lw__put_count(out, channel);
}

static void count_subscribers(struct lw__node *node);

/* Who may not ask waits by polling; on the next connection it may be permitted. */
static void count_refused(struct lw__node *node, const char *why)
{
    if (lw__classify(why) != LW__ERR_REFUSED) {
        return; /* asked again with the next heartbeat */
    }
    node->count_forbidden = true;
    node->subscription.bound = false;
    if (node->count_forbidden_told) {
        return;
    }
    node->count_forbidden_told = true;
    lw__log(node->options.access.log, LOG_WARNING,
            "PUBSUB NUMSUB is not permitted, waiting will be by polling: %s", why);
}

static bool counted(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__node *node = command->node;
    struct lw__subscription *subscription = &node->subscription;
    bool was_bound = subscription->bound;
    int64_t count;

    node->counting = false;
    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        count_refused(node, lw__reply_text(reply, NULL));
        return true;
    }
    if (!lw__get_count(reply, &count)) {
        return false;
    }
    if (lw__subscription_counted(subscription, node->counted_nonce, count)) {
        lw__node_distrust(node, "it is at another server than the messages");
    } else if (node->counted_nonce != subscription->nonce) {
        count_subscribers(node); /* it connected anew meanwhile */
    } else if (subscription->bound && !was_bound && node->up) {
        node->events->bound(node->arg); /* else coming up has everyone ask, and join */
    }
    return true;
}

static void count_failed(struct lw__command *command, const char *why, bool sent)
{
    (void)why;
    (void)sent;
    command->node->counting = false;
}

static const struct lw__command_type count_type = {put_count, counted, count_failed,
                                                   LW__ORDER_KEEP};

/* Does the server of the command link have the connection that listens? */
static void count_subscribers(struct lw__node *node)
{
    if (!node->subscription.confirmed || node->counting || node->count_forbidden ||
        node->commands.state != LW__SESSION_READY) {
        return;
    }
    node->counting = true;
    submit(node, &node->count, &count_type);
}

static void subscription_confirmed(void *arg)
{
    count_subscribers(arg);
}

static void subscription_message(void *arg, const char *text, size_t length)
{
    struct lw__node *node = arg;

    node->events->message(node->arg, text, length);
}

/* ---- the command link ---- */

static void policy_told(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__node *node =
        (struct lw__node *)((char *)request - offsetof(struct lw__node, policy));
    const char *policy = "";

    make_room(node);
    if (lw__reply_count(reply) == 2) {
        policy = lw__reply_text(lw__reply_at(reply, 1), NULL);
    }
    if (strncmp(policy, "allkeys-", 8) == 0 || strncmp(policy, "volatile-", 9) == 0) {
        lw__log(node->options.access.log, LOG_WARNING,
                "the server's maxmemory-policy is %s: it may evict locks that "
                "are held; only noeviction is safe",
                policy);
    }
}

static void killed(struct lw__request *request, const struct lw__reply *reply)
{
    (void)reply; /* it may have been gone already */
    make_room((char *)request - offsetof(struct lw__node, kill));
}

static void ignore_failure(struct lw__request *request, const char *why)
{
    (void)request;
    (void)why;
}

static void tell_server(struct lw__node *node, struct lw__request *request,
                        void (*reply)(struct lw__request *, const struct lw__reply *),
                        size_t words, const char *const *text)
{
    struct lw__buffer out = {0};

    lw__put_command(&out, words);
    for (size_t i = 0; i < words; i++) {
        lw__put_text(&out, text[i]);
    }
    *request =
        (struct lw__request){.expected = 1, .reply = reply, .failed = ignore_failure};
    if (out.failed ||
        lw__link_send(node->commands.link, request, out.data, out.length) != 0) {
        lw__session_fail(&node->commands, lw_strerror(LW_ENOMEM));
    }
    lw__buffer_clear(&out);
}

static void commands_ready(void *arg)
{
    struct lw__node *node = arg;

    if (node->connection++ > 0) {
        node->options.stats->reconnects++;
    }
    lw__server_id(node->commands.run_id, node->server);
    if (node->commands.previous_id > 0) {
        /* Whatever the dead connection still has buffered must not run behind ours. */
        char id[24];

        (void)snprintf(id, sizeof(id), "%lld", (long long)node->commands.previous_id);
        tell_server(node, &node->kill, killed, 4,
                    (const char *[]){"CLIENT", "KILL", "ID", id});
    }
    tell_server(node, &node->policy, policy_told, 3,
                (const char *[]){"CONFIG", "GET", "maxmemory-policy"});
    node->count_forbidden = false;
    count_subscribers(node); /* before `up`, which has everyone ask, and join */
    seed(node);
    lw__subscription_start(&node->subscription);
}

static void commands_lost(void *arg, const char *why)
{
    struct lw__node *node = arg;
    struct lw__command *command;

    node->up = node->subscription.bound = false;
    while ((command = lw__backlog_next(&node->backlog, LW__ORDERS - 1)) != NULL) {
        lw__backlog_pull(&node->backlog, command);
        command->type->failed(command, why, false);
    }
    node->events->down(node->arg, why);
}

static void heartbeat(void *arg)
{
    struct lw__node *node = arg;

    lw__timer_set(loop_of(node), &node->heartbeat,
                  lw__now_us() + (int64_t)node->options.access.request_timeout_ms * MS);
    lw__subscription_heartbeat(&node->subscription);
    count_subscribers(node);
    if (node->up && !node->keeping) {
        node->keeping = true;
        submit(node, &node->keep, &keep_type);
    }
}

/* ---- life ---- */

int lw__node_new(const struct lw__node_options *options,
                 const struct lw__node_events *events, void *arg, struct lw__node **ret)
{
    static const struct lw__session_events command_events = {
        commands_ready, commands_lost, NULL, make_room};
    static const struct lw__subscription_events subscription_events = {
        subscription_confirmed, subscription_message};
    struct lw__node *node = calloc(1, sizeof(*node));

    if (node == NULL) {
        return LW_ENOMEM;
    }
    if (lw__loop_reserve(options->access.loop, 3) != 0) {
        free(node);
        return LW_ENOMEM;
    }
    node->options = *options;
    node->events = events;
    node->arg = arg;
    lw__backlog_init(&node->backlog);
    lw__timer_init(&node->heartbeat, heartbeat, node);
    lw__deferred_init(&node->pump_call, pump, node);
    lw__session_init(&node->commands, &node->options.access, &command_events, node);
    lw__subscription_init(&node->subscription, &node->options.access, options->uuid,
                          &subscription_events, node);
    lw__session_start(&node->commands);
    lw__timer_set(loop_of(node), &node->heartbeat,
                  lw__now_us() + (int64_t)options->access.request_timeout_ms * MS);
    *ret = node;
    return 0;
}

void lw__node_free(struct lw__node *node)
{
    if (node == NULL) {
        return;
    }
    lw__session_stop(&node->commands);
    lw__session_stop(&node->subscription.session);
    lw__timer_cancel(loop_of(node), &node->heartbeat);
    lw__defer_cancel(loop_of(node), &node->pump_call);
    lw__loop_unreserve(loop_of(node), 3);
    lw__buffer_clear(&node->buffer);
    free(node);
}

void lw__node_abandon(struct lw__node *node)
{
    lw__session_abandon(&node->commands);
    lw__session_abandon(&node->subscription.session);
    lw__buffer_clear(&node->buffer);
    free(node);
}

bool lw__node_is_up(const struct lw__node *node)
{
    return node->up;
}

bool lw__node_is_backing_off(const struct lw__node *node)
{
    return node->commands.state == LW__SESSION_BACKOFF && node->commands.backoff_ms > 0;
}

bool lw__node_is_bound(const struct lw__node *node)
{
    return node->subscription.bound;
}

const char *lw__node_server(const struct lw__node *node)
{
    return node->server;
}

bool lw__node_is_clustered(const struct lw__node *node)
{
    return node->commands.clustered;
}

const struct lw__unseeded *lw__node_unseeded(struct lw__node *node)
{
    if (node->unseeded.why[0] == '\0') {
        return NULL;
    }
    seed(node);
    return &node->unseeded;
}

const struct lw__access *lw__node_access(const struct lw__node *node)
{
    return &node->options.access;
}

unsigned lw__node_connection(const struct lw__node *node)
{
    return node->connection + node->subscription.nonce;
}
