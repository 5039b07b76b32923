/* SPDX-License-Identifier: MIT */
/* One Redis server: see node.h.
 *
 * The command connection comes up in three steps: the session exchanges the handshake,
 * the fence counter is set (node_fence.c), then `up` is called. Other
 * questions of a new connection (how the server is configured, which commands it has) are
 * not waited for. When the connection is lost, the commands in flight and those that wait
 * fail, `down` is called, and the session tries again. The listener reconnects by itself.
 *
 * A name may lead the two connections to different servers: a load balancer, a failover,
 * a replica. A waiter would then queue at a server whose messages it does not get. So
 * they are bound only if the command connection's own server counts one subscriber of a
 * channel that only the present listener's connection has. If it counts none, the
 * listener reconnects; after three such counts, and after twice as many each time, the
 * command connection does as well. A server that does not permit counting leaves the
 * waiters polling until the next connection. In a cluster each node is connected to under
 * its own name, and the run ids of both connections are compared instead. Elsewhere that
 * would leave accounts without INFO (which is in @dangerous) without hand-overs. */
#include "redis/node.h"

#include "base/check.h"
#include "base/container_of.h"
#include "base/escape.h"
#include "base/log.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/decode.h"
#include "redis/link.h"
#include "redis/node_private.h"
#include "redis/reply.h"
#include "redis/resp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define TIMERS 4            /* of the heartbeat, the guard and each session */
#define RECONNECT_BOTH_AT 3 /* mismatches */
/* Twice as long as any waiter sleeps: a slot that no waiter named since has none. */
#define IDLE_US (60 * 1000 * (int64_t)LW__MS)

static struct lw__loop *loop_of(const struct lw__node *node)
{
    return node->options.config.loop;
}

static const struct lw__log *log_of(const struct lw__node *node)
{
    return node->options.config.log;
}

/* ---- are both connections at one server? By counting ---- */

static void count_subscribers(struct lw__node *node);

static void encode_count(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, count, command);

    /* before it is confirmed the server may not have the channel, and count 0 */
    node->counted = node->binding != LW__UNSUBSCRIBED ? node->listener.connections : 0;
    lw__encode_count(out, node->connection_channel);
}

/* On the next connection it may be permitted. After another error it is tried again at
 * the next heartbeat. */
static void count_refused(struct lw__node *node, const struct lw__reply *reply)
{
    lw__session_note_missing(&node->commands, reply, LW_DEGRADED_NUMSUB, LOG_WARNING,
                             "PUBSUB NUMSUB", "waiters poll");
    node->count_forbidden = (node->commands.degraded & LW_DEGRADED_NUMSUB) != 0;
    if (node->count_forbidden && node->binding == LW__BOUND) {
        node->binding = LW__SUBSCRIBED;
    }
}

/* Both may be in order, and other handles live by the command connection: so that is
 * given up ever more rarely. */
static void mismatch(struct lw__node *node)
{
    node->binding = LW__SUBSCRIBED;
    if (node->mismatches++ == 0) {
        lw__log(log_of(node), LOG_WARNING,
                "the command and subscription connections seem to reach different "
                "servers (a load balancer?); waiters poll until both reach the same one");
    }
    lw__session_fail(&node->listener.session,
                     "connected to a different server than the command connection");
    if (node->mismatches >= node->reconnect_both_at) {
        node->reconnect_both_at *= 2;
        lw__node_fail_link(node, "connected to a different server than the "
                                 "subscription connection");
    }
}

static void note_count(struct lw__node *node, int64_t count)
{
    bool was_bound = node->binding == LW__BOUND;

    if (node->counted != node->listener.connections) {
        count_subscribers(node); /* it has reconnected in the meantime */
        return;
    }
    if (node->binding == LW__UNSUBSCRIBED) {
        return;
    }
    if (count == 0) {
        mismatch(node);
        return;
    }
    node->binding = LW__BOUND;
    node->mismatches = 0;
    node->reconnect_both_at = RECONNECT_BOTH_AT;
    if (!was_bound && node->up) { /* before `up` that event does the same */
        node->events->bound(node->arg, node);
    }
}

