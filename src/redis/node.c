/* SPDX-License-Identifier: MIT */
/* One Redis server: see node.h. The command link comes up in three steps: the session
 * greets, the fence counter is seeded (node_fence.c), then `up`. Whenever either link
 * connects, and at heartbeats, the command link counts who listens (node_count.c). What
 * else a new connection asks (how the server is set up, whether it compares and deletes)
 * is awaited by nobody. When the command link is lost, what is in flight and what waits
 * is told so, `down` follows, and its session tries again; the subscription link comes
 * back by itself. */
#include "redis/node.h"

#include "base/log.h"
#include "base/container_of.h"
#include "base/escape.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/link.h"
#include "redis/node_inside.h"
#include "redis/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define TIMERS 4 /* its own, and those of three sessions */

static struct lw__loop *loop_of(const struct lw__node *node)
{
    return node->options.config.loop;
}

static void subscription_confirmed(void *arg)
{
    lw__node_count(arg);
}

static void subscription_message(void *arg, const char *text, size_t length)
{
    struct lw__node *node = arg;

    node->events->message(node->arg, text, length);
}

/* A cluster's nodes are connected to one by one, each under its own name: that both ends
 * are at the same server its own id says. */
static bool is_one_server(const struct lw__node *node)
{
    const struct lw__session *a = &node->commands, *b = &node->shards.session;

    return a->state == LW__SESSION_READY && b->state == LW__SESSION_READY &&
           a->run_id[0] != '\0' && strcmp(a->run_id, b->run_id) == 0;
}

/* When either is ready: whichever other server it is, the next attempt may find this one.
 */
static void have_one_server(struct lw__node *node)
{
    if (node->commands.state == LW__SESSION_READY &&
        node->shards.session.state == LW__SESSION_READY && !is_one_server(node)) {
        lw__session_fail(&node->shards.session,
                         "it is at another server than the commands");
    }
}

static void shards_confirmed(void *arg)
{
    struct lw__node *node = arg;

    have_one_server(node);
    if (node->up && is_one_server(node)) {
        node->events->bound(node->arg, node);
    }
}

static void shards_dropped(void *arg, unsigned slot)
{
    struct lw__node *node = arg;

    have_one_server(node);
    if (is_one_server(node)) { /* else it was another server that said so */
        node->events->dropped(node->arg, node, slot);
    }
}

static void shards_unsettled(void *arg)
{
    struct lw__node *node = arg;

    node->events->unsettled(node->arg, node);
}

/* While the command link is up: else its own failure tells enough. */
static void messages_failed(void *arg, const char *why)
{
    struct lw__node *node = arg;

    if (node->commands.state == LW__SESSION_READY) {
        lw__log_cause(node->options.config.log, lw__now_us(), LOG_WARNING,
                      "no connection for messages, waiting is by polling: %s", why);
    }
}

bool lw__node_is_subscribed(const struct lw__node *node)
{
    if (!node->options.clustered) {
        return node->subscription.bound;
    }
    return node->shards.all == NULL || (node->up && is_one_server(node));
}

static bool has_command(const struct lw__reply *abilities, size_t index)
{
    return lw__reply_type(lw__reply_at(abilities, index)) == LW__REPLY_ARRAY;
}

/* What it knows is told at length, what not by nil; an older server, or one that may not
 * be asked, says neither. */
static void abilities_told(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, abilities, request);

    lw__node_make_room(node);
    if (lw__reply_count(reply) != 2 || node->drop_distrusted) {
        return;
    }
    if (has_command(reply, 0)) {
        node->drop = LW__FAST_RELEASE_DELIFEQ;
    } else if (has_command(reply, 1)) {
        node->drop = LW__FAST_RELEASE_DELEX;
    }
}

static void killed(struct lw__request *request, const struct lw__reply *reply)
{
    (void)reply; /* it may have been gone already */
    lw__node_make_room(LW__CONTAINER_OF(struct lw__node, kill, request));
}

static void replication_told(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, replication, request);

    lw__node_make_room(node);
    lw__session_note_replication(&node->commands, reply);
}

/* A master takes another replication id when its first replica connects, and when it has
 * had none for repl-backlog-ttl. The new master's former id is the last of these, by
 * which the claim of a learnt sentinel is proved. */
static void ask_replication(struct lw__node *node)
{
    static const struct lw__request_type type = {replication_told, NULL};

    if (node->sentinels != NULL && node->commands.state == LW__SESSION_READY &&
        node->replication.prev == NULL) {
        lw__session_request(&node->commands, &node->replication, &type, 2,
                            (const char *[]){"INFO", "replication"});
    }
}

