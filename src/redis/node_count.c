/* SPDX-License-Identifier: MIT */
/* Whether a node's two links are bound to one server: the command link counts who
 * subscribes to the channel of the connection that listens. Must not know what is said
 * there. Happy path: confirmed, counted once, bound. Counted 0 times: that connection,
 * and where that was in vain the command link too, is made anew (subscription.h). Who may
 * not count waits by polling until the next connection; any other error: with the next
 * heartbeat. */
#include "redis/node_inside.h"

#include "base/log.h"
#include "base/container_of.h"
#include "redis/classify.h"
#include "redis/decode.h"
#include "redis/encode.h"
#include "redis/reply.h"

#include <syslog.h>

static void put_count(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, count, command);

    /* 0: the server was not told the channels yet, and so counts nobody */
    node->counted_nonce = node->subscription.confirmed ? node->subscription.nonce : 0;
    lw__encode_count(out, node->subscription.connection_channel);
}

/* Who may not ask waits by polling; on the next connection it may be permitted. */
static void count_refused(struct lw__node *node, const char *why)
{
    if (!lw__classify_denied(why) && !lw__classify_unknown(why)) {
        return; /* asked again with the next heartbeat */
    }
    node->count_forbidden = true;
    node->subscription.bound = false;
    if (node->count_forbidden_told) {
        return;
    }
    node->count_forbidden_told = true;
    lw__log(node->options.config.log, LOG_WARNING,
            "PUBSUB NUMSUB is not permitted, waiting will be by polling: %s", why);
}

static bool counted(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__node *node = LW__CONTAINER_OF(struct lw__node, count, command);
    struct lw__subscription *subscription = &node->subscription;
    bool was_bound = subscription->bound;
    int64_t count;

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        count_refused(node, lw__reply_text(reply, NULL));
        return true;
    }
    if (!lw__decode_count(reply, &count)) {
        return false;
    }
    if (lw__subscription_counted(subscription, node->counted_nonce, count)) {
        lw__node_fail_link(node, "it is at another server than the messages");
    } else if (node->counted_nonce != subscription->nonce) {
        lw__node_count(node); /* it connected anew meanwhile */
    } else if (subscription->bound && !was_bound && node->up) {
        node->events->bound(node->arg,
                            node); /* else coming up has everyone ask, and join */
    }
    return true;
}

static const struct lw__command_type count_type = {put_count, counted, NULL,
                                                   .priority = LW__PRIORITY_RENEW};

void lw__node_count(struct lw__node *node)
{
    if (!node->subscription.confirmed || node->count.request.prev != NULL ||
        node->count_forbidden || node->commands.state != LW__SESSION_READY) {
        return;
    }
    lw__node_submit(node, &node->count, &count_type);
}