static bool count_replied(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, count, command);
    int64_t count;

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        count_refused(node, reply);
        return true;
    }
    if (!lw__decode_count(reply, &count)) {
        return false;
    }
    note_count(node, count);
    return true;
}

static void count_subscribers(struct lw__node *node)
{
    static const struct lw__command_type type = {encode_count, .on_reply = count_replied};

    if (node->binding != LW__UNSUBSCRIBED && node->count.request.prev == NULL &&
        !node->count_forbidden && node->commands.state == LW__SESSION_READY) {
        lw__node_send_own(node, &node->count, &type);
    }
}

/* ---- the same in a cluster ---- */

static bool is_one_server(const struct lw__node *node)
{
    const struct lw__session *a = &node->commands, *b = &node->listener.session;

    return a->state == LW__SESSION_READY && b->state == LW__SESSION_READY &&
           a->run_id[0] != '\0' && strcmp(a->run_id, b->run_id) == 0;
}

static void require_one_server(struct lw__node *node)
{
    if (node->commands.state == LW__SESSION_READY &&
        node->listener.session.state == LW__SESSION_READY && !is_one_server(node)) {
        lw__session_fail(&node->listener.session,
                         "connected to a different server than the command connection");
    }
}

static void slots_confirmed(void *arg)
{
    struct lw__node *node = arg;

    require_one_server(node);
    if (node->up && is_one_server(node)) {
        node->events->bound(node->arg, node);
    }
    lw__listener_settle(&node->listener);
}

void lw__node_subscribe(struct lw__node *node, unsigned slot)
{
    char channel[LW__CHANNEL_OF_OURS_SIZE];

    if (!node->options.clustered || node->listener.forbidden) {
        return;
    }
    if (node->commands.run_id[0] != '\0') {
        lw__format_channel(node->options.prefix, node->options.uuid, (int)slot, channel);
        if (lw__listener_add(&node->listener, slot, channel, "") != NULL) {
            lw__listener_start(&node->listener); /* else at another time, with memory */
        }
    } else if (node->up) {
        lw__log_once(log_of(node), &node->nameless_logged, LOG_WARNING,
                     "the reply of %s:%u to INFO has no run_id; waiters poll",
                     node->options.config.host, (unsigned)node->options.config.port);
    }
}

/* ---- messages ---- */

static void listener_ready(void *arg)
{
    struct lw__node *node = arg;
    struct lw__listener *listener = &node->listener;
    struct lw__channel *channel = lw__listener_find(listener, node->connection_channel);

    if (channel != NULL) { /* the former connection's */
        lw__listener_remove(listener, channel);
    }
    lw__format_connection_channel(node->options.prefix, node->options.uuid,
                                  listener->connections, node->connection_channel);
    channel = lw__listener_find(listener, node->own_channel);
    if (channel != NULL) {
        lw__listener_remove(listener, channel);
    }
    if (lw__listener_add(listener, 0, node->own_channel, "") == NULL ||
        lw__listener_add(listener, 0, node->connection_channel, "") == NULL) {
        lw__session_fail(&listener->session, lw_strerror(LW_ENOMEM));
    }
}

static void channel_confirmed(void *arg, struct lw__channel *channel)
{
    struct lw__node *node = arg;

    if (node->options.clustered) {
        lw__defer(loop_of(node), &node->bound, false);
    } else if (strcmp(channel->text, node->connection_channel) == 0) {
        node->binding = LW__SUBSCRIBED;
        count_subscribers(node);
    }
}

static void message(void *arg, const struct lw__channel *channel, const char *text,
                    size_t length)
{
    struct lw__node *node = arg;

    (void)channel;
    node->options.message(node->options.message_arg, text, length);
}

static void key_changed(void *arg, const char *key)
{
    struct lw__node *node = arg;

    if (node->options.key_changed != NULL) {
        node->options.key_changed(node->options.message_arg, key);
    }
}

