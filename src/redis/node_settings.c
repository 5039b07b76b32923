/* SPDX-License-Identifier: MIT */
/* How a node's server is set up, where that endangers locks: whether it may evict them,
 * and, where its replicas may take its place, whether it stops when it has lost them; and
 * whether this account may publish, without which waiting is slow.
 * Must not know what a lock is. Happy path: asked once a connection, told through the
 * log; who may not ask is not told. */
#include "redis/node_inside.h"

#include "base/log.h"
#include "base/container_of.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

/* The value of a setting; "": it was not told. */
static const char *value_of(const struct lw__reply *reply, const char *setting)
{
    size_t count = lw__reply_count(reply);

    for (size_t i = 0; i + 1 < count; i += 2) {
        if (strcmp(lw__reply_text(lw__reply_at(reply, i), NULL), setting) == 0) {
            return lw__reply_text(lw__reply_at(reply, i + 1), NULL);
        }
    }
    return "";
}

static void policy_told(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, policy, request);
    const char *policy = value_of(reply, "maxmemory-policy");

    lw__node_make_room(node);
    if (strncmp(policy, "allkeys-", 8) == 0 || strncmp(policy, "volatile-", 9) == 0) {
        lw__log(node->options.config.log, LOG_WARNING,
                "the server's maxmemory-policy is %s: it may evict locks that "
                "are held; only noeviction is safe",
                policy);
    }
}

/* Without them, or with no bound to how far they may lag, it goes on for itself. */
static bool goes_on_alone(const struct lw__reply *reply)
{
    return strcmp(value_of(reply, "min-replicas-to-write"), "0") == 0 ||
           strcmp(value_of(reply, "min-replicas-max-lag"), "0") == 0;
}

static void replicas_told(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, replicas, request);

    lw__node_make_room(node);
    if (goes_on_alone(reply) && !node->replicas_told) {
        node->replicas_told = true;
        lw__log(node->options.config.log, LOG_WARNING,
                "the master's min-replicas-to-write or min-replicas-max-lag is 0: one "
                "that is replaced while it still runs goes on granting locks that the "
                "new master does not know; with 1 and a lag of a few seconds it stops");
    }
}

static void publish_tried(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, publish, request);
    const char *text = lw__reply_text(reply, NULL);

    lw__node_make_room(node);
    if (lw__reply_type(reply) == LW__REPLY_ERROR && lw__classify_denied(text)) {
        lw__log_cause(node->options.config.log, lw__now_us(), LOG_WARNING,
                      "publishing is not permitted, so that no lock can be handed over: "
                      "waiters find it free when they poll: %s",
                      text);
    }
}

/* Scripts call PUBLISH by pcall, so that a release succeeds without the permission, and
 * do not report the error. This tries it once per connection, on a channel that has no
 * subscribers. */
static void try_to_publish(struct lw__node *node)
{
    static const struct lw__request_type type = {publish_tried, NULL};
    char channel[LW__CHANNEL_OF_OURS_SIZE], unheard[LW__CHANNEL_OF_OURS_SIZE + 2];

    if (node->options.clustered) {
        lw__format_shard_channel(node->options.uuid, node->options.slot, channel);
    } else {
        lw__format_own_channel(node->options.uuid, channel);
    }
    (void)snprintf(unheard, sizeof(unheard), "%s:0", channel);
    lw__session_request(
        &node->commands, &node->publish, &type, 3,
        (const char *[]){node->options.clustered ? "SPUBLISH" : "PUBLISH", unheard, ""});
}

void lw__node_settings_ask(struct lw__node *node)
{
    static const struct lw__request_type policy = {policy_told, NULL};
    static const struct lw__request_type replicas = {replicas_told, NULL};

    lw__session_request(&node->commands, &node->policy, &policy, 3,
                        (const char *[]){"CONFIG", "GET", "maxmemory-policy"});
    try_to_publish(node);
    if (node->sentinels != NULL) {
        lw__session_request(&node->commands, &node->replicas, &replicas, 3,
                            (const char *[]){"CONFIG", "GET", "min-replicas-*"});
    }
}
