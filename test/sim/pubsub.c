/* SPDX-License-Identifier: MIT
 *
 * Publish and subscribe: which connection listens to which channel. A message is added to
 * the output of every subscriber at once. Independent of how it travels.
 *
 * Usual course: SUBSCRIBE adds the connection at the end of the channel's subscribers.
 * PUBLISH visits them in that order and replies with their number. Patterns come after
 * channels.
 */
#include "model.h"

#include "redis/slot.h"

#include <stdlib.h>
#include <uthash.h>
#include <utlist.h>

/* Sharded channels are separate from the others. */
enum kind { CHANNEL, PATTERN, SHARD };

/* A channel or a pattern with subscribers. */
struct topic {
    struct bytes name;
    struct subscription *listeners;
    UT_hash_handle hh;
};

/* A subscription of one connection to one topic, in the lists of both. */
struct subscription {
    struct model_conn *conn;
    struct topic *topic;
    enum kind kind;
    struct subscription *topic_prev, *topic_next;
    struct subscription *conn_prev, *conn_next;
};

static struct topic **topics(struct model_server *server, enum kind kind)
{
    return kind == CHANNEL   ? &server->channels
           : kind == PATTERN ? &server->patterns
                             : &server->shards;
}

static struct topic *find_topic(struct model_server *server, enum kind kind,
                                struct bytes name)
{
    struct topic *topic;
    HASH_FIND(hh, *topics(server, kind), name.data, name.len, topic);
    return topic;
}

static struct subscription *find_subscription(struct model_conn *conn, enum kind kind,
                                              struct bytes name)
{
    struct subscription *at;
    DL_FOREACH2(conn->subscriptions, at, conn_next) {
        if (at->kind == kind && bytes_equal(at->topic->name, name)) {
            return at;
        }
    }
    return NULL;
}

static void subscribe(struct model_conn *conn, enum kind kind, struct bytes name)
{
    struct model_server *server = conn->server;
    struct topic *topic = find_topic(server, kind, name);
    struct subscription *subscription;

    if (find_subscription(conn, kind, name) != NULL) {
        return;
    }
    if (topic == NULL) {
        struct topic **all = topics(server, kind);
        topic = must_alloc(sizeof(*topic));
        topic->name = bytes_copy(name);
        HASH_ADD_KEYPTR(hh, *all, topic->name.data, topic->name.len, topic);
    }
    subscription = must_alloc(sizeof(*subscription));
    subscription->conn = conn;
    subscription->topic = topic;
    subscription->kind = kind;
    DL_APPEND2(topic->listeners, subscription, topic_prev, topic_next);
    DL_APPEND2(conn->subscriptions, subscription, conn_prev, conn_next);
    conn->subscription_count++;
}

static void end(struct subscription *subscription)
{
    struct model_conn *conn = subscription->conn;
    struct topic *topic = subscription->topic;
    struct topic **all = topics(conn->server, subscription->kind);

    DL_DELETE2(topic->listeners, subscription, topic_prev, topic_next);
    DL_DELETE2(conn->subscriptions, subscription, conn_prev, conn_next);
    conn->subscription_count--;
    free(subscription);
    if (topic->listeners != NULL) {
        return;
    }
    HASH_DEL(*all, topic);
    free((char *)topic->name.data);
    free(topic);
}

void pubsub_forget(struct model_conn *conn)
{
    while (conn->subscriptions != NULL) {
        end(conn->subscriptions);
    }
}

/* Returns the number of subscriptions; sharded channels are counted separately. */
static int64_t count_of(const struct model_conn *conn, bool of_slots)
{
    const struct subscription *at;
    int64_t count = 0;

    DL_FOREACH2(conn->subscriptions, at, conn_next) {
        count += (at->kind == SHARD) == of_slots;
    }
    return count;
}

static void confirm(struct call *call, enum kind kind, const char *word,
                    const struct bytes *name)
{
    resp_array(call->reply, 3);
    resp_text(call->reply, word);
    if (name != NULL) {
        resp_bulk(call->reply, *name);
    } else {
        resp_nil(call->reply);
    }
    resp_int(call->reply, call->conn != NULL ? count_of(call->conn, kind == SHARD) : 0);
}

static void subscribe_all(struct call *call, enum kind kind, const char *word)
{
    for (int i = 1; i < call->argc; i++) {
        if (call->conn != NULL) {
            subscribe(call->conn, kind, call->argv[i]);
        }
        confirm(call, kind, word, &call->argv[i]);
    }
}

static struct subscription *first_of_kind(struct call *call, enum kind kind)
{
    struct subscription *at = call->conn != NULL ? call->conn->subscriptions : NULL;
    while (at != NULL && at->kind != kind) {
        at = at->conn_next;
    }
    return at;
}

static void unsubscribe_all(struct call *call, enum kind kind, const char *word)
{
    struct subscription *at = first_of_kind(call, kind);

    if (at == NULL) {
        confirm(call, kind, word, NULL);
    }
    for (; at != NULL; at = first_of_kind(call, kind)) {
        struct bytes name = bytes_copy(at->topic->name);
        end(at);
        confirm(call, kind, word, &name);
        free((char *)name.data);
    }
}