/* While the command connection is down, its own failure is reported. */
static void listener_lost(void *arg, bool was_confirmed, const char *why)
{
    struct lw__node *node = arg;

    node->binding = LW__UNSUBSCRIBED;
    if (!was_confirmed && !node->listener.forbidden &&
        node->commands.state == LW__SESSION_READY) {
        lw__log_cause(log_of(node), lw__now_us(), LOG_WARNING,
                      "the subscription connection is down; waiters poll: %s", why);
    }
}

static void slot_unsubscribed(void *arg, unsigned slot)
{
    struct lw__node *node = arg;

    require_one_server(node);
    if (is_one_server(node)) { /* else another server has the slot elsewhere */
        node->events->slot_unsubscribed(node->arg, node, slot);
    }
}

static void slot_unsettled(void *arg)
{
    struct lw__node *node = arg;

    node->events->slot_unsettled(node->arg, node);
}

static void init_listener(struct lw__node *node)
{
    static const struct lw__listener_events events = {
        .ready = listener_ready,
        .confirmed = channel_confirmed,
        .message = message,
        .key_changed = key_changed,
        .lost = listener_lost,
    };
    static const struct lw__listener_events sharded_events = {
        .confirmed = channel_confirmed,
        .message = message,
        .key_changed = key_changed,
        .lost = listener_lost,
        .unsubscribed = slot_unsubscribed,
        .unsettled = slot_unsettled,
    };
    bool sharded = node->options.clustered;
    struct lw__listener_options options = {.config = &node->options.config,
                                           .sharded = sharded,
                                           .consequence = "waiters poll"};

    lw__format_channel(node->options.prefix, node->options.uuid, LW__NO_SLOT,
                       node->own_channel);
    lw__defer_init(&node->bound, slots_confirmed, node);
    lw__listener_init(&node->listener, &options, sharded ? &sharded_events : &events,
                      node);
    node->reconnect_both_at = RECONNECT_BOTH_AT;
}

bool lw__node_is_subscribed(const struct lw__node *node)
{
    if (!node->options.clustered) {
        return node->binding == LW__BOUND;
    }
    return node->listener.channels == NULL || (node->up && is_one_server(node));
}

bool lw__node_is_bound(const struct lw__node *node, unsigned slot)
{
    const struct lw__channel *channel;

    if (!node->options.clustered) {
        return node->binding == LW__BOUND;
    }
    if (!node->up || !is_one_server(node)) {
        return false;
    }
    channel = lw__listener_find_slot(&node->listener, slot);
    return channel != NULL && channel->state == LW__CHANNEL_CONFIRMED;
}

bool lw__node_is_newly_bound(const struct lw__node *node, unsigned slot)
{
    const struct lw__channel *channel;

    if (!node->options.clustered) {
        return true;
    }
    channel = lw__listener_find_slot(&node->listener, slot);
    return channel != NULL && channel->fresh;
}

/* ---- changes of keys ---- */

static void tracking_replied(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, tracking, request);

    lw__node_make_room(node);
    node->tracking_refused = lw__reply_type(reply) == LW__REPLY_ERROR;
    lw__session_note_missing(&node->commands, reply, 0, LOG_NOTICE, "CLIENT TRACKING",
                             "watches poll"); /* no lock is worse for that */
}

/* The server redirects to a connection by its id, which names another client's at another
 * server: both connections must be bound. OPTIN: reads that CLIENT CACHING does not
 * precede cost nothing. */
bool lw__node_track(struct lw__node *node, unsigned slot, struct lw__buffer *out)
{
    static const struct lw__request_type type = {tracking_replied, NULL};
    char id[24];

    lw__node_subscribe(node, slot);
    if (!lw__node_is_bound(node, slot) || node->listener.session.id <= 0) {
        return false;
    }
    if (node->tracked != lw__node_connection(node)) {
        if (node->tracking.prev != NULL) {
            return false;
        }
        node->tracked = lw__node_connection(node);
        node->tracking_refused = false;
        (void)snprintf(id, sizeof(id), "%lld", (long long)node->listener.session.id);
        lw__session_request(
            &node->commands, &node->tracking, &type, 6,
            (const char *[]){"CLIENT", "TRACKING", "ON", "REDIRECT", id, "OPTIN"});
    }
    if (node->tracking_refused) {
        return false;
    }
    lw__resp_words(out, 3, (const char *[]){"CLIENT", "CACHING", "YES"});
    return true;
}