static const struct lw__request_type abilities_type = {abilities_told, NULL};
static const struct lw__request_type kill_type = {killed, NULL};

static void commands_ready(void *arg)
{
    struct lw__node *node = arg;

    if (node->connection++ > 0) {
        node->options.stats->reconnects++;
    }
    lw__format_server(node->commands.run_id, node->server);
    lw__format_numbers(node->server, node->commands.wide, node->numbers);
    if (node->commands.previous_id > 0) {
        /* Whatever the dead connection still has buffered must not run behind ours. */
        char id[24];

        (void)snprintf(id, sizeof(id), "%lld", (long long)node->commands.previous_id);
        lw__session_request(&node->commands, &node->kill, &kill_type, 4,
                            (const char *[]){"CLIENT", "KILL", "ID", id});
    }
    lw__node_settings_ask(node);
    node->drop = LW__FAST_RELEASE_SCRIPT;
    lw__session_request(&node->commands, &node->abilities, &abilities_type, 4,
                        (const char *[]){"COMMAND", "INFO", "DELIFEQ", "DELEX"});
    node->count_forbidden = false;
    lw__node_count(node); /* before `up`, which has everyone ask, and join */
    lw__node_reset_fence(node);
    lw__node_seed_fence(node);
    if (node->options.clustered) {
        lw__shards_permit(&node->shards);
        have_one_server(node);
    } else {
        lw__session_start(&node->subscription.session); /* one that was forbidden, too */
    }
}

static void commands_lost(void *arg, const char *why)
{
    struct lw__node *node = arg;

    node->up = node->subscription.bound = false;
    lw__escape(why, node->why, sizeof(node->why));
    node->error = node->commands.failure.status;
    lw__node_fail_waiting(node, why);
    node->events->down(node->arg, node);
}

static void heartbeat(void *arg)
{
    struct lw__node *node = arg;

    lw__timer_set(loop_of(node), &node->heartbeat,
                  lw__now_us() +
                      (int64_t)node->options.config.request_timeout_ms * LW__MS);
    if (node->options.clustered) {
        lw__shards_heartbeat(&node->shards);
    } else {
        lw__subscription_heartbeat(&node->subscription);
        lw__node_count(node);
    }
    if (node->up) {
        lw__node_extend_fence(node);
    }
    ask_replication(node);
}

/* 0, LW_ENOMEM. */
static int be_guided(struct lw__node *node)
{
    struct lw__node_options *options = &node->options;
    int status = lw__sentinel_new(&options->sentinel, &options->config,
                                  &options->stats->failovers, &node->sentinels);

    if (status == 0) {
        lw__sentinel_guide(node->sentinels, &options->config);
    }
    return status;
}

int lw__node_new(const struct lw__node_options *options,
                 const struct lw__node_events *events, void *arg, struct lw__node **ret)
{
    static const struct lw__session_events command_events = {
        commands_ready, commands_lost, NULL, lw__node_make_room, NULL};
    static const struct lw__subscription_events subscription_events = {
        subscription_confirmed, subscription_message, messages_failed};
    static const struct lw__shards_events shards_events = {
        shards_confirmed, subscription_message, shards_dropped, shards_unsettled,
        messages_failed};
    struct lw__node *node = calloc(1, sizeof(*node) + lw__node_slot_fences_size(options));

    if (node == NULL) {
        return LW_ENOMEM;
    }
    if (lw__timer_reserve(options->config.loop, TIMERS) != 0) {
        free(node);
        return LW_ENOMEM;
    }
    node->options = *options;
    if (options->sentinel.service != NULL && be_guided(node) != 0) {
        lw__timer_unreserve(options->config.loop, TIMERS);
        free(node);
        return LW_ENOMEM;
    }
    node->events = events;
    node->arg = arg;
    lw__timer_init(&node->heartbeat, heartbeat, node);
    lw__node_send_init(node);
    lw__session_init(&node->commands, &node->options.config, &command_events, node);
    lw__subscription_init(&node->subscription, &node->options.config, options->uuid,
                          &subscription_events, node);
    lw__shards_init(&node->shards, &node->options.config, options->uuid, &shards_events,
                    node);
    *ret = node;
    return 0;
}

void lw__node_start(struct lw__node *node)
{
    const struct lw__session_config *config = &node->options.config;

    lw__session_start(&node->commands);
    lw__timer_set(config->loop, &node->heartbeat,
                  lw__now_us() + (int64_t)config->request_timeout_ms * LW__MS);
}