static void unsubscribe(struct call *call, enum kind kind, const char *word)
{
    if (call->argc == 1) {
        unsubscribe_all(call, kind, word);
    }
    for (int i = 1; i < call->argc; i++) {
        struct subscription *at = call->conn != NULL
                                      ? find_subscription(call->conn, kind, call->argv[i])
                                      : NULL;
        if (at != NULL) {
            end(at);
        }
        confirm(call, kind, word, &call->argv[i]);
    }
}

void run_subscribe(struct call *call)
{
    subscribe_all(call, CHANNEL, "subscribe");
}

void run_psubscribe(struct call *call)
{
    subscribe_all(call, PATTERN, "psubscribe");
}

void run_unsubscribe(struct call *call)
{
    unsubscribe(call, CHANNEL, "unsubscribe");
}

void run_punsubscribe(struct call *call)
{
    unsubscribe(call, PATTERN, "punsubscribe");
}

void run_ssubscribe(struct call *call)
{
    subscribe_all(call, SHARD, "ssubscribe");
}

void run_sunsubscribe(struct call *call)
{
    unsubscribe(call, SHARD, "sunsubscribe");
}

static int64_t deliver(const struct topic *topic, const struct buffer *message)
{
    struct subscription *at;
    int64_t receivers = 0;

    DL_FOREACH2(topic->listeners, at, topic_next) {
        conn_output(at->conn, message->data, message->len);
        receivers++;
    }
    return receivers;
}

int64_t pubsub_deliver(struct model_server *server, struct bytes channel,
                       struct bytes text)
{
    struct topic *topic = find_topic(server, CHANNEL, channel);
    struct buffer message = {0};
    int64_t receivers = 0;

    if (topic != NULL) {
        resp_array(&message, 3);
        resp_text(&message, "message");
        resp_bulk(&message, channel);
        resp_bulk(&message, text);
        receivers += deliver(topic, &message);
    }
    for (topic = server->patterns; topic != NULL; topic = topic->hh.next) {
        if (!glob_match(topic->name, channel)) {
            continue;
        }
        buffer_clear(&message);
        resp_array(&message, 4);
        resp_text(&message, "pmessage");
        resp_bulk(&message, topic->name);
        resp_bulk(&message, channel);
        resp_bulk(&message, text);
        receivers += deliver(topic, &message);
    }
    buffer_free(&message);
    return receivers;
}

int64_t pubsub_deliver_to_slot(struct model_server *server, struct bytes channel,
                               struct bytes text)
{
    struct topic *topic = find_topic(server, SHARD, channel);
    struct buffer message = {0};
    int64_t receivers = 0;

    if (topic != NULL) {
        resp_array(&message, 3);
        resp_text(&message, "smessage");
        resp_bulk(&message, channel);
        resp_bulk(&message, text);
        receivers = deliver(topic, &message);
    }
    buffer_free(&message);
    return receivers;
}

static void publish(struct call *call, bool of_slot)
{
    struct model_server *server = call->server;
    struct bytes channel = call->argv[1], text = call->argv[2];
    int64_t receivers = of_slot ? pubsub_deliver_to_slot(server, channel, text)
                                : pubsub_deliver(server, channel, text);

    if (server->replica != NULL) {
        stream_note_message(&server->stream, channel, text, of_slot);
    }
    if (server->watch.publish != NULL) {
        server->watch.publish(server, channel, text, receivers);
    }
    resp_int(call->reply, receivers);
}

void run_publish(struct call *call)
{
    publish(call, false);
}

void run_spublish(struct call *call)
{
    publish(call, true);
}

static void count_listeners(struct call *call, enum kind kind)
{
    resp_array(call->reply, (size_t)(call->argc - 2) * 2);
    for (int i = 2; i < call->argc; i++) {
        struct topic *topic = find_topic(call->server, kind, call->argv[i]);
        struct subscription *at;
        int64_t count = 0;
        if (topic != NULL) {
            DL_COUNT2(topic->listeners, at, count, topic_next);
        }
        resp_bulk(call->reply, call->argv[i]);
        resp_int(call->reply, count);
    }
}

void run_pubsub_numsub(struct call *call)
{
    count_listeners(call, CHANNEL);
}

void run_pubsub_shardnumsub(struct call *call)
{
    count_listeners(call, SHARD);
}

/* Ends a sharded channel, and notifies its subscribers. */
static void end_channel(struct topic *topic)
{
    struct buffer farewell = {0};
    struct bytes name = bytes_copy(topic->name);
    bool last = false;

    while (!last) {
        struct model_conn *conn = topic->listeners->conn;

        last = topic->listeners->topic_next == NULL;
        end(topic->listeners);
        buffer_clear(&farewell);
        resp_array(&farewell, 3);
        resp_text(&farewell, "sunsubscribe");
        resp_bulk(&farewell, name);
        resp_int(&farewell, count_of(conn, true));
        conn_output(conn, farewell.data, farewell.len);
    }
    free((char *)name.data);
    buffer_free(&farewell);
}

void model_server_end_channels(struct model_server *server)
{
    struct topic *topic, *next;

    HASH_ITER(hh, server->shards, topic, next) {
        unsigned slot = lw__slot_of(topic->name.data, topic->name.len);

        if (server->map != NULL && server->map->owners[slot] != server->map->self) {
            end_channel(topic);
        }
    }
}