/* ---- what a new connection asks about its server ---- */

static bool has_command(const struct lw__reply *abilities, size_t index)
{
    return lw__reply_type(lw__reply_at(abilities, index)) == LW__REPLY_ARRAY;
}

/* A command that the server has is described by an array, any other is nil. An older
 * server, or one where the question is forbidden, replies with an error. */
static void abilities_replied(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, abilities, request);

    lw__node_make_room(node);
    lw__session_note_missing(&node->commands, reply, LW_DEGRADED_COMMAND, LOG_INFO,
                             "COMMAND INFO",
                             "locks without waiters are released by a script");
    if (lw__reply_count(reply) != 2 || node->fast_release_disabled) {
        return;
    }
    if (has_command(reply, 0)) {
        node->fast_release = LW__FAST_RELEASE_DELIFEQ;
    } else if (has_command(reply, 1)) {
        node->fast_release = LW__FAST_RELEASE_DELEX;
    }
}

/* The connection may have been gone already. */
static void kill_replied(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, kill, request);

    lw__node_make_room(node);
    lw__session_note_missing(&node->commands, reply, LW_DEGRADED_KILL, LOG_INFO,
                             "CLIENT KILL",
                             "a former connection that hangs is not ended");
}

static void policy_replied(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, policy, request);
    const char *policy = lw__reply_field(reply, "maxmemory-policy", NULL);
    char endpoint[LW__TEXT_MAX];

    lw__node_make_room(node);
    lw__session_note_missing(&node->commands, reply, LW_DEGRADED_CONFIG, LOG_INFO,
                             "CONFIG GET",
                             "a configuration that endangers locks is not reported");
    lw__node_endpoint(node, endpoint);
    if (policy != NULL &&
        (strncmp(policy, "allkeys-", 8) == 0 || strncmp(policy, "volatile-", 9) == 0)) {
        lw__log_cause(log_of(node), lw__now_us(), LOG_WARNING,
                      "the maxmemory-policy of %.200s is %.100s; the server may evict "
                      "held locks, only noeviction is safe",
                      endpoint, policy);
    } else if (policy != NULL) {
        lw__log(log_of(node), LOG_INFO, "the maxmemory-policy of %.200s is %.100s",
                endpoint, policy);
    }
}

/* Returns a setting's value, or -1 if it is not reported. */
static int64_t setting(const struct lw__reply *settings, const char *name)
{
    const char *value = lw__reply_field(settings, name, NULL);

    return value != NULL ? lw__check_number(value, strlen(value), INT32_MAX) : -1;
}

/* The guard's time covers what an old master may still grant in the seconds before it
 * notices that it has no replicas. */
#define GUARD_LAG_S 10

static void warn_of_lag(struct lw__node *node, int64_t lag_s)
{
    lw__log_once(log_of(node), &node->replicas_logged, LOG_WARNING,
                 "min-replicas-max-lag is %lld on the master: with the guard it must not "
                 "be above %d, because an old master grants locks for that long",
                 (long long)lag_s, GUARD_LAG_S);
}

/* Without replicas, or if they may lag without limit, the master continues alone. */
static void replicas_replied(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, replicas, request);
    int64_t lag_s = setting(reply, "min-replicas-max-lag");
    int64_t least = setting(reply, "min-replicas-to-write");

    lw__node_make_room(node);
    if (least == 0 || lag_s == 0) {
        lw__log_once(log_of(node), &node->replicas_logged, LOG_WARNING,
                     "min-replicas-to-write or min-replicas-max-lag is 0 on the master; "
                     "after a failover an old master that still runs keeps granting "
                     "locks that the new one does not know. Set them to 1 and a few "
                     "seconds");
    } else if (lw__node_uses_guard(node) && lag_s > GUARD_LAG_S) {
        warn_of_lag(node, lag_s);
    } else if (least > 0 && lag_s > 0) {
        lw__log(log_of(node), LOG_INFO,
                "min-replicas-to-write is %" PRId64
                " and min-replicas-max-lag is %" PRId64 " on the master",
                least, lag_s);
    }
}