void lw__node_free(struct lw__node *node)
{
    if (node == NULL) {
        return;
    }
    lw__session_stop(&node->commands);
    lw__session_stop(&node->subscription.session);
    lw__shards_clear(&node->shards);
    lw__sentinel_free(node->sentinels);
    lw__timer_cancel(loop_of(node), &node->heartbeat);
    lw__defer_cancel(loop_of(node), &node->pump_call);
    lw__timer_unreserve(loop_of(node), TIMERS);
    lw__buffer_clear(&node->buffer);
    free(node);
}

int lw__node_master(const struct lw__node *node, struct lw_master *ret)
{
    return node->sentinels != NULL ? lw__sentinel_master(node->sentinels, ret)
                                   : LW_EINVAL;
}

void lw__node_set_reason(struct lw__node *node, int error, const char *why)
{
    lw__escape(why, node->why, sizeof(node->why));
    node->error = error;
}

int lw__node_error(const struct lw__node *node)
{
    return node->error != 0 ? node->error : LW_ECONN;
}

bool lw__node_is_up(const struct lw__node *node)
{
    return node->up;
}

const char *lw__node_reason(const struct lw__node *node)
{
    return *node->why ? node->why : lw__session_pending(&node->commands);
}

bool lw__node_has_failed(const struct lw__node *node)
{
    return node->error != 0;
}

bool lw__node_is_connected(const struct lw__node *node)
{
    return node->commands.state == LW__SESSION_READY;
}

bool lw__node_is_backing_off(const struct lw__node *node)
{
    return node->commands.state == LW__SESSION_BACKOFF && node->commands.backoff_ms > 0;
}

bool lw__node_is_bound(const struct lw__node *node, unsigned slot)
{
    return node->options.clustered
               ? node->up && is_one_server(node) && lw__shards_has(&node->shards, slot)
               : node->subscription.bound;
}

bool lw__node_is_newly_bound(const struct lw__node *node, unsigned slot)
{
    return !node->options.clustered || lw__shards_is_fresh(&node->shards, slot);
}

void lw__node_set_slot(struct lw__node *node, unsigned slot)
{
    node->options.slot = slot;
}

void lw__node_subscribe(struct lw__node *node, unsigned slot)
{
    if (!node->options.clustered) {
        return;
    }
    if (node->commands.run_id[0] != '\0') {
        lw__shards_want(&node->shards, slot);
    } else if (node->up && !node->nameless_told) {
        node->nameless_told = true;
        lw__log(node->options.config.log, LOG_WARNING,
                "waiting will be by polling: INFO does not tell the id of %s:%u",
                node->options.config.host, (unsigned)node->options.config.port);
    }
}

void lw__node_deprioritize(struct lw__node *node)
{
    node->doubted = true;
}

bool lw__node_is_deprioritized(const struct lw__node *node)
{
    return node->doubted;
}

const char *lw__node_id(const struct lw__node *node)
{
    return node->commands.node_id;
}

const char *lw__node_server(const struct lw__node *node)
{
    return node->server;
}

void lw__node_endpoint(const struct lw__node *node, char ret[LW__TEXT_MAX])
{
    const struct lw__session_config *config = &node->options.config;
    const struct lw__way *way = &node->commands.way;
    const char *host = config->guide != NULL ? way->host : config->host;
    uint16_t port = config->guide != NULL ? way->port : config->port;
    char text[LW__HOST_SIZE + sizeof("[]:65535")];

    if (config->path == NULL) {
        (void)snprintf(text, sizeof(text),
                       strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host,
                       (unsigned)port);
    }
    lw__escape(config->path != NULL ? config->path : text, ret, LW__TEXT_MAX);
}

bool lw__node_is_clustered(const struct lw__node *node)
{
    return node->commands.clustered;
}

char *lw__node_first_error(struct lw__node *node)
{
    return node->first_error;
}

enum lw__fast_release lw__node_fast_release(const struct lw__node *node)
{
    return node->drop;
}

void lw__node_fast_release_refused(struct lw__node *node)
{
    node->drop = LW__FAST_RELEASE_SCRIPT;
}

void lw__node_disable_fast_release(struct lw__node *node)
{
    node->drop_distrusted = true;
}

const struct lw__session_config *lw__node_access(const struct lw__node *node)
{
    return &node->options.config;
}

unsigned lw__node_connection(const struct lw__node *node)
{
    return node->connection + node->subscription.nonce + node->shards.nonce +
           (node->options.ordinal << 16);
}

unsigned lw__node_command_link(const struct lw__node *node)
{
    return node->connection + (node->options.ordinal << 16);
}
