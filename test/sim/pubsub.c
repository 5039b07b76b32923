/* SPDX-License-Identifier: MIT
 *
 * Publish and subscribe: who listens to what. A message goes into the output of every
 * listener at once; how it travels is not known here.
 *
 * Happy path: SUBSCRIBE adds the connection at the end of the channel's listeners;
 * PUBLISH walks them in that order and answers their number; patterns come after
 * channels.
 */
#include "model.h"

#include <stdlib.h>
#include <uthash.h>
#include <utlist.h>

/* A channel or a pattern that somebody listens to. */
struct topic {
    struct bytes name;
    struct subscription *listeners;
    UT_hash_handle hh;
};

/* One connection's interest in one topic: in the topic's list and in the connection's. */
struct subscription {
    struct model_conn *conn;
    struct topic *topic;
    bool is_pattern;
    struct subscription *topic_prev, *topic_next;
    struct subscription *conn_prev, *conn_next;
};

static struct topic **topics(struct model_server *server, bool is_pattern)
{
    return is_pattern ? &server->patterns : &server->channels;
}

static struct topic *find_topic(struct model_server *server, bool is_pattern,
                                struct bytes name)
{
    struct topic *topic;
    HASH_FIND(hh, *topics(server, is_pattern), name.data, name.len, topic);
    return topic;
}

static struct subscription *find_subscription(struct model_conn *conn, bool is_pattern,
                                              struct bytes name)
{
    struct subscription *at;
    DL_FOREACH2(conn->subscriptions, at, conn_next) {
        if (at->is_pattern == is_pattern && bytes_equal(at->topic->name, name)) {
            return at;
        }
    }
    return NULL;
}

static void subscribe(struct model_conn *conn, bool is_pattern, struct bytes name)
{
    struct model_server *server = conn->server;
    struct topic *topic = find_topic(server, is_pattern, name);
    struct subscription *subscription;

    if (find_subscription(conn, is_pattern, name) != NULL) {
        return;
    }
    if (topic == NULL) {
        struct topic **all = topics(server, is_pattern);
        topic = must_alloc(sizeof(*topic));
        topic->name = bytes_copy(name);
        HASH_ADD_KEYPTR(hh, *all, topic->name.data, topic->name.len, topic);
    }
    subscription = must_alloc(sizeof(*subscription));
    subscription->conn = conn;
    subscription->topic = topic;
    subscription->is_pattern = is_pattern;
    DL_APPEND2(topic->listeners, subscription, topic_prev, topic_next);
    DL_APPEND2(conn->subscriptions, subscription, conn_prev, conn_next);
    conn->subscription_count++;
}

static void end(struct subscription *subscription)
{
    struct model_conn *conn = subscription->conn;
    struct topic *topic = subscription->topic;
    struct topic **all = topics(conn->server, subscription->is_pattern);

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

static void confirm(struct call *call, const char *kind, const struct bytes *name)
{
    resp_array(call->reply, 3);
    resp_text(call->reply, kind);
    if (name != NULL) {
        resp_bulk(call->reply, *name);
    } else {
        resp_nil(call->reply);
    }
    resp_int(call->reply, call->conn != NULL ? call->conn->subscription_count : 0);
}

static void subscribe_all(struct call *call, bool is_pattern, const char *kind)
{
    for (int i = 1; i < call->argc; i++) {
        if (call->conn != NULL) {
            subscribe(call->conn, is_pattern, call->argv[i]);
        }
        confirm(call, kind, &call->argv[i]);
    }
}

static struct subscription *first_of_kind(struct call *call, bool is_pattern)
{
    struct subscription *at = call->conn != NULL ? call->conn->subscriptions : NULL;
    while (at != NULL && at->is_pattern != is_pattern) {
        at = at->conn_next;
    }
    return at;
}

static void unsubscribe_all(struct call *call, bool is_pattern, const char *kind)
{
    struct subscription *at = first_of_kind(call, is_pattern);

    if (at == NULL) {
        confirm(call, kind, NULL);
    }
    for (; at != NULL; at = first_of_kind(call, is_pattern)) {
        struct bytes name = bytes_copy(at->topic->name);
        end(at);
        confirm(call, kind, &name);
        free((char *)name.data);
    }
}

static void unsubscribe(struct call *call, bool is_pattern, const char *kind)
{
    if (call->argc == 1) {
        unsubscribe_all(call, is_pattern, kind);
    }
    for (int i = 1; i < call->argc; i++) {
        struct subscription *at =
            call->conn != NULL ? find_subscription(call->conn, is_pattern, call->argv[i])
                               : NULL;
        if (at != NULL) {
            end(at);
        }
        confirm(call, kind, &call->argv[i]);
    }
}

void run_subscribe(struct call *call)
{
    subscribe_all(call, false, "subscribe");
}

void run_psubscribe(struct call *call)
{
    subscribe_all(call, true, "psubscribe");
}

void run_unsubscribe(struct call *call)
{
    unsubscribe(call, false, "unsubscribe");
}

void run_punsubscribe(struct call *call)
{
    unsubscribe(call, true, "punsubscribe");
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
    struct topic *topic = find_topic(server, false, channel);
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

void run_publish(struct call *call)
{
    struct model_server *server = call->server;
    int64_t receivers = pubsub_deliver(server, call->argv[1], call->argv[2]);

    if (server->replica != NULL) {
        stream_note_message(&server->stream, call->argv[1], call->argv[2]);
    }
    if (server->watch.publish != NULL) {
        server->watch.publish(server, call->argv[1], call->argv[2], receivers);
    }
    resp_int(call->reply, receivers);
}

void run_pubsub_numsub(struct call *call)
{
    resp_array(call->reply, (size_t)(call->argc - 2) * 2);
    for (int i = 2; i < call->argc; i++) {
        struct topic *topic = find_topic(call->server, false, call->argv[i]);
        struct subscription *at;
        int64_t count = 0;
        if (topic != NULL) {
            DL_COUNT2(topic->listeners, at, count, topic_next);
        }
        resp_bulk(call->reply, call->argv[i]);
        resp_int(call->reply, count);
    }
}