static const char no_messages[] =
    "released locks are not handed over, waiters find them free by polling";

static void publish_replied(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, publish, request);

    lw__node_make_room(node);
    lw__session_note_missing(&node->commands, reply, LW_DEGRADED_PUBLISH, LOG_WARNING,
                             node->options.clustered ? "SPUBLISH" : "PUBLISH",
                             no_messages);
}

static void shard_count_replied(struct lw__request *request,
                                const struct lw__reply *reply)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, shard_count, request);

    lw__node_make_room(node);
    lw__session_note_missing(&node->commands, reply, LW_DEGRADED_NUMSUB, LOG_WARNING,
                             "PUBSUB SHARDNUMSUB", no_messages);
}

/* Scripts call PUBLISH and PUBSUB by pcall, so that a release succeeds without the
 * permission, and do not report the error. This tries both once per connection, on a
 * channel that has no subscribers. (Outside a cluster count_subscribers tries PUBSUB.) */
static void try_to_publish(struct lw__node *node)
{
    static const struct lw__request_type type = {publish_replied, NULL};
    static const struct lw__request_type count_type = {shard_count_replied, NULL};
    char channel[LW__CHANNEL_OF_OURS_SIZE], unheard[LW__CHANNEL_OF_OURS_SIZE + 2];
    bool sharded = node->options.clustered;

    lw__format_channel(node->options.prefix, node->options.uuid,
                       sharded ? (int)node->options.slot : LW__NO_SLOT, channel);
    (void)snprintf(unheard, sizeof(unheard), "%s:0", channel);
    lw__session_request(&node->commands, &node->publish, &type, 3,
                        (const char *[]){sharded ? "SPUBLISH" : "PUBLISH", unheard, ""});
    if (sharded) {
        lw__session_request(&node->commands, &node->shard_count, &count_type, 3,
                            (const char *[]){"PUBSUB", "SHARDNUMSUB", unheard});
    }
}

/* Commands that the lost connection still has in its buffers must not be executed after
 * those of this one. */
static void kill_former_connection(struct lw__node *node)
{
    static const struct lw__request_type type = {kill_replied, NULL};
    char id[24];

    (void)snprintf(id, sizeof(id), "%lld", (long long)node->commands.previous_id);
    lw__session_request(&node->commands, &node->kill, &type, 4,
                        (const char *[]){"CLIENT", "KILL", "ID", id});
}

/* Warns of a configuration that endangers locks. */
static void check_configuration(struct lw__node *node)
{
    static const struct lw__request_type policy = {policy_replied, NULL};
    static const struct lw__request_type replicas = {replicas_replied, NULL};

    lw__session_request(&node->commands, &node->policy, &policy, 3,
                        (const char *[]){"CONFIG", "GET", "maxmemory-policy"});
    try_to_publish(node);
    if (node->sentinels != NULL || node->commands.replicas > 0) {
        lw__session_request(&node->commands, &node->replicas, &replicas, 3,
                            (const char *[]){"CONFIG", "GET", "min-replicas-*"});
    }
}

/* ---- sentinels ---- */

int lw__node_master(const struct lw__node *node, struct lw_master *ret)
{
    return node->sentinels != NULL ? lw__sentinel_master(node->sentinels, ret)
                                   : LW_EINVAL;
}

/* ---- the command connection ---- */

/* A difference that no network causes: one of the two clocks is not synchronized. */
#define CLOCK_FAR_US ((int64_t)2 * 1000000)

/* Logs which server this is. This host's clock is not used; but if it is right the
 * server's is wrong, from which fencing tokens start. */
static void log_server(const struct lw__node *node)
{
    const struct lw__session *s = &node->commands;
    int64_t ahead_us = s->clock_ahead_us, ahead_ms = ahead_us / LW__MS;
    bool far = ahead_us > CLOCK_FAR_US || ahead_us < -CLOCK_FAR_US;
    char endpoint[LW__TEXT_MAX];

    lw__session_endpoint(s, endpoint);
    if (*s->software != '\0') {
        lw__log(log_of(node), LOG_INFO, "%.200s is %s", endpoint, s->software);
    }
    if (s->server_us > 0) {
        lw__log(log_of(node), far ? LOG_NOTICE : LOG_INFO,
                "the clock of %.200s is %" PRId64 " ms %s this host's%s", endpoint,
                ahead_ms < 0 ? -ahead_ms : ahead_ms, ahead_ms < 0 ? "behind" : "ahead of",
                far ? "; fencing tokens may become smaller when a server whose clock is "
                      "behind takes over"
                    : "");
    }
}

static void commands_ready(void *arg)
{
    static const struct lw__request_type abilities = {abilities_replied, NULL};
    struct lw__node *node = arg;

    log_server(node);
    if (node->connection++ > 0) {
        node->options.stats->reconnects++;
    }
    lw__format_server(node->commands.run_id, node->server);
    lw__format_numbers(node->server, node->commands.wide, node->numbers);
    if (node->commands.previous_id > 0) {
        kill_former_connection(node);
    }
    check_configuration(node);
    node->fast_release = LW__FAST_RELEASE_SCRIPT;
    lw__session_request(&node->commands, &node->abilities, &abilities, 4,
                        (const char *[]){"COMMAND", "INFO", "DELIFEQ", "DELEX"});
    node->count_forbidden = false;
    count_subscribers(node); /* before `up`, at which waiters ask, and join queues */
    lw__node_reset_fence(node);
    lw__node_seed_fence(node);
    lw__node_guard_start(node);
    if (!node->options.clustered || node->listener.channels != NULL) {
        lw__listener_start(&node->listener); /* also after it was forbidden */
    }
    if (node->options.clustered) {
        node->listener.forbidden = false;
        require_one_server(node);
    }
}

static void commands_lost(void *arg, const char *why)
{
    struct lw__node *node = arg;

    node->up = node->seeded = false;
    lw__node_guard_stop(node);
    if (node->binding == LW__BOUND) {
        node->binding = LW__SUBSCRIBED;
    }
    lw__escape(why, node->why, sizeof(node->why));
    node->error = node->commands.failure.status;
    lw__node_fail_waiting(node, why);
    node->events->down(node->arg, node);
}

/* A slot whose channel was refused, or left by the server, is subscribed to again. */
static void leave_idle_slots(struct lw__node *node, int64_t now_us)
{
    if (node->events->keep_slots != NULL) {
        node->events->keep_slots(node->arg, node);
    }
    if (!lw__listener_leave(&node->listener, now_us - IDLE_US)) {
        lw__listener_clear(&node->listener);
    }
}

static void heartbeat(void *arg)
{
    struct lw__node *node = arg;
    int64_t now_us = lw__now_us();

    lw__timer_set(loop_of(node), &node->heartbeat,
                  now_us + (int64_t)node->options.config.request_timeout_ms * LW__MS);
    if (node->options.clustered) {
        leave_idle_slots(node, now_us);
    }
    lw__listener_heartbeat(&node->listener);
    if (!node->options.clustered) {
        count_subscribers(node);
    }
    if (node->up) {
        lw__node_extend_fence(node);
    }
    lw__node_guard_heartbeat(node);
}

/* ---- its life ---- */

/* Returns 0, or LW_ENOMEM. */
static int use_sentinels(struct lw__node *node)
{
    struct lw__node_options *options = &node->options;
    int status = lw__sentinel_new(&options->sentinel, &options->config,
                                  &options->stats->failovers, &node->sentinels);

    if (status == 0) {
        lw__sentinel_configure(node->sentinels, &options->config);
    }
    return status;
}

int lw__node_new(const struct lw__node_options *options,
                 const struct lw__node_events *events, void *arg, struct lw__node **ret)
{
    static const struct lw__session_events command_events = {
        commands_ready, commands_lost, NULL, lw__node_make_room, NULL};
    struct lw__node *node = calloc(1, sizeof(*node) + lw__node_slot_fences_size(options));

    if (node == NULL) {
        return LW_ENOMEM;
    }
    if (lw__timer_reserve(options->config.loop, TIMERS) != 0) {
        free(node);
        return LW_ENOMEM;
    }
    node->options = *options;
    lw__node_init_fence(node);
    if (options->sentinel.service != NULL && use_sentinels(node) != 0) {
        lw__timer_unreserve(options->config.loop, TIMERS);
        free(node);
        return LW_ENOMEM;
    }
    node->events = events;
    node->arg = arg;
    lw__timer_init(&node->heartbeat, heartbeat, node);
    lw__node_guard_init(node);
    lw__node_send_init(node);
    lw__session_init(&node->commands, &node->options.config, &command_events, node);
    init_listener(node);
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
    lw__listener_clear(&node->listener);
    lw__sentinel_free(node->sentinels);
    lw__timer_cancel(loop_of(node), &node->heartbeat);
    lw__node_guard_stop(node);
    lw__defer_cancel(loop_of(node), &node->bound);
    lw__defer_cancel(loop_of(node), &node->pump_call);
    lw__timer_unreserve(loop_of(node), TIMERS);
    lw__buffer_clear(&node->buffer);
    free(node);
}

/* ---- its state ---- */

unsigned lw__node_degraded(const struct lw__node *node)
{
    return node->commands.degraded | node->listener.session.degraded |
           (node->sentinels != NULL ? lw__sentinel_degraded(node->sentinels) : 0);
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
    if (*node->why) {
        return node->why;
    }
    return node->commands.state == LW__SESSION_READY
               ? "connected, but no reply to the first commands yet"
               : lw__session_pending(&node->commands);
}

bool lw__node_has_failed(const struct lw__node *node)
{
    return node->error != 0;
}

bool lw__node_is_silent(const struct lw__node *node)
{
    return node->commands.link != NULL && lw__link_is_silent(node->commands.link);
}

bool lw__node_is_connected(const struct lw__node *node)
{
    return node->commands.state == LW__SESSION_READY;
}

void lw__node_set_up(struct lw__node *node, bool up)
{
    node->up = up;
    if (up) {
        node->why[0] = '\0';
        node->error = 0;
    }
}

bool lw__node_is_backing_off(const struct lw__node *node)
{
    if (node->options.inert) {
        return !node->up && node->error != 0;
    }
    return node->commands.state == LW__SESSION_BACKOFF && node->commands.backoff_ms > 0;
}

void lw__node_set_slot(struct lw__node *node, unsigned slot)
{
    node->options.slot = slot;
}

void lw__node_deprioritize(struct lw__node *node)
{
    node->deprioritized = true;
}

bool lw__node_is_deprioritized(const struct lw__node *node)
{
    return node->deprioritized;
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
    lw__session_endpoint(&node->commands, ret);
}

bool lw__node_is_clustered(const struct lw__node *node)
{
    return node->commands.clustered;
}

int64_t lw__node_replicas(const struct lw__node *node)
{
    return node->commands.replicas;
}

int64_t lw__node_clock(const struct lw__node *node, int64_t *asked_us)
{
    *asked_us = node->commands.server_asked_us;
    return node->up ? node->commands.server_us : 0;
}

char *lw__node_first_error(struct lw__node *node)
{
    return node->first_error;
}

enum lw__fast_release lw__node_fast_release(const struct lw__node *node)
{
    return node->fast_release;
}

void lw__node_fast_release_refused(struct lw__node *node)
{
    node->fast_release = LW__FAST_RELEASE_SCRIPT;
}

void lw__node_disable_fast_release(struct lw__node *node)
{
    node->fast_release_disabled = true;
}

const struct lw__session_config *lw__node_config(const struct lw__node *node)
{
    return &node->options.config;
}

unsigned lw__node_connection(const struct lw__node *node)
{
    return node->connection + node->listener.connections + (node->options.ordinal << 16);
}

unsigned lw__node_command_link(const struct lw__node *node)
{
    return node->connection + (node->options.ordinal << 16);
}
